"""Methods that reduce, sort or measure. Each is the function of that name with the tensor first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.core.dtypes import dtype
from flambeau.tensor import functions_reduce as functions
from flambeau.tensor.arguments import numpy_names
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.functions_reduce import MinMax

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor

Dims = int | Sequence[int] | None


class ReductionMethods(TensorBase):
    """Methods of Tensor that reduce, sort or measure."""

    __slots__ = ()

    @numpy_names
    def sum(self, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
        return ops.sum(self, dim, keepdim, dtype)

    @numpy_names
    def mean(self, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
        return ops.mean(self, dim, keepdim, dtype)

    @numpy_names
    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
        return ops.prod(self, dim, keepdim, dtype)

    @numpy_names
    def nansum(self, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
        return ops.nansum(self, dim, keepdim, dtype)

    @numpy_names
    def nanmean(self, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
        return ops.nanmean(self, dim, keepdim, dtype)

    @numpy_names
    def count_nonzero(self, dim: Dims = None) -> Tensor:
        return ops.count_nonzero(self, dim)

    @numpy_names
    def logsumexp(self, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
        return ops.logsumexp(self, dim, keepdim)

    @numpy_names
    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return ops.all(self, dim, keepdim)

    @numpy_names
    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return ops.any(self, dim, keepdim)

    @numpy_names
    def amax(self, dim: Dims = (), keepdim: bool = False) -> Tensor:
        return ops.amax(self, dim, keepdim)

    @numpy_names
    def amin(self, dim: Dims = (), keepdim: bool = False) -> Tensor:
        return ops.amin(self, dim, keepdim)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
        return functions.aminmax(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return ops.argmax(self, dim, keepdim)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return ops.argmin(self, dim, keepdim)

    def max(self, *args: Any, **named: Any) -> Any:
        return functions.max(self, *args, **named)

    def min(self, *args: Any, **named: Any) -> Any:
        return functions.min(self, *args, **named)

    @numpy_names
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return ops.median(self, dim, keepdim)

    @numpy_names
    def mode(self, dim: int = -1, keepdim: bool = False) -> Any:
        return ops.mode(self, dim, keepdim)

    def var(self, *args: Any, **named: Any) -> Tensor:
        return functions.var(self, *args, **named)

    def std(self, *args: Any, **named: Any) -> Tensor:
        return functions.std(self, *args, **named)

    @numpy_names
    def norm(self, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
        return ops.norm(self, p, dim, keepdim, dtype)

    @numpy_names
    def cumsum(self, dim: int, *, dtype: dtype | None = None) -> Tensor:
        return ops.cumsum(self, dim, dtype)

    @numpy_names
    def hash_tensor(self, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
        return functions.hash_tensor(self, dim, keepdim=keepdim, mode=mode)

    def logcumsumexp(self, dim: int) -> Tensor:
        return ops.logcumsumexp(self, dim)

    @numpy_names
    def cumsum_(self, dim: int, *, dtype: dtype | None = None) -> Self:
        return call_into(ops.cumsum, self, (self, dim, dtype), {})

    @numpy_names
    def cumprod(self, dim: int, *, dtype: dtype | None = None) -> Tensor:
        return ops.cumprod(self, dim, dtype)

    @numpy_names
    def cumprod_(self, dim: int, *, dtype: dtype | None = None) -> Self:
        return call_into(ops.cumprod, self, (self, dim, dtype), {})

    @numpy_names
    def cummax(self, dim: int) -> Any:
        return ops.cummax(self, dim)

    @numpy_names
    def cummin(self, dim: int) -> Any:
        return ops.cummin(self, dim)

    @numpy_names
    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
        return functions.diff(self, n, dim, prepend, append)

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        return ops.sort(self, dim, descending, True)

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        return ops.argsort(self, dim, descending, True)

    def msort(self) -> Tensor:
        return ops.msort(self)

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        return ops.topk(self, k, dim, largest, sorted)

    @numpy_names
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        return ops.kthvalue(self, k, dim, keepdim)

    def equal(self, other: Tensor) -> bool:
        return functions.equal(self, other)

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        return functions.allclose(self, other, rtol, atol, equal_nan)

    @numpy_names
    def softmax(self, dim: int, dtype: dtype | None = None) -> Tensor:
        return ops.softmax(self, dim, dtype)

    @numpy_names
    def log_softmax(self, dim: int, dtype: dtype | None = None) -> Tensor:
        return ops.log_softmax(self, dim, dtype)
