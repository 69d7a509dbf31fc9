"""Special functions against their integrals and sums, and derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core import dtypes
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of

# An even rule converges exponentially on periods and on integrands that vanish at both ends.
ANGLES = (np.arange(4000) + 0.5) * math.pi / 4000
LINE = np.linspace(0, 12, 40001)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


def _on_line(values: Any) -> float:
    return float((values[:-1] + values[1:]).sum() / 2 * LINE[1])


def _i(order: int) -> Callable[[float], float]:
    return lambda x: float(np.mean(np.exp(x * np.cos(ANGLES)) * np.cos(order * ANGLES)))


def _j(order: int) -> Callable[[float], float]:
    return lambda x: float(np.mean(np.cos(order * ANGLES - x * np.sin(ANGLES))))


def _k(order: int, scaled: bool) -> Callable[[float], float]:
    return lambda x: _on_line(np.exp(x * (scaled - np.cosh(LINE))) * np.cosh(order * LINE))


def _y(order: int) -> Callable[[float], float]:
    def value(x: float) -> float:
        t, u = (NODES + 1) * math.pi / 2, (NODES + 1) * 4
        wave = np.sin(x * np.sin(t) - order * t) @ WEIGHTS / 2
        falling = np.exp(-x * np.sinh(u)) * (np.exp(order * u) + (-1) ** order * np.exp(-order * u))
        return float(wave - falling @ WEIGHTS * 4 / math.pi)

    return value


def _airy(x: float) -> float:
    """The integral of cos(t ** 3 / 3 + x t) / pi, along the ray where its terms fall fastest."""
    u = (NODES + 1) * 4
    ray = np.exp(1j * math.pi / 6)
    return float((ray * (np.exp(-(u**3) / 3 + 1j * x * u * ray) @ WEIGHTS)).real * 4 / math.pi)


def _erfcx(x: float) -> float:
    return math.exp(x * x) * math.erfc(x)


def _zeta(x: float, q: float) -> float:
    """A long sum, and the integral over the rest with half of its first term."""
    terms = (q + np.arange(20000)) ** -x
    rest = q + 20000
    return float(terms.sum()) + rest ** (1 - x) / (x - 1) + rest**-x / 2 + x * rest ** (-x - 1) / 12


def _polygamma(n: int, x: float) -> float:
    if n == 0:
        shifted = x + 50
        series = math.log(shifted) - 1 / (2 * shifted) - 1 / (12 * shifted**2) + 1 / (120 * shifted**4)
        return series - sum(1 / (x + k) for k in range(50))
    return (-1) ** (n + 1) * math.factorial(n) * _zeta(n + 1.0, x)


def _mvlgamma(x: float, p: int) -> float:
    return p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(x - j / 2) for j in range(p))


ORACLES: dict[str, Callable[..., Any]] = {
    "ndtr": _each(NormalDist().cdf), "ndtri": _each(NormalDist().inv_cdf), "erfcx": _each(_erfcx),
    "log_ndtr": _each(lambda x: math.log(0.5 * math.erfc(-x / math.sqrt(2)))), "entr": lambda x: -x * np.log(x),
    "xlog1py": lambda x, y: x * np.log1p(y), "zeta": _each(_zeta), "polygamma": _each(_polygamma), "mvlgamma": _each(_mvlgamma),
    "i0": _each(_i(0)), "i1": _each(_i(1)), "i0e": _each(lambda x: math.exp(-abs(x)) * _i(0)(x)),
    "i1e": _each(lambda x: math.exp(-abs(x)) * _i(1)(x)), "bessel_j0": _each(_j(0)), "bessel_j1": _each(_j(1)),
    "bessel_y0": _each(_y(0)), "bessel_y1": _each(_y(1)), "spherical_bessel_j0": lambda x: np.sin(x) / x,
    "airy_ai": _each(_airy), "modified_bessel_k0": _each(_k(0, False)), "modified_bessel_k1": _each(_k(1, False)),
    "scaled_modified_bessel_k0": _each(_k(0, True)), "scaled_modified_bessel_k1": _each(_k(1, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_integrals(name: str) -> None:
    check_against(ALL[name], ORACLES[name])
    check_against(ALL[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"zeta", "airy_ai"}))
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("special")} == set(ORACLES)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda s: s.ndtri(torch.tensor([0.0, 1.0, -0.5, 2.0])), [-math.inf, math.inf, math.nan, math.nan]),
        (lambda s: s.log_ndtr(torch.tensor([-40.0], dtype=torch.float64)), [-804.608442013754]),
        (lambda s: s.erfcx(torch.tensor([1e10, -30.0])), [5.641896e-11, math.inf]),
        (lambda s: s.entr(torch.tensor([-1.0, 0.0])), [-math.inf, 0.0]),
        (lambda s: s.zeta(torch.tensor([1.0, 0.5, 2.0, 2.5]), torch.tensor([2.0, 2.0, -3.0, -0.5])), [math.inf, math.nan] * 2),
        (lambda s: s.zeta(torch.tensor([3.0, 2.0, 4.0, 2.0]), torch.tensor([-50.25, -1000.5, -3.5, -11.0])),
         [-62.01235924708932, 9.868605400173442, 32.46464325991041, math.inf]),
        (lambda s: s.polygamma(2, torch.tensor([-10.5, -20.25], dtype=torch.float64)), [-0.008247469050651749, 124.02278552474382]),
        (lambda s: s.modified_bessel_k1(torch.tensor([0.0, -1.0])), [math.inf, math.nan]),
        (lambda s: s.bessel_y0(torch.tensor([0.0, -1.0])), [-math.inf, math.nan]),
        (lambda s: s.xlog1py(torch.tensor([0.0, 0.0]), torch.tensor([-3.0, math.nan])), [0.0, math.nan]),
    ],
)
def test_edges(call: Callable[[Any], Any], expected: list[float]) -> None:
    np.testing.assert_allclose(call(torch.special).numpy(), np.array(expected), rtol=1e-6)


# Degree 3 of each family, as its coefficients from the constant on.
CUBICS = {
    "chebyshev_polynomial_t": (0, -3, 0, 4), "chebyshev_polynomial_u": (0, -4, 0, 8), "chebyshev_polynomial_v": (1, -4, -4, 8),
    "chebyshev_polynomial_w": (-1, -4, 4, 8), "shifted_chebyshev_polynomial_t": (-1, 18, -48, 32),
    "shifted_chebyshev_polynomial_u": (-4, 40, -96, 64), "shifted_chebyshev_polynomial_v": (-7, 56, -112, 64),
    "shifted_chebyshev_polynomial_w": (-1, 24, -80, 64), "hermite_polynomial_h": (0, -12, 0, 8), "hermite_polynomial_he": (0, -3, 0, 1),
    "laguerre_polynomial_l": (1, -3, 1.5, -1 / 6), "legendre_polynomial_p": (0, -1.5, 0, 2.5),
}  # fmt: skip


@pytest.mark.parametrize("name", CUBICS)
def test_polynomials(name: str) -> None:
    x = np.random.default_rng().uniform(-1.5, 1.5, 9)
    function, wanted = getattr(torch.special, name), np.polynomial.polynomial.polyval(x, CUBICS[name])
    np.testing.assert_allclose(function(torch.tensor(x), 3).numpy(), wanted, atol=1e-12)
    degrees = np.array([3, 0, -1, 3.7, 0, -1, 3, 3, 0])
    mixed = np.where(degrees >= 3, wanted, np.where(degrees == 0, 1.0, 0.0))
    np.testing.assert_allclose(function(torch.tensor(x), torch.tensor(degrees)).numpy(), mixed, atol=1e-12)
    with pytest.raises(TypeError, match="needs a tensor"):
        function(0.5, 3)
