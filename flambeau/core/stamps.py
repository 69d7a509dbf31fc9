"""A counter that moves when the structure or an attribute of any Module changes, so that a compiled program checks one integer.

Writing the data of a parameter or buffer in place does not move it; setting, deleting or registering anything on a Module, a
change of mode, of a parameter's dtype, or of hooks does.
"""

from __future__ import annotations

from array import array
from typing import Any

__all__ = ["StampedDict", "bump_module_stamp", "module_stamp", "module_stamp_address"]

# One int64 in memory of its own, so that native code can read it at a fixed address.
module_stamp = array("q", [0])


def bump_module_stamp() -> None:
    """Say that some Module has changed."""
    module_stamp[0] += 1


def module_stamp_address() -> int:
    """Where the counter lies, for guards in native code."""
    return module_stamp.buffer_info()[0]


class StampedDict(dict[Any, Any]):
    """A dictionary of a Module: every write to it moves the stamp.

    >>> from flambeau.core.stamps import StampedDict, module_stamp
    >>> before, parameters = module_stamp[0], StampedDict()
    >>> parameters["weight"] = 1
    >>> module_stamp[0] - before
    1
    """

    __slots__ = ("__weakref__",)

    def __setitem__(self, key: Any, value: Any) -> None:
        module_stamp[0] += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        module_stamp[0] += 1
        super().__delitem__(key)

    def __ior__(self, other: Any) -> StampedDict:
        self.update(other)
        return self

    def pop(self, *args: Any) -> Any:
        module_stamp[0] += 1
        return super().pop(*args)

    def popitem(self) -> tuple[Any, Any]:
        module_stamp[0] += 1
        return super().popitem()

    def clear(self) -> None:
        module_stamp[0] += 1
        super().clear()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        module_stamp[0] += 1
        return super().setdefault(key, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        module_stamp[0] += 1
        super().update(*args, **kwargs)

    def move_to_front(self, key: Any) -> None:
        """Make ``key`` the first one."""
        rest = [(other, value) for other, value in self.items() if other != key]
        value = self[key]
        self.clear()
        self[key] = value
        self.update(rest)
