"""Index expressions as instructions: each part is computed in the outermost loop where it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lane_steps import LaneSteps, Terms
from flambeau.codegen.cpu.nest import Nest
from flambeau.core.symbolic import Atom, Dim, Monomial, is_nonnegative, terms_of

Loaded = Callable[[Any, int], tuple[Value, int]]


class Indexing:
    """Evaluates ``Dim`` expressions as i64, either for lane 0 (``scalar``) or for all lanes (``lanes``).

    ``steps`` knows the axis along which lanes run; its value in the nest is that of lane 0 of copy 0, and copy ``k`` of an
    unrolled body starts ``k * width`` further. ``loaded(node, copy)`` gives the value of a node behind a loaded atom and
    its depth, ``size(name)`` a size symbol.
    """

    def __init__(self, nest: Nest, steps: LaneSteps, loaded: Loaded, size: Callable[[str], Value]) -> None:
        self.nest = nest
        self.e: Emitter = nest.e
        self.steps = steps
        self.width = steps.width
        self.loaded = loaded
        self.size = size

    # -- where an expression is known -----------------------------------------------------------------------
    def depth(self, value: Dim, copy: int) -> int:
        """The depth of the level at which the expression is known."""
        return self.depth_of_terms(terms_of(value), copy)

    def depth_of_terms(self, terms: Terms, copy: int) -> int:
        return max((self.depth_of_atom(a, copy) for m, _ in terms for a in m), default=0)

    def depth_of_atom(self, a: Atom, copy: int) -> int:
        if a.kind == "axis":
            return self.nest.axis(a.name)[1]
        if a.kind == "loaded":
            return self.loaded(a.payload, copy)[1]
        return max((self.depth(argument, copy) for argument in a.arguments), default=0)

    def by_depth(self, terms: Terms) -> list[tuple[int, Terms]]:
        """The terms grouped by the depth where they are known, outermost first."""
        groups: dict[int, list[tuple[Monomial, int]]] = {}
        for term in terms:
            groups.setdefault(self.depth_of_terms((term,), 0), []).append(term)
        return [(depth, tuple(groups[depth])) for depth in sorted(groups)]

    def own(self, terms: Terms, copy: int) -> int:
        """The copy that the terms have their value for: 0 when it is that of all copies."""
        return copy if copy and self.steps.moves(terms) else 0

    # -- lane 0 ---------------------------------------------------------------------------------------------
    def scalar(self, value: Dim, copy: int = 0) -> Value:
        """The expression as one i64; the vector axis counts with its value in lane 0 of the copy."""
        return self.scalar_of_terms(terms_of(value), copy)

    def scalar_of_terms(self, terms: Terms, copy: int) -> Value:
        total: Value | None = None
        so_far: Terms = ()
        for depth, part in self.by_depth(terms):
            so_far += part
            key = ("index", so_far, self.own(so_far, copy))
            total = self.nest.keep(key, depth, lambda part=part, total=total: self.sum_scalar(part, copy, total))
        return total if total is not None else self.e.const(0, "i64")

    def sum_scalar(self, terms: Terms, copy: int, total: Value | None = None) -> Value:
        for monomial, coefficient in terms:
            part = self.product_scalar(monomial, coefficient, copy)
            total = part if total is None else self.e.add(total, part)
        assert total is not None
        return total

    def product_scalar(self, monomial: Monomial, coefficient: int, copy: int) -> Value:
        out: Value | None = None
        for a in monomial:
            factor = self.atom_scalar(a, copy)
            out = factor if out is None else self.e.mul(out, factor)
        if out is None:
            return self.e.const(coefficient, "i64")
        return out if coefficient == 1 else self.e.mul(out, self.e.const(coefficient, "i64"))

    def atom_scalar(self, a: Atom, copy: int) -> Value:
        if a.kind == "axis":
            first, depth = self.nest.axis(a.name)
            if not copy or a.name != self.steps.vector:
                return first
            return self.nest.keep(("lane 0", copy), depth, lambda: self.e.add(first, self.e.const(copy * self.width, "i64")))
        if a.kind == "symbol":
            return self.size(a.name)
        if a.kind == "loaded":
            return self.loaded(a.payload, copy)[0]
        key = ("atom", a, self.own((((a,), 1),), copy))
        return self.nest.keep(key, self.depth_of_atom(a, copy), lambda: self.opaque(a, lambda value: self.scalar(value, copy)))

    # -- all lanes ------------------------------------------------------------------------------------------
    def lanes(self, value: Dim, copy: int) -> Value:
        """The expression in every lane of a copy."""
        fixed, varying = self.steps.split(value)
        if not varying:
            return self.splat_terms(fixed, copy)
        depth = self.depth_of_terms(varying, copy)
        part = self.nest.keep(("lanes", varying, copy), depth, lambda: self.sum_lanes(varying, copy))
        if not fixed:
            return part
        base = self.splat_terms(fixed, copy)
        return self.nest.keep(("lanes", terms_of(value), copy), self.depth(value, copy), lambda: self.e.add(part, base))

    def splat_terms(self, terms: Terms, copy: int) -> Value:
        value = self.scalar_of_terms(terms, copy)
        key = ("splat", terms, self.own(terms, copy))
        return self.nest.keep(key, self.depth_of_terms(terms, copy), lambda: self.e.splat(value, self.width))

    def sum_lanes(self, terms: Terms, copy: int) -> Value:
        total: Value | None = None
        for monomial, coefficient in terms:
            fixed = tuple(a for a in monomial if not self.steps.atom_varies(a))
            part: Value | None = None
            for a in monomial:
                if self.steps.atom_varies(a):
                    factor = self.atom_lanes(a, copy)
                    part = factor if part is None else self.e.mul(part, factor)
            assert part is not None
            if fixed or coefficient != 1:
                part = self.e.mul(part, self.splat_terms(((fixed, coefficient),), copy))
            total = part if total is None else self.e.add(total, part)
        assert total is not None
        return total

    def atom_lanes(self, a: Atom, copy: int) -> Value:
        if a.kind == "axis":
            first, depth = self.nest.axis(a.name)
            return self.nest.keep(("lanes of", a, copy), depth, lambda: self.count_from(first, copy))
        if a.kind == "loaded":
            return self.loaded(a.payload, copy)[0]
        depth = self.depth_of_atom(a, copy)
        return self.nest.keep(("atom in lanes", a, copy), depth, lambda: self.opaque(a, lambda value: self.lanes(value, copy)))

    def count_from(self, first: Value, copy: int) -> Value:
        steps = ", ".join(f"i64 {copy * self.width + lane}" for lane in range(self.width))
        return self.e.add(first, Value(f"<{steps}>", "i64", self.width))

    def opaque(self, a: Atom, evaluate: Callable[[Dim], Value]) -> Value:
        x, y = evaluate(a.arguments[0]), evaluate(a.arguments[1])
        if a.kind == "min":
            return self.e.intrinsic("smin", x, y)
        if a.kind not in ("floordiv", "mod"):
            raise NotImplementedError(f"index arithmetic with {a.kind!r} atoms: write it with floordiv, mod or min")
        return divide(self.e, a.kind, x, y, a.arguments[1], is_nonnegative(a.arguments[0]))


def divide(e: Emitter, kind: str, x: Value, y: Value, divisor: Dim, nonnegative: bool) -> Value:
    """``x // y`` (kind floordiv) or ``x % y`` (mod), rounded down, for a positive divisor ``y``, whose expression is ``divisor``."""
    if isinstance(divisor, int) and divisor & (divisor - 1) == 0:
        if kind == "mod":
            return e.binary("and", x, e.like(divisor - 1, x))
        return e.binary("lshr" if nonnegative else "ashr", x, e.like(divisor.bit_length() - 1, x))
    if x.width > 1:
        quotient = divide_lanes(e, x, y)
        return quotient if kind == "floordiv" else e.sub(x, e.mul(quotient, y))
    if nonnegative:
        return e.binary("udiv" if kind == "floordiv" else "urem", x, y)
    remainder = e.binary("srem", x, y)
    below = e.compare("slt", remainder, e.like(0, x))
    if kind == "mod":
        return e.select(below, e.add(remainder, y), remainder)
    return e.select(below, e.sub(e.binary("sdiv", x, y), e.like(1, x)), e.binary("sdiv", x, y))


def divide_lanes(e: Emitter, x: Value, y: Value) -> Value:
    """Division through double, as vectors have no integer one: exact below 2**52, which no index of memory reaches."""
    quotient = e.div(e.convert("sitofp", x, "double"), e.convert("sitofp", y, "double"))
    return e.convert("fptosi", e.intrinsic("floor", quotient), "i64")
