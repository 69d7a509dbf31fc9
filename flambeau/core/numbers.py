"""Numbers that a compiled program must read again at every call, such as a learning rate."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


class HostNumber(float):
    """A float that knows where it comes from: ``read()`` gives its value now. In eager code it is just a float.

    >>> settings = {"lr": 0.1}
    >>> lr = HostNumber.of(lambda: settings["lr"])
    >>> lr * 2, lr.read()
    (0.2, 0.1)

    What is computed of it by Python's arithmetic is such a number too.
    """

    __slots__ = ("read",)
    read: Callable[[], float]

    @classmethod
    def of(cls, read: Callable[[], float]) -> HostNumber:
        """The number that ``read`` gives now."""
        number = cls(read())
        number.read = read
        return number


def _arithmetic(name: str) -> Callable[[HostNumber, Any], Any]:
    function = getattr(float, name)

    def method(self: HostNumber, other: Any) -> Any:
        found = function(self, other)
        first, known = getattr(self, "read", None), type(other) in (int, float)
        second = (lambda: other) if known else getattr(other, "read", None)
        if type(found) is not float or type(first) is not FunctionType or type(second) is not FunctionType:
            return found
        return HostNumber.of(lambda: function(float(first()), second()))

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow"):
    setattr(HostNumber, f"__{_name}__", _arithmetic(f"__{_name}__"))


class HostInteger(int):
    """A `HostNumber` that is an integer."""

    read: Callable[[], int]

    @classmethod
    def of(cls, read: Callable[[], int]) -> HostInteger:
        """The number that ``read`` gives now."""
        number = cls(read())
        number.read = read
        return number


def is_word(number: int) -> bool:
    """Whether int64 holds an integer."""
    return -(1 << 63) <= number < 1 << 63
