"""Complex numbers as pairs of real ones: a primitive on complex operands is built from their parts as it is called.

A complex node is an input of a graph, a view of one, or ``pair(real, imaginary)``; all arithmetic is between real nodes. What
is holomorphic carries its derivative along (`slope`), so that gradients do not go through branches and square roots of the
formulas here. A gradient is the pair of the gradients of the parts, which is torch's convention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, differs, specialize
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node
from flambeau.prims import indexing as i
from flambeau.prims import pointwise as p
from flambeau.prims import reduction as r
from flambeau.prims import structure as s
from flambeau.prims.declare import ALL, Gradients, Prim, prim, require


def _joined(real: Any, imaginary: Any) -> Any:
    out = np.empty(np.shape(real), np.result_type(real, np.complex64))
    out.real, out.imag = real, imaginary
    return out


def _pair_rule(real: Aval, imaginary: Aval) -> Aval:
    out = p.same(real, imaginary)
    require(out.dtype.is_floating_point, "pair", f"needs floating point parts, got {real}")
    return Aval(out.shape, out.dtype.to_complex(), real.weak and imaginary.weak)


def _part_rule(z: Aval, index: int) -> Aval:
    require(z.dtype.is_complex, "part", f"needs a complex operand, got {z}")
    return Aval(z.shape, z.dtype.to_real(), z.weak)


def _real_rule(z: Aval) -> Aval:
    return Aval((*z.shape, 2), z.dtype.to_real())


def _apart(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


def _together(x: Any) -> Any:
    return _joined(x[..., 0], x[..., 1])


def _first(value: Any, *rest: Any) -> Any:
    return value


def _complex_rule(x: Aval) -> Aval:
    fits = x.dtype.is_floating_point and bool(x.shape) and not differs(x.shape[-1], 2)
    require(fits, "as_complex", f"needs a last axis of size 2, got {x}")
    return Aval(x.shape[:-1], x.dtype.to_complex())


_PAIR = prim("pair", "complex", _pair_rule, _joined, "the complex numbers with these real and imaginary parts")
part = prim("part", "view", _part_rule, lambda z, index: z.imag if index else z.real, "the real (0) or imaginary (1) parts")
as_real = prim(
    "as_real", "view", _real_rule, _apart,
    "complex numbers as real ones with a last axis of size 2",
)  # fmt: skip
as_complex = prim(
    "as_complex", "view", _complex_rule, _together, "real numbers, two along the last axis, as complex ones"
)
whole = prim("whole", "view", p.same, _first, "a complex value as one node, which views and derivatives can refer to")


def pair(real: Node, imaginary: Node) -> Node:
    """The complex numbers with these parts."""
    if real.op is part and imaginary.op is part and real.sources == imaginary.sources and real.attributes["index"] == 0:
        return real.sources[0] if imaginary.attributes["index"] == 1 else _PAIR(real, imaginary)
    return _PAIR(real, imaginary)


def joined(real: Node, imaginary: Node) -> Node:
    """`pair` as a node of its own, whatever the parts are."""
    return _PAIR(real, imaginary)


def parts(z: Node) -> tuple[Node, Node]:
    """The real and imaginary parts; of a real node itself and 0."""
    if not z.dtype.is_complex:
        return z, p.number(0, z)
    return part(z, index=0), part(z, index=1)


def halves_of(nodes: Sequence[Node]) -> dict[Node, tuple[Node, int]]:
    """Of computed parts of complex ``nodes``: the node, and which part of it they are."""
    pairs = [n for n in nodes if n.op is _PAIR]
    return {
        s: (n, k) for n in reversed(pairs) for k, s in enumerate(n.sources) if s.op is not INPUT and s.op.family not in ("view", "source")
    }


def _part_of(z: Node, index: int) -> Node:
    if z.op is _PAIR:
        return z.sources[index]
    if z.op is as_complex:
        (x,) = z.sources
        return s.reshape(s.slice_(x, **s.select_index(x.rank - 1, index, 1, 1, x.shape)), shape=z.shape)
    if z.op is INPUT or z.op is whole or z.op.family != "view":
        return Node(part, (z,), index=index)
    return z.op(_part_of(z.sources[0], index), **z.attributes)


part.on_pairs = _part_of


def _as_real(z: Node) -> Node:
    if z.op is _PAIR:
        return stacked(*z.sources)
    if z.op is as_complex:
        return z.sources[0]
    longer = _WITH_PARTS.get(z.op)
    return Node(as_real, (z,)) if longer is None else z.op(_as_real(z.sources[0]), **longer(z))


# The same views with the parts in a last axis.
_WITH_PARTS: dict[Prim, Callable[[Node], dict[str, Any]]] = {
    s.reshape: lambda z: {"shape": (*z.shape, 2)},
    s.expand: lambda z: {"shape": (*z.shape, 2)},
    s.permute: lambda z: {"axes": (*z.attributes["axes"], z.rank)},
    s.slice_: lambda z: {k: (*z.attributes[k], last) for k, last in (("starts", 0), ("sizes", 2), ("steps", 1))},
}
as_real.on_pairs = _as_real


def _whole(z: Node) -> Node:
    return z if z.op is whole else Node(whole, (z,))


whole.on_pairs = _whole


def stacked(real: Node, imaginary: Node) -> Node:
    """The parts next to each other in a new last axis."""
    return s.cat(*(s.reshape(x, shape=(*x.shape, 1)) for x in (real, imaginary)), axis=real.rank)


_PAIR.derivative = lambda g, out, a, b: parts(g)
as_real.derivative = lambda g, out, z: (as_complex(g),)
as_complex.derivative = lambda g, out, x: (as_real(g),)
whole.derivative = lambda g, out, z: (g,)


# -- derivatives of holomorphic functions ----------------------------------------------------------------
def _slope_derivative(g: Node, out: Node, value: Node, *rest: Node) -> Gradients:
    found: list[Node | None] = [None]
    for d in rest[1::2]:
        found += [p.mul(g, d), None]
    return tuple(found)


slope = prim(
    "slope", "pointwise", p.same, _first, "value, whose derivatives by x, y are dx, dy: operands value, x, dx, y, dy"
)
slope.differentiate(_slope_derivative)


def _holomorphic(out: Node, *operands: Node) -> Node:
    """``out`` as a function of z, w with complex derivatives dz, dw: operands z, dz, w, dw."""
    for_real: list[Node] = []
    for_imaginary: list[Node] = []
    for z, d in zip(operands[::2], operands[1::2], strict=True):
        (x, y), (u, v) = parts(z), parts(d)
        for_real += [x, u] + [y, p.neg(v)] * z.dtype.is_complex
        for_imaginary += [x, v] + [y, u] * z.dtype.is_complex
    a, b = parts(out)
    return pair(slope(a, *for_real), slope(b, *for_imaginary))


def _is_zero(x: Node) -> bool:
    while x.op in (s.reshape, s.expand, s.permute, p.detach):
        x = x.sources[0]
    return x.op is s.full and x.attributes["value"] == 0


# -- arithmetic -----------------------------------------------------------------------------------------
def hypot(a: Node, b: Node) -> Node:
    """sqrt(a * a + b * b) without overflow."""
    x, y, zero, infinity = p.abs_(a), p.abs_(b), p.number(0, a), p.number(math.inf, a)
    large, small = p.maximum(x, y), p.minimum(x, y)
    ratio = p.div(small, p.where(p.eq(large, zero), p.number(1, a), large))
    length = p.mul(large, p.sqrt(p.add(p.number(1, a), p.mul(ratio, ratio))))
    return p.where(p.bitwise_or(p.eq(x, infinity), p.eq(y, infinity)), infinity, length)


def _abs(z: Node) -> Node:
    a, b = parts(z)
    length = hypot(a, b)
    zero = p.number(0, a)
    safe = p.where(p.eq(length, zero), p.number(1, a), length)
    return slope(length, a, p.div(a, safe), b, p.div(b, safe))


def angle(z: Node) -> Node:
    """The angle of complex numbers in radians; its gradient at 0 is 0."""
    a, b = parts(z)
    square = p.add(p.mul(a, a), p.mul(b, b))
    safe = p.where(p.eq(square, p.number(0, a)), p.number(1, a), square)
    return slope(p.atan2(b, a), a, p.neg(p.div(b, safe)), b, p.div(a, safe))


def _by_parts(prim: Prim) -> Callable[..., Node]:
    """Of a primitive that treats the parts alike."""

    def form(*sources: Node, **attributes: Any) -> Node:
        given = [parts(z) if z.dtype.is_inexact else (z, z) for z in sources]
        return pair(*(prim(*(g[k] for g in given), **attributes) for k in (0, 1)))

    return form


def conj(z: Node) -> Node:
    """The complex conjugate."""
    a, b = parts(z)
    return pair(a, p.neg(b))


def _mul(z: Node, w: Node) -> Node:
    (a, b), (c, d) = parts(z), parts(w)
    if _is_zero(b) or _is_zero(d):
        return pair(p.mul(a, c), p.mul(a, d) if _is_zero(b) else p.mul(b, c))
    return pair(p.sub(p.mul(a, c), p.mul(b, d)), p.add(p.mul(a, d), p.mul(b, c)))


def _quotient(z: Node, w: Node) -> Node:
    """By Smith's method: the larger part of the divisor is divided out."""
    (a, b), (c, d) = parts(z), parts(w)
    if _is_zero(d):
        return pair(p.div(a, c), p.div(b, c))
    first = p.le(p.abs_(d), p.abs_(c))
    one, zero = p.number(1, c), p.number(0, c)
    large, small = p.where(first, c, d), p.where(first, d, c)
    ratio = p.div(small, large)
    ratio = p.where(p.eq(large, zero), zero, ratio)
    scale = p.div(one, p.add(large, p.mul(small, ratio)))
    real = p.where(first, p.add(a, p.mul(b, ratio)), p.add(p.mul(a, ratio), b))
    imaginary = p.where(first, p.sub(b, p.mul(a, ratio)), p.sub(p.mul(b, ratio), a))
    return pair(p.mul(real, scale), p.mul(imaginary, scale))


