"""Images of another size: each element a weighted sum of the nearest ones, one axis after another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Sizes, Value, op
from flambeau.ops.indexing import axis_first, axis_restored, selected, size_number
from flambeau.ops.reduce import reduced, restored
from flambeau.ops.view import as_sizes

CUBIC = -0.75  # the free coefficient of the cubic kernel
Tap = tuple[Node, Node | None]  # where to read, int64 [target], and by which weight


@dataclass(frozen=True)
class Resampling:
    """One axis of n elements seen as ``target`` elements; ``scale``: source elements to a target one, if it is given."""

    n: Dim
    target: Dim
    scale: float | None
    align_corners: bool

    def ratio(self, like: Node) -> Node:
        """Source elements to a target one, in the type of ``like``."""
        if self.align_corners:
            if self.target == 1:
                return p.number(0, like)
            return p.div(_as_float(self.n - 1, like), _as_float(self.target - 1, like))
        return p.number(self.scale, like) if self.scale is not None else p.div(_as_float(self.n, like), _as_float(self.target, like))

    def places(self, kind: dtypes.dtype) -> Node:
        return p.iota(shape=(self.target,), axis=0, dtype=kind)

    def sources(self, kind: dtypes.dtype) -> Node:
        """Where the middle of each target element lies among the source elements."""
        place = self.places(kind)
        if self.align_corners:
            return p.mul(place, self.ratio(place))
        half = p.number(0.5, place)
        return p.sub(p.mul(p.add(place, half), self.ratio(place)), half)

    def clamped(self, index: Node) -> Node:
        """An index in int64, within the source."""
        at = p.cast(index, to=dtypes.int64)
        return p.maximum(p.minimum(at, size_number(self.n - 1, at)), p.number(0, at))


def _as_float(size: Dim, like: Node) -> Node:
    return p.cast(size_number(size, like), to=like.dtype)


def _nearest(r: Resampling, kind: dtypes.dtype) -> list[Tap]:
    place = r.places(dtypes.float32)
    return [(r.clamped(p.floor(p.mul(place, r.ratio(place)))), None)]


def _nearest_exact(r: Resampling, kind: dtypes.dtype) -> list[Tap]:
    place = r.places(dtypes.float32)
    return [(r.clamped(p.floor(p.mul(p.add(place, p.number(0.5, place)), r.ratio(place)))), None)]


def _linear(r: Resampling, kind: dtypes.dtype) -> list[Tap]:
    source = r.sources(kind)
    source = source if r.align_corners else p.maximum(source, p.number(0, source))
    low = p.floor(source)
    part = p.sub(source, low)
    one = p.number(1, low)
    return [(r.clamped(low), p.sub(one, part)), (r.clamped(p.add(low, one)), part)]


def _polynomial(t: Node, *coefficients: float) -> Node:
    out = p.number(coefficients[0], t)
    for c in coefficients[1:]:
        out = p.add(p.mul(out, t), p.number(c, t))
    return out


def _cubic(r: Resampling, kind: dtypes.dtype) -> list[Tap]:
    """Keys' cubic convolution (1981) over four neighbours."""
    source = r.sources(kind)
    low = p.floor(source)
    weights = cubic_weights(p.sub(source, low))
    return [(r.clamped(p.add(low, p.number(i - 1, low))), w) for i, w in enumerate(weights)]


def _cubic_pieces(a: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The kernel's polynomials at distances below 1, and from 1 to 2."""
    return (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)


def cubic_weights(t: Node) -> tuple[Node, Node, Node, Node]:
    """Of the elements at -1, 0, 1 and 2 for a place t in [0, 1)."""
    near, far = _cubic_pieces(CUBIC)
    rest = p.sub(p.number(1, t), t)
    return (
        _polynomial(p.add(t, p.number(1, t)), *far), _polynomial(t, *near), _polynomial(rest, *near),
        _polynomial(p.add(rest, p.number(1, t)), *far),
    )  # fmt: skip


KERNELS: dict[str, Callable[[Resampling, dtypes.dtype], list[Tap]]] = {
    "nearest": _nearest, "nearest-exact": _nearest_exact, "linear": _linear, "bilinear": _linear, "trilinear": _linear, "bicubic": _cubic,
}  # fmt: skip
RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}


def _smooth_weights(r: Resampling, mode: str, kind: dtypes.dtype) -> Node:
    """[target, n]: the kernel stretched over the source elements to a target one where these are more than one, rows adding up to 1."""
    place = p.iota(shape=(r.target, r.n), axis=1, dtype=kind)
    half, one, zero = p.number(0.5, place), p.number(1, place), p.number(0, place)
    ratio = r.ratio(place)
    centre = p.mul(p.add(p.iota(shape=(r.target, r.n), axis=0, dtype=kind), half), ratio)
    stretch = p.maximum(ratio, one)
    reach = p.mul(stretch, p.number(2 if mode == "bicubic" else 1, place))
    first = p.trunc(p.add(p.sub(centre, reach), half))
    last = p.trunc(p.add(p.add(centre, reach), half))
    distance = p.abs_(p.div(p.add(p.sub(place, centre), half), stretch))
    if mode == "bicubic":
        near, far = _cubic_pieces(-0.5)
        weight = p.where(p.lt(distance, one), _polynomial(distance, *near), _polynomial(distance, *far))
        weight = p.where(p.lt(distance, p.number(2, distance)), weight, zero)
    else:
        weight = p.maximum(p.sub(one, distance), zero)
    weight = p.where(p.bitwise_and(p.le(first, place), p.lt(place, last)), weight, zero)
    return p.div(weight, restored(reduced(weight, "sum", (1,)), (1,), weight.shape))


