"""Reductions against numpy, and their derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from tests.ops.operator_cases import check_against, check_gradient, operators_of, trace

OPERATORS = {o.name: o for o in operators_of("reduce")}


def _axis(x: Any, dim: Any) -> Any:
    if dim is None or (isinstance(dim, tuple) and not dim) or not x.ndim:
        return None
    return dim


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, keepdim=False: np.asarray(function(x, axis=_axis(x, dim), keepdims=keepdim))


def _position(function: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return np.asarray(function(x) if _axis(x, dim) is None else function(x, axis=dim, keepdims=keepdim))

    return oracle


def _with_position(value: Callable[..., Any], position: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return value(x)
        return value(x, dim, keepdim), position(x, dim, keepdim)

    return oracle


def _median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.sort(x, axis=None)[(x.size - 1) // 2]
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = np.argsort(x, axis=dim, kind="stable").take([(x.shape[dim] - 1) // 2], axis=dim)
    values = np.take_along_axis(x, order, axis=dim)
    return (values, order) if keepdim else (values.squeeze(dim), order.squeeze(dim))


def _spread(function: Callable[..., Any], with_mean: bool) -> Callable[..., Any]:
    def oracle(x: Any, dim: Any = None, *, correction: float = 1, keepdim: bool = False) -> Any:
        n = x.size if dim is None else np.prod([x.shape[d] for d in np.atleast_1d(dim)])
        scaled = np.var(x, axis=dim, keepdims=keepdim) * n / (n - correction)
        return (function(scaled), np.mean(x, axis=dim, keepdims=keepdim)) if with_mean else function(scaled)

    return oracle


def _norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    size, order = np.abs(x), 2 if ord == "fro" else ord
    if order == 0:
        return (x != 0).sum(axis=dim, keepdims=keepdim).astype(float)
    if math.isinf(order):
        return (np.max if order > 0 else np.min)(size, axis=dim, keepdims=keepdim)
    return (size**order).sum(axis=dim, keepdims=keepdim) ** (1 / order)


def _running_position(x: Any, dim: int, largest: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(x, dim, -1)
    positions = np.zeros(rows.shape, np.int64)
    for row, out in zip(rows.reshape(-1, rows.shape[-1]), positions.reshape(-1, rows.shape[-1]), strict=True):
        best = 0
        for i, value in enumerate(row):
            best = i if (value >= row[best] if largest else value <= row[best]) else best
            out[i] = best
    positions = np.moveaxis(positions, -1, dim)
    return np.take_along_axis(x, positions, axis=dim), positions


def _scan(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, dtype=None: function(x, axis=dim) if x.ndim else x


ORACLES: dict[str, Callable[..., Any]] = {
    "sum": _reduction(np.sum), "mean": _reduction(np.mean), "prod": _reduction(np.prod), "nansum": _reduction(np.nansum),
    "nanmean": _reduction(np.nanmean), "count_nonzero": lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim)),
    "all": _reduction(np.all), "any": _reduction(np.any), "amax": _reduction(np.max), "amin": _reduction(np.min),
    "argmax": _position(np.argmax), "argmin": _position(np.argmin),
    "max": _with_position(_reduction(np.max), _position(np.argmax)), "min": _with_position(_reduction(np.min), _position(np.argmin)),
    "median": _median, "var": _spread(np.asarray, False), "std": _spread(np.sqrt, False), "var_mean": _spread(np.asarray, True),
    "std_mean": _spread(np.sqrt, True),
    "logsumexp": lambda x, dim, keepdim=False: np.log(np.sum(np.exp(x), axis=_axis(x, dim), keepdims=keepdim)),
    "vector_norm": _norm,
    "logcumsumexp": _scan(np.logaddexp.accumulate), "cumsum": _scan(np.cumsum), "cumprod": _scan(np.cumprod),
    "cummax": lambda x, dim: _running_position(x, dim, True), "cummin": lambda x, dim: _running_position(x, dim, False),
}  # fmt: skip
INTEGRAL = {"all", "any", "count_nonzero", "argmax", "argmin"}


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)



@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - INTEGRAL))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradient(name: str) -> None:
    assert check_gradient(OPERATORS[name]) > 0


# -- types and edges ------------------------------------------------------------------------------------
def _input(kind: dtype, *shape: int) -> Any:
    return graph_input(f"r{len(shape)}", Aval(shape, kind))


I32, I64, F32, F64, BF16, BOOL, U8 = (
    dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.bool_, dtypes.uint8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "kwargs", "expected"),
    [
        ("sum", I32, {}, I64), ("sum", BOOL, {}, I64), ("sum", I32, {"dtype": I32}, I32), ("sum", BF16, {}, BF16),
        ("sum", BF16, {"dtype": F32}, F32), ("prod", U8, {}, I64), ("mean", I64, {"dtype": F64}, F64), ("mean", BF16, {}, BF16),
        ("cumsum", I32, {"dim": 0}, I64), ("all", U8, {}, U8), ("any", F32, {}, BOOL), ("amax", BOOL, {}, BOOL), ("amax", BF16, {}, BF16),
        ("argmax", BF16, {}, I64), ("logsumexp", I64, {"dim": 0}, F32), ("var", BF16, {}, BF16), ("vector_norm", F32, {"dtype": F64}, F64),
        ("count_nonzero", F32, {}, I64),
    ],
)  # fmt: skip
def test_result_type(name: str, kind: dtype, kwargs: Any, expected: dtype) -> None:
    assert OPERATORS[name](_input(kind, 4, 3), **kwargs).dtype is expected


def test_values_and_indices_are_named() -> None:
    found = ops.max(_input(F32, 4, 3), 1)
    assert (found.values.dtype, found.indices.dtype, found.values.shape) == (F32, I64, (4,))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edges() -> None:
    def run(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
        found = trace(OPERATORS[name], ((x, *args), kwargs)).run()
        return found[0] if len(found) == 1 else found

    inf, nan = math.inf, math.nan
    np.testing.assert_array_equal(run("logsumexp", np.array([[-inf, -inf], [inf, 0.0]]), 1), [-inf, inf])
    np.testing.assert_array_equal(run("median", np.array([[3.0, nan, 1.0], [3.0, 2.0, 1.0]]), 1), [[nan, 2.0], [1, 1]])
    np.testing.assert_array_equal(run("max", np.array([1.0, nan, 3.0]), 0), [nan, 1])
    np.testing.assert_array_equal(run("cummax", np.array([1.0, 1.0, nan, 5.0]), 0), [[1, 1, nan, nan], [0, 1, 2, 2]])
    np.testing.assert_array_equal(run("sum", np.zeros((0, 3)), 0), [0, 0, 0])
    np.testing.assert_array_equal(run("mean", np.zeros((0, 3)), 0), [nan, nan, nan])
    np.testing.assert_array_equal(run("var", np.array([2.0])), nan)
    np.testing.assert_array_equal(run("all", np.zeros((0,))), True)


def test_variance_does_not_cancel() -> None:
    x = 1e8 + np.random.default_rng(5).normal(size=1000)
    (result,) = trace(OPERATORS["var"], ((x,), {})).run()
    np.testing.assert_allclose(result, np.var(x, ddof=1), rtol=1e-9)


def _slope(name: str, x: Any, *args: Any) -> Any:
    from flambeau.derivative.differentiate import gradients

    node = graph_input("xs", Aval(x.shape, F64))
    out = OPERATORS[name](node, *args)
    out = out[0] if isinstance(out, tuple) else out
    g = graph_input("gs", out.aval)
    (slope,) = gradients([out], [g], [node])
    assert slope is not None
    return run_reference(Graph((node, g), (slope,)), [x, np.ones(out.shape)])[0]


def test_slopes_where_the_root_is_zero() -> None:
    np.testing.assert_array_equal(_slope("vector_norm", np.zeros(3)), [0, 0, 0])
    np.testing.assert_array_equal(_slope("std", np.ones(3)), [0, 0, 0])
    np.testing.assert_array_equal(_slope("max", np.array([1.0, 2.0, 2.0]), 0), [0, 1, 0])
    np.testing.assert_array_equal(_slope("max", np.array([1.0, 2.0, 2.0])), [0, 0.5, 0.5])
    np.testing.assert_array_equal(_slope("amax", np.array([1.0, 2.0, 2.0])), [0, 0.5, 0.5])
    np.testing.assert_array_equal(_slope("cummax", np.array([1.0, 1.0, 0.0]), 0), [1, 2, 0])
    np.testing.assert_array_equal(_slope("prod", np.array([0.0, 2.0, 3.0])), [6, 0, 0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.sum(_input(F32, 2, 3), 2), IndexError, "sum: Dimension out of range"),
        (lambda: ops.sum(_input(F32, 2, 3), (0, 0)), RuntimeError, "sum: dim 0 appears multiple times"),
        (lambda: ops.mean(_input(I64, 3)), RuntimeError, "mean: could not infer output dtype"),
        (lambda: ops.var(_input(I64, 3)), RuntimeError, "var: only supports floating point"),
        (lambda: ops.max(_input(F32, 0)), RuntimeError, "max: expected reduction dim to be specified"),
        (lambda: ops.amax(_input(F32, 2, 0), 1), IndexError, "amax: expected reduction dim 1 to have non-zero size"),
        (lambda: ops.vector_norm(_input(I64, 3)), RuntimeError, "vector_norm: expected a floating point"),
    ],
)
def test_errors_name_the_operator(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
