"""Distributions by what must hold of them: densities that integrate to 1, moments of samples, inverse functions, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

D = torch.distributions


def wide(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


CONTINUOUS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "Beta": (lambda: D.Beta(wide(2.5, 1.5), wide(1.5, 3.0)), 0.0, 1.0),
    "Cauchy": (lambda: D.Cauchy(wide(0.5), wide(1.5)), -np.inf, np.inf),
    "Chi2": (lambda: D.Chi2(wide(4.0, 7.0)), 0.0, np.inf),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(wide(0.2, 0.5, 0.501)), 0.0, 1.0),
    "Exponential": (lambda: D.Exponential(wide(0.5, 2.0)), 0.0, np.inf),
    "FisherSnedecor": (lambda: D.FisherSnedecor(wide(6.0), wide(14.0)), 0.0, np.inf),
    "Gamma": (lambda: D.Gamma(wide(1.5, 8.0), wide(0.5, 3.0)), 0.0, np.inf),
    "GeneralizedPareto": (lambda: D.GeneralizedPareto(wide(0.0, 0.0), wide(1.0, 2.0), wide(0.0, 0.1)), 0.0, np.inf),
    "Gumbel": (lambda: D.Gumbel(wide(0.5), wide(1.5)), -np.inf, np.inf),
    "HalfCauchy": (lambda: D.HalfCauchy(wide(1.5)), 0.0, np.inf),
    "HalfNormal": (lambda: D.HalfNormal(wide(1.5)), 0.0, np.inf),
    "InverseGamma": (lambda: D.InverseGamma(wide(6.0), wide(1.5)), 0.0, np.inf),
    "Kumaraswamy": (lambda: D.Kumaraswamy(wide(2.0, 1.5), wide(3.0, 1.5)), 0.0, 1.0),
    "Laplace": (lambda: D.Laplace(wide(-0.5), wide(0.7)), -np.inf, np.inf),
    "LogNormal": (lambda: D.LogNormal(wide(-0.5), wide(0.5)), 0.0, np.inf),
    "Mixture": (lambda: D.MixtureSameFamily(D.Categorical(wide(1.0, 2.0)), D.Normal(wide(-1.0, 2.0), wide(0.5, 1.0))), -np.inf, np.inf),
    "Normal": (lambda: D.Normal(wide(0.5, -2.0), wide(1.5, 0.5)), -np.inf, np.inf),
    "Pareto": (lambda: D.Pareto(wide(1.0), wide(6.0)), 1.0, np.inf),
    "RelaxedBernoulli": (lambda: D.RelaxedBernoulli(wide(2.0)[0], wide(0.3)), 0.0, 1.0),
    "StudentT": (lambda: D.StudentT(wide(8.0), wide(0.5), wide(2.0)), -np.inf, np.inf),
    "Uniform": (lambda: D.Uniform(wide(-0.5), wide(2.0)), -0.5, 2.0),
    "VonMises": (lambda: D.VonMises(wide(0.5, -1.0), wide(0.7, 5.0)), -np.pi, np.pi),
    "Weibull": (lambda: D.Weibull(wide(1.5, 1.0), wide(2.0, 1.5)), 0.0, np.inf),
}
DISCRETE: dict[str, Callable[[], Any]] = {
    "Bernoulli": lambda: D.Bernoulli(wide(0.2, 0.7)), "Binomial": lambda: D.Binomial(9, wide(0.2, 0.7)),
    "Geometric": lambda: D.Geometric(wide(0.2, 0.7)), "NegativeBinomial": lambda: D.NegativeBinomial(wide(3.0, 1.5), wide(0.2, 0.6)),
    "Poisson": lambda: D.Poisson(wide(0.5, 20.0)),
}  # fmt: skip


def places(low: float, high: float) -> tuple[Any, Any]:
    """Places inside an interval, dense near its ends, and their weights in an integral (the tanh-sinh rule)."""
    t = np.linspace(-4.0, 4.0, 4001)
    inner, slope = np.tanh(np.pi / 2 * np.sinh(t)), np.pi / 2 * np.cosh(t) / np.cosh(np.pi / 2 * np.sinh(t)) ** 2
    if np.isinf(high) and np.isinf(low):
        x, stretch = np.sinh(np.pi / 2 * np.sinh(t)), np.pi / 2 * np.cosh(t) * np.cosh(np.pi / 2 * np.sinh(t))
    elif np.isinf(high):
        x, stretch = low + np.exp(np.pi / 2 * np.sinh(t)), np.pi / 2 * np.cosh(t) * np.exp(np.pi / 2 * np.sinh(t))
    else:
        x, stretch = (low + high) / 2 + (high - low) / 2 * inner, (high - low) / 2 * slope
    kept = (x > low) & (x < high) & np.isfinite(x) & (stretch > 0)
    return torch.tensor(x[kept]), torch.tensor(stretch[kept] * (t[1] - t[0]))


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_densities_integrate_to_one(name):
    make, low, high = CONTINUOUS[name]
    distribution = make()
    x, weights = places(low, high)
    x, weights = (v.reshape(-1, *[1] * len(distribution.batch_shape)) for v in (x, weights))
    density = distribution.log_prob(x).exp().nan_to_num(0.0)
    assert torch.allclose((density * weights).sum(0), torch.ones(distribution.batch_shape, dtype=torch.float64), atol=1e-6)
    if name not in ("RelaxedBernoulli", "Mixture"):
        if name not in ("FisherSnedecor", "VonMises"):
            logs = torch.where(density > 0, density.log(), 0.0)
            assert torch.allclose(-(density * logs * weights).sum(0), distribution.entropy() + 0 * density[0], atol=1e-5)
        if name not in ("Cauchy", "HalfCauchy", "VonMises"):
            mean = (density * x * weights).sum(0)
            assert torch.allclose(mean, distribution.mean + 0 * mean, atol=1e-5)
            assert torch.allclose((density * (x - mean) ** 2 * weights).sum(0), distribution.variance + 0 * mean, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_distribution_functions(name):
    make, low, high = CONTINUOUS[name]
    distribution = make()
    torch.manual_seed(0)
    x = distribution.sample((50,))
    assert ((x >= low) & (x <= high)).all()
    try:
        chance = distribution.cdf(x)
    except NotImplementedError:
        return
    # The derivative of the distribution function is the density.
    inside = x.clone().requires_grad_()
    try:
        distribution.cdf(inside).sum().backward()
        # Near 0.5 the continuous Bernoulli distribution is taken for uniform here.
        assert torch.allclose(inside.grad, distribution.log_prob(x).exp(), rtol=3e-3 if name == "ContinuousBernoulli" else 1e-6, atol=1e-9)
        back = distribution.icdf(chance)
    except NotImplementedError:
        return
    assert torch.allclose(back, x, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", sorted(CONTINUOUS.keys() - {"Cauchy", "HalfCauchy", "RelaxedBernoulli", "VonMises"}))
def test_moments_of_samples(name):
    distribution = CONTINUOUS[name][0]()
    torch.manual_seed(1)
    x, n = distribution.sample((40000,)), 40000
    deviation = distribution.variance.sqrt()
    assert ((x.mean(0) - distribution.mean).abs() < 5 * deviation / n**0.5).all()
    assert torch.allclose(x.var(0), distribution.variance + 0 * x[0], rtol=0.25)


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_probabilities_sum_to_one(name):
    distribution = DISCRETE[name]()
    counts = torch.arange(400, dtype=torch.float64).reshape(-1, 1)
    if distribution.has_enumerate_support:
        counts = distribution.enumerate_support(False)
    chance = distribution.log_prob(counts).exp()
    assert torch.allclose(chance.sum(0), wide(1.0, 1.0))
    mean = (chance * counts).sum(0)
    assert torch.allclose(mean, distribution.mean) and torch.allclose((chance * (counts - mean) ** 2).sum(0), distribution.variance)
    torch.manual_seed(2)
    x = distribution.sample((40000,))
    assert ((x.mean(0) - mean).abs() < 5 * distribution.variance.sqrt() / 200).all()
    frequent = counts[: min(len(counts), 30)]
    shares = (x.unsqueeze(0) == frequent.unsqueeze(1)).to(torch.float64).mean(1)
    assert torch.allclose(shares, chance[: len(frequent)], atol=0.02)


def test_vectors():
    torch.manual_seed(3)
    root = torch.tensor([[1.0, 0.0, 0.0], [0.5, 1.2, 0.0], [-0.3, 0.2, 0.8]], dtype=torch.float64)
    covariance = root @ root.mT
    for d in (D.MultivariateNormal(wide(1.0, 2.0, 3.0), covariance), D.MultivariateNormal(wide(1.0, 2.0, 3.0), scale_tril=root),
              D.MultivariateNormal(wide(1.0, 2.0, 3.0), precision_matrix=covariance.inverse()),
              D.LowRankMultivariateNormal(wide(1.0, 2.0, 3.0), root[:, :2], wide(0.5, 1.0, 0.7))):  # fmt: skip
        x = d.sample((20000,))
        assert torch.allclose(x.mean(0), d.mean, atol=0.05) and torch.allclose(x.mT.cov(), d.covariance_matrix, atol=0.1)
        assert torch.allclose(d.covariance_matrix @ d.precision_matrix, torch.eye(3, dtype=torch.float64), atol=1e-9)
        assert torch.allclose(-d.log_prob(x).mean(), d.entropy(), atol=0.05)
    wishart = D.Wishart(wide(5.0)[0], covariance)
    assert torch.allclose(wishart.sample((20000,)).mean(0), wishart.mean, rtol=0.1, atol=0.2)
    assert torch.allclose(-wishart.log_prob(x := wishart.sample((20000,))).mean(), wishart.entropy(), atol=0.1) and x.shape == (20000, 3, 3)
    factors = D.LKJCholesky(3, 1.0).sample((5000,))
    assert D.constraints.corr_cholesky.check(factors).all()
    points = D.Dirichlet(wide(1.0, 2.0, 3.0)).sample((20000,))
    assert torch.allclose(points.mean(0), wide(1.0, 2.0, 3.0) / 6, atol=0.01) and D.constraints.simplex.check(points).all()
    counts = D.Multinomial(10, wide(1.0, 3.0)).sample((5000,))
    assert (counts.sum(-1) == 10).all() and torch.allclose(counts.mean(0), wide(2.5, 7.5), atol=0.1)


def by_quantiles(cdf: Callable[[Any, Any], Any], x: Any, parameter: Any, step: float = 1e-4) -> Any:
    """How x moves with a parameter at a fixed quantile: -(dF/da) / (dF/dx), by differences."""
    rise = (cdf(x, parameter + step) - cdf(x, parameter - step)) / (2 * step)
    return -rise / ((cdf(x + step, parameter) - cdf(x - step, parameter)) / (2 * step))


def test_gamma_numbers_move_with_their_shape():
    shapes = wide(0.3, 1.0, 2.5, 30.0).requires_grad_()
    torch.manual_seed(4)
    x = D.Gamma(shapes, 1.0).rsample((200,)).clamp(min=0.05)
    kept = x.detach() > 0.05
    moved = torch._standard_gamma_grad(shapes.detach().expand(x.shape), x.detach())
    expected = by_quantiles(lambda v, a: torch.special.gammainc(a.expand(v.shape), v), x.detach(), shapes.detach())
    assert torch.allclose(moved[kept], expected[kept], rtol=1e-4, atol=1e-6)
    (gradient,) = torch.autograd.grad(torch._standard_gamma(shapes).sum(), shapes)
    assert gradient.shape == shapes.shape and (gradient > 0).all()


def test_beta_numbers_move_with_their_parameters():
    torch.manual_seed(5)
    first = wide(2.0).requires_grad_()
    x = D.Beta(first, wide(1.0)).rsample((500,))  # distribution function x ** first
    (gradient,) = torch.autograd.grad(x.sum(), first)
    exact = (-x.detach() * x.detach().log() / 2.0).sum()
    assert torch.allclose(gradient, exact, rtol=1e-9)
    # Far in both tails, and where parameters differ widely.
    a, b = torch.tensor(np.geomspace(1e-2, 1e3, 12)).unsqueeze(1), torch.tensor(np.geomspace(1e-2, 1e3, 12))
    assert torch._dirichlet_grad(D.Beta(a, b).sample((20,)), a, a + b).isfinite().all()


@pytest.mark.parametrize("name", sorted(CONTINUOUS.keys() - {"Uniform"}))
def test_gradients_of_log_probabilities(name):
    distribution = CONTINUOUS[name][0]()
    torch.manual_seed(6)
    x = distribution.sample((5,))
    given = x.clone().requires_grad_()
    distribution.log_prob(given).sum().backward()
    step = 1e-6
    with torch.no_grad():
        slope = (distribution.log_prob(x + step) - distribution.log_prob(x - step)) / (2 * step)
    finite = slope.isfinite()
    assert torch.allclose(given.grad[finite], slope[finite], rtol=1e-3, atol=1e-4)


def test_compiled_functions_do_the_same():
    def step(a: Any, b: Any) -> tuple[Any, ...]:
        policy = D.Categorical(logits=torch.stack([a, b], -1))
        action = policy.sample()
        normal, gamma = D.Normal(a, b), D.Gamma(a.exp(), b)
        loss = policy.log_prob(action).sum() + D.kl_divergence(normal, D.Normal(b, b)).sum() + (normal.rsample() * gamma.rsample()).sum()
        loss.backward()
        return loss.detach(), action, D.VonMises(a.detach(), b).sample(), D.Poisson(b).sample(), D.Beta(b, b).sample()

    compiled, results = torch.compile(step), []
    for run in (compiled, compiled, compiled, step):
        a = torch.tensor([0.5, -0.2, 1.0], requires_grad=True)
        torch.manual_seed(7)
        results.append([*run(a, torch.tensor([1.0, 2.0, 0.5])), a.grad])
    for found in results[:-1]:
        assert all(torch.allclose(x, y) for x, y in zip(found, results[-1], strict=True))
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        compiled(torch.tensor([0.5, -0.2, 1.0], requires_grad=True), torch.tensor([1.0, -2.0, 0.5]))


def test_distributions_pickle():
    import pickle

    d = pickle.loads(pickle.dumps(D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform(), D.AffineTransform(0.0, 2.0)])))
    assert d.log_prob(torch.tensor(2.0)).isfinite()