def _div(z: Node, w: Node) -> Node:
    out = _quotient(z, w)
    inverse = _quotient(p.number(1, w), w)
    return _holomorphic(out, z, inverse, w, p.neg(_mul(out, inverse)))


def _matmul(z: Node, w: Node) -> Node:
    (a, b), (c, d) = parts(z), parts(w)
    if _is_zero(b) or _is_zero(d):
        return pair(r.matmul(a, c), r.matmul(a, d) if _is_zero(b) else r.matmul(b, c))
    return pair(p.sub(r.matmul(a, c), r.matmul(b, d)), p.add(r.matmul(a, d), r.matmul(b, c)))


def _cast(z: Node, to: dtype) -> Node:
    if to.is_complex:
        return pair(*(p.converted(x, to.to_real()) for x in (parts(z) if z.dtype.is_complex else parts(p.converted(z, to.to_real())))))
    if z.aval.weak:
        raise RuntimeError(f"a complex number cannot be converted to {to} without overflow; give its real part")
    a, b = parts(z)
    return p.cast(a, to=to) if to.name != "bool" else p.bitwise_or(p.cast(a, to=to), p.cast(b, to=to))


def _either(combine: Prim, join: Prim) -> Callable[..., Node]:
    def form(z: Node, w: Node) -> Node:
        return join(*(combine(x, y) for x, y in zip(parts(z), parts(w), strict=True)))

    return form


