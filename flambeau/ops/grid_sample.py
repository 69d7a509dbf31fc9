"""Images sampled at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, op
from flambeau.ops.indexing import size_number
from flambeau.ops.resample import cubic_weights

Tap = tuple[Node, Node | None]  # a whole place along one axis, as a float, and its weight
MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


class Axis:
    """One axis of ``n`` elements, sampled where ``coordinate`` says: -1 and 1 are its ends."""

    def __init__(self, coordinate: Node, n: Dim, padding_mode: str, align_corners: bool) -> None:
        self.n, self.padding_mode, self.align_corners = n, padding_mode, align_corners
        self.size = p.cast(size_number(n, coordinate), to=coordinate.dtype)
        one, half = p.number(1, coordinate), p.number(0.5, coordinate)
        from_begin = p.mul(p.add(coordinate, one), half)
        self.place = p.mul(from_begin, p.sub(self.size, one)) if align_corners else p.sub(p.mul(from_begin, self.size), half)

    def inside(self, place: Node) -> Node:
        """A place brought into the axis as the padding mode says."""
        if self.padding_mode == "zeros":
            return place
        zero, last = p.number(0, place), p.sub(self.size, p.number(1, place))
        if self.padding_mode == "reflection":
            place = self._reflected(place, last)
        # Choices, not a clamp: outside, and at the ends, there is no gradient.
        return p.where(p.le(place, zero), zero, p.where(p.le(last, place), last, place))

    def _reflected(self, place: Node, last: Node) -> Node:
        if self.align_corners and self.n == 1:
            return p.number(0, place)
        low, span = (p.number(0, place), last) if self.align_corners else (p.number(-0.5, place), self.size)
        distance = p.abs_(p.sub(place, low))
        times, rest = p.floor(p.div(distance, span)), p.rem(distance, span)
        turned = p.ne(p.rem(times, p.number(2, times)), p.number(0, times))
        return p.add(p.where(turned, p.sub(span, rest), rest), low)

    def taps(self, mode: str) -> list[Tap]:
        if mode == "nearest":
            return [(p.round_(self.inside(self.place)), None)]
        if mode == "bilinear":
            place = self.inside(self.place)
            low = p.floor(place)
            part, one = p.sub(place, low), p.number(1, low)
            return [(low, p.sub(one, part)), (p.add(low, one), part)]
        low = p.floor(self.place)
        weights = cubic_weights(p.sub(self.place, low))
        return [(self.inside(p.add(low, p.number(i - 1, low))), weight) for i, weight in enumerate(weights)]


def _read(x: Node, axes: Sequence[Axis], taps: Sequence[Tap]) -> Node:
    """x [b, *n, c] at one tap of each axis [b, *o], weighted; zeros outside: [b, *o, c]."""
    shape = taps[0][0].shape
    indices, weight = [p.iota(shape=shape, axis=0, dtype=dtypes.int64)], p.constant(1, shape, x.dtype)
    for axis, (place, share) in zip(axes, taps, strict=True):
        zero, last = p.number(0, place), p.sub(axis.size, p.number(1, place))
        within = p.bitwise_and(p.le(zero, place), p.le(place, last))
        indices.append(p.cast(p.where(within, place, zero), to=dtypes.int64))
        weight = p.where(within, weight if share is None else p.mul(weight, share), zero)
    part = p.take(x, *indices)
    return p.mul(part, p.expand(p.reshape(weight, shape=(*shape, 1)), shape=part.shape))


def _grid_samples(m: SampleMaker) -> Calls:
    image, grid, volume = m.float(2, 3, 4, 5), m.float(2, 3, 2, 2, low=-1.7, high=1.7), m.float(1, 2, 3, 2, 4)
    out = [case(image, grid, mode, padding, i % 2 == 0) for i, (mode, padding) in enumerate(product(MODES, PADDINGS))]
    return [*out, case(volume, m.float(1, 2, 2, 3, 3, low=-1.4, high=1.4), "bilinear", "reflection", True)]


@op(promote="same", samples=_grid_samples)
def grid_sample(x: Value, grid: Value, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False) -> Node:
    """x [b, c, *n] at the places grid [b, *o, count], whose last axis counts from the last axis of x -> [b, c, *o].

    Coordinates -1 and 1 are the middles of the outer elements (``align_corners``) or their outer edges.
    """
    count = x.rank - 2
    if mode not in MODES or padding_mode not in PADDINGS:
        raise ValueError(f"grid_sample: got mode {mode!r} and padding_mode {padding_mode!r}; needs one of {MODES} and one of {PADDINGS}")
    if count not in (2, 3) or grid.rank != x.rank or not grid.shape[-1] == count or not grid.shape[0] == x.shape[0]:
        raise RuntimeError(
            f"grid_sampler: expected a 4D or 5D input and grid with the same batch size, got {list(x.shape)} and {list(grid.shape)}"
        )
    if mode == "bicubic" and count == 3:
        raise RuntimeError("grid_sampler: bicubic interpolation only supports 4D input")
    if any(n == 0 for n in x.shape[1:]):
        raise RuntimeError(f"grid_sampler: expected input to have non-empty spatial dimensions and channels, got {list(x.shape)}")
    axes: list[Axis] = []
    for i in range(count):
        whole = (0,) * (grid.rank - 1), grid.shape[:-1]
        part = p.slice_(grid, starts=(*whole[0], count - 1 - i), sizes=(*whole[1], 1), steps=(1,) * grid.rank)
        axes.append(Axis(p.reshape(part, shape=grid.shape[:-1]), x.shape[2 + i], padding_mode, align_corners))
    rows = p.permute(x, axes=(0, *range(2, x.rank), 1))
    total: Node | None = None
    for taps in product(*(axis.taps(mode) for axis in axes)):
        part = _read(rows, axes, taps)
        total = part if total is None else p.add(total, part)
    assert total is not None  # every mode has a tap
    return p.permute(total, axes=(0, x.rank - 1, *range(1, x.rank - 1)))
