"""torch.Size: a shape."""

from __future__ import annotations

from typing import Any, cast


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints.

    >>> import flambeau as torch
    >>> torch.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        total = 1
        for n in self:
            total *= n
        return total

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        found = cast(Any, super().__getitem__(index))
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(super().__add__(tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)
