"""Integer algebra for sizes and indices: interned polynomials over symbols, loop axes and opaque atoms.

A size or an index is an ``int`` or an ``Expression``; arithmetic folds to ``int`` where it can. Because expressions are
interned, structural equality is identity. ``==`` and ``<`` between sizes are *decisions*: they are proven from the
bounds of the atoms when that is possible, and otherwise answered with the sizes at hand (the hints of the current
``SizeScope``), which records the answer as a predicate that a later caller must meet.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import gcd
from typing import Any, Union

Dim = Union[int, "Expression"]
Monomial = tuple["Atom", ...]  # sorted, with repetition


class Atom:
    """An indivisible integer: a size symbol, a loop axis, a loaded value, or an opaque floordiv, mod, min or max,
    or a value that is known to lie `within` bounds.

    ``name`` is unique within a trace and decides the order of terms, so that text made from expressions is the same
    in every process. ``lower`` and ``upper`` bound it inclusively (``upper`` None: unbounded).
    """

    __slots__ = ("arguments", "kind", "lower", "name", "payload", "upper")

    def __init__(
        self, kind: str, name: str, lower: Dim, upper: Dim | None, arguments: tuple[Dim, ...], payload: object
    ) -> None:
        self.kind = kind
        self.name = name
        self.lower = lower
        self.upper = upper
        self.arguments = arguments
        self.payload = payload

    def __repr__(self) -> str:
        return self.name


_atoms: dict[tuple[object, ...], Atom] = {}
_expressions: dict[tuple[tuple[Monomial, int], ...], Expression] = {}


def _atom(
    kind: str, name: str, lower: Dim, upper: Dim | None, arguments: tuple[Dim, ...] = (), payload: object = None
) -> Expression:
    key = (kind, name, lower, upper, *arguments, id(payload))
    atom = _atoms.get(key)
    if atom is None:
        atom = _atoms[key] = Atom(kind, name, lower, upper, arguments, payload)
    return _make({(atom,): 1})  # type: ignore[return-value]


def symbol(name: str, lower: int = 2) -> Expression:
    """A size known only at run time, at least ``lower`` (0 and 1 are specialised, so 2)."""
    return _atom("symbol", name, lower, None)


def combined(kind: str, *values: Dim) -> Dim:
    """The value of an opaque atom of a kind over these: what its ``arguments`` were."""
    return {"floordiv": floor_divide, "mod": modulo, "min": minimum, "within": within}[kind](*values)


def symbol_of(atom: Atom) -> Dim:
    """An atom as an expression."""
    return _make({(atom,): 1})


def axis(name: str, size: Dim) -> Expression:
    """A loop variable: 0 <= axis < size."""
    return _atom("axis", name, 0, size - 1)


def loaded(name: str, size: Dim, node: object) -> Expression:
    """An index computed at run time (``node``), checked to lie in [0, size)."""
    return _atom("loaded", name, 0, size - 1, (), node)


def within(value: Dim, size: Dim) -> Dim:
    """``value`` where something else already sees to it that it lies in [0, size), so that divisions can rely on that."""
    if isinstance(value, int) or in_range(value, size):
        return value
    return _atom("within", f"within({value}, {size})", 0, size - 1, (value, size))


def settle(value: Dim) -> Dim:
    """The value without what `within` told of it."""
    while known := {a.name: a.arguments[0] for a in atoms_of(value) if a.kind == "within"}:
        value = substitute(value, known)
    return value


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return (-len(monomial), tuple(a.name for a in monomial))


def _make(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    if len(kept) > 1:
        kept.sort(key=lambda item: _order(item[0]))
    key = tuple(kept)
    found = _expressions.get(key)
    if found is None:
        found = _expressions[key] = Expression(key)
    return found


def terms_of(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The (monomial, coefficient) pairs; a constant is the empty monomial."""
    if isinstance(value, Expression):
        return value.terms
    return (((), value),) if value else ()


