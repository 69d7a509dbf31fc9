"""The handle that registering a hook gives, which takes the hook out again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

__all__ = ["RemovableHandle"]


def _no_dictionary() -> None:
    return None


class RemovableHandle:
    """Removes one hook from the dictionary it was registered in; also works as a ``with`` block.

    ``extra_dict`` is one dictionary, or a list of them, with further entries under the same number. A handle does not keep the
    dictionaries alive.
    """

    next_id = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id: int = next(self.next_id)
        extra: list[Any] = [] if extra_dict is None else [extra_dict] if isinstance(extra_dict, MutableMapping) else list(extra_dict)
        self._dictionaries: list[Callable[[], Any]] = [weakref.ref(dictionary) for dictionary in (hooks_dict, *extra)]

    def remove(self) -> None:
        """Take the hook out; doing it twice is fine."""
        for reference in self._dictionaries:
            dictionary = reference()
            if dictionary is not None and self.id in dictionary:
                del dictionary[self.id]

    def __getstate__(self) -> tuple[int, list[Any]]:
        return self.id, [reference() for reference in self._dictionaries]

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        self.id, dictionaries = state
        self._dictionaries = [_no_dictionary if d is None else weakref.ref(d) for d in dictionaries]
        RemovableHandle.next_id = itertools.count(max(next(self.next_id), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
