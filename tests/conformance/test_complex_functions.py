"""Elementary functions of complex numbers: PyTorch's values where zeros, infinities and NaN meet, and its gradients elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import flambeau

FUNCTIONS = "exp expm1 sinh cosh tanh acos acosh asin asinh atanh atan sin cos tan".split()
PARTS = (0.0, -0.0, 1.5, -1.5, 30.0, -1e30, math.inf, -math.inf, math.nan)
POINTS = np.array([complex(a, b) for a in PARTS for b in PARTS])
RNG = np.random.default_rng()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str) -> None:
    points = POINTS
    if name == "expm1":  # PyTorch takes exp(z) - 1 there, and loses what the annex keeps
        points = points[np.isfinite(points)]
    ours, theirs = (getattr(library, name)(library.tensor(points)).numpy() for library in (flambeau, torch))
    for part in ("real", "imag"):  # of some zeros and infinities C99 leaves the sign open
        np.testing.assert_allclose(abs(getattr(ours, part)), abs(getattr(theirs, part)), rtol=1e-9)


@pytest.mark.parametrize(
    ("z", "wanted"),
    [(complex(math.inf, 0), "(inf+0j)"), (complex(-math.inf, math.inf), "(-1+0j)"), (complex(math.inf, math.inf), "(inf+nanj)"),
     (complex(-math.inf, math.nan), "(-1+0j)"), (complex(math.nan, 0), "(nan+0j)")],
)  # fmt: skip
def test_expm1_of_infinities(z: complex, wanted: str) -> None:
    assert str(flambeau.expm1(flambeau.tensor(z)).item()) == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str) -> None:
    z = RNG.normal(size=200) + 1j * RNG.normal(size=200)
    z[:20] = z[:20].real
    z[20:40] = 1j * z[20:40].imag
    weights, found = RNG.normal(size=200), []
    for library in (flambeau, torch):
        x = library.tensor(z, requires_grad=True)
        out = getattr(library, name)(x)
        (out.abs().square() * library.tensor(weights)).sum().backward()
        found.append((out.detach().numpy(), x.grad.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