class Expression:
    """An interned polynomial with integer coefficients. Immutable; equal expressions are the same object."""

    __slots__ = ("_atoms", "_text", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._text: str | None = None
        self._atoms: frozenset[Atom] | None = None

    # -- arithmetic -------------------------------------------------------------------------------------
    def _combine(self, other: Dim, sign: int) -> Dim:
        out = dict(self.terms)
        for monomial, coefficient in terms_of(other):
            out[monomial] = out.get(monomial, 0) + sign * coefficient
        return _make(out)

    def __add__(self, other: object) -> Dim:
        return self._combine(other, 1) if isinstance(other, (int, Expression)) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Dim:
        return self._combine(other, -1) if isinstance(other, (int, Expression)) else NotImplemented

    def __rsub__(self, other: Dim) -> Dim:
        return (-self) + other

    def __neg__(self) -> Dim:
        return _make({m: -c for m, c in self.terms})

    def __mul__(self, other: object) -> Dim:
        if isinstance(other, int):
            return _make({m: c * other for m, c in self.terms}) if other != 1 else self
        if not isinstance(other, Expression):
            return NotImplemented
        out: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                product = tuple(sorted(m + n, key=lambda a: a.name)) if m and n else m or n
                out[product] = out.get(product, 0) + c * d
        return _make(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floor_divide(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return modulo(self, other)

    def __rmod__(self, other: int) -> Dim:
        return modulo(other, self)

    # -- decisions --------------------------------------------------------------------------------------
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, float):
            return other.is_integer() and self == int(other)
        return decide("eq", self - other) if isinstance(other, (int, Expression)) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: Dim) -> bool:
        return decide("ge", self - other)

    def __gt__(self, other: Dim) -> bool:
        return decide("ge", self - other - 1)

    def __le__(self, other: Dim) -> bool:
        return decide("ge", other - self)

    def __lt__(self, other: Dim) -> bool:
        return decide("ge", other - self - 1)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        return specialize(self)

    __int__ = __index__

    # -- inspection -------------------------------------------------------------------------------------
    @property
    def atoms(self) -> frozenset[Atom]:
        """Every atom in it, those inside opaque atoms included."""
        if self._atoms is None:
            out: set[Atom] = set()
            for monomial, _ in self.terms:
                for a in monomial:
                    out.add(a)
                    for argument in a.arguments:
                        out |= atoms_of(argument)
            self._atoms = frozenset(out)
        return self._atoms

    def __repr__(self) -> str:
        if self._text is None:
            parts: list[str] = []
            for monomial, coefficient in self.terms:
                factors = [a.name for a in monomial]
                if coefficient != 1 or not factors:
                    factors.insert(0, str(coefficient))
                parts.append("*".join(factors))
            self._text = " + ".join(parts).replace("+ -1*", "- ").replace("+ -", "- ")
        return self._text


def atoms_of(value: Dim) -> frozenset[Atom]:
    return value.atoms if isinstance(value, Expression) else frozenset()


def as_size(value: Any) -> Any:
    """A size as it is; anything else that is a whole number as an int. TypeError where it is none."""
    return value if isinstance(value, Expression) else operator.index(value)


def constant_term(value: Dim) -> int:
    """What is added to the products of symbols and axes."""
    return next((c for monomial, c in terms_of(value) if not monomial), 0)


def is_constant(value: Dim, number: int) -> bool:
    """Whether ``value`` is the int ``number``, without deciding anything about symbols."""
    return isinstance(value, int) and value == number


# -- division -------------------------------------------------------------------------------------------
def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for a in divisor:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def divide_out(value: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """``(quotient, remainder)`` with ``value == quotient * divisor + remainder``, by polynomial long division."""
    if isinstance(divisor, int) and isinstance(value, int):
        return divmod(value, divisor) if divisor else (0, value)
    if is_constant(divisor, 0):
        return 0, value
    lead, lead_coefficient = terms_of(divisor)[0]
    quotient: Dim = 0
    remainder: Dim = 0
    while not is_constant(value, 0):
        first = next(
            (
                (q, c // lead_coefficient)
                for m, c in terms_of(value)
                if c % lead_coefficient == 0 and (q := _divide_monomial(m, lead)) is not None
            ),
            None,
        )
        if first is None:
            return quotient, remainder + value
        part = _make({first[0]: first[1]})
        quotient = quotient + part
        value = value - part * divisor
    return quotient, remainder


@cache
def floor_divide(value: Dim, divisor: Dim) -> Dim:
    """``value // divisor`` for a positive divisor, as simple as the bounds allow; 0 by a size of 0, which no index is in."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value // divisor
    if is_constant(divisor, 0):
        return 0
    if is_constant(divisor, 1):
        return value
    quotient, rest = divide_out(value, divisor)
    if in_range(rest, divisor):
        return quotient
    split = _common_factor(rest, divisor)
    if split is not None:
        return quotient + floor_divide(split[0], split[2])
    nested = _only_atom(rest)
    if nested is not None and nested.kind == "floordiv":
        # One division by both: recombining sums of coordinates must see that it is the same as that of an outer axis.
        return quotient + floor_divide(nested.arguments[0], nested.arguments[1] * divisor)
    low = 0 if is_nonnegative(rest) else -(2**62)
    name = f"({_group(rest)} // {_group(divisor)})"
    return quotient + _atom("floordiv", name, low, _quotient_upper(rest, divisor), (rest, divisor))


def _only_atom(value: Dim) -> Atom | None:
    terms = terms_of(value)
    return terms[0][0][0] if len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1 else None


@cache
def in_range(value: Dim, size: Dim) -> bool:
    """Whether ``0 <= value < size`` is proven."""
    return is_nonnegative(value) and is_nonnegative(size - 1 - value)


def _group(value: Dim) -> str:
    return f"({value})" if isinstance(value, Expression) and len(value.terms) > 1 else str(value)


def _common_factor(value: Dim, divisor: Dim) -> tuple[Dim, Dim, Dim, Dim] | None:
    """``(a, factor, divisor / factor, b)`` with value == a*factor + b and 0 <= b < factor, if a factor does that."""
    if len(terms_of(divisor)) != 1:
        return None
    monomial, coefficient = terms_of(divisor)[0]
    factors: list[Dim] = [_make({(a,): 1}) for a in dict.fromkeys(monomial)]
    factors += {g for _, c in terms_of(value) if (g := gcd(c, coefficient)) > 1}
    if len(monomial) > 1:
        factors += [_make({monomial[:i] + monomial[i + 1 :]: 1}) for i in range(len(monomial))]
    for factor in factors:
        a, b = divide_out(value, factor)
        if not is_constant(a, 0) and factor is not divisor and in_range(b, factor):
            return a, factor, divide_out(divisor, factor)[0], b
    return None


def _quotient_upper(value: Dim, divisor: Dim) -> Dim | None:
    if not isinstance(divisor, int):
        return None
    most = constant_upper(value)
    return None if most is None else most // divisor


def constant_upper(value: Dim) -> int | None:
    """An int bound from above, or None."""
    if isinstance(value, int):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        bound = coefficient
        for a in monomial:
            high = a.upper if coefficient > 0 else a.lower
            if not isinstance(high, int) or (a.lower if isinstance(a.lower, int) else -1) < 0:
                return None
            bound *= high
        total += bound
    return total


@cache
def modulo(value: Dim, divisor: Dim) -> Dim:
    """``value % divisor`` for a positive divisor; the result is in [0, divisor), and 0 for a size of 0, which no index is in."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor
    if is_constant(divisor, 0):
        return 0
    _, rest = divide_out(value, divisor)
    if in_range(rest, divisor):
        return rest
    split = _common_factor(rest, divisor)
    if split is not None:
        return modulo(split[0], split[2]) * split[1] + split[3]
    return _atom("mod", f"({_group(rest)} % {_group(divisor)})", 0, divisor - 1, (rest, divisor))


def minimum(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if is_nonnegative(b - a):
        return a
    if is_nonnegative(a - b):
        return b
    low = 0 if is_nonnegative(a) and is_nonnegative(b) else -(2**62)
    return _atom("min", f"min({a}, {b})", low, a if isinstance(a, int) else b, (a, b))


def maximum(a: Dim, b: Dim) -> Dim:
    return -minimum(-a, -b) if not (isinstance(a, int) and isinstance(b, int)) else max(a, b)


def ceil_divide(a: Dim, b: Dim) -> Dim:
    return (a + b - 1) // b


def product(values: Iterable[Dim]) -> Dim:
    out: Dim = 1
    for value in values:
        out = value * out if isinstance(value, Expression) else out * value
    return out


# -- proofs ---------------------------------------------------------------------------------------------
@cache
def is_nonnegative(value: Dim) -> bool:
    """Whether ``value >= 0`` follows from the bounds of its atoms (False: not proven)."""
    if isinstance(value, int):
        return value >= 0
    for _ in range(12):
        replaced = _replace_bounded(value)
        if replaced is None:
            break
        value = replaced
        if isinstance(value, int):
            return value >= 0
    return _nonnegative_in_symbols(value)


def _replace_bounded(value: Expression) -> Dim | None:
    """Put the worst case in place of one axis-like atom whose coefficient has a known sign."""
    candidates = {a for m, _ in value.terms for a in m if a.kind != "symbol"}
    # An axis bounded by another expression goes before the atoms of that expression.
    for a in sorted(candidates, key=lambda a: (a.kind != "loaded", a.name), reverse=True):
        if any(m.count(a) > 1 for m, _ in value.terms):
            continue
        coefficient: Dim = 0
        rest: Dim = 0
        for m, c in value.terms:
            if a in m:
                coefficient = coefficient + _make({tuple(x for x in m if x is not a): c})
            else:
                rest = rest + _make({m: c})
        if is_nonnegative(coefficient):
            return rest + coefficient * a.lower
        if a.upper is not None and is_nonnegative(-coefficient):
            return rest + coefficient * a.upper
    return None


def _nonnegative_in_symbols(value: Dim) -> bool:
    """Shift each symbol to its lower bound; nonnegative coefficients are a proof."""
    shifted: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(value):
        partial: dict[Monomial, int] = {(): coefficient}
        for a in monomial:
            if a.kind != "symbol" or not isinstance(a.lower, int):
                return False
            grown: dict[Monomial, int] = {}
            for m, c in partial.items():
                up = tuple(sorted((*m, a), key=lambda x: x.name))
                grown[up] = grown.get(up, 0) + c
                grown[m] = grown.get(m, 0) + c * a.lower
            partial = grown
        for m, c in partial.items():
            shifted[m] = shifted.get(m, 0) + c
    return all(c >= 0 for c in shifted.values())


# -- decisions and scopes -------------------------------------------------------------------------------
Predicate = tuple[str, "Expression", bool]  # ("eq" | "ge", expression, truth): (expression == 0 | >= 0) is truth


class SizeScope:
    """The sizes at hand while a body is traced, and the predicates that the trace came to rely on."""

    def __init__(self, hints: Mapping[str, int] | None = None) -> None:
        self.hints = dict(hints or {})
        self.predicates: dict[tuple[str, Expression], bool] = {}

    def note(self, relation: str, value: Expression, truth: bool) -> None:
        """The trace relies on this from now on."""
        self.predicates[relation, value] = truth

    def __enter__(self) -> SizeScope:
        _scopes().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes().pop()


_local = threading.local()


def _scopes() -> list[SizeScope]:
    found: list[SizeScope] | None = getattr(_local, "scopes", None)
    if found is None:
        found = _local.scopes = []
    return found


@contextmanager
def without_sizes() -> Generator[None]:
    """Where no sizes are at hand: graphs are compiled for all sizes that they hold for."""
    outer, _local.scopes = _scopes(), []
    try:
        yield
    finally:
        _local.scopes = outer


def _scope_of(value: Expression) -> SizeScope | None:
    """The innermost scope, if it knows the sizes in ``value``."""
    scopes = _scopes()
    known = scopes and all(a.arguments or a.name in scopes[-1].hints for a in value.atoms)
    return scopes[-1] if known else None


def decide(relation: str, value: Dim) -> bool:
    """Answer ``value == 0`` ("eq") or ``value >= 0`` ("ge"): by proof, else by the hints, with a predicate."""
    if isinstance(value, int):
        return value == 0 if relation == "eq" else value >= 0
    if is_nonnegative(value if relation == "ge" else value - 1):
        return relation == "ge"
    if is_nonnegative(-value - 1):
        return False
    scope = _scope_of(value)
    if scope is None:
        if relation == "eq":
            return False
        raise RuntimeError(f"cannot decide whether {value} >= 0: no sizes are known here")
    known = evaluate(value, scope.hints)
    truth = known == 0 if relation == "eq" else known >= 0
    scope.note(relation, value, truth)
    return truth


def differs(a: Dim, b: Dim) -> bool:
    """Whether a != b by the sizes at hand; where none are known, only if that is proven.

    A graph is traced with sizes at hand and rewritten without: what was found equal then is not doubted later.
    """
    gap = a - b
    if isinstance(gap, Expression) and _scope_of(gap) is not None:
        return not a == b
    return gap != 0 if isinstance(gap, int) else is_nonnegative(gap - 1) or is_nonnegative(-gap - 1)


def shapes_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes differ, in the sense of ``differs``."""
    return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b, strict=True))


def specialize(value: Dim) -> int:
    """The value at hand as an int; records that callers must have the same."""
    if isinstance(value, int):
        return value
    scope = _scope_of(value)
    if scope is None:
        raise TypeError(f"size {value} has no known value here")
    known = evaluate(value, scope.hints)
    scope.note("eq", value - known, True)  # type: ignore[arg-type]
    return known


def evaluate(value: Dim, sizes: Mapping[str, int]) -> int:
    """The value with each symbol replaced by ``sizes[name]``."""
    if isinstance(value, int):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        for a in monomial:
            coefficient *= _evaluate_atom(a, sizes)
        total += coefficient
    return total


def _evaluate_atom(a: Atom, sizes: Mapping[str, int]) -> int:
    if a.kind in ("symbol", "axis"):
        return sizes[a.name]
    x, y = (evaluate(v, sizes) for v in a.arguments)
    return {"floordiv": lambda: x // y, "mod": lambda: x % y, "min": lambda: min(x, y)}[a.kind]()


def substitute(value: Dim, replacements: Mapping[str, Dim]) -> Dim:
    """Replace symbols and axes by name, simplifying again."""
    if isinstance(value, int) or not any(a.name in replacements for a in value.atoms):
        return value
    total: Dim = 0
    for monomial, coefficient in value.terms:
        part: Dim = coefficient
        for a in monomial:
            part = part * _substitute_atom(a, replacements)
        total = total + part
    return total


def _substitute_atom(a: Atom, replacements: Mapping[str, Dim]) -> Dim:
    if a.name in replacements:
        return replacements[a.name]
    if a.arguments:
        x, y = (substitute(v, replacements) for v in a.arguments)
        return {"floordiv": floor_divide, "mod": modulo, "min": minimum, "within": within}[a.kind](x, y)
    return _make({(a,): 1})


def compiled(values: Sequence[Dim], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """A Python function from the symbols ``names`` to the values of all expressions."""
    body = ", ".join(str(v) for v in values)
    return eval(f"lambda {', '.join(names)}: ({body}{',' if values else ''})", {"min": min})  # noqa: S307


def symbols_of(values: Iterable[Dim]) -> Iterator[str]:
    """The names of the symbols in ``values``, each once, in order of first use."""
    seen: dict[str, None] = {}
    for value in values:
        for a in sorted(atoms_of(value), key=lambda a: a.name):
            if a.kind == "symbol":
                seen[a.name] = None
    return iter(seen)


def recombine(value: Dim) -> Dim:
    """Undo splits: ``(x // d) * d + x % d`` is x again, at any common coefficient."""
    if isinstance(value, int):
        return value
    for monomial, coefficient in value.terms:
        for a in monomial:
            if a.kind != "mod":
                continue
            x, d = a.arguments
            scale = _make({tuple(m for m in monomial if m is not a): coefficient})
            quotient = floor_divide(x, d)
            rest = value - scale * _make({(a,): 1}) - scale * d * quotient
            merged = rest + scale * x
            if len(terms_of(merged)) < len(value.terms) or _opaque_count(merged) < _opaque_count(value):
                return recombine(merged)
    return value


def _opaque_count(value: Dim) -> int:
    return sum(1 for a in atoms_of(value) if a.arguments)


def linear_index(coordinates: Sequence[Dim], strides: Sequence[Dim], offset: Dim = 0) -> Dim:
    """offset + sum of coordinate * stride."""
    total = offset
    for coordinate, stride in zip(coordinates, strides, strict=True):
        if not is_constant(coordinate, 0):
            total = total + coordinate * stride
    return recombine(total)


def contiguous_strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    out: list[Dim] = []
    running: Dim = 1
    for size in reversed(shape):
        out.append(running)
        running = running * size
    return tuple(reversed(out))


def delinearize(index: Dim, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The coordinates of a row-major position; axes of size 1 are 0."""
    if any(is_constant(size, 0) for size in shape):
        return (0,) * len(shape)  # there is no position
    out: list[Dim] = []
    kept = [i for i, size in enumerate(shape) if not is_constant(size, 1)]
    running: Dim = 1
    for i in range(len(shape) - 1, -1, -1):
        size = shape[i]
        if is_constant(size, 1):
            out.append(0)
            continue
        part = floor_divide(index, running)
        out.append(part if i == kept[0] else modulo(part, size))
        running = running * size
    return tuple(reversed(out))
