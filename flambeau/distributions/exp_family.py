"""Exponential families: exp(x . parameters - log normalizer) over a carrier measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.autograd import grad
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(t(x) . natural parameters - log normalizer + k(x)).

    A subclass gives ``_natural_params``, ``_log_normalizer(*parameters)`` and ``_mean_carrier_measure`` (the mean of k), and has its
    entropy and divergences by the gradient of the log normalizer, which is the mean of t(x); Nielsen and Nock, Entropies and
    cross-entropies of exponential families (2010).
    """

    if TYPE_CHECKING:
        _mean_carrier_measure: Any
    else:

        @property
        def _mean_carrier_measure(self) -> Any:
            raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """log normalizer - parameters . its gradient - the mean of the carrier."""
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        result = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(parameters, grad(normalizer.sum(), parameters, create_graph=True), strict=True):
            result = result - _sum_rightmost(parameter * slope, parameter.dim() - len(self._batch_shape))
        return result