# -- elementary functions -------------------------------------------------------------------------------
# Where infinities and NaN meet zeros, the products of the formulas are NaN; what C99's annex G says takes their places there.
def _infinite(x: Node) -> Node:
    return p.eq(p.abs_(x), p.number(math.inf, x))


def _wild(x: Node) -> Node:
    return p.bitwise_or(_infinite(x), p.isnan(x))


def _along(size: Node, b: Node, kept: Node) -> Node:
    """size * cos(b), and ``size`` itself for a ``b`` without a cosine where it is ``kept``."""
    return p.where(p.bitwise_and(_wild(b), kept), size, p.mul(size, p.cos(b)))


def _across(size: Node, b: Node) -> Node:
    """size * sin(b), and a zero where b is one and ``size`` no finite number."""
    zero = p.number(0, b)
    nothing = p.bitwise_and(p.eq(b, zero), _wild(size))
    return p.where(nothing, p.mul(b, p.copysign(p.number(1, size), size)), p.mul(size, p.sin(b)))


def _exp(z: Node) -> Node:
    a, b = parts(z)
    size = p.exp(a)
    vanished = p.eq(a, p.number(-math.inf, a))
    imaginary = p.where(p.bitwise_and(vanished, _wild(b)), size, _across(size, b))
    return pair(_along(size, b, p.bitwise_or(vanished, _infinite(a))), imaginary)


