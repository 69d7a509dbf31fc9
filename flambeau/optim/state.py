"""What optimizers hold for parameters, in dictionaries that count what is replaced in them: compiled steps rely on the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

__all__ = ["ParameterState", "States"]


class _Counting(dict[Any, Any]):
    """A dictionary that adds one to its counter for every value that is replaced or removed, not for new ones."""

    changes: list[int] = [0]

    def __setitem__(self, key: Any, value: Any) -> None:
        if key in self and self[key] is not value:
            self.changes[0] += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.changes[0] += 1
        super().__delitem__(key)

    def __ior__(self, other: Any) -> Any:  # type: ignore[override,misc]
        self.update(other)
        return self

    def clear(self) -> None:
        self.changes[0] += bool(self)
        super().clear()

    def pop(self, *args: Any) -> Any:
        self.changes[0] += args[0] in self
        return super().pop(*args)

    def popitem(self) -> Any:
        self.changes[0] += 1
        return super().popitem()

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


class ParameterState(_Counting):
    """What an optimizer holds for one parameter."""

    def __init__(self, *args: Any, changes: list[int] | None = None) -> None:
        super().__init__(*args)
        self.changes = [0] if changes is None else changes


class States(_Counting, defaultdict[Any, Any]):
    """What an optimizer holds, by parameter; `changes` counts what was replaced or removed in any of it.

    >>> from flambeau.optim.state import States
    >>> states = States()
    >>> states["weight"]["step"] = 1
    >>> states["weight"]["step"] = 2
    >>> states, states.changes
    (defaultdict(<class 'dict'>, {'weight': {'step': 2}}), [1])
    """

    def __init__(self, known: Mapping[Any, Any] | None = None, changes: list[int] | None = None) -> None:
        defaultdict.__init__(self, None, known or {})
        self.changes = [0] if changes is None else changes

    def __missing__(self, key: Any) -> Any:
        found = ParameterState(changes=self.changes)
        super().__setitem__(key, found)
        return found

    def __reduce__(self) -> Any:
        return States, (dict(self.items()), self.changes)

    def __repr__(self) -> str:
        return f"defaultdict(<class 'dict'>, {dict.__repr__(self)})"
