"""Pointwise and comparison operators against numpy, and their derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.ir.graph import graph_input
from tests.ops.operator_cases import check_against, check_gradient, operators_of, trace

OPERATORS = {o.name: o for module in ("pointwise", "comparison") for o in operators_of(module)}


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda x: np.vectorize(function, otypes=[np.float64])(x)


def _digamma(x: float) -> float:
    """Recurrence to x >= 50 and three terms of the asymptotic series."""
    total = 0.0
    while x < 50:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def _divided(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return np.true_divide(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    quotient = np.trunc(np.true_divide(x, y))
    return quotient.astype(np.result_type(x, y))


def _clamped(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, -np.inf if min is None else min, np.inf if max is None else max).astype(x.dtype)


def _power(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind == "i" and np.asarray(y).dtype.kind == "i":
        return np.trunc(np.power(x.astype(float), y)).astype(np.int64)
    return np.power(x, y)


def _shifted(x: Any, count: Any, left: bool) -> Any:
    count = np.broadcast_to(count, np.broadcast_shapes(np.shape(x), np.shape(count)))
    x = np.broadcast_to(x, count.shape)
    out = [(a << n if left else a >> n) if 0 <= n < 64 else (0 if left or a >= 0 else -1) for a, n in zip(x.flat, count.flat, strict=True)]
    return np.array([(v + 2**63) % 2**64 - 2**63 for v in map(int, out)]).reshape(count.shape)


def _finite(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


ORACLES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, alpha=1: x + alpha * y, "sub": lambda x, y, alpha=1: x - alpha * y, "mul": np.multiply,
    "true_divide": np.true_divide, "div": _divided, "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "positive": np.positive, "reciprocal": lambda x: 1 / x, "square": np.square,
    "pow": _power, "pow_static": lambda x, e: x**e, "float_power": lambda x, e: np.power(np.asarray(x, float), e),
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "frac": lambda x: np.modf(x)[0],
    "round": lambda x, decimals=0: np.round(x, decimals),
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _each(math.erf), "erfc": _each(math.erfc), "lgamma": _each(math.lgamma), "digamma": _each(_digamma),
    "erfinv": _each(lambda y: NormalDist().inv_cdf((y + 1) / 2) / math.sqrt(2)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "logit": lambda x, eps=None: np.log(x / (1 - x)),
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "sinc": np.sinc,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "xlogy": lambda x, y: x * np.log(y), "heaviside": np.heaviside,
    "ldexp": lambda x, y: x * 2.0**y, "nextafter": np.nextafter,
    "lerp": lambda x, end, w: x + w * (end - x), "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, value=1: x + value * a / b, "clamp": _clamped, "where": np.where,
    "masked_fill": lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x), "nan_to_num": _finite,
    "to_dtype": lambda x, dtype: x.astype(dtype.numpy),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "isposinf": lambda x: x == np.inf, "isneginf": lambda x: x == -np.inf,
    "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0), "isclose": np.isclose,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.bitwise_not,
    "bitwise_left_shift": lambda x, n: _shifted(x, n, True), "bitwise_right_shift": lambda x, n: _shifted(x, n, False),
}  # fmt: skip
# Their samples lie on jumps or are infinite, where differences say nothing.
AT_JUMPS = {"round", "nan_to_num", "to_dtype"}
# Rounding the operands to float32 first moves these across a jump.
JUMPS = {"eq", "ne", "lt", "le", "gt", "ge", "isclose", "nextafter", "to_dtype", "nan_to_num"}


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    if name not in JUMPS:
        check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - AT_JUMPS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradient(name: str) -> None:
    if any(o.dtype.is_floating_point for call in _first_calls(name) for o in trace(OPERATORS[name], call).graph.outputs):
        assert check_gradient(OPERATORS[name]) > 0


def _first_calls(name: str) -> Any:
    from tests.ops.operator_cases import samples_of

    return samples_of(OPERATORS[name])[:1]


# -- types ----------------------------------------------------------------------------------------------
def _input(kind: dtype, *shape: int, weak: bool = False) -> Any:
    return graph_input(f"t{len(shape)}{kind.short}{weak}", Aval(shape, kind, weak))


F32, F64, BF16, I64, U8, BOOL = dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool_


@pytest.mark.parametrize(
    ("name", "kinds", "expected"),
    [
        ("add", (BOOL, BOOL), BOOL), ("add", (U8, I64), I64), ("add", (I64, BF16), BF16), ("mul", (BF16, dtypes.float16), F32),
        ("div", (I64, I64), F32), ("true_divide", (BOOL, BOOL), F32), ("floor_divide", (I64, F32), F32), ("pow", (I64, F64), F64),
        ("exp", (I64,), F32), ("exp", (BF16,), BF16), ("abs", (U8,), U8), ("square", (BOOL,), I64), ("float_power", (I64, I64), F64),
        ("floor", (I64,), I64), ("atan2", (I64, I64), F32), ("eq", (I64, F32), BOOL), ("logical_and", (I64, F32), BOOL),
        ("maximum", (U8, I64), I64), ("sign", (BOOL,), BOOL), ("masked_fill", (BF16, BOOL, F32), BF16), ("where", (BOOL, I64, F32), F32),
        ("bitwise_and", (BOOL, U8), U8), ("nan_to_num", (BF16,), BF16),
    ],
)  # fmt: skip
def test_result_type(name: str, kinds: tuple[dtype, ...], expected: dtype) -> None:
    assert OPERATORS[name](*[_input(k, 3) for k in kinds]).dtype is expected


def test_numbers_decide_by_category_only() -> None:
    assert ops.add(_input(BF16, 3), 1.5).dtype is BF16
    assert ops.add(_input(I64, 3), 1.5).dtype is F32
    assert ops.add(_input(U8, 3), 300).dtype is U8
    assert ops.add(_input(F32, 3), _input(F64)).dtype is F32
    assert ops.add(_input(BOOL, 3), 1).dtype is I64
    assert ops.pow_static(_input(I64, 3), 2.0).dtype is F32


def test_sixteen_bits_compute_in_float32_and_round_once() -> None:
    from flambeau.interp.reference import run_reference
    from flambeau.ir.graph import Graph

    x = np.random.default_rng(3).uniform(-3, 3, 50).astype(ml_dtypes.bfloat16)
    node = _input(BF16, 50)
    (result,) = run_reference(Graph((node,), (ops.sigmoid(node),)), [x])
    expected = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(ml_dtypes.bfloat16)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.astype(float), expected.astype(float))


# -- edges ----------------------------------------------------------------------------------------------
def _run(name: str, *args: Any, **kwargs: Any) -> Any:
    (result,) = trace(OPERATORS[name], (args, kwargs)).run()
    return result


def _at(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edges() -> None:
    inf, nan = math.inf, math.nan
    np.testing.assert_array_equal(_run("floor_divide", _at(1, -1, 0, inf), _at(0, 0, 0, 2)), [inf, -inf, nan, nan])
    np.testing.assert_array_equal(_run("floor_divide", _at(0.3, -0.0), _at(0.1, 1.0)), [2.0, -0.0])
    np.testing.assert_allclose(_run("hypot", _at(3e200, inf, 0), _at(4e200, nan, 0)), [5e200, inf, 0], rtol=1e-15)
    np.testing.assert_array_equal(_run("logaddexp", _at(inf, -inf, -inf), _at(inf, -inf, 1)), [inf, -inf, 1])
    np.testing.assert_array_equal(_run("xlogy", _at(0, 0), _at(0, nan)), [0, nan])
    np.testing.assert_array_equal(_run("clamp", _at(nan, 5), 0, 1), [nan, 1])
    np.testing.assert_array_equal(_run("clamp", _at(5), 3, 1), [1])
    np.testing.assert_array_equal(_run("sinc", _at(0, 1e-300)), [1, 1])
    np.testing.assert_array_equal(_run("heaviside", _at(0, nan, 2), _at(0.5, 0.5, 0.5)), [0.5, 0, 1])
    np.testing.assert_allclose(_run("sigmoid", _at(-800, 800, -40)), [0, 1, math.exp(-40)], rtol=1e-14)
    np.testing.assert_array_equal(_run("div", np.array([7, 7]), np.array([3, 2]), rounding_mode="trunc"), [2, 3])
    for name in ("floor_divide", "remainder", "fmod"):
        with pytest.raises(IndexError):  # eager and compiled code makes torch's error of it
            _run(name, np.array([7, 7]), np.array([0, 2]))


@pytest.mark.parametrize(
    ("name", "kinds", "kwargs", "error", "message"),
    [
        ("sub", (BOOL, BOOL), {}, RuntimeError, "bool"), ("neg", (BOOL,), {}, RuntimeError, "bool"),
        ("positive", (BOOL,), {}, RuntimeError, "bool"), ("abs", (BOOL,), {}, NotImplementedError, "bool"),
        ("add", (I64, I64), {"alpha": 1.5}, RuntimeError, "alpha"), ("div", (F32, F32), {"rounding_mode": "up"}, RuntimeError, "'up'"),
        ("pow", (BOOL, BOOL), {}, NotImplementedError, "bool"), ("pow_static", (I64,), {"exponent": -1}, RuntimeError, "negative"),
        ("clamp", (F32,), {}, RuntimeError, "at least one"), ("frac", (I64,), {}, NotImplementedError, "int64"),
        ("round", (I64,), {"decimals": 1}, NotImplementedError, "int64"), ("addcdiv", (I64, I64, I64), {}, RuntimeError, "integer"),
        ("where", (I64, F32, F32), {}, RuntimeError, "condition"), ("masked_fill", (F32, I64, F32), {}, RuntimeError, "mask"),
        ("bitwise_and", (F32, F32), {}, NotImplementedError, "float32"),
        ("bitwise_left_shift", (BOOL, BOOL), {}, NotImplementedError, "bool"),
    ],
)  # fmt: skip
def test_errors_name_the_operator(name: str, kinds: tuple[dtype, ...], kwargs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        OPERATORS[name](*[_input(k, 3) for k in kinds], **kwargs)
    assert str(raised.value).startswith(name.removesuffix("_static") + ":")


def test_operands_that_do_not_broadcast() -> None:
    with pytest.raises(RuntimeError, match=r"add: .*\(3\) must match .*\(4\)"):
        ops.add(_input(F32, 3), _input(F64, 4))