def _sqrt(z: Node) -> Node:
    a, b = parts(z)
    half, zero = p.number(0.5, a), p.number(0, a)
    root = p.sqrt(p.add(p.mul(half, p.abs_(a)), p.mul(half, hypot(a, b))))
    nothing = p.eq(root, zero)
    other = p.div(p.mul(half, b), p.where(nothing, p.number(1, a), root))
    right = p.le(zero, a)
    return pair(p.where(right, root, p.abs_(other)), p.where(right, other, p.copysign(root, b)))


def _log(z: Node) -> Node:
    a, b = parts(z)
    return pair(p.log(hypot(a, b)), p.atan2(b, a))


def _log1p(z: Node) -> Node:
    a, b = parts(z)
    one = p.number(1, a)
    square = p.add(p.mul(a, p.add(a, p.number(2, a))), p.mul(b, b))
    near = p.lt(p.add(p.abs_(a), p.abs_(b)), p.number(0.5, a))
    size = p.where(near, p.mul(p.number(0.5, a), p.log1p(p.where(near, square, one))), p.log(hypot(p.add(one, a), b)))
    return pair(size, p.atan2(b, p.add(one, a)))


def _expm1(z: Node) -> Node:
    a, b = parts(z)
    half = p.sin(p.mul(p.number(0.5, b), b))
    real = p.sub(p.mul(p.expm1(a), p.cos(b)), p.mul(p.number(2, a), p.mul(half, half)))
    wild = p.bitwise_and(_infinite(a), _wild(b))
    return pair(p.where(wild, p.expm1(a), real), parts(_exp(z))[1])


def _sinh(z: Node) -> Node:
    a, b = parts(z)
    kept = p.bitwise_or(p.eq(a, p.number(0, a)), _infinite(a))
    return pair(_along(p.sinh(a), b, kept), _across(p.cosh(a), b))


def _cosh(z: Node) -> Node:
    a, b = parts(z)
    wild = p.bitwise_and(p.eq(a, p.number(0, a)), _wild(b))
    return pair(_along(p.cosh(a), b, _infinite(a)), p.where(wild, a, _across(p.sinh(a), b)))


def _tanh(z: Node) -> Node:
    """Kahan, "Branch cuts for complex elementary functions" (1987)."""
    a, b = parts(z)
    one, four = p.number(1, a), p.number(4, a)
    t, sine = p.tan(b), p.sinh(a)
    spread = p.add(one, p.mul(t, t))
    square = p.mul(sine, sine)
    below = p.add(one, p.mul(spread, square))
    real = p.div(p.mul(p.mul(spread, p.sqrt(p.add(one, square))), sine), below)
    far = p.lt(p.number(10.0 if a.dtype.itemsize == 4 else 20.0, a), p.abs_(a))
    tail = p.mul(p.mul(p.sin(b), p.cos(b)), p.mul(four, p.exp(p.mul(p.number(-2, a), p.abs_(a)))))
    zero = p.number(0, a)
    nowhere = p.bitwise_and(_wild(b), p.lt(p.abs_(a), p.number(math.inf, a)))  # a finite number beside infinity or NaN
    tail = p.where(_wild(b), p.where(nowhere, p.sub(b, b), zero), tail)
    real, imaginary = p.where(far, p.where(nowhere, p.sub(b, b), p.copysign(one, a)), real), p.where(far, tail, p.div(t, below))
    return pair(p.where(p.eq(a, zero), a, real), p.where(p.bitwise_and(p.eq(b, zero), p.isnan(a)), b, imaginary))


def times_i(z: Node) -> Node:
    """z * i."""
    a, b = parts(z)
    return pair(p.neg(b), a)


def over_i(z: Node) -> Node:
    """z / i."""
    a, b = parts(z)
    return pair(b, p.neg(a))


