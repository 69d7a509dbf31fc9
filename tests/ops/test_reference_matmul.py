"""Products against numpy, and their derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.ir.graph import graph_input
from flambeau.ir.node import walk
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _plus(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, a, b, beta=1, alpha=1: beta * x + alpha * function(a, b)


def _linear(x: Any, weight: Any, bias: Any = 0) -> Any:
    return x @ weight.T + bias


def _bilinear(a: Any, b: Any, weight: Any, bias: Any = 0) -> Any:
    return np.einsum("...i,oij,...j->...o", a, weight, b) + bias


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    left, right = (range(a.ndim - dims, a.ndim), range(dims)) if isinstance(dims, int) else dims
    for i, j in zip(left, right, strict=True):  # an axis of size 1 is repeated
        a, b = np.repeat(a, b.shape[j] // a.shape[i] or 1, i), np.repeat(b, a.shape[i] // b.shape[j] or 1, j)
    return np.tensordot(a, b, dims)


def _cross(x: Any, y: Any, dim: int = -1) -> Any:
    x, y = np.broadcast_arrays(x, y)
    return np.cross(x, y, axis=dim)


ORACLES: dict[str, Callable[..., Any]] = {
    "mm": np.matmul,
    "bmm": np.matmul,
    "mv": np.matmul,
    "dot": np.dot,
    "outer": np.outer,
    "addmm": _plus(np.matmul),
    "addmv": _plus(np.matmul),
    "addr": _plus(np.outer),
    "baddbmm": _plus(np.matmul),
    "addbmm": _plus(lambda a, b: (a @ b).sum(0)),
    "matmul": np.matmul,
    "linear": _linear,
    "bilinear": _bilinear,
    "tensordot": _tensordot,
    "kron": np.kron,
    "chain_matmul": lambda ms: ms[0] if len(ms) == 1 else np.linalg.multi_dot(ms),
    "cross": _cross,
    "vecdot": lambda x, y, dim=-1: (x * y).sum(dim),
    "vander": lambda x, count: x[..., None] ** np.arange(count),
    "einsum": lambda equation, operands: np.einsum(equation, *operands),
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_product_is_tested() -> None:
    assert {o.name for o in (*operators_of("matmul"), *operators_of("einsum"))} == set(ORACLES)


def _input(*shape: int, kind: dtype = dtypes.float32) -> Any:
    return graph_input(f"x{shape}", Aval(shape, kind))


def test_linear_is_one_product_of_two_matrices() -> None:
    out = ops.linear(_input(2, 3, 4), _input(5, 4), _input(5))
    products = [n for n in walk([out]) if n.op.name == "matmul"]
    assert [n.shape for n in products] == [(6, 5)]


def test_half_precision_computes_in_float32_and_rounds_once() -> None:
    half = dtypes.bfloat16
    out = ops.addmm(_input(5, kind=half), _input(3, 4, kind=half), _input(4, 5, kind=half))
    assert out.dtype is half
    assert {n.dtype for n in walk([out]) if n.op.name in ("matmul", "add")} == {dtypes.float32}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.mm(_input(2, 3), _input(2, 3)), "cannot be multiplied"),
        (lambda: ops.mm(_input(2, 3), _input(3, 2, kind=dtypes.float64)), "same dtype"),
        (lambda: ops.linear(_input(2, 2, 3), _input(5, 4)), "cannot be multiplied \\(4x3 and 4x5\\)"),
        (lambda: ops.matmul(_input(), _input(3)), "at least 1D"),
        (lambda: ops.bmm(_input(2, 3, 4), _input(3, 4, 2)), "do not match"),
        (lambda: ops.einsum("ij,jk", [_input(2, 3), _input(4, 2)]), "does not broadcast"),
        (lambda: ops.einsum("ij", [_input(2, 3, 4)]), "does not match"),
        (lambda: ops.einsum("ij->k", [_input(2, 3)]), "appear in an operand"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
