"""Accuracy of the generated float functions, in units in the last place of a longer reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from tests.unit.cpu_kernel_runner import FEATURES, run_pointwise

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 2.0, -2.0, 1e-45, -1e-45, 1e-40, -1e-40,
    1.1754943508222875e-38, 3.4e38, -3.4e38, 88.72, 88.73, 89.5, -87.4, -100.0, -103.9, -104.1, -200.0, 1e4, 1.5e4, 1e30,
]  # fmt: skip
SPECIAL_DOUBLE = [5e-324, -5e-324, 1e-310, -1e-310, -745.1, -745.2, -740.0, 709.7, 709.79, -708.5, 1e300, -1e300, 1e6, 2e6]


def scalar(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of Python floats over an array; NaN where it has no answer."""

    def one(value: float) -> float:
        try:
            return function(float(value))
        except ValueError:
            return math.nan

    return lambda x: np.array([one(value) for value in x])


class Case(NamedTuple):
    """A reference, the ranges to sample, and the bounds for float32 and float64."""

    reference: Callable[[np.ndarray], np.ndarray]
    ranges: tuple[tuple[float, float], ...]
    single: float
    double: float


# The bounds of erf and erfc in double hold the error of Python's own functions too.
CASES = {
    "exp": Case(np.exp, ((-104, 89), (-740, 709), (-1, 1)), 1.1, 1.1),
    "exp2": Case(np.exp2, ((-150, 128), (-1070, 1023), (-1, 1)), 1.1, 1.1),
    "expm1": Case(np.expm1, ((-20, 89), (-1, 1), (-1e-3, 1e-3)), 2, 2),
    "log": Case(np.log, ((0, 4), (0.9, 1.1), (0, 1e5)), 1.1, 1.1),
    "log2": Case(np.log2, ((0, 4), (0.9, 1.1), (0, 1e5)), 1.5, 1.5),
    "log10": Case(np.log10, ((0, 4), (0.9, 1.1), (0, 1e5)), 1.5, 1.5),
    "log1p": Case(np.log1p, ((-1, 4), (-0.1, 0.1), (-1e-4, 1e-4)), 1.6, 1.6),
    "sinh": Case(np.sinh, ((-90, 90), (-2, 2), (-711, 711)), 2, 2),
    "cosh": Case(np.cosh, ((-90, 90), (-2, 2), (-711, 711)), 2, 2),
    "tanh": Case(np.tanh, ((-10, 10), (-1, 1), (-25, 25)), 1.5, 1.5),
    "asinh": Case(np.arcsinh, ((-100, 100), (-1, 1)), 2.5, 2.5),
    "acosh": Case(np.arccosh, ((1, 4), (1, 100)), 2.5, 2.5),
    "atanh": Case(np.arctanh, ((-1, 1), (0.9, 1)), 2.5, 2.5),
    "sin": Case(np.sin, ((-4, 4), (-1e4, 1e4), (-9e5, 9e5)), 2, 2),
    "cos": Case(np.cos, ((-4, 4), (-1e4, 1e4), (-9e5, 9e5)), 2, 2),
    "tan": Case(np.tan, ((-4, 4), (-1e4, 1e4), (-9e5, 9e5)), 3, 3),
    "asin": Case(np.arcsin, ((-1, 1), (0.9, 1)), 3, 3),
    "acos": Case(np.arccos, ((-1, 1), (0.9, 1)), 2, 2),
    "atan": Case(np.arctan, ((-1, 1), (-10, 10)), 2.5, 2.5),
    "erf": Case(scalar(math.erf), ((-4, 4), (-1.2, 1.2), (-6, 6)), 1.5, 2.5),
    "erfc": Case(scalar(math.erfc), ((-1, 10.1), (-0.6, 1), (0, 26)), 4, 5),
    "sqrt": Case(np.sqrt, ((0, 100),), 0.5, 0.501),
    "rsqrt": Case(lambda x: 1 / np.sqrt(x), ((0, 100),), 1.5, 1.5),
}
DTYPES = [np.float32, np.float64]


def samples(dtype: type, ranges: tuple[tuple[float, float], ...], count: int = 4000) -> np.ndarray:
    """Random bit patterns, uniform values in each range, and special values."""
    random = np.random.default_rng()
    bits = random.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), count, dtype=f"u{np.dtype(dtype).itemsize}")
    parts = [bits.view(dtype), np.array(SPECIAL, dtype)]
    parts += [random.uniform(low, high, count).astype(dtype) for low, high in ranges]
    if dtype is np.float64:
        parts.append(np.array(SPECIAL_DOUBLE))
    return np.concatenate(parts)


