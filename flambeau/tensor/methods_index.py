"""Methods that read and write at positions. Each is the function of that name with the tensor first; ``name_`` works in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.tensor import functions_index as functions
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.functions_index import Number

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class IndexMethods(TensorBase):
    """Methods of Tensor that read and write at positions."""

    __slots__ = ()

    def index_select(self, dim: int, index: Any) -> Tensor:
        return ops.index_select(self, dim, index)

    def gather(self, dim: int, index: Any, *, sparse_grad: bool = False) -> Tensor:
        return ops.gather(self, dim, index)

    def take(self, index: Any) -> Tensor:
        return ops.take(self, index)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        return ops.take_along_dim(self, indices, dim)

    def where(self, condition: Any, other: Any) -> Tensor:
        return ops.where(condition, self, other)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Number = 1) -> Tensor:
        return ops.index_add(self, dim, index, source, alpha=alpha)

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: Number = 1) -> Self:
        return call_into(ops.index_add, self, (self, dim, index, source), {"alpha": alpha})

    def index_copy(self, dim: int, index: Any, source: Any) -> Tensor:
        return ops.index_copy(self, dim, index, source)

    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:
        return call_into(ops.index_copy, self, (self, dim, index, source), {})

    def index_fill(self, dim: int, index: Any, value: Any) -> Tensor:
        return ops.index_fill(self, dim, index, value)

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        return call_into(ops.index_fill, self, (self, dim, index, value), {})

    def index_reduce(self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        return ops.index_reduce(self, dim, index, source, reduce, include_self=include_self)

    def index_reduce_(self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Self:
        return call_into(ops.index_reduce, self, (self, dim, index, source, reduce), {"include_self": include_self})

    def index_put(self, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        return functions.index_put(self, indices, values, accumulate)

    def index_put_(self, indices: Any, values: Any, accumulate: bool = False) -> Self:
        return call_into(ops.index_put, self, (self, functions.positions(list(indices)), values, accumulate), {})

    def put(self, index: Any, source: Any, accumulate: bool = False) -> Tensor:
        return ops.put(self, index, source, accumulate)

    def put_(self, index: Any, source: Any, accumulate: bool = False) -> Self:
        return call_into(ops.put, self, (self, index, source, accumulate), {})

    def scatter(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
        return functions.scatter(self, dim, index, src, value=value, reduce=reduce)

    def scatter_(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Self:
        return call_into(ops.scatter, self, (self, dim, index, value if src is None else src), {"reduce": reduce})

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        return ops.scatter_add(self, dim, index, src)

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        return call_into(ops.scatter_add, self, (self, dim, index, src), {})

    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        return ops.scatter_reduce(self, dim, index, src, reduce, include_self=include_self)

    def scatter_reduce_(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Self:
        return call_into(ops.scatter_reduce, self, (self, dim, index, src, reduce), {"include_self": include_self})

    def masked_scatter(self, mask: Any, source: Any) -> Tensor:
        return ops.masked_scatter(self, mask, source)

    def masked_scatter_(self, mask: Any, source: Any) -> Self:
        return call_into(ops.masked_scatter, self, (self, mask, source), {})

    def masked_select(self, mask: Any) -> Tensor:
        return functions.masked_select(self, mask)

    def select_scatter(self, src: Any, dim: int, index: int) -> Tensor:
        return functions.select_scatter(self, src, dim, index)

    def slice_scatter(self, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
        return functions.slice_scatter(self, src, dim, start, end, step)

    def diagonal_scatter(self, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        return functions.diagonal_scatter(self, src, offset, dim1, dim2)

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Self:
        """Write one value where all indices are equal; with ``wrap`` a tall matrix has a diagonal again below each, one row apart."""
        shape = self.meta.shape
        if len(shape) < 2:
            raise RuntimeError(f"fill_diagonal_: dimensions must be larger than 1, got shape {list(shape)}")
        if len(shape) > 2 and len(set(shape)) > 1:
            raise RuntimeError(f"fill_diagonal_: all dimensions of input must be of equal length, got {list(shape)}")
        for first in range(0, shape[0] if wrap and len(shape) == 2 else 1, shape[1] + 1):
            diagonal: Any = ops.narrow(self, 0, first, shape[0] - first)
            while len(diagonal.meta.shape) > 1:
                diagonal = ops.diagonal(diagonal, 0, 0, 1)
            diagonal.fill_(fill_value)
        return self

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        return functions.nonzero(self, as_tuple=as_tuple)

    def nonzero_static(self, *, size: int, fill_value: int = -1) -> Tensor:
        return ops.nonzero_static(self, size, fill_value)

    def argwhere(self) -> Tensor:
        return functions.nonzero(self)

    def unique(self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
        return functions.unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
        return functions.unique_consecutive(self, return_inverse, return_counts, dim)

    def bincount(self, weights: Any = None, minlength: int = 0) -> Tensor:
        return functions.bincount(self, weights, minlength)

    def histc(self, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
        return functions.histc(self, bins, min, max)
