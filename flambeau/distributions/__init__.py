"""Probability distributions: samples, log probabilities with gradients, moments, divergences, and transforms between them.

>>> import flambeau as torch
>>> policy = torch.distributions.Categorical(logits=torch.zeros(4))
>>> policy.entropy()
tensor(1.3863)
"""

from __future__ import annotations

from flambeau.distributions import constraint_registry as constraint_registry
from flambeau.distributions import constraints as constraints
from flambeau.distributions import transforms as transforms
from flambeau.distributions import utils as utils
from flambeau.distributions.bernoulli import Bernoulli as Bernoulli
from flambeau.distributions.beta import Beta as Beta
from flambeau.distributions.binomial import Binomial as Binomial
from flambeau.distributions.categorical import Categorical as Categorical
from flambeau.distributions.cauchy import Cauchy as Cauchy
from flambeau.distributions.chi2 import Chi2 as Chi2
from flambeau.distributions.constraint_registry import biject_to as biject_to
from flambeau.distributions.constraint_registry import transform_to as transform_to
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet as Dirichlet
from flambeau.distributions.distribution import Distribution as Distribution
from flambeau.distributions.exp_family import ExponentialFamily as ExponentialFamily
from flambeau.distributions.exponential import Exponential as Exponential
from flambeau.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from flambeau.distributions.gamma import Gamma as Gamma
from flambeau.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from flambeau.distributions.geometric import Geometric as Geometric
from flambeau.distributions.gumbel import Gumbel as Gumbel
from flambeau.distributions.half_cauchy import HalfCauchy as HalfCauchy
from flambeau.distributions.half_normal import HalfNormal as HalfNormal
from flambeau.distributions.independent import Independent as Independent
from flambeau.distributions.inverse_gamma import InverseGamma as InverseGamma
from flambeau.distributions.kl import kl_divergence as kl_divergence
from flambeau.distributions.kl import register_kl as register_kl
from flambeau.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
from flambeau.distributions.laplace import Laplace as Laplace
from flambeau.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
from flambeau.distributions.log_normal import LogNormal as LogNormal
from flambeau.distributions.logistic_normal import LogisticNormal as LogisticNormal
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
from flambeau.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from flambeau.distributions.multinomial import Multinomial as Multinomial
from flambeau.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from flambeau.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from flambeau.distributions.normal import Normal as Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from flambeau.distributions.one_hot_categorical import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from flambeau.distributions.pareto import Pareto as Pareto
from flambeau.distributions.poisson import Poisson as Poisson
from flambeau.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from flambeau.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from flambeau.distributions.studentT import StudentT as StudentT
from flambeau.distributions.transformed_distribution import TransformedDistribution as TransformedDistribution
from flambeau.distributions.transforms import *  # noqa: F403 - its __all__ is what torch exports
from flambeau.distributions.uniform import Uniform as Uniform
from flambeau.distributions.von_mises import VonMises as VonMises
from flambeau.distributions.weibull import Weibull as Weibull
from flambeau.distributions.wishart import Wishart as Wishart
