"""Numbers that a compiled program must read again at every call, such as a learning rate."""

from __future__ import annotations

from collections.abc import Callable


class HostNumber(float):
    """A float that knows where it comes from: ``read()`` gives its value now. In eager code it is just a float.

    >>> settings = {"lr": 0.1}
    >>> lr = HostNumber.of(lambda: settings["lr"])
    >>> lr * 2, lr.read()
    (0.2, 0.1)
    """

    __slots__ = ("read",)
    read: Callable[[], float]

    @classmethod
    def of(cls, read: Callable[[], float]) -> HostNumber:
        """The number that ``read`` gives now."""
        number = cls(read())
        number.read = read
        return number


class HostInteger(int):
    """A `HostNumber` that is an integer."""

    read: Callable[[], int]

    @classmethod
    def of(cls, read: Callable[[], int]) -> HostInteger:
        """The number that ``read`` gives now."""
        number = cls(read())
        number.read = read
        return number
