"""What all distributions have: shapes, checks of parameters and values, and what follows from other quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from flambeau.tensor import Tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over events of shape ``event_shape``, one for each place of ``batch_shape``.

    ``validate_args`` (default: as `set_default_validate_args` says, at first True) checks parameters and values and raises ValueError.

    >>> import flambeau as torch
    >>> torch.distributions.Normal(torch.zeros(3), 1.0).log_prob(torch.tensor(0.0))
    tensor([-0.9189, -0.9189, -0.9189])
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    # Attributes beside the parameters that `expand` hands on as they are.
    _carried: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their parameters and values where they are not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args needs True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = Size(), event_shape: Any = Size(), validate_args: bool | None = None) -> None:  # noqa: B008
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self._known_constraints().items():
            computed = name not in vars(self) and isinstance(getattr(type(self), name), lazy_property)
            if constraints.is_dependent(constraint) or computed:
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to satisfy "
                    f"the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _keep(self, validate_args: bool | None, **parameters: Any) -> None:
        """Keep parameters of single numbers, broadcast against each other, and finish."""
        for name, value in zip(parameters, broadcast_all(*parameters.values()), strict=True):
            setattr(self, name, value)
        Distribution.__init__(self, getattr(self, next(iter(parameters))).shape, validate_args=validate_args)

    def _known_constraints(self) -> dict[str, Any]:
        try:
            return self.arg_constraints
        except NotImplementedError:
            return {}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The distribution with its parameters expanded to another batch shape."""
        ours = next(c for c in type(self).__mro__ if c.__module__.startswith(__package__ or ""))
        new, batch_shape = self._get_checked_instance(ours, _instance), Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            if name in vars(self):
                value, rank = getattr(self, name), constraint.event_dim
                setattr(new, name, value.expand(batch_shape + value.shape[value.dim() - rank :]))
        for name in self._carried:
            setattr(new, name, getattr(self, name))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                ".expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters go."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single sample."""
        return self._event_shape

    if TYPE_CHECKING:
        # Classes have them as attributes or properties; parameters are attributes that `_keep` sets.
        arg_constraints: Any
        support: Any

        def __getattr__(self, name: str) -> Any: ...

    else:

        @property
        def arg_constraints(self) -> dict[str, Any]:
            """By the name of each parameter what it must satisfy."""
            raise NotImplementedError

        @property
        def support(self) -> Any:
            """The set of possible values, as a constraint."""
            raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        """Samples of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        """Samples that can be differentiated by the parameters; NotImplementedError where ``has_rsample`` is False."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """n samples."""
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability at ``value``."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along a new first dimension; ``expand`` repeats them over the batch."""
        raise NotImplementedError

    def _enumerated(self, values: Any, expand: bool) -> Any:
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp(entropy)."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = Size()) -> Size:  # noqa: B008
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = value.dim() - len(self._event_shape)
        if value.shape[event:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        shape = self._batch_shape + self._event_shape
        for got, wanted in zip(reversed(value.shape), reversed(shape), strict=False):
            if got != 1 and wanted != 1 and got != wanted:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {shape}.")
        try:
            support = self.support
        except NotImplementedError:
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({support!r}) of "
                f"the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        given = {k: vars(self)[k] for k in self._known_constraints() if k in vars(self)}
        return f"{type(self).__name__}({', '.join(f'{k}: {v if v.numel() == 1 else v.size()}' for k, v in given.items())})"


class WithProbabilities(Distribution):
    """Distributions given by either ``probs`` or ``logits``, each computed from the other when asked for."""

    _is_binary: ClassVar[bool] = True

    def _keep_chances(self, probs: Any, logits: Any) -> Any:
        """Keep the one that is given; returns it."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (given,) = broadcast_all(probs if logits is None else logits)
        if logits is None:
            self.probs = given
        else:
            self.logits = given
        return given

    @property
    def _param(self) -> Any:
        return vars(self)["probs" if "probs" in vars(self) else "logits"]

    @lazy_property
    def logits(self) -> Any:
        """Log odds, or log probabilities where there are several classes."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def param_shape(self) -> Size:
        """The shape of ``probs`` and ``logits``."""
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)
