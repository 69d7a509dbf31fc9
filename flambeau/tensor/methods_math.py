"""Methods made of several operators. Each is the function of that name with the tensor first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.tensor import dispatch, functions_gamma
from flambeau.tensor import functions_math as functions
from flambeau.tensor.arguments import given_sizes, numpy_names
from flambeau.tensor.base import TensorBase
from flambeau.tensor.functions_math import Number

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


def _kept(name: str, target: Any, result: Any) -> Any:
    """``target`` with ``result`` in it; RuntimeError where its type cannot hold that."""
    dispatch.check_target(name, result, target)
    return dispatch.call_into(ops.assign, target, (target, result), {})


class MathMethods(TensorBase):
    """Methods of Tensor made of several operators."""

    __slots__ = ()

    def sum_to_size(self, *size: Any) -> Tensor:
        """Summed along the dimensions that broadcasting from ``size`` repeats."""
        wanted, have = given_sizes(size), self.meta.shape
        extra = len(have) - len(wanted)
        if extra < 0 or any(w not in (1, h) for w, h in zip(wanted, have[extra:], strict=True)):
            raise RuntimeError(f"sum_to_size: size {list(wanted)} is not expandable to size {list(have)}.")
        if not wanted:
            return ops.sum(self)  # type: ignore[return-value]
        axes = [i for i in range(len(have)) if i < extra or (wanted[i - extra] == 1 and have[i] != 1)]
        return ops.reshape(ops.sum(self, axes), tuple(wanted)) if axes else self  # type: ignore[return-value]

    # -- statistics -------------------------------------------------------------------------------------
    def cov(self, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        return functions.cov(self, correction=correction, fweights=fweights, aweights=aweights)

    def corrcoef(self) -> Tensor:
        return functions.corrcoef(self)

    @numpy_names
    def quantile(self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
        return functions.quantile(self, q, dim, keepdim, interpolation=interpolation)

    @numpy_names
    def nanquantile(self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
        return functions.nanquantile(self, q, dim, keepdim, interpolation=interpolation)

    @numpy_names
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return functions.nanmedian(self, dim, keepdim)

    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
        return functions.histogram(self, bins, range=range, weight=weight, density=density)

    def dist(self, other: Any, p: Number = 2) -> Tensor:
        return functions.dist(self, other, p)

    def renorm(self, p: Number, dim: int, maxnorm: Number) -> Tensor:
        return functions.renorm(self, p, dim, maxnorm)

    def renorm_(self, p: Number, dim: int, maxnorm: Number) -> Self:
        return _kept("renorm_", self, functions.renorm(self, p, dim, maxnorm))

    # -- incomplete gamma functions ---------------------------------------------------------------------
    def igamma(self, other: Any) -> Tensor:
        return functions_gamma.igamma(self, other)

    def igamma_(self, other: Any) -> Self:
        return _kept("igamma_", self, functions_gamma.igamma(self, other))

    def igammac(self, other: Any) -> Tensor:
        return functions_gamma.igammac(self, other)

    def igammac_(self, other: Any) -> Self:
        return _kept("igammac_", self, functions_gamma.igammac(self, other))
