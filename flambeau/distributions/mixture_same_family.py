"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.tensor.grad_mode import no_grad

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws by ``mixture_distribution`` (a `Categorical`) which distribution of the last batch dimension of ``component_distribution`` to
    draw from.

    >>> import flambeau as torch
    >>> parts = torch.distributions.Normal(torch.tensor([-1.0, 1.0]), 1.0)
    >>> torch.distributions.MixtureSameFamily(torch.distributions.Categorical(torch.ones(2)), parts).variance
    tensor(2.)
    """

    arg_constraints: Any = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixed, shape = mixture_distribution.batch_shape, component_distribution.batch_shape
        for got, wanted in zip(reversed(mixed), reversed(shape[:-1]), strict=False):
            if got != 1 and wanted != 1 and got != wanted:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with `component_distribution.batch_shape`({shape})"
                )
        self._num_component = shape[-1]
        if mixture_distribution.logits.shape[-1] != self._num_component:
            raise ValueError(
                f"`mixture_distribution component` ({mixture_distribution.logits.shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({self._num_component})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, batch_shape = self._get_checked_instance(MixtureSameFamily, _instance), Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """How components are chosen."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _weights(self) -> Any:
        """The probabilities of the components, beside their events."""
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        # The law of total variance.
        away = self._component_distribution.mean - self._pad(self.mean)
        return (self._weights() * (self._component_distribution.variance + away.pow(2.0))).sum(-1 - self._event_ndims)

    def cdf(self, value: Any) -> Any:
        return (self._component_distribution.cdf(self._pad(value)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (self._component_distribution.log_prob(self._pad(value)) + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            axis = chosen.dim()
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            return drawn.gather(axis, index.expand(chosen.shape + (1,) + self._event_shape)).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
