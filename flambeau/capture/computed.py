"""What an operator computes: the nodes between its operands and its results, and what they do besides giving values."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import prims as p
from flambeau.core.symbolic import product
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node, toposort

DIVISIONS = tuple(getattr(p, name) for name in ("div", "floor_div", "rem", "mod") if hasattr(p, name))


def within(outputs: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """The nodes that compute nodes from others, these included."""
    known = set(inputs)
    return toposort(outputs, lambda n: () if n in known else n.sources)


def may_raise(nodes: Sequence[Node]) -> bool:
    """Whether computing these nodes may raise because of the values met: an index, or a divisor of zero."""
    return any(node.op in (p.take, p.scatter) or (node.op in DIVISIONS and not node.dtype.is_floating_point) for node in nodes)


def draws(nodes: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """The random numbers that computing these nodes from others draws."""
    return [n for n in nodes if n.op is not INPUT and n.op.family == "random" and n not in inputs]


def reaching(outputs: list[Node], computed: Sequence[Node], wanted: Sequence[Node]) -> list[Node]:
    """Results of an operator, `within` which is ``computed``: by operands of ``wanted`` that they do not depend on, as by an index without
    elements, their derivative is zero instead of none."""
    missed = [n for n in wanted if n not in computed]
    return [_depending(o, missed) if o.dtype.is_inexact else o for o in outputs] if missed else outputs


def _depending(output: Node, nodes: Sequence[Node]) -> Node:
    history = output
    for node in nodes:
        none = p.slice_(p.reshape(node, shape=(product(node.shape),)), starts=(0,), sizes=(0,), steps=(1,))
        zero = p.converted(p.reduce(none, kind="sum", axes=(0,)), output.dtype)
        history = p.add(history, p.expand(p.reshape(zero, shape=(1,) * output.rank), shape=output.shape))
    return p.attach(output, history)
