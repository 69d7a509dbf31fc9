"""Kullback-Leibler divergences of pairs of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import linalg, ops
from flambeau.autograd import grad
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.independent import Independent
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis, log_diagonal
from flambeau.distributions.normal import Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import EULER, _sum_rightmost
from flambeau.tensor.functions_shape import broadcast_shapes

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_found: dict[tuple[type, type], Callable[[Any, Any], Any] | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorate the function that computes KL(p || q) for instances of two classes, and of their subclasses where nothing closer is."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # Of any class, as in torch: libraries have bases of their own.
            raise TypeError(f"Expected type_p to be a Distribution subclass but got {kind}")

    def register(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _found.clear()
        return function

    return register


def _find(p: type, q: type) -> Callable[[Any, Any], Any] | None:
    """The function for the closest classes, p's first."""
    if (p, q) not in _found:
        fitting = [pair for pair in _KL_REGISTRY if issubclass(p, pair[0]) and issubclass(q, pair[1])]
        closest = min(fitting, key=lambda pair: (p.__mro__.index(pair[0]), q.__mro__.index(pair[1])), default=None)
        _found[p, q] = None if closest is None else _KL_REGISTRY[closest]
    return _found[p, q]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The mean of log(p(x) / q(x)) over x from p, for each place of the batch; NotImplementedError for a pair that is not known.

    >>> import flambeau as torch
    >>> torch.distributions.kl_divergence(torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    function = _find(type(p), type(q))
    if function is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return function(p, q)


# -- the same family -----------------------------------------------------------------------------------------
@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normalizer; Nielsen and Nock (2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families cannot be computed using Bregman divergences, got "
            f"{type(p).__name__} and {type(q).__name__}"
        )
    parameters = [x.detach().requires_grad_() for x in p._natural_params]
    others = q._natural_params
    normalizer = p._log_normalizer(*parameters)
    result = q._log_normalizer(*others) - normalizer
    for mine, other, slope in zip(parameters, others, grad(normalizer.sum(), parameters, create_graph=True), strict=True):
        result = result - _sum_rightmost((other - mine) * slope, mine.dim() - len(p.batch_shape))
    return result


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    hit = p.probs * (ops.softplus(-q.logits) - ops.softplus(-p.logits))
    miss = (1 - p.probs) * (ops.softplus(q.logits) - ops.softplus(p.logits))
    hit = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, hit))
    return hit + ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, math.inf, miss))


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    """Trials one by one; infinite where p can hit more often than q."""
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return result.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, terms))
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    """Chyzak and Nielsen, A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions (2019)."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    odds = p.mean * (p.logits - q.logits)
    return odds + p._cont_bern_log_norm() + (-p.probs).log1p() - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalizers = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() - 1 - EULER + away + ratio * EULER + ((1 + ratio).lgamma() - away).exp()


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    away = (p.loc - q.loc).abs()
    return (q.scale / p.scale).log() + away / q.scale + p.scale / q.scale * (-away / p.scale).exp() - 1


def _normals(p: Any, q: Any, q_tril: Any, q_log_det: Any, distance: Any) -> Any:
    """(log |Q| - log |P| + tr(Q^-1 P) + distance - n) / 2, P and Q the covariances."""
    n = p.event_shape[0]
    p_tril = p.scale_tril
    batch = broadcast_shapes(p_tril.shape[:-2], q_tril.shape[:-2])
    inner = linalg.solve_triangular(q_tril.expand(batch + (n, n)), p_tril.expand(batch + (n, n)), upper=False)
    return 0.5 * (q_log_det - 2 * log_diagonal(p_tril) + inner.pow(2).sum((-2, -1)) + distance - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between a {type(p).__name__} and a {type(q).__name__} with different event shapes cannot be computed, got "
            f"{p.event_shape} and {q.event_shape}"
        )
    tril = q.scale_tril
    return _normals(p, q, tril, 2 * log_diagonal(tril), _batch_mahalanobis(tril, q.loc - p.loc))


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.support.lower_bound < q.support.lower_bound, math.inf)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """That of the bases, as the same function is applied to both."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs the same transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    return ((q.high - q.low) / (p.high - p.low)).log().masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions needs as many reinterpreted dimensions")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# -- different families: - entropy(p) - the mean of log q -------------------------------------------------------
def _mean_log_exponential(q: Any, mean: Any) -> Any:
    return q.rate.log() - q.rate * mean


