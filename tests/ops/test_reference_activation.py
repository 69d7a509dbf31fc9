"""Activation functions against numpy, and their derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.derivative.differentiate import gradients
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from tests.ops.operator_cases import check_against, check_gradient, operators_of

OPERATORS = {o.name: o for o in operators_of("activation")}


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])(x)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def _softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    e = np.exp(x)
    return e / e.sum(axis=dim, keepdims=True) if x.ndim else np.ones(())


def _prelu(x: Any, weight: Any) -> Any:
    return np.where(x > 0, x, x * weight.reshape(-1, *(1,) * (x.ndim - 2)))


def _glu(x: Any, dim: int = -1) -> Any:
    first, second = np.split(x, 2, axis=dim)
    return first * _sigmoid(second)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


ORACLES: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "hardtanh": lambda x: np.clip(x, -1, 1),
    "leaky_relu": lambda x, slope=0.01: np.where(x > 0, x, slope * x), "prelu": _prelu,
    "threshold": lambda x, threshold, value: np.where(x > threshold, x, value),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "softshrink": lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) > lambd, x, 0),
    "gelu": _gelu, "silu": lambda x: x * _sigmoid(x), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "softplus": _softplus,
    "logsigmoid": lambda x: np.log(_sigmoid(x)), "elu": _elu, "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * (np.exp(x / alpha) - 1)),
    "softsign": lambda x: x / (1 + np.abs(x)), "tanhshrink": lambda x: x - np.tanh(x), "glu": _glu,
    "softmax": _softmax, "log_softmax": lambda x, dim, dtype=None: np.log(_softmax(x, dim)),
    "softmin": lambda x, dim, dtype=None: _softmax(-x, dim),
}  # fmt: skip


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", ["gelu", "silu", "softmax", "log_softmax", "relu"])
def test_value_in_bfloat16(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name], dtypes.bfloat16, seed=2)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_gradient(name: str) -> None:
    assert check_gradient(OPERATORS[name]) > 0


# -- far from zero, where a careless form overflows ----------------------------------------------------
SMOOTH = ["gelu", "silu", "mish", "softplus", "logsigmoid", "elu", "selu", "celu", "softsign", "hardswish", "tanhshrink"]
SLOPE_AT_INFINITY = {"logsigmoid": (1.0, 0.0), "softsign": (0.0, 0.0), "selu": (0.0, 1.0507009873554805), "tanhshrink": (1.0, 1.0)}


@pytest.mark.parametrize("name", SMOOTH)
def test_value_and_slope_stay_finite(name: str) -> None:
    x = graph_input("x", Aval((4,), dtypes.float32))
    g = graph_input("g", Aval((4,), dtypes.float32))
    out = OPERATORS[name](x)
    (slope,) = gradients([out], [g], [x])
    assert slope is not None
    far = np.array([-3e4, -200.0, 200.0, 3e4], np.float32)
    value, slopes = run_reference(Graph((x, g), (out, slope)), [far, np.ones(4, np.float32)])
    assert np.isfinite(value).all()
    low, high = SLOPE_AT_INFINITY.get(name, (0.0, 1.0))
    np.testing.assert_allclose(slopes, [low, low, high, high], atol=1e-4)


AT_ZERO = {"relu": 0.0, "relu6": 0.0, "softplus": 0.5, "logsigmoid": 0.5, "elu": 1.0, "silu": 0.5}


@pytest.mark.parametrize(("name", "at_zero"), AT_ZERO.items())
def test_slope_at_zero(name: str, at_zero: float) -> None:
    x, g = graph_input("x0", Aval((1,), dtypes.float64)), graph_input("g0", Aval((1,), dtypes.float64))
    (slope,) = gradients([OPERATORS[name](x)], [g], [x])
    assert slope is not None
    (result,) = run_reference(Graph((x, g), (slope,)), [np.zeros(1), np.ones(1)])
    np.testing.assert_allclose(result, [at_zero])


def test_nan_stays() -> None:
    x = graph_input("xn", Aval((1,), dtypes.float64))
    for name in ("relu", "relu6", "hardtanh", "leaky_relu", "softshrink", "hardshrink", "gelu", "softplus", "elu"):
        (result,) = run_reference(Graph((x,), (OPERATORS[name](x),)), [np.array([np.nan])])
        assert np.isnan(result).all(), name


def test_softmax_of_large_and_masked_rows() -> None:
    x = graph_input("xm", Aval((3, 3), dtypes.float32))
    rows = np.array([[1e4, 1e4, 0], [-np.inf, 0, 0], [-np.inf] * 3], np.float32)
    with np.errstate(invalid="ignore"):
        soft, log = run_reference(Graph((x,), (ops.softmax(x, 1), ops.log_softmax(x, 1))), [rows])
    np.testing.assert_allclose(soft, [[0.5, 0.5, 0], [0, 0.5, 0.5], [np.nan] * 3])
    np.testing.assert_allclose(log[1], [-np.inf, -np.log(2), -np.log(2)], rtol=1e-6)


def test_softmax_converts_to_dtype_first() -> None:
    x = graph_input("xi", Aval((4,), dtypes.int64))
    assert ops.softmax(x, 0, dtype=dtypes.float64).dtype is dtypes.float64
    half = graph_input("xh", Aval((4,), dtypes.bfloat16))
    assert ops.softmax(half, 0).dtype is dtypes.bfloat16
    assert ops.softmax(half, 0, dtype=dtypes.float32).dtype is dtypes.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: ops.softmax(x, 2), IndexError, "softmax: Dimension out of range"),
        (lambda x, i: ops.softmax(i, 0), NotImplementedError, "softmax: not implemented for torch.int64"),
        (lambda x, i: ops.gelu(x, approximate="erf"), RuntimeError, "gelu: approximate .* 'erf'"),
        (lambda x, i: ops.gelu(i), NotImplementedError, "gelu: not implemented for torch.int64"),
        (lambda x, i: ops.glu(x, 1), RuntimeError, "glu: .* dimension 1 is size 3"),
        (lambda x, i: ops.prelu(x, x), RuntimeError, "prelu: weight"),
    ],
)
def test_errors_name_the_operator(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(graph_input("xe", Aval((2, 3), dtypes.float32)), graph_input("ie", Aval((2, 3), dtypes.int64)))