def _roots(z: Node, w: Node) -> tuple[Node, Node, Node, Node]:
    return (*parts(_sqrt(z)), *parts(_sqrt(w)))


def _around_one(z: Node) -> tuple[Node, Node]:
    """1 - z and 1 + z, each zero of the imaginary part with its sign."""
    a, b = parts(z)
    one = p.number(1, a)
    return pair(p.sub(one, a), p.neg(b)), pair(p.add(one, a), b)


def _far(z: Node, real: Node, imaginary: Node, near: tuple[Node, Node]) -> tuple[Node, Node]:
    """The parts of a function at infinity, and those that its formula gives elsewhere."""
    a, b = parts(z)
    infinite = p.bitwise_or(_infinite(a), _infinite(b))
    return p.where(infinite, real, near[0]), p.where(infinite, imaginary, near[1])


def _asin(z: Node) -> Node:
    a, b = parts(z)
    u, v, x, y = _roots(*_around_one(z))
    near = p.atan2(a, p.sub(p.mul(u, x), p.mul(v, y))), p.asinh(p.sub(p.mul(u, y), p.mul(v, x)))
    real, imaginary = _far(z, p.atan2(a, p.abs_(b)), p.copysign(p.number(math.inf, b), b), near)
    return pair(p.where(p.bitwise_and(p.eq(a, p.number(0, a)), p.isnan(b)), a, real), imaginary)


def _acos(z: Node) -> Node:
    a, b = parts(z)
    u, v, x, y = _roots(*_around_one(z))
    near = p.mul(p.number(2, u), p.atan2(u, x)), p.asinh(p.sub(p.mul(x, v), p.mul(y, u)))
    real, imaginary = _far(z, p.atan2(p.abs_(b), a), p.neg(p.copysign(p.number(math.inf, b), b)), near)
    return pair(_right_angle(a, b, real), imaginary)


def _right_angle(a: Node, b: Node, turn: Node) -> Node:
    """pi / 2 for a = 0 and a NaN beside it, else ``turn``."""
    return p.where(p.bitwise_and(p.eq(a, p.number(0, a)), p.isnan(b)), p.number(math.pi / 2, a), turn)


def _acosh(z: Node) -> Node:
    a, b = parts(z)
    one = p.number(1, a)
    u, v, x, y = _roots(pair(p.sub(a, one), b), pair(p.add(a, one), b))
    near = p.asinh(p.add(p.mul(u, x), p.mul(v, y))), p.mul(p.number(2, a), p.atan2(v, x))
    real, imaginary = _far(z, p.number(math.inf, a), p.atan2(b, a), near)
    return pair(real, _right_angle(a, b, imaginary))


def _atanh(z: Node) -> Node:
    a, b = parts(z)
    one = p.number(1, a)
    apart = p.sub(one, a)
    square = p.mul(b, b)
    size = p.log1p(p.div(p.mul(p.number(4, a), a), p.add(p.mul(apart, apart), square)))
    turn = p.atan2(p.mul(p.number(2, b), b), p.sub(p.mul(apart, p.add(one, a)), square))
    quarter = p.where(p.isnan(b), b, p.copysign(p.number(math.pi / 2, b), b))
    near = p.mul(p.number(0.25, a), size), p.mul(p.number(0.5, a), turn)
    real, imaginary = _far(z, p.copysign(p.number(0, a), a), quarter, near)
    return pair(p.where(p.eq(a, p.number(0, a)), a, real), imaginary)


def _scaled(function: Callable[[Node], Node], factor: float) -> Callable[[Node], Node]:
    def form(z: Node) -> Node:
        a, b = parts(function(z))
        return pair(p.mul(p.number(factor, a), a), p.mul(p.number(factor, b), b))

    return form


def _one(z: Node) -> Node:
    return p.number(1, z)


def _square(z: Node) -> Node:
    return p.mul(z, z)


def _inverse_root(z: Node) -> Node:
    return _quotient(_one(z), _sqrt(z))