def ulp_error(got: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """|got - reference| in units in the last place of the reference; infinite where only one is NaN or infinite."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        reference = reference.astype(np.longdouble)
        limit = np.longdouble(2.0) ** int(info.maxexp)
        overflows = np.abs(reference) >= limit * (1 - np.longdouble(2.0) ** -(info.nmant + 2))
        reference = np.where(overflows, np.copysign(np.inf, reference), reference)
        exponent = np.frexp(np.where(np.isfinite(reference), reference, 1))[1] - (info.nmant + 1)
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent, info.minexp - info.nmant))
        error = np.abs(got.astype(np.longdouble) - reference) / unit
        same = (got == reference) | (np.isnan(got) & np.isnan(reference))
        return np.where(same, 0, np.where(np.isfinite(error), error, np.inf))


def longer(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)


def assert_close(name: str, x: np.ndarray, got: np.ndarray, reference: np.ndarray, bound: float) -> None:
    error = ulp_error(got, reference)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}, want {reference[worst]!r}: {error[worst]} ulp"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_error_is_within_bound(name: str, dtype: type) -> None:
    case = CASES[name]
    x = samples(dtype, case.ranges)
    with np.errstate(all="ignore"):
        reference = case.reference(longer(x))
    assert_close(name, x, run_pointwise(name, x), reference, case.single if dtype is np.float32 else case.double)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos"])
def test_error_stays_small_without_fma_and_avx512(name: str) -> None:
    case = CASES[name]
    x = samples(np.float32, case.ranges)
    with np.errstate(all="ignore"):
        reference = case.reference(longer(x))
    assert_close(name, x, run_pointwise(name, x, features=frozenset()), reference, 2 * case.single)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "exp2", "sinh", "erfc"])
def test_scaling_without_avx512_gives_the_same_bits(name: str, dtype: type) -> None:
    x = samples(dtype, CASES[name].ranges)
    expected = run_pointwise(name, x)
    np.testing.assert_array_equal(run_pointwise(name, x, features=FEATURES & {"fma"}), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "erfinv"]
)
def test_odd_functions_keep_the_sign_of_zero_and_tiny_values(name: str, dtype: type) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny], dtype)
    got = run_pointwise(name, x)
    np.testing.assert_array_equal(np.signbit(got), [False, True, False, True])
    np.testing.assert_array_equal(got[:2], [0, 0])
    assert np.all(np.abs(got[2:]) <= 1.5 * tiny) and np.all(got[2:] != 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sine_near_multiples_of_half_pi(dtype: type) -> None:
    turns = np.arange(1, 6400)
    nearest = (turns * (np.pi / 2)).astype(dtype)
    x = np.concatenate([nearest, np.nextafter(nearest, dtype(0)), np.nextafter(nearest, dtype(1e9))])
    for name, reference in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        # np.sin of a double near a multiple of pi needs more of pi than a long double reduction holds
        if dtype is np.float32:
            assert_close(name, x, run_pointwise(name, x), reference(x.astype(np.longdouble)), 3)
        else:
            assert_close(name, x, run_pointwise(name, x), scalar(getattr(math, name))(x), 3.5)


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng()
    special = np.array([*SPECIAL, 3.0, -3.0, 2.5, -2.5, 1e9, 16777217.0, -8388607.0, 1 / 3], dtype)
    bits = random.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), (2, 4000), dtype=f"u{np.dtype(dtype).itemsize}")
    spread = np.exp(random.normal(size=(2, 8000)) * 3) * np.sign(random.normal(size=(2, 8000)))
    first = [np.repeat(special, len(special)), bits[0].view(dtype), spread[0].astype(dtype)]
    second = [np.tile(special, len(special)), bits[1].view(dtype), spread[1].astype(dtype)]
    return np.concatenate(first), np.concatenate(second)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_functions_of_two_operands(name: str, dtype: type) -> None:
    x, y = pairs(dtype)
    function = np.power if name == "pow" else np.arctan2
    got = run_pointwise(name, x, y)
    with np.errstate(all="ignore"):
        reference = function(x.astype(np.longdouble), y.astype(np.longdouble))
    assert_close(name, x, got, reference, 1.0 if name == "pow" else 3.0)
    defined = ~np.isnan(reference)
    np.testing.assert_array_equal(np.signbit(got)[defined], np.signbit(reference)[defined])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rem", np.fmod), ("nextafter", np.nextafter), ("copysign", np.copysign), ("maximum", np.maximum),
        ("minimum", np.minimum), ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide),
    ],
)  # fmt: skip
def test_exact_functions_of_two_operands(name: str, function: Callable[..., np.ndarray], dtype: type) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run_pointwise(name, x, y), function(x, y))


def test_remainder_of_a_zero_keeps_its_sign() -> None:
    x = np.array([-6.0, 6.0, -0.0], np.float32)
    np.testing.assert_array_equal(np.signbit(run_pointwise("rem", x, np.full(3, 3, np.float32))), [True, False, True])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_functions_of_one_operand(dtype: type) -> None:
    x = samples(dtype, ((-5, 5),))
    halves = (np.random.default_rng().integers(-1000, 1000, 500) / 2).astype(dtype)
    x = np.concatenate([x, halves])
    functions = {"neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}
    with np.errstate(invalid="ignore"):
        for name, function in functions.items():
            np.testing.assert_array_equal(run_pointwise(name, x), function(x), err_msg=name)
    np.testing.assert_array_equal(run_pointwise("sign", x), np.where(np.isnan(x), 0, np.sign(x)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_fma_rounds_once(dtype: type) -> None:
    if "fma" not in FEATURES:
        pytest.skip("the machine has no fused multiply-add")
    a = np.array([1 + np.finfo(dtype).eps], dtype)
    exact = 2 * float(np.finfo(dtype).eps) + float(np.finfo(dtype).eps) ** 2
    np.testing.assert_array_equal(run_pointwise("fma", a, a, np.array([-1], dtype)), np.array([exact], dtype))


def erfinv_reference(x: np.ndarray) -> np.ndarray:
    """Bisection on erfc, whose relative error is small also in the tail."""
    a = np.abs(x.astype(np.longdouble))
    low, high = np.zeros(len(x)), np.full(len(x), 6.0)
    complement, erf, erfc = (1 - a).astype(np.float64), scalar(math.erf), scalar(math.erfc)
    for _ in range(80):
        middle = (low + high) / 2
        below = np.where(a < 0.5, erf(middle) < a, erfc(middle) > complement)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.copysign((low + high) / 2, x)


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 4), (np.float64, 8)])
def test_erfinv(dtype: type, bound: float) -> None:
    random = np.random.default_rng()
    x = np.concatenate([random.uniform(-1, 1, 400), 1 - 10 ** random.uniform(-7, -1, 200)]).astype(dtype)
    x = x[np.abs(x) < 1]
    assert_close("erfinv", x, run_pointwise("erfinv", x), erfinv_reference(x), bound)
    edges = np.array([1.0, -1.0, 1.5, math.nan], dtype)
    np.testing.assert_array_equal(run_pointwise("erfinv", edges), np.array([math.inf, -math.inf, math.nan, math.nan], dtype))


def digamma_reference(x: float) -> float:
    """Reflection, then upward recurrence to 40, where three terms of the series are enough."""
    if x < 0:
        return math.nan if x == math.floor(x) else digamma_reference(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    total = []
    while x < 40:
        total.append(-1 / x)
        x += 1
    square = 1 / (x * x)
    return math.fsum([math.log(x), -0.5 / x, -square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240))), *total])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-7), (np.float64, 3e-14)])
def test_gamma_functions(dtype: type, tolerance: float) -> None:
    random = np.random.default_rng()
    x = np.concatenate([random.uniform(0.01, 3, 300), random.uniform(-20, 20, 300), random.uniform(1, 1e6, 100)]).astype(dtype)
    x = x[np.abs(x - np.round(x)) > 1e-3]
    for name, reference in (("digamma", digamma_reference), ("lgamma", math.lgamma)):
        expected = scalar(reference)(x.astype(np.float64))
        np.testing.assert_allclose(run_pointwise(name, x), expected, rtol=tolerance, atol=tolerance, err_msg=name)
    edges = np.array([0.0, -0.0, -1.0, math.inf, -math.inf], dtype)
    np.testing.assert_array_equal(
        run_pointwise("digamma", edges), np.array([-math.inf, math.inf, math.nan, math.inf, math.nan], dtype)
    )
    np.testing.assert_array_equal(run_pointwise("lgamma", edges), np.full(5, math.inf, dtype))
