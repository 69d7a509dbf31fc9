"""The reference interpreter: evaluates a graph node by node in numpy. The oracle of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flambeau.core.symbolic import Expression, evaluate
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node


def run_reference(graph: Graph, arrays: Sequence[Any], sizes: Mapping[str, int] | None = None) -> list[Any]:
    """The graph's outputs for numpy inputs of the inputs' shapes and dtypes.

    Sizes are taken from the inputs; ``sizes`` gives those that no input has.
    """
    values: dict[Node, Any] = {}
    sizes = dict(sizes or {})
    for node, array in zip(graph.inputs, arrays, strict=True):
        array = np.asarray(array, dtype=node.dtype.numpy)
        values[node] = array
        for dim, size in zip(node.shape, array.shape, strict=True):
            if isinstance(dim, Expression):
                sizes[str(dim)] = size
    for node in graph.nodes():
        if node.op is INPUT:
            continue
        attributes = {k: _concrete(v, sizes) for k, v in node.attributes.items()}
        result = np.asarray(node.op.reference(*[values[s] for s in node.sources], **attributes))
        expected = tuple(evaluate(d, sizes) for d in node.shape)
        if result.shape != expected or result.dtype != node.dtype.numpy:
            result = result.reshape(expected).astype(node.dtype.numpy)
        values[node] = result
    return [values[o] for o in graph.outputs]


def _concrete(value: Any, sizes: dict[str, int]) -> Any:
    if isinstance(value, Expression):
        return evaluate(value, sizes)
    if isinstance(value, tuple):
        return tuple(_concrete(v, sizes) for v in value)
    return value