# Smooth in both parts: differentiated through their formulas.
_SMOOTH: dict[str, Callable[[Node], Node]] = {
    "exp": _exp, "exp2": lambda z: _exp(_scaled(lambda x: x, math.log(2))(z)), "expm1": _expm1, "sinh": _sinh, "cosh": _cosh,
    "sin": lambda z: over_i(_sinh(times_i(z))), "cos": lambda z: _cosh(times_i(z)),
}  # fmt: skip
# Their value, and their derivative from the operand and the value.
_FUNCTIONS: dict[str, tuple[Callable[[Node], Node], Callable[[Node, Node], Node]]] = {
    "log": (_log, lambda z, out: p.div(_one(z), z)),
    "log2": (_scaled(_log, 1 / math.log(2)), lambda z, out: p.div(p.number(1 / math.log(2), z), z)),
    "log10": (_scaled(_log, 1 / math.log(10)), lambda z, out: p.div(p.number(1 / math.log(10), z), z)),
    "log1p": (_log1p, lambda z, out: p.div(_one(z), p.add(_one(z), z))),
    "sqrt": (_sqrt, lambda z, out: p.div(p.number(0.5, z), out)),
    "rsqrt": (_inverse_root, lambda z, out: p.div(p.mul(p.number(-0.5, z), out), z)),
    "tanh": (_tanh, lambda z, out: p.sub(_one(z), _square(out))),
    "tan": (lambda z: over_i(_tanh(times_i(z))), lambda z, out: p.add(_one(z), _square(out))),
    "asin": (_asin, lambda z, out: p.rsqrt(p.sub(_one(z), _square(z)))),
    "acos": (_acos, lambda z, out: p.neg(p.rsqrt(p.sub(_one(z), _square(z))))),
    "atan": (lambda z: over_i(_atanh(times_i(z))), lambda z, out: p.div(_one(z), p.add(_one(z), _square(z)))),
    "asinh": (lambda z: over_i(_asin(times_i(z))), lambda z, out: p.rsqrt(p.add(_square(z), _one(z)))),
    "acosh": (_acosh, lambda z, out: _inverse_root_around_one(z)),
    "atanh": (_atanh, lambda z, out: p.div(_one(z), p.sub(_one(z), _square(z)))),
}


def _inverse_root_around_one(z: Node) -> Node:
    """1 / (sqrt(z - 1) * sqrt(z + 1)): on the side of the cut that acosh is on."""
    return p.mul(p.rsqrt(p.sub(z, _one(z))), p.rsqrt(p.add(z, _one(z))))


def _function(value: Callable[[Node], Node], derivative: Callable[[Node, Node], Node]) -> Callable[[Node], Node]:
    def form(z: Node) -> Node:
        out = value(z)
        # For second derivatives the value in the derivative has to be differentiated in the same way.
        return _holomorphic(out, z, derivative(z, _holomorphic(out, z, derivative(z, out))))

    return form


def _pow(z: Node, w: Node) -> Node:
    nothing, at_zero = p.eq(z, p.number(0, z)), p.eq(w, p.number(0, w))
    safe = p.where(nothing, _one(z), z)
    log = p.log(safe)
    power = p.exp(p.mul(w, log))
    value = p.where(nothing, p.where(at_zero, _one(z), p.number(0, z)), power)
    less = p.where(at_zero, p.number(0, z), p.mul(w, _raised(z, p.sub(w, _one(w)))))
    return _holomorphic(value, z, less, w, p.where(nothing, p.number(0, z), p.mul(power, log)))


def _raised(z: Node, w: Node) -> Node:
    """z ** w, 0 at z = 0 unless w is 0."""
    nothing = p.eq(z, p.number(0, z))
    power = p.exp(p.mul(w, p.log(p.where(nothing, _one(z), z))))
    return p.where(nothing, p.where(p.eq(w, p.number(0, w)), _one(z), p.number(0, z)), power)


# -- reductions -----------------------------------------------------------------------------------------
def _part_along(x: Node, axis: int, start: Dim, size: Dim) -> Node:
    return s.slice_(x, **s.select_index(axis, start, size, 1, x.shape))


def _longer(x: Node, axis: int, low: int, high: int) -> Node:
    none = (0,) * x.rank
    return s.pad(x, low=(*none[:axis], low, *none[axis + 1 :]), high=(*none[:axis], high, *none[axis + 1 :]), interior=none, value=1.0)


