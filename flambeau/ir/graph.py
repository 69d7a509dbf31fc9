"""Graph: named inputs and output nodes; prints as Python that rebuilds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from flambeau.core.aval import Aval
from flambeau.core.symbolic import symbols_of
from flambeau.ir.node import Node, toposort


class InputOperation:
    """The operation of a graph's inputs; ``name`` tells one input from another."""

    name = "input"
    __slots__ = ()

    def infer(self, sources: tuple[Node, ...], attributes: Mapping[str, Any]) -> Aval:
        return attributes["aval"]


INPUT = InputOperation()


def graph_input(name: str, aval: Aval) -> Node:
    """An input of a graph."""
    return Node(INPUT, (), label=name, aval=aval)


@dataclass(frozen=True)
class Graph:
    """Inputs and outputs of a computation over primitives. Mutation and views never reach it."""

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """Every node in order, inputs (used or not) first."""
        return toposort((*self.inputs, *self.outputs))

    def __str__(self) -> str:
        return as_python(self)


def as_python(graph: Graph, name: str = "graph") -> str:
    """The graph as a Python function over ``prims``; sizes are its ``sizes`` parameters."""
    names: dict[Node, str] = {}
    lines: list[str] = []
    for node in graph.inputs:
        names[node] = node.attributes["label"]
    order = graph.nodes()
    draws = sorted(n.attributes["serial"] for n in order if "serial" in n.attributes)
    for node in order:
        if node in names:
            continue
        names[node] = f"t{len(lines)}"
        arguments = [names[s] for s in node.sources]
        # draws are numbered from 0, so that equal graphs print alike whatever was traced before
        arguments += [f"{k}={_literal(draws.index(v) if k == 'serial' else v)}" for k, v in node.attributes.items()]
        lines.append(f"    {names[node]} = prims.{node.op.name}({', '.join(arguments)})  # {node.aval}")
    sizes = list(symbols_of(d for n in order for d in n.shape))
    parameters = [names[n] for n in graph.inputs] + sizes
    doc = ", ".join(f"{names[n]}: {n.aval}" for n in graph.inputs)
    returns = ", ".join(names[o] for o in graph.outputs) + ("," if len(graph.outputs) == 1 else "")
    return f"def {name}({', '.join(parameters)}):  # {doc}\n" + "\n".join([*lines, f"    return {returns}"]) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        value = cast(tuple[Any, ...], value)
        inside = ", ".join(_literal(v) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, (str, float)):
        return repr(value) if value == value and value not in (float("inf"), float("-inf")) else f"float('{value}')"
    return str(value)
