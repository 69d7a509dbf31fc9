"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import lazy_property
from flambeau.tensor.creation import empty, zeros
from flambeau.tensor.functions_random import rand
from flambeau.tensor.grad_mode import no_grad

__all__ = ["VonMises"]


def best_and_fisher(k: Any, r: Any, shape: Any) -> Any:
    """Angles around 0 by rejection from a wrapped Cauchy distribution; Best and Fisher, Efficient simulation of the von Mises distribution
    (1979)."""
    x, done = empty(shape, dtype=k.dtype, device=k.device), zeros(shape, dtype=dtypes.bool_, device=k.device)
    while not done.all():
        first, second, third = rand((3,) + shape, dtype=k.dtype, device=k.device).unbind()
        z = (math.pi * first).cos()
        f = (1 + r * z) / (r + z)
        c = k * (r - f)
        accept = (c * (2 - c) - second > 0) | ((c / second).log() + 1 - c >= 0)
        x = ops.where(accept, (third - 0.5).sign() * f.acos(), x)
        done = done | accept
    return x


class VonMises(Distribution):
    """Angles in radians around ``loc`` with density proportional to exp(concentration * cos(x - loc))."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._keep(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # I0(k) = i0e(k) * exp(k)
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - ops.i0e(k).log() - k

    @lazy_property
    def _proposal_r(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that angles are proposed by; 1 / k for tiny k, where its formula cancels."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return ops.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            x = best_and_fisher(self.concentration.double(), self._proposal_r, self._extended_shape(sample_shape))
            return ((x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance 1 - I1(k) / I0(k)."""
        return 1 - ops.i1e(self.concentration) / ops.i0e(self.concentration)
