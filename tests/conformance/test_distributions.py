"""Distributions against PyTorch's: parameters, moments, log probabilities with gradients, samples for a seed, divergences, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

NUMBERS = np.random.default_rng(7)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return NUMBERS.uniform(low, high, shape)


def positive(*shape: int) -> Any:
    return numbers(*shape, low=0.3, high=3.0)


def simplex(*shape: int) -> Any:
    weights = positive(*shape)
    return weights / weights.sum(-1, keepdims=True)


def matrix(n: int, *batch: int) -> Any:
    half = numbers(*batch, n, n)
    return half @ np.swapaxes(half, -1, -2) + n * np.eye(n)


# By name the arguments of each distribution; arrays become float64 tensors.
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "Bernoulli": [{"probs": simplex(3, 2)[..., 0]}, {"logits": numbers(3)}],
    "Beta": [{"concentration1": positive(3), "concentration0": positive(2, 3)}],
    "Binomial": [{"total_count": 12, "probs": simplex(3, 2)[..., 0]}, {"total_count": np.array([3.0, 40.0]), "logits": numbers(2)}],
    "Categorical": [{"probs": positive(2, 4)}, {"logits": numbers(5)}],
    "Cauchy": [{"loc": numbers(3), "scale": positive(2, 1)}],
    "Chi2": [{"df": positive(3)}],
    "ContinuousBernoulli": [{"probs": np.array([0.1, 0.4999, 0.9])}, {"logits": numbers(3)}],
    "Dirichlet": [{"concentration": positive(2, 4)}, {"concentration": positive(3) * 0.3}],
    "Exponential": [{"rate": positive(3)}],
    "FisherSnedecor": [{"df1": positive(3), "df2": positive(3) * 4}],
    "Gamma": [{"concentration": positive(3), "rate": positive(3)}],
    "GeneralizedPareto": [{"loc": numbers(3), "scale": positive(3), "concentration": np.array([-0.3, 0.0, 0.4])}],
    "Geometric": [{"probs": simplex(3, 2)[..., 0]}, {"logits": numbers(3)}],
    "Gumbel": [{"loc": numbers(3), "scale": positive(3)}],
    "HalfCauchy": [{"scale": positive(3)}],
    "HalfNormal": [{"scale": positive(3)}],
    "InverseGamma": [{"concentration": positive(3) * 2, "rate": positive(3)}],
    "Kumaraswamy": [{"concentration1": positive(3), "concentration0": positive(3)}],
    "LKJCholesky": [{"dim": 3, "concentration": positive(2)}, {"dim": 4, "concentration": positive()}],
    "Laplace": [{"loc": numbers(3), "scale": positive(3)}],
    "LogNormal": [{"loc": numbers(3), "scale": positive(3)}],
    "LogisticNormal": [{"loc": numbers(2, 3), "scale": positive(3)}],
    "LowRankMultivariateNormal": [{"loc": numbers(2, 4), "cov_factor": numbers(4, 2), "cov_diag": positive(4)}],
    "Multinomial": [{"total_count": 6, "probs": positive(2, 3)}, {"total_count": 3, "logits": numbers(4)}],
    "MultivariateNormal": [
        {"loc": numbers(2, 4), "covariance_matrix": matrix(4)}, {"loc": numbers(3), "precision_matrix": matrix(3, 2)},
        {"loc": numbers(3), "scale_tril": np.linalg.cholesky(matrix(3))},
    ],
    "NegativeBinomial": [{"total_count": positive(3) * 4, "probs": simplex(3, 2)[..., 0]}, {"total_count": 3, "logits": numbers(3)}],
    "Normal": [{"loc": numbers(3), "scale": positive(3)}, {"loc": 0.5, "scale": 2.0}],
    "OneHotCategorical": [{"probs": positive(2, 4)}, {"logits": numbers(5)}],
    "OneHotCategoricalStraightThrough": [{"probs": positive(2, 4)}],
    "Pareto": [{"scale": positive(3), "alpha": positive(3)}],
    "Poisson": [{"rate": np.array([0.5, 3.0, 30.0])}],
    "RelaxedBernoulli": [{"temperature": np.array(0.7), "logits": numbers(3)}],
    "RelaxedOneHotCategorical": [{"temperature": np.array(0.7), "probs": positive(2, 4)}],
    "StudentT": [{"df": positive(3) * 2, "loc": numbers(3), "scale": positive(3)}],
    "Uniform": [{"low": -positive(3), "high": positive(2, 3)}],
    "VonMises": [{"loc": numbers(3), "concentration": positive(3)}],
    "Weibull": [{"scale": positive(3), "concentration": positive(3)}],
    "Wishart": [{"df": np.array([4.5, 6.0]), "covariance_matrix": matrix(3)}, {"df": 5.0, "scale_tril": np.linalg.cholesky(matrix(2))}],
}  # fmt: skip
CASES = [(name, i) for name, found in ARGUMENTS.items() for i in range(len(found))]
MOMENTS = ("mean", "mode", "variance", "stddev")
# PyTorch computes Bessel functions by short polynomials, logarithms of factorials in single precision; triangles are ill-conditioned.
LOOSE_SINGLE = {"LKJCholesky": 1e-3, "Wishart": 1e-3}
LOOSE = {"GeneralizedPareto": 1e-6, "LKJCholesky": 1e-6, "Multinomial": 1e-6, "VonMises": 1e-6, "Wishart": 1e-6}


def make(
    library: Any, name: str, index: int, gradients: bool = False, kind: str = "float64", scale: float = 1.0
) -> tuple[Any, list[Any]]:
    """A distribution, and those of its parameters that are differentiated; ``scale`` makes its parameters others that are allowed."""
    arguments = {}
    # PyTorch's takes no float64.
    kind = "float32" if name == "GeneralizedPareto" else kind
    for key, value in ARGUMENTS[name][index].items():
        if isinstance(value, np.ndarray):
            value = library.tensor(value if key == "total_count" else value * scale, dtype=getattr(library, kind))
            value = value.requires_grad_(gradients and key != "total_count")
        arguments[key] = value
    found = getattr(library.distributions, name)(**arguments)
    return found, [v for v in arguments.values() if getattr(v, "requires_grad", False)]


def both(name: str, index: int, **options: Any) -> tuple[Any, Any]:
    return make(torch, name, index, **options)[0], make(flambeau, name, index, **options)[0]


def close(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype) == str(theirs.dtype)
    tolerance = max(tolerance, 3e-5) if theirs.dtype == torch.float32 else tolerance
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def same(ours: Callable[[], Any], theirs: Callable[[], Any], tolerance: float = 1e-9) -> None:
    """Both give close results, or raise exceptions of one type."""
    try:
        expected = theirs()
    except (NotImplementedError, ValueError, AttributeError) as error:
        with pytest.raises(type(error)):
            ours()
        return
    close(ours(), expected, tolerance)


def test_every_distribution_is_compared():
    public = {n for n in torch.distributions.__all__ if inspect.isclass(getattr(torch.distributions, n))}
    missing = {n for n in public if not hasattr(flambeau.distributions, n)}
    assert not missing
    kinds = {n for n in public if issubclass(getattr(torch.distributions, n), torch.distributions.Distribution)}
    assert kinds - set(ARGUMENTS) == {"Distribution", "ExponentialFamily", "Independent", "MixtureSameFamily", "TransformedDistribution"}


@pytest.mark.parametrize(("name", "index"), CASES)
def test_shapes_and_moments(name, index):
    theirs, ours = both(name, index)
    assert ours.batch_shape == tuple(theirs.batch_shape) and ours.event_shape == tuple(theirs.event_shape)
    assert (ours.has_rsample, ours.has_enumerate_support) == (theirs.has_rsample, theirs.has_enumerate_support)
    assert repr(ours.support) == repr(theirs.support)
    for moment in MOMENTS:
        if (name, moment) != ("Kumaraswamy", "mode"):  # PyTorch takes logarithms of negative numbers there
            same(lambda m=moment: getattr(ours, m), lambda m=moment: getattr(theirs, m), LOOSE.get(name, 1e-9))
    same(ours.entropy, theirs.entropy, LOOSE.get(name, 1e-9))
    same(ours.perplexity, theirs.perplexity, LOOSE.get(name, 1e-9))
    for expand in (True, False):
        same(lambda e=expand: ours.enumerate_support(e), lambda e=expand: theirs.enumerate_support(e))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("name", "index"), CASES)
def test_samples_for_a_seed(name, index, kind):
    theirs, ours = both(name, index, kind=kind)
    torch.manual_seed(11)
    flambeau.manual_seed(11)
    for shape in ((), (5,), (2, 7)):
        # The last of a row of a factor is what the others leave, which may be almost nothing.
        close(ours.sample(shape), theirs.sample(shape), LOOSE.get(name, 1e-9) if kind == "float64" else LOOSE_SINGLE.get(name, 3e-5))
    assert flambeau.rand(1).item() == torch.rand(1).item()


@pytest.mark.parametrize(("name", "index"), CASES)
def test_log_probabilities(name, index):
    theirs, parameters = make(torch, name, index, gradients=True)
    ours, own_parameters = make(flambeau, name, index, gradients=True)
    value = theirs.sample((4,))
    given, own = value.clone().requires_grad_(value.is_floating_point()), flambeau.tensor(value.numpy())
    own = own.requires_grad_(value.is_floating_point())
    expected, found = theirs.log_prob(given), ours.log_prob(own)
    close(found, expected, LOOSE.get(name, 1e-9))
    if expected.requires_grad:
        expected.sum().backward()
        found.sum().backward()
        for a, b in zip([*own_parameters, own], [*parameters, given], strict=True):
            if b.grad is not None:
                # What PyTorch's solver by a Cholesky factor says of the other triangle, which is not looked at, means nothing.
                one, other = (a.grad.tril(), b.grad.tril()) if (name, index) == ("Wishart", 1) and a.dim() == 2 else (a.grad, b.grad)
                close(one, other, max(1e-7, 10 * LOOSE.get(name, 0)))


@pytest.mark.parametrize(("name", "index"), CASES)
def test_distribution_functions(name, index):
    theirs, ours = both(name, index)
    value = theirs.sample((4,))
    tolerance = LOOSE.get(name, 1e-9)
    same(lambda: ours.cdf(flambeau.tensor(value.numpy())), lambda: theirs.cdf(value), tolerance)
    chances = torch.rand((4, *theirs.batch_shape, *theirs.event_shape), dtype=torch.float64)
    same(lambda: ours.icdf(flambeau.tensor(chances.numpy())), lambda: theirs.icdf(chances), tolerance)


# Normal of numbers has nothing to differentiate by, and PyTorch's Wishart raises there.
DIFFERENTIATED = [c for c in CASES if c != ("Normal", 1) and c[0] != "Wishart" and make(flambeau, *c)[0].has_rsample]


@pytest.mark.parametrize(("name", "index"), DIFFERENTIATED)
def test_gradients_of_samples(name, index):
    theirs, parameters = make(torch, name, index, gradients=True)
    ours, own_parameters = make(flambeau, name, index, gradients=True)
    torch.manual_seed(3)
    flambeau.manual_seed(3)
    expected, found = theirs.rsample((6,)), ours.rsample((6,))
    weights = np.random.default_rng(0).uniform(size=tuple(expected.shape))
    (expected * torch.tensor(weights)).sum().backward()
    (found * flambeau.tensor(weights)).sum().backward()
    for a, b in zip(own_parameters, parameters, strict=True):
        if b.grad is not None:
            # PyTorch's derivatives of gamma and Dirichlet numbers are approximations.
            close(a.grad, b.grad, 5e-3 if name in IMPLICIT else 1e-6)


IMPLICIT = {"Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT", "Wishart"}


@pytest.mark.parametrize(("name", "index"), CASES)
def test_expanded(name, index):
    theirs, ours = both(name, index)
    shape = (2, *theirs.batch_shape)
    theirs, ours = theirs.expand(shape), ours.expand(shape)
    assert ours.batch_shape == tuple(shape) and ours.event_shape == tuple(theirs.event_shape)
    value = theirs.sample()
    close(ours.log_prob(flambeau.tensor(value.numpy())), theirs.log_prob(value), LOOSE.get(name, 1e-9))
    torch.manual_seed(5)
    flambeau.manual_seed(5)
    close(ours.sample((3,)), theirs.sample((3,)), LOOSE.get(name, 1e-9))


def pairs() -> list[tuple[str, str]]:
    registered = [(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY]
    return [(p, q) for p, q in registered if p in ARGUMENTS and q in ARGUMENTS]


OTHER_PAIRS = [("Wishart", "Wishart"), ("Chi2", "Gamma"), ("LogNormal", "LogNormal"), ("Normal", "Poisson"), ("Gamma", "HalfNormal")]


@pytest.mark.parametrize(("p", "q"), [*pairs(), *OTHER_PAIRS])
def test_divergences(p, q):
    def divergence(library: Any) -> Any:
        # A uniform distribution must lie within the other, factors of correlations have no scale.
        scale = (1.1 if p == "Uniform" else 0.9) if p == q else 1.0
        index = 1 if p == "Wishart" else 0  # PyTorch sums over batches of Wishart distributions
        return library.distributions.kl_divergence(make(library, p, index)[0], make(library, q, index, scale=scale)[0])

    same(lambda: divergence(flambeau), lambda: divergence(torch), 1e-6)


def test_divergences_that_are_registered():
    known = {(p.__name__, q.__name__) for p, q in flambeau.distributions.kl._KL_REGISTRY}
    assert known == {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
