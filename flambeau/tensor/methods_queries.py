"""Methods that say what kind of tensor this is, and rare ones for calling Python functions and hooks."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from flambeau.core.handles import RemovableHandle
from flambeau.tensor import functions_copy, functions_shape
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import wants_gradient

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class QueryMethods(TensorBase):
    """Methods of Tensor that say what kind it is."""

    __slots__ = ()

    is_cpu = True
    is_mps = is_xpu = is_xla = is_vulkan = is_mkldnn = is_ipu = is_maia = is_mtia = False
    is_sparse = is_sparse_csr = is_nested = is_quantized = False
    name = None
    # What backward calls after it has added to ``.grad``; see register_post_accumulate_grad_hook.
    post_accumulate_hooks: dict[int, Any] | None = None

    def is_signed(self) -> bool:
        return self.meta.dtype.is_signed

    def is_nonzero(self) -> bool:
        return bool(self)

    def is_same_size(self, other: Any) -> bool:
        return self.meta.shape == other.meta.shape

    def is_set_to(self, tensor: Any) -> bool:
        """Whether both show the same memory in the same way."""
        return self.address == tensor.address and self.meta is tensor.meta

    def is_inference(self) -> bool:
        return False

    def is_distributed(self) -> bool:
        return False

    def ndimension(self) -> int:
        return len(self.meta.shape)

    def dim_order(self, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
        """The dimensions in the order they have in memory, outermost first.

        RuntimeError if there are several and ``ambiguity_check`` is True, or more than one of the memory formats that it lists fits.
        """
        if isinstance(ambiguity_check, list):
            ambiguous = builtins.sum(bool(self.is_contiguous(memory_format=f)) for f in ambiguity_check) > 1  # type: ignore[attr-defined]
        else:
            ambiguous = ambiguity_check and len(set(self.meta.strides)) < len(self.meta.strides)
        if ambiguous:
            raise RuntimeError(f"The tensor does not have unique dim order: shape {self.meta.shape}, strides {self.meta.strides}")
        return tuple(sorted(range(len(self.meta.shape)), key=lambda axis: -self.meta.strides[axis]))

    def const_data_ptr(self) -> int:
        return self.data_ptr()  # type: ignore[attr-defined]

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Self:
        return self._become(functions_shape.as_strided(self, size, stride, storage_offset))  # type: ignore[attr-defined]

    def as_strided_scatter(self, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        return functions_copy.as_strided_scatter(self, src, size, stride, storage_offset)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        return self.to(dtype)  # type: ignore[attr-defined]

    def to_sparse(self, *sparse_dim: int, layout: Any = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
        """The nonzero elements and their places, in ``sparse_dim`` (all) leading dimensions; ``layout`` may be ``torch.sparse_csr``."""
        return _sparse("to_sparse")(self, *sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_coo(self) -> Any:
        """The nonzero elements and their places."""
        return _sparse("to_sparse")(self)

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The nonzero elements of a matrix, row by row."""
        return _sparse("to_sparse")(self, dense_dim=dense_dim).to_sparse_csr()

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Any:
        """Of a nested tensor: see ``torch.nested.to_padded_tensor``."""
        raise RuntimeError("to_padded_tensor: needs a nested tensor, this one is dense already; torch.nn.functional.pad() makes it longer")

    def sparse_mask(self, mask: Any) -> Any:
        """The elements at the places of a sparse tensor."""
        raise RuntimeError("sparse_mask: the mask must be a sparse tensor; multiply by a dense one")

    def is_coalesced(self) -> bool:
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")

    def coalesce(self) -> Any:
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided; call to_sparse() first")

    def indices(self) -> Any:
        raise RuntimeError("indices expected sparse coordinate tensor layout but got Strided; call to_sparse() first")

    def values(self) -> Any:
        raise RuntimeError("values expected sparse tensor layout but got Strided; call to_sparse() first")

    def crow_indices(self) -> Any:
        raise RuntimeError("crow_indices expected sparse row compressed tensor layout but got Strided; call to_sparse_csr() first")

    def col_indices(self) -> Any:
        raise RuntimeError("col_indices expected sparse row compressed tensor layout but got Strided; call to_sparse_csr() first")

    def sparse_dim(self) -> int:
        """0: no dimension is sparse."""
        return 0

    def dense_dim(self) -> int:
        """The number of dimensions, since all are dense."""
        return len(self.meta.shape)

    # -- Python functions -------------------------------------------------------------------------------
    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Replace each element by what a Python function makes of it."""
        if wants_gradient(self):
            raise RuntimeError("apply_() can't be called on Variables that require grad; use detach()")
        array = self.array()  # type: ignore[attr-defined]
        for place in itertools.product(*map(range, self.meta.shape)):
            array[place] = callable(array[place].item())
        self.memory.version += 1
        return self

    def map_(self, other: Any, callable: Callable[[Any, Any], Any]) -> Self:
        """Replace each element by what a Python function makes of it and its counterpart."""
        if wants_gradient(self):
            raise RuntimeError("map_() can't be called on Variables that require grad; use detach()")
        array, second = self.array(), other.expand(self.meta.shape).array()  # type: ignore[attr-defined]
        for place in itertools.product(*map(range, self.meta.shape)):
            array[place] = callable(array[place].item(), second[place].item())
        self.memory.version += 1
        return self

    # -- hooks ------------------------------------------------------------------------------------------
    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after backward has added to ``.grad`` of this leaf."""
        if not wants_gradient(self):
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.entry is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors; use register_hook()")
        if self.post_accumulate_hooks is None:
            self.post_accumulate_hooks = _Hooks()
        handle = RemovableHandle(self.post_accumulate_hooks)
        self.post_accumulate_hooks[handle.id] = hook
        return handle


_sparse: Callable[[str], Any]


def set_sparse(find: Callable[[str], Any]) -> None:
    """Called once by the package: what finds the functions that make sparse tensors."""
    global _sparse
    _sparse = find


class _Hooks(dict[int, Any]):
    """A dictionary that a handle can refer to weakly."""

    __slots__ = ("__weakref__",)