def _smoothed(x: Node, axis: int, mode: str, r: Resampling) -> Node:
    rows = axis_first(x, axis)
    flat = p.reshape(rows, shape=(r.n, product(rows.shape[1:])))
    made = p.matmul(_smooth_weights(r, mode, x.dtype), flat)
    return axis_restored(p.reshape(made, shape=(r.target, *rows.shape[1:])), axis)


def _repeated(x: Node, axis: int, times: Dim) -> Node:
    """Each element ``times`` times: unlike a gather, its gradient is a sum."""
    shape = x.shape
    wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
    spread = p.expand(p.reshape(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :])), shape=wide)
    return p.reshape(spread, shape=(*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _times(n: Dim, target: Dim, scale: float | None) -> Dim | None:
    """How often each element stands in the result of the nearest elements; None where not every one stands there as often."""
    if scale is None or target == n:
        return target // n if target % n == 0 else None
    # Of other scales products are rounded, perhaps to below the next element.
    times = round(1 / scale) if math.frexp(scale)[0] == 0.5 else 0
    return times if times and target == n * times else None


def _resampled(x: Node, axis: int, mode: str, target: Dim, scale: float | None, align_corners: bool) -> Node:
    n = x.shape[axis]
    times = _times(n, target, scale) if mode.startswith("nearest") else None
    if times is not None:
        return _repeated(x, axis, times)
    total: Node | None = None
    for index, weight in KERNELS[mode](Resampling(n, target, scale, align_corners), x.dtype):
        part = selected(x, axis, index)
        if weight is not None:
            part = p.mul(part, p.expand(p.reshape(weight, shape=(*(1,) * axis, target, *(1,) * (x.rank - axis - 1))), shape=part.shape))
        total = part if total is None else p.add(total, part)
    assert total is not None  # every kernel has a tap
    return total


def _resample_samples(m: SampleMaker) -> Calls:
    image = m.float(2, 3, 4, 5)
    out = [case(image, (8, 10)), case(image, (3, 7)), case(image, (6, 3), mode="nearest-exact")]
    out.append(case(m.float(1, 2, 5), (8,), mode="linear"))
    for mode in ("bilinear", "bicubic"):
        out += [case(image, (7, 3), mode=mode), case(image, (6, 8), mode=mode, align_corners=True), case(image, (2, 1), mode=mode)]
    out.append(case(image, (6, 7), mode="bilinear", scales=(0.6, 0.7)))
    out += [case(image, (2, 7), mode=mode, antialias=True) for mode in ("bilinear", "bicubic")]
    return [*out, case(m.float(1, 1, 2, 3, 2), (3, 2, 4), mode="trilinear")]


@op(promote="same", samples=_resample_samples)
def interpolate(
    x: Value, size: Sizes, mode: str = "nearest", align_corners: bool = False, scales: tuple[float | None, ...] | None = None,
    antialias: bool = False,
) -> Node:  # fmt: skip
    """[b, c, *n] -> [b, c, *size] by the nearest element, linear or cubic interpolation.

    ``align_corners`` maps the outer elements onto each other; ``scales`` gives the source elements to one of the result
    for each axis (n / size unless given); ``antialias`` takes in all elements that one of the result covers.
    """
    targets = as_sizes(size)
    if mode not in KERNELS or x.rank != RANKS.get(mode, x.rank) or len(targets) != x.rank - 2:
        raise NotImplementedError(
            f"interpolate: input of {x.rank} dimensions, size {list(targets)} and mode {mode!r} do not go together; got modes "
            f"{', '.join(KERNELS)} for {RANKS}"
        )
    if align_corners and mode.startswith("nearest"):
        raise ValueError("interpolate: align_corners can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if any(n <= 0 for n in (*x.shape[2:], *targets)):
        raise RuntimeError(f"interpolate: input and output sizes should be greater than 0, but got {list(x.shape[2:])} and {list(targets)}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("interpolate: Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    whole = x.dtype is dtypes.uint8 and not mode.startswith("nearest")
    for i in reversed(range(len(targets))):
        if not antialias and x.shape[2 + i] == targets[i] and scales is None:
            continue
        scale = None if scales is None else scales[i]
        x = p.cast(x, to=dtypes.float32) if whole else x
        if antialias:
            x = _smoothed(x, 2 + i, mode, Resampling(x.shape[2 + i], targets[i], scale, align_corners))
        else:
            x = _resampled(x, 2 + i, mode, targets[i], scale, align_corners)
        x = _as_byte(x) if whole else x
    return x


def _as_byte(x: Node) -> Node:
    """Rounded to the nearest of 0 to 255, halves up, as images are after each axis."""
    rounded = p.floor(p.add(x, p.number(0.5, x)))
    return p.cast(p.minimum(p.maximum(rounded, p.number(0, x)), p.number(255, x)), to=dtypes.uint8)
