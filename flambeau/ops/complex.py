"""Complex numbers: made of their parts, taken apart, turned."""

from __future__ import annotations

from collections.abc import Iterator

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.declare import Value, op
from flambeau.prims import complex as parted


def _numbers(make: s.SampleMaker) -> Iterator[s.Call]:
    for shape in ((5, 7), (3,), (), (0, 2)):
        yield (make.complex(*shape),), {}


def _sides(make: s.SampleMaker) -> Iterator[s.Call]:
    yield (make.float(5, 7), make.float(5, 7)), {}
    yield (make.float(4, 1), make.float(3)), {}


@op("view", samples=_numbers)
def real(x: Value) -> Node:
    """The real part, a view."""
    return p.part(x, index=0) if x.dtype.is_complex else x


@op("view", samples=_numbers)
def imag(x: Value) -> Node:
    """The imaginary part, a view."""
    if not x.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return p.part(x, index=1)


@op("view", samples=_numbers)
def view_as_real(x: Value) -> Node:
    """Real and imaginary parts in a new last axis of size 2, a view."""
    if not x.dtype.is_complex:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {x.dtype}")
    return p.as_real(x)


@op("view", samples=lambda m: [((m.float(3, 5, 2),), {}), ((m.float(2),), {})])
def view_as_complex(x: Value) -> Node:
    """Real numbers, two along the last axis, as complex ones, a view."""
    if x.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"view_as_complex is only supported for float and double tensors, but got a tensor of scalar type: {x.dtype}")
    if not x.shape or not x.shape[-1] == 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got shape {list(x.shape)}")
    return p.as_complex(x)


@op("pointwise", promote="same", samples=_sides)
def complex(real: Value, imag: Value) -> Node:
    """real + i * imag."""
    if real.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"Expected both inputs to be Float or Double tensors but got {real.dtype} and {imag.dtype}")
    return p.pair(real, imag)


@op("pointwise", promote="same", samples=_sides)
def polar(abs: Value, angle: Value) -> Node:
    """abs * (cos(angle) + i * sin(angle))."""
    if abs.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"Expected both inputs to be Float or Double tensors but got {abs.dtype} and {angle.dtype}")
    return p.pair(p.mul(abs, p.cos(angle)), p.mul(abs, p.sin(angle)))


@op("pointwise", samples=_numbers)
def conj(x: Value) -> Node:
    """The complex conjugate, in memory of its own."""
    return parted.conj(x) if x.dtype.is_complex else x


@op("pointwise", promote="float", samples=_numbers)
def angle(x: Value) -> Node:
    """The angle in radians: 0 or pi for real numbers."""
    if x.dtype.is_complex:
        return parted.angle(x)
    turned = p.where(p.lt(x, p.number(0, x)), p.number(3.141592653589793, x), p.number(0, x))
    return p.where(p.isnan(x), x, turned)


@op("pointwise", promote="arithmetic", samples=_numbers)
def sgn(x: Value) -> Node:
    """x / |x|, 0 at 0; the sign of real numbers."""
    if not x.dtype.is_complex:
        return x if x.dtype.name == "bool" else p.sign(x)
    (a, b), size = parted.parts(x), p.abs_(x)
    nothing = p.eq(size, p.number(0, size))
    safe = p.where(nothing, p.number(1, size), size)
    return p.pair(*(p.where(nothing, p.number(0, v), p.div(v, safe)) for v in (a, b)))
