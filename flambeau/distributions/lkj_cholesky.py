"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all
from flambeau.tensor.creation import arange, zeros
from flambeau.tensor.functions_random import randn
from flambeau.tensor.functions_shape import cat
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.type_info import finfo

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower triangular factors L [..., dim, dim] of correlation matrices with density proportional to det(L L^T) ** (concentration - 1).

    Lewandowski, Kurowicka and Joe, Generating random correlation matrices based on vines and extended onion method (2009): samples are
    made row by row by the onion method.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        steps = arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = cat([zeros(1, dtype=steps.dtype, device=steps.device), steps])
        last = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2) - 0.5 * steps
        self._beta = Beta(steps + 0.5, last)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.dim, new._beta = self.dim, self._beta.expand(Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            kind, device = self.concentration.dtype, self.concentration.device
            squares = self._beta.sample(sample_shape).unsqueeze(-1)
            directions = randn(self._extended_shape(sample_shape), dtype=kind, device=device).tril(-1)
            sphere = directions / directions.square().sum(-1, keepdim=True).sqrt()
            sphere[..., 0, :] = 0.0
            below = squares.sqrt() * sphere
            rest = (1 - below.square().sum(-1)).clamp(min=finfo(kind).tiny).sqrt()
            return below + rest.diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.dim - 1
        orders = arange(2, self.dim + 1, device=self.concentration.device)
        orders = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - orders
        density = (orders * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * n
        # Page 1999 of the paper: products of normalizers of spheres.
        normalizer = 0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - alpha.lgamma() * n
        return density - normalizer
