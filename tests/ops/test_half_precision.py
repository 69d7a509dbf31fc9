"""Bodies on float16 and bfloat16: elements are moved as they are, arithmetic happens in float32."""

from __future__ import annotations

import pytest

from flambeau.core import dtypes
from flambeau.ops.declare import Operator
from tests.ops.operator_cases import operators_of, samples_of, trace

NAMES = ("activation", "attention", "comparison", "convolution", "create", "dropout", "einsum", "embedding", "indexing", "join", "loss",
         "matmul", "norm", "optimizer_steps", "pointwise", "pooling", "rearrange", "reduce", "resample", "sorting", "view")  # fmt: skip
MOVES = {"cast", "detach", "where"}  # pointwise, but no arithmetic on floats
HALVES = (dtypes.bfloat16, dtypes.float16)


@pytest.mark.parametrize("operator", [o for n in NAMES for o in operators_of(n)], ids=lambda o: o.name)
def test_half_precision_is_only_moved(operator: Operator) -> None:
    for call in samples_of(operator):
        for node in trace(operator, call, dtypes.bfloat16).graph.nodes():
            moves = node.op.name in MOVES or getattr(node.op, "family", "") not in ("pointwise", "reduce", "matmul")
            assert moves or not any(s.dtype in HALVES for s in node.sources), f"{operator.name}: {node.op.name} in half precision"
            added = node.op.name == "scatter" and node.attributes["mode"] != "set"
            assert not (added and node.dtype in HALVES), f"{operator.name}: scatter combines in half precision"
