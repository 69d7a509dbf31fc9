"""Borders round the last one, two or three dimensions."""

from __future__ import annotations

from typing import Any

from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.modules.module import Module
from flambeau.nn.sizes import _ntuple
from flambeau.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """`padding` is one width, or (left, right, top, bottom, front, back) as far as there are dimensions."""

    dimensions: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.dimensions)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Borders of `value` round the last dimension."""

    dimensions = 1


class ConstantPad2d(_ConstantPad):
    """Borders of `value` round the last two dimensions."""

    dimensions = 2


class ConstantPad3d(_ConstantPad):
    """Borders of `value` round the last three dimensions."""

    dimensions = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Borders of zeros round the last dimension."""

    dimensions = 1


class ZeroPad2d(_ZeroPad):
    """Borders of zeros round the last two dimensions."""

    dimensions = 2


class ZeroPad3d(_ZeroPad):
    """Borders of zeros round the last three dimensions."""

    dimensions = 3


class ReflectionPad1d(_Pad):
    """Borders that mirror the last dimension, its edge not repeated."""

    dimensions, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Borders that mirror the last two dimensions, their edges not repeated."""

    dimensions, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Borders that mirror the last three dimensions, their edges not repeated."""

    dimensions, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Borders that repeat the edge of the last dimension."""

    dimensions, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Borders that repeat the edges of the last two dimensions."""

    dimensions, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Borders that repeat the edges of the last three dimensions."""

    dimensions, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Borders that go on at the other end of the last dimension."""

    dimensions, mode = 1, "circular"


class CircularPad2d(_Pad):
    """Borders that go on at the other ends of the last two dimensions."""

    dimensions, mode = 2, "circular"


class CircularPad3d(_Pad):
    """Borders that go on at the other ends of the last three dimensions."""

    dimensions, mode = 3, "circular"