def _product(z: Node, axis: int) -> Node:
    """The product along an axis, by halves."""
    size = specialize(z.shape[axis])
    if size == 0:
        z, size = _longer(z, axis, 0, 1), 1
    while size > 1:
        z = _longer(z, axis, 0, 1) if size % 2 else z
        size = (size + 1) // 2
        z = _mul(_part_along(z, axis, 0, size), _part_along(z, axis, size, size))
    return s.reshape(z, shape=(*z.shape[:axis], *z.shape[axis + 1 :]))


def _reduce(z: Node, kind: str, axes: tuple[int, ...]) -> Node:
    if kind == "prod":
        for axis in reversed(axes):
            z = _product(z, axis)
        return z
    return _by_parts(r.reduce)(z, kind=kind, axes=axes) if kind == "sum" else Prim.of_complex(_unordered, z)


def _scan(z: Node, kind: str, axis: int) -> Node:
    if kind != "prod":
        return _by_parts(r.scan)(z, kind=kind, axis=axis) if kind == "sum" else Prim.of_complex(_unordered, z)
    size, step = specialize(z.shape[axis]), 1
    while step < size:  # Hillis and Steele: each place takes in what is ``step`` before it
        z = _mul(z, _longer(_part_along(z, axis, 0, size - step), axis, step, 0))
        step *= 2
    return z


_unordered = Prim("max", "pointwise", p.same, np.maximum, "stands for what needs an order")


def _scatter(z: Node, values: Node, *indices: Node, mode: str) -> Node:
    if mode not in ("set", "add"):
        raise NotImplementedError(f"scatter: mode {mode!r} is not implemented for complex numbers; use 'set' or 'add'")
    return pair(*(i.scatter(x, v, *indices, mode=mode) for x, v in zip(parts(z), parts(values), strict=True)))


def _padded(z: Node, **attributes: Any) -> Node:
    value = attributes.pop("value")
    values = (value.real, value.imag) if isinstance(value, complex) else (float(value), 0.0)
    return pair(*(s.pad(x, **attributes, value=v) for x, v in zip(parts(z), values, strict=True)))


def _view(prim: Prim) -> Callable[..., Node]:
    """Views of what is not a pair stay views, so that eager mode can follow them."""
    form = _by_parts(prim)

    def view(z: Node, **attributes: Any) -> Node:
        return form(z, **attributes) if z.op is _PAIR else Node(prim, (z,), **attributes)

    return view


def _isnan(z: Node) -> Node:
    return p.bitwise_or(*map(p.isnan, parts(z)))


def _full(shape: s.Shape, value: Any, dtype: dtype, weak: bool = False) -> Node:
    return pair(*(s.full(shape=shape, value=v, dtype=dtype.to_real(), weak=weak) for v in (complex(value).real, complex(value).imag)))


def _iota(shape: s.Shape, axis: int, dtype: dtype) -> Node:
    return _cast(s.iota(shape=shape, axis=axis, dtype=dtype.to_real()), to=dtype)


for _prim in (p.neg, p.add, p.sub, p.where, i.take, s.cat, s.join, p.attach, p.detach):
    _prim.on_pairs = _by_parts(_prim)
for _prim in (s.reshape, s.expand, s.permute, s.slice_, s.diagonal, s.window, s.as_strided, p.copy):
    _prim.on_pairs = _view(_prim)
for _name, _form in _SMOOTH.items():
    ALL[_name].on_pairs = _form
for _name, (_value, _derivative) in _FUNCTIONS.items():
    ALL[_name].on_pairs = _function(_value, _derivative)
p.abs_.on_pairs, p.mul.on_pairs, p.div.on_pairs, p.pow_.on_pairs, r.matmul.on_pairs = _abs, _mul, _div, _pow, _matmul
p.eq.on_pairs, p.ne.on_pairs = _either(p.eq, p.bitwise_and), _either(p.ne, p.bitwise_or)
p.isnan.on_pairs = _isnan
s.full.on_pairs, s.iota.on_pairs = _full, _iota
p.cast.on_pairs, r.reduce.on_pairs, r.scan.on_pairs, i.scatter.on_pairs, s.pad.on_pairs = _cast, _reduce, _scan, _scatter, _padded
