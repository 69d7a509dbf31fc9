"""Divergences and entropies of distributions against integrals, sums and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.kl import _KL_REGISTRY, kl_divergence, register_kl
from tests.unit.test_distributions import places, wide

D = torch.distributions
INFINITE = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
# Of each family two members, and where the numbers of the first lie.
MEMBERS: dict[str, tuple[Any, Any, tuple[float, float]]] = {
    "Bernoulli": (D.Bernoulli(wide(0.3, 0.8)), D.Bernoulli(wide(0.6, 0.7)), (0, 1)),
    "Beta": (D.Beta(wide(2.5, 1.5), wide(1.5, 3.0)), D.Beta(wide(1.5, 2.0), wide(3.0, 2.0)), (0.0, 1.0)),
    "Binomial": (D.Binomial(5, wide(0.3, 0.8)), D.Binomial(5, wide(0.6, 0.7)), (0, 5)),
    "Categorical": (D.Categorical(wide(0.2, 0.3, 0.5)), D.Categorical(wide(0.1, 0.6, 0.3)), (0, 2)),
    "Cauchy": (D.Cauchy(wide(0.5, 1.0), wide(1.5, 1.0)), D.Cauchy(wide(-0.5, 1.0), wide(1.0, 2.0)), INFINITE),
    "ContinuousBernoulli": (D.ContinuousBernoulli(wide(0.2, 0.7)), D.ContinuousBernoulli(wide(0.8, 0.6)), (0.0, 1.0)),
    "Exponential": (D.Exponential(wide(0.5, 2.0)), D.Exponential(wide(1.5, 0.7)), POSITIVE),
    "Gamma": (D.Gamma(wide(1.5, 8.0), wide(0.5, 3.0)), D.Gamma(wide(2.5, 4.0), wide(1.5, 1.0)), POSITIVE),
    "Geometric": (D.Geometric(wide(0.3, 0.8)), D.Geometric(wide(0.6, 0.7)), (0, 300)),
    "Gumbel": (D.Gumbel(wide(0.5, 0.0), wide(0.7, 0.5)), D.Gumbel(wide(-0.5, 1.0), wide(1.0, 2.0)), INFINITE),
    "HalfNormal": (D.HalfNormal(wide(1.5, 0.5)), D.HalfNormal(wide(0.7, 1.0)), POSITIVE),
    "Laplace": (D.Laplace(wide(-0.5, 1.0), wide(0.7, 1.0)), D.Laplace(wide(0.5, 1.0), wide(1.0, 2.0)), INFINITE),
    "Normal": (D.Normal(wide(0.5, -1.0), wide(1.5, 0.5)), D.Normal(wide(0.0, 1.0), wide(1.0, 2.0)), INFINITE),
    "Pareto": (D.Pareto(wide(1.5, 1.5), wide(6.0, 4.0)), D.Pareto(wide(1.0, 1.1), wide(3.0, 5.0)), (1.5, np.inf)),
    "Poisson": (D.Poisson(wide(0.5, 9.0)), D.Poisson(wide(2.0, 4.0)), (0, 100)),
    "Uniform": (D.Uniform(wide(1.2, 1.2), wide(1.9, 1.9)), D.Uniform(wide(-0.5, 0.0), wide(2.0, 3.0)), (1.2, 1.9)),
    "TransformedDistribution": (D.LogNormal(wide(0.1, 0.5), wide(0.5, 0.7)), D.LogNormal(wide(0.5, 0.0), wide(0.7, 1.0)), POSITIVE),
}  # fmt: skip
# Uniform numbers inside the unit interval, for families that reach no further.
UNIT = (D.Uniform(wide(0.2, 0.0), wide(0.7, 1.0), validate_args=False), ((0.2, 0.7), (0.0, 1.0)))
DISCRETE = ("Bernoulli", "Binomial", "Categorical", "Geometric", "Poisson")
PAIRS = sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY if {p.__name__, q.__name__} <= MEMBERS.keys())
BEYOND = [pair for pair in PAIRS if pair[0] != pair[1] and _KL_REGISTRY[getattr(D, pair[0]), getattr(D, pair[1])].__name__ == "_infinite"]


def integral(p: Any, q: Any, low: float, high: float, column: Any) -> Any:
    """The mean of log p(x) - log q(x), x from p."""
    x, weights = places(low, high)
    logs = p.log_prob(x.reshape(-1, 1))[:, column]
    other = q.log_prob(x.reshape(-1, 1))[:, column]
    return torch.where(logs > -600, logs.exp() * (logs - other) * weights, 0.0).nansum()


@pytest.mark.parametrize(("mine", "other"), [pair for pair in PAIRS if pair not in BEYOND])
def test_divergences_are_means_of_log_ratios(mine: str, other: str) -> None:
    p, q, support = MEMBERS[mine][0], MEMBERS[other][1], MEMBERS[mine][2]
    found = kl_divergence(p, q)
    if mine in DISCRETE:
        x = torch.arange(support[0], support[1] + 1, dtype=torch.float64).reshape(-1, *[1] * len(p.batch_shape))
        logs = p.log_prob(x)
        wanted = (logs.exp() * (logs - q.log_prob(x))).sum(0)
    elif mine == "Uniform" and other in ("Beta", "ContinuousBernoulli"):
        assert found.isinf().all()
        p, supports = UNIT
        found = kl_divergence(p, q)
        wanted = torch.stack([integral(p, q, *supports[k], k) for k in range(2)])
    else:
        wanted = torch.stack([integral(p, q, *support, k) for k in range(2)])
    error = 1e-4 if "Laplace" in (mine, other) else 1e-6  # a kink slows the rule down
    assert torch.allclose(found, wanted, rtol=error, atol=1e-7) and (found > 0).all()


@pytest.mark.parametrize(("mine", "other"), BEYOND)
def test_divergences_are_infinite_where_numbers_leave_the_support(mine: str, other: str) -> None:
    p, q = MEMBERS[mine][0], MEMBERS[other][1]
    assert kl_divergence(p, q).tolist() == [math.inf, math.inf]
    torch.manual_seed(0)
    assert not q.support.check(p.sample((200,))).all()


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_divergences_from_themselves_vanish(name: str) -> None:
    p = MEMBERS[name][0]
    assert torch.allclose(kl_divergence(p, p), torch.zeros(p.batch_shape, dtype=torch.float64), atol=1e-12)


def test_partial_and_empty_overlaps() -> None:
    assert kl_divergence(D.Uniform(0.0, 1.0), D.Uniform(0.5, 2.0)).isinf()
    assert kl_divergence(D.Uniform(0.0, 1.0), D.Pareto(0.5, 1.0)).isinf()
    assert kl_divergence(D.Uniform(-1.0, 1.0), D.Exponential(1.0)).isinf()
    assert kl_divergence(D.Uniform(-1.0, 1.0), D.Gamma(2.0, 1.0)).isinf()
    assert kl_divergence(D.Beta(2.0, 2.0), D.Uniform(0.2, 2.0)).isinf() and kl_divergence(D.Pareto(1.0, 2.0), D.Pareto(2.0, 2.0)).isinf()
    assert kl_divergence(D.Pareto(1.0, 2.0), D.Normal(0.0, 1.0)).isinf() and kl_divergence(D.Pareto(1.0, 1.0), D.Gamma(1.0, 1.0)).isinf()
    assert kl_divergence(D.Pareto(1.0, 0.5), D.Exponential(1.0)).isinf()
    assert kl_divergence(D.Bernoulli(wide(1.0, 0.0, 0.5)), D.Bernoulli(wide(1.0, 0.0, 1.0))).tolist() == [0, 0, math.inf]
    assert kl_divergence(D.Categorical(wide(1.0, 0.0)), D.Categorical(wide(0.5, 0.5))).item() == pytest.approx(math.log(2))
    assert kl_divergence(D.Categorical(wide(0.5, 0.5)), D.Categorical(wide(1.0, 0.0))).isinf()
    assert kl_divergence(D.Binomial(5, wide(0.5)), D.Binomial(4, wide(0.5))).isinf().all()
    with pytest.raises(NotImplementedError, match="Binomials"):
        kl_divergence(D.Binomial(3, wide(0.5)), D.Binomial(4, wide(0.5)))


def gaussians() -> tuple[list[Any], list[tuple[Any, Any]]]:
    generator = np.random.default_rng(3)
    made, plain = [], []
    for low_rank in (False, True, False):
        mean, factor = generator.normal(size=3), generator.normal(size=(3, 2))
        diagonal = generator.uniform(0.5, 1.5, 3)
        covariance = factor @ factor.T + np.diag(diagonal)
        plain.append((mean, covariance))
        made.append(
            D.LowRankMultivariateNormal(*map(torch.tensor, (mean, factor, diagonal))) if low_rank
            else D.MultivariateNormal(torch.tensor(mean), torch.tensor(covariance))
        )  # fmt: skip
    return made, plain


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("second", range(3))
def test_gaussians_of_several_dimensions(first: int, second: int) -> None:
    made, plain = gaussians()
    (m, p), (n, q) = plain[first], plain[second]
    away = n - m
    volumes = np.linalg.slogdet(q)[1] - np.linalg.slogdet(p)[1]
    wanted = 0.5 * (np.trace(np.linalg.solve(q, p)) + away @ np.linalg.solve(q, away) - 3 + volumes)
    assert kl_divergence(made[first], made[second]).item() == pytest.approx(wanted, abs=1e-9)
    with pytest.raises(ValueError, match="different event shapes"):
        kl_divergence(made[first], D.MultivariateNormal(wide(0.0, 0.0), torch.eye(2, dtype=torch.float64)))


def test_compound_distributions() -> None:
    p, q = MEMBERS["Normal"][:2]
    each = kl_divergence(p, q)
    assert torch.allclose(kl_divergence(D.Independent(p, 1), D.Independent(q, 1)), each.sum())
    one_hot = kl_divergence(D.OneHotCategorical(wide(0.2, 0.8)), D.OneHotCategorical(wide(0.5, 0.5)))
    assert torch.allclose(one_hot, kl_divergence(D.Categorical(wide(0.2, 0.8)), D.Categorical(wide(0.5, 0.5))))
    # Two numbers of a Dirichlet distribution are one of a beta distribution and what is left; three by samples.
    pair = kl_divergence(D.Dirichlet(wide(2.5, 1.5)), D.Dirichlet(wide(1.5, 3.0)))
    assert torch.allclose(pair, kl_divergence(D.Beta(wide(2.5), wide(1.5)), D.Beta(wide(1.5), wide(3.0)))[0])
    a, b = D.Dirichlet(wide(2.0, 3.0, 1.5)), D.Dirichlet(wide(1.0, 2.0, 4.0))
    torch.manual_seed(1)
    x = a.sample((40_000,))
    assert kl_divergence(a, b).item() == pytest.approx((a.log_prob(x) - b.log_prob(x)).mean().item(), rel=0.02)
    with pytest.raises(NotImplementedError, match="reinterpreted"):
        kl_divergence(D.Independent(p.expand((2, 2)), 2), D.Independent(q.expand((2, 2)), 1))
    with pytest.raises(NotImplementedError, match="same transforms"):
        kl_divergence(D.LogNormal(0.0, 1.0), D.TransformedDistribution(D.Normal(0.0, 1.0), [D.TanhTransform()]))
    with pytest.raises(NotImplementedError, match="p type Normal and q type StudentT"):
        kl_divergence(p, D.StudentT(2.0))


def test_divergences_of_own_classes() -> None:
    class Mine(D.Normal):
        pass

    assert kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0)).item() == 0.5
    try:
        register_kl(Mine, D.Normal)(lambda p, q: "closest")
        assert kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0)) == "closest"
        assert kl_divergence(D.Normal(1.0, 1.0), Mine(0.0, 1.0)).item() == 0.5
    finally:
        del _KL_REGISTRY[Mine, D.Normal]
    with pytest.raises(TypeError, match="Expected type_p"):
        register_kl(1, Mine)  # type: ignore[arg-type]


FAMILIES = {
    name: MEMBERS[name][:2] for name in ("Bernoulli", "Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Normal", "Poisson")
} | {"Dirichlet": (D.Dirichlet(wide(2.0, 3.0, 1.5)), D.Dirichlet(wide(1.0, 2.0, 4.0)))}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_exponential_families_by_their_normalizers(name: str) -> None:
    p, q = FAMILIES[name]
    divergence = _KL_REGISTRY[ExponentialFamily, ExponentialFamily]
    assert torch.allclose(divergence(p, q), kl_divergence(p, q), rtol=1e-6)
    if name not in ("Beta", "Dirichlet", "Poisson"):  # whose carriers have no mean in closed form
        assert torch.allclose(ExponentialFamily.entropy(p), p.entropy(), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="different exponential families"):
        divergence(p, D.Normal(0.0, 1.0) if name != "Normal" else D.Gamma(1.0, 1.0))