def _mean_log_gamma(q: Any, mean: Any, mean_log: Any) -> Any:
    normalizer = q.concentration * q.rate.log() - q.concentration.lgamma()
    return normalizer + (q.concentration - 1) * mean_log - q.rate * mean


def _mean_log_normal(q: Any, mean: Any, variance: Any) -> Any:
    away = variance + (mean - q.loc).pow(2)
    return -0.5 * away / q.scale.pow(2) - (q.scale * math.sqrt(2 * math.pi)).log()


def _mean_log_gumbel(q: Any, mean: Any, mean_exp: Any) -> Any:
    """``mean_exp``: the mean of exp(-x / q.scale)."""
    away = (q.loc - mean) / q.scale
    return away - (q.loc / q.scale).exp() * mean_exp - q.scale.log()


def _mean_log_beta(q: Any, mean_log: Any, mean_log_rest: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    return (a + b).lgamma() - a.lgamma() - b.lgamma() + (a - 1) * mean_log + (b - 1) * mean_log_rest


def _mean_log_continuous_bernoulli(q: Any, mean: Any) -> Any:
    return mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _within(result: Any, inside: Any) -> Any:
    """Infinite where p is not inside the support of q."""
    return ops.where(inside, result, math.inf)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - _mean_log_continuous_bernoulli(q, p.mean)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - _mean_log_exponential(q, p.mean)


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() - _mean_log_gamma(q, p.mean, mean_log)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
def _to_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _mean_log_normal(q, p.mean, p.variance)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    return _to_normal(p, q).masked_fill(p.alpha <= 2, math.inf)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    return _to_normal(p, q)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_uniform(p: Any, q: Any) -> Any:
    return _within(-p.entropy() + (q.high - q.low).log(), (q.low <= 0) & (q.high >= 1))


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    return -p.entropy() - _mean_log_gamma(q, p.mean, -EULER - p.rate.log())


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    ratio = p.rate * q.scale
    return -p.entropy() - _mean_log_gumbel(q, p.mean, ratio / (ratio + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    mean_exp = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return -p.entropy() - _mean_log_gumbel(q, p.mean, mean_exp)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    return -p.entropy() - _mean_log_gumbel(q, p.mean, (0.5 * ratio.pow(2) - p.loc / q.scale).exp())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    mean_exp = q.scale * ((-p.low / q.scale).exp() - (-p.high / q.scale).exp()) / (p.high - p.low)
    return -p.entropy() - _mean_log_gumbel(q, p.mean, mean_exp)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    z = away / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp() + away * (z / math.sqrt(2)).erf()
    return -p.entropy() + distance / q.scale + (2 * q.scale).log()


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    result = -p.entropy() - _mean_log_gamma(q, p.mean, p.scale.log() + p.alpha.reciprocal())
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    def mean_log(low: Any, high: Any) -> Any:
        return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1

    result = -p.entropy() - _mean_log_beta(q, mean_log(p.low, p.high), mean_log(1 - p.high, 1 - p.low))
    return _within(result, (p.high <= 1) & (p.low >= 0))


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    return _within(-p.entropy() - _mean_log_continuous_bernoulli(q, p.mean), (p.high <= 1) & (p.low >= 0))


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return _within(_to_exponential(p, q), p.low >= 0)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    mean_log = (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)) / (p.high - p.low) - 1
    return _within(-p.entropy() - _mean_log_gamma(q, p.mean, mean_log), p.low >= 0)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    mean_log = (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)) / (p.high - p.low) - 1
    density = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * mean_log
    return _within(-p.entropy() - density, p.low >= q.scale)


# -- pairs where p goes beyond the support of q -----------------------------------------------------------------
def _infinite(p: Any, q: Any) -> Any:
    return p.mean.new_full(p.batch_shape, math.inf)


_UNIT = (Beta, ContinuousBernoulli)
for _p, _beyond in (
    (Beta, (Pareto,)), (ContinuousBernoulli, (Pareto,)), (Exponential, (*_UNIT, Pareto, Uniform)), (Gamma, (*_UNIT, Pareto, Uniform)),
    (Gumbel, (*_UNIT, Exponential, Gamma, Pareto, Uniform)), (Laplace, (*_UNIT, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (*_UNIT, Exponential, Gamma, Pareto, Uniform)), (Pareto, (*_UNIT, Uniform)), (Poisson, (Bernoulli, Binomial)),
):  # fmt: skip
    for _q in _beyond:
        register_kl(_p, _q)(_infinite)
