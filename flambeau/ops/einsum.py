"""Einstein summation: an equation of letters as permutations, sums and one batched product for each pair of operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Values, op
from flambeau.ops.matmul import contract

ELLIPSIS = "."


@dataclass
class Term:
    """An operand whose axes are named, one name for each axis."""

    value: Node
    names: list[str]


def _named(text: str, rank: int, position: int) -> list[str]:
    """One name for each axis of an operand; the axes of an ellipsis are named from the right: ``.0`` is the last."""
    before, dots, after = text.partition("...")
    letters = before + after
    if not all(c.isalpha() and c.isascii() for c in letters):
        raise RuntimeError(f"einsum: operand {position} has subscripts {text!r}; use letters [a-zA-Z] and at most one '...'")
    covered = rank - len(letters)
    if covered < 0 or (covered and not dots):
        raise RuntimeError(f"einsum: the number of subscripts in {text!r} does not match the {rank} dimensions of operand {position}")
    return [*before, *(f"{ELLIPSIS}{covered - 1 - i}" for i in range(covered)), *after]


def _parse(equation: str, operands: Sequence[Node]) -> tuple[list[Term], list[str]]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        raise RuntimeError(f"einsum: the equation names {len(texts)} operands, but {len(operands)} were given")
    terms = [Term(x, _named(text, x.rank, i)) for i, (text, x) in enumerate(zip(texts, operands, strict=True))]
    every = [n for term in terms for n in term.names]
    dots = sorted({n for n in every if n[0] == ELLIPSIS}, key=lambda n: -int(n[1:]))
    if not arrow:
        return terms, [*dots, *sorted(n for n in set(every) if n[0] != ELLIPSIS and every.count(n) == 1)]
    before, mark, after = right.partition("...")
    output = [*before, *(dots if mark else []), *after]
    if len(set(output)) != len(output) or not set(output) <= set(every):
        raise RuntimeError(f"einsum: output subscripts {right!r} must be distinct and appear in an operand")
    return terms, output


def _diagonalized(term: Term) -> Term:
    """Repeated names of one operand as one axis: its diagonal."""
    value, names = term.value, list(term.names)
    for name in dict.fromkeys(term.names):
        while names.count(name) > 1:
            a = names.index(name)
            b = names.index(name, a + 1)
            if not value.shape[a] == value.shape[b]:
                raise RuntimeError(f"einsum: subscript {name!r} is repeated for sizes {value.shape[a]} and {value.shape[b]}")
            rest = [i for i in range(value.rank) if i not in (a, b)]
            value = p.diagonal(p.permute(value, axes=(*rest, a, b)))
            names = [names[i] for i in rest] + [name]
    return Term(value, names)


def _summed(term: Term, keep: set[str]) -> Term:
    """Sum over the axes that nothing else names; sums of integers are int64, as everywhere."""
    axes = tuple(i for i, n in enumerate(term.names) if n not in keep)
    value = term.value
    if axes:
        value = p.reduce(value if value.dtype.is_inexact else p.converted(value, dtypes.int64), kind="sum", axes=axes)
    return Term(value, [n for n in term.names if n in keep])


def _with_sizes(term: Term, sizes: dict[str, Dim], common: set[str]) -> Term:
    """Expand axes of size 1 that meet larger ones in a product."""
    shape = tuple(sizes[n] if n in common else d for n, d in zip(term.names, term.value.shape, strict=True))
    return term if shape == term.value.shape else Term(p.expand(term.value, shape=shape), term.names)


def _multiplied(a: Term, b: Term, keep: set[str], sizes: dict[str, Dim]) -> Term:
    common = set(a.names) & set(b.names)
    a, b = (_with_sizes(_summed(t, keep | set(o.names)), sizes, common) for t, o in ((a, b), (b, a)))
    shared = [n for n in a.names if n in common]
    batch = [(a.names.index(n), b.names.index(n)) for n in shared if n in keep]
    pairs = [(a.names.index(n), b.names.index(n)) for n in shared if n not in keep]
    names = [n for n in shared if n in keep]
    names += [n for n in a.names if n not in common] + [n for n in b.names if n not in common]
    kind = dtypes.promote(a.value.dtype, b.value.dtype)
    return Term(contract(p.converted(a.value, kind), p.converted(b.value, kind), pairs, batch), names)


def _sizes(terms: Sequence[Term]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for position, term in enumerate(terms):
        for name, size in zip(term.names, term.value.shape, strict=True):
            known = sizes.setdefault(name, size)
            if known == 1:
                sizes[name] = size
            elif not (size == 1 or size == known):
                raise RuntimeError(
                    f"einsum: subscript {name!r} has size {size} for operand {position}, which does not broadcast with {known}"
                )
    return sizes


def _einsum_samples(m: SampleMaker) -> Calls:
    f = m.float
    return [
        case("ij,jk->ik", [f(2, 3), f(3, 4)]), case("bij,bjk->bik", [f(2, 3, 4), f(2, 4, 5)]), case("ij->ji", [f(2, 3)]),
        case("ii->i", [f(3, 3)]), case("ii", [f(3, 3)]), case("ij->", [f(2, 3)]), case("i,j->ij", [f(2), f(3)]), case("i,i", [f(3), f(3)]),
        case("bhqd,bhkd->bhqk", [f(2, 2, 3, 4), f(2, 2, 5, 4)]), case("...ij,...jk->...ik", [f(2, 3, 4), f(2, 4, 5)]),
        case("...ij,jk", [f(2, 3, 4), f(4, 5)]), case("bn,anm,bm->ba", [f(2, 3), f(4, 3, 2), f(2, 2)]), case("i...->...", [f(2, 3)]),
        case("ijk,ilm,njm,nlk,abc->", [f(2, 2, 2), f(2, 2, 2), f(2, 2, 2), f(2, 2, 2), f(2, 2, 2)]), case("iji,j->ij", [f(2, 3, 2), f(3)]),
        case("ab,ab->ab", [f(2, 3), f(2, 3)]), case("ab,cb->a", [f(2, 3), f(4, 3)]),
    ]  # fmt: skip


@op(promote="same", samples=_einsum_samples)
def einsum(equation: str, operands: Values) -> Node:
    """Sums of products by an equation such as ``"bij,bjk->bik"``, operands multiplied from left to right."""
    terms, output = _parse(equation, operands)
    terms = [_diagonalized(t) for t in terms]
    sizes = _sizes(terms)
    total = terms[0]
    for i, term in enumerate(terms[1:], start=1):
        later = {n for t in terms[i + 1 :] for n in t.names}
        total = _multiplied(total, term, later | set(output), sizes)
    total = _summed(total, set(output))
    return p.permute(total.value, axes=tuple(total.names.index(n) for n in output))
