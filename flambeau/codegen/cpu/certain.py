"""Where along the lanes tests of places hold for certain, so that what they guard is read without masks.

A masked load costs more than a plain one, and on some processors (AMD's) it does not make the hardware read ahead: sums of a large
tensor, whose last row is padded, ran at a third of the memory's speed. A loop along the lanes is therefore divided into what may
fail a test and the stretch in between, where none can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter, conjuncts
from flambeau.codegen.cpu.indexing import divide
from flambeau.core.symbolic import Atom, Dim, atoms_of, is_nonnegative, product, substitute, symbol_of, terms_of
from flambeau.ir.kernel import INSIDE, LOAD
from flambeau.ir.node import Node


class Condition(NamedTuple):
    """``base + step * i >= 0`` at place ``i`` of the vector axis; with a step of 0 all lanes pass or none."""

    base: Dim
    step: int


def lane_guards(x: ExpressionEmitter, order: Iterable[Node], sizes: Mapping[str, Dim]) -> dict[Node, list[Condition]]:
    """The tests that guard loads, with what holds where they are true; none where none differs from lane to lane.

    ``sizes`` are those of all axes; those that no loop binds yet count with the places where a test is the hardest to pass.
    """
    wanted = dict.fromkeys(part for node in order if node.op is LOAD and node.sources for part in conjuncts(node.sources[0]))
    found: dict[Node, list[Condition]] = {}
    for node in wanted:
        conditions = _conditions(x, node, sizes) if node.op is INSIDE else None
        if conditions is not None:
            found[node] = conditions
    # Parts of one tensor that lie side by side: where one test holds the other does not.
    every = [condition for conditions in found.values() for condition in conditions]
    excluded = [c for c in every if any(c.step == -o.step and is_nonnegative(-1 - c.base - o.base) for o in every)]
    left = {node: conditions for node, conditions in found.items() if not any(c in excluded for c in conditions)}
    return left if any(x.varies(node) for node in left) else {}


def _conditions(x: ExpressionEmitter, node: Node, sizes: Mapping[str, Dim]) -> list[Condition] | None:
    value, lower, upper = (node.attributes[k] for k in ("value", "lower", "upper"))
    out: list[Condition] = []
    for place in (value - lower, upper - 1 - value):
        if is_nonnegative(place):
            continue
        if any(a.kind == "loaded" for a in atoms_of(place)) or not x.steps.is_even(place):
            return None
        varying = x.steps.split(place)[1]
        step = x.steps.constant_step(place) if varying else 0
        if step is None or (varying and varying[0][0][0].kind != "axis"):
            return None
        base = _least(x, place - step * symbol_of(varying[0][0][0]) if varying else place, sizes)
        if base is None:
            return None
        out.append(Condition(base, step))
    return out


def _least(x: ExpressionEmitter, place: Dim, sizes: Mapping[str, Dim]) -> Dim | None:
    """The least value over the axes that no loop binds yet; None where it is not at an end of each."""
    for name, size in sizes.items():
        if name == x.vector or x.nest.binds(name):
            continue
        terms = [(monomial, coefficient) for monomial, coefficient in terms_of(place) if any(_names(a, name) for a in monomial)]
        for monomial, _ in terms:
            others = [a for a in monomial if not _names(a, name)]
            if len(others) + 1 != len(monomial) or not any(a.kind == "axis" and a.name == name for a in monomial):
                return None
            if not is_nonnegative(product(symbol_of(a) for a in others)):
                return None
        signs = {coefficient > 0 for _, coefficient in terms}
        if len(signs) > 1:
            return None
        if signs:
            place = substitute(place, {name: 0 if signs.pop() else size - 1})
    return None if any(a.kind == "axis" and a.name == x.vector for a in atoms_of(place)) else place


def _names(atom: Atom, name: str) -> bool:
    return (atom.kind == "axis" and atom.name == name) or any(_names(a, name) for value in atom.arguments for a in atoms_of(value))


def certain_stretch(x: ExpressionEmitter, conditions: Sequence[Condition], start: Value, stop: Value) -> tuple[Value, Value]:
    """From where and up to where, not including it, all conditions hold within [start, stop)."""
    e = x.e
    for base, step in conditions:
        value = x.indexing.scalar(base)
        if abs(step) > 1:
            value = divide(e, "floordiv", value, e.const(abs(step), "i64"), abs(step), False)
        if not step:
            stop = e.select(e.compare("sge", value, e.const(0, "i64")), stop, start)
        elif step > 0:
            start = e.intrinsic("smax", start, e.sub(e.const(0, "i64"), value))
        else:
            stop = e.intrinsic("smin", stop, e.add(value, e.const(1, "i64")))
    return start, stop
