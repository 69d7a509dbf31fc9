"""Sparse tensors: the places of some elements, and their values; all others are zero.

They are made of dense tensors, ``places`` and ``held``; gradients flow through ``held`` as through any tensor, and a sparse tensor takes
part in autograd where that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.layout import sparse_coo, sparse_csr
from flambeau.ops.declare import default_float
from flambeau.tensor import Tensor
from flambeau.tensor.creation import as_tensor, tensor
from flambeau.tensor.functions_index import unique
from flambeau.tensor.other_layout import OtherLayout
from flambeau.tensor.printing import parts_text

__all__ = ["CooTensor", "CsrTensor", "SparseTensor", "sparse_coo_tensor", "sparse_csr_tensor"]


class SparseTensor(OtherLayout):
    """What both layouts have in common: ``held``, the values."""

    __slots__ = ("held",)
    held: Any

    # -- autograd ---------------------------------------------------------------------------------------
    def _with(self, held: Any) -> Any:
        """The same places with other values."""
        raise NotImplementedError

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self.held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.held.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.held.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The gradient of the values, at the same places."""
        return None if self.held.grad is None else self._with(self.held.grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.held.grad = None if value is None else value.coalesce().held if isinstance(value, CooTensor) else value.held

    @property
    def grad_fn(self) -> Any:
        return self.held.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self.held.is_leaf

    def detach(self) -> Any:
        return self._with(self.held.detach())

    def clone(self, *, memory_format: Any = None) -> Any:
        return self._with(self.held.clone())

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The tensor with values of another dtype, or on another device."""
        return self._with(self.held.to(*args, **kwargs))

    def numel(self) -> int:
        return self.meta.numel

    def _nnz(self) -> int:
        """How many elements are stored."""
        return self.held.shape[0]

    def __bool__(self) -> bool:
        return bool(self.to_dense())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.detach().clone().requires_grad_(self.requires_grad and self.is_leaf))

    def _text(self, parts: Sequence[tuple[str, Any]]) -> str:
        notes = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}"]
        if self.meta.dtype not in (default_float(), default_float().to_complex(), dtypes.int64, dtypes.bool_):
            notes.append(f"dtype={self.meta.dtype}")
        notes.append(f"layout={self.layout}")
        if self.requires_grad:
            notes.append("requires_grad=True" if self.is_leaf else f"grad_fn=<{self.grad_fn.name()}>")
        return parts_text([(name, t.detach().array(), t.dtype) for name, t in parts], notes, self.is_sparse)


class CooTensor(SparseTensor):
    """``places`` [sparse dimensions, count] int64 and ``held`` [count, *dense dimensions]; ``sorted``: in order, none twice."""

    __slots__ = ("places", "sorted")
    places: Any
    sorted: bool
    called = "sparse COO"
    is_sparse = True
    layout = sparse_coo  # type: ignore[assignment]

    def __new__(cls, places: Any, held: Any, shape: Sequence[int], sorted: bool = False) -> CooTensor:
        made = super().__new__(cls, shape, held.dtype, held.device)
        made.places, made.held, made.sorted = places, held, sorted
        return made

    def _with(self, held: Any) -> CooTensor:
        return CooTensor(self.places.to(held.device), held, self.meta.shape, self.sorted)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return CooTensor, (self.places, self.held, tuple(self.shape), self.sorted)

    def sparse_dim(self) -> int:
        return self.places.shape[0]

    def dense_dim(self) -> int:
        return len(self.meta.shape) - self.places.shape[0]

    def is_coalesced(self) -> bool:
        """Whether the places are in order and no one comes twice."""
        return self.sorted

    def _indices(self) -> Any:
        return self.places

    def _values(self) -> Any:
        return self.held

    def indices(self) -> Any:
        """The places, [sparse dimensions, count]; RuntimeError unless coalesced."""
        self._require_coalesced("indices")
        return self.places

    def values(self) -> Any:
        """The values, [count, *dense dimensions]; RuntimeError unless coalesced."""
        self._require_coalesced("values")
        return self.held

    def _require_coalesced(self, name: str) -> None:
        if not self.sorted:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def flat_places(self) -> Any:
        """The row-major number of each place."""
        found = self.places[0] * 0
        for row, size in zip(self.places.unbind(0), self.meta.shape, strict=False):
            found = found * size + row
        return found

    def coalesce(self) -> CooTensor:
        """The same tensor with its places in order, and the values at one place added up."""
        if self.sorted:
            return self
        if self._nnz() < 2:
            return CooTensor(self.places, self.held, self.meta.shape, True)
        numbers, inverse = unique(self.flat_places(), return_inverse=True)
        start = ops.zeros((numbers.shape[0], *self.held.shape[1:]), self.held.dtype).to(self.held.device)
        held = ops.index_add(start, 0, inverse, self.held)
        return CooTensor(places_of(numbers, self.meta.shape[: self.sparse_dim()]), held, self.meta.shape, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Any:
        """All elements."""
        out = ops.zeros(self.meta.shape, self.held.dtype).to(self.held.device)
        if self._nnz():
            out = out.index_put(tuple(self.places.unbind(0)), self.held, accumulate=True)
        return out if dtype is None else out.to(dtype)

    def to_sparse(self, *args: Any, layout: Any = None, **_: Any) -> Any:
        return self.to_sparse_csr() if layout is sparse_csr else self

    def to_sparse_coo(self) -> CooTensor:
        return self

    def to_sparse_csr(self, dense_dim: int | None = None) -> CsrTensor:
        """Compressed rows of a matrix."""
        if len(self.meta.shape) != 2 or self.sparse_dim() != 2:
            raise NotImplementedError(f"to_sparse_csr: needs a matrix, got shape {list(self.meta.shape)}; there are no batches of them")
        whole = self.coalesce()
        rows, columns = whole.places.unbind(0)
        counts = ops.bincount(rows, None, self.meta.shape[0])
        pointers = ops.cat([ops.zeros((1,), dtypes.int64).to(rows.device), ops.cumsum(counts, 0)], 0)
        return CsrTensor(pointers, columns, whole.held, self.meta.shape)

    def transpose(self, dim0: int, dim1: int) -> CooTensor:
        """The dimensions exchanged; both must be sparse."""
        rank = len(self.meta.shape)
        a, b = dim0 % rank, dim1 % rank
        if max(a, b) >= self.sparse_dim():
            raise NotImplementedError(f"transpose: dimensions {dim0} and {dim1} are not both sparse; call .to_dense() first")
        order = list(range(rank))
        order[a], order[b] = b, a
        places = self.places[ops_index(order[: self.sparse_dim()], self.places)]
        return CooTensor(places, self.held, [self.meta.shape[i] for i in order], self.sorted and a == b)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._text((("indices", self.places), ("values", self.held)))


def ops_index(numbers: Sequence[int], like: Any) -> Any:
    """Positions on the device of a tensor."""
    return tensor(list(numbers), dtype=dtypes.int64, device=like.device)


def places_of(numbers: Any, shape: Sequence[int]) -> Any:
    """The coordinates of row-major numbers, [dimensions, count]."""
    rows: list[Any] = []
    for size in reversed(shape):
        rows.append(numbers % size)
        numbers = ops.floor_divide(numbers, size)
    return ops.stack(rows[::-1], 0)


class CsrTensor(SparseTensor):
    """A matrix by rows: row i has the elements from ``pointers[i]`` up to ``pointers[i + 1]``, in the columns ``columns``."""

    __slots__ = ("columns", "pointers")
    pointers: Any
    columns: Any
    called = "sparse CSR"
    is_sparse_csr = True
    layout = sparse_csr  # type: ignore[assignment]

    def __new__(cls, pointers: Any, columns: Any, held: Any, shape: Sequence[int]) -> CsrTensor:
        made = super().__new__(cls, shape, held.dtype, held.device)
        made.pointers, made.columns, made.held = pointers, columns, held
        return made

    def _with(self, held: Any) -> CsrTensor:
        return CsrTensor(self.pointers.to(held.device), self.columns.to(held.device), held, self.meta.shape)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return CsrTensor, (self.pointers, self.columns, self.held, tuple(self.shape))

    def crow_indices(self) -> Any:
        """Where each row begins, and the end: [rows + 1]."""
        return self.pointers

    def col_indices(self) -> Any:
        """The column of each element."""
        return self.columns

    def values(self) -> Any:
        """The value of each element."""
        return self.held

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return 0

    def rows(self) -> Any:
        """The row of each element."""
        return ops.compressed_rows(self.pointers, self._nnz())

    def to_sparse_coo(self) -> CooTensor:
        return CooTensor(ops.stack([self.rows(), ops.to_dtype(self.columns, dtypes.int64)], 0), self.held, self.meta.shape, True)

    def to_sparse(self, *args: Any, layout: Any = None, **_: Any) -> Any:
        return self if layout is sparse_csr else self.to_sparse_coo()

    def to_sparse_csr(self, dense_dim: int | None = None) -> CsrTensor:
        return self

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Any:
        """All elements."""
        return self.to_sparse_coo().to_dense(dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = (("crow_indices", self.pointers), ("col_indices", self.columns), ("values", self.held))
        return self._text(parts)


# -- making them ----------------------------------------------------------------------------------------
def _values_of(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    held = as_tensor(values, dtype=dtype, device=device) if not isinstance(values, Tensor) else values
    held = held if dtype is None and device is None else held.to(dtype or held.dtype).to(device or held.device)
    return held.detach().requires_grad_() if requires_grad else held


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None, pin_memory: bool = False,
) -> CooTensor:  # fmt: skip
    """A tensor with ``values`` [count, ...] at the places ``indices`` [sparse dimensions, count], zero elsewhere.

    Places may come more than once; their values count together. Without ``size`` it is the smallest that holds all places. Gradients flow
    to ``values``. RuntimeError for sizes that do not fit, or a negative place.

    >>> import flambeau as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None or isinstance(indices, (int,)):
        raise NotImplementedError("sparse_coo_tensor: needs indices and values; for no elements give indices of shape [dimensions, 0]")
    held = _values_of(values, dtype, device, requires_grad)
    places = as_tensor(indices, device=held.device).long()
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if not held.ndim or held.shape[0] != places.shape[1]:
        told = f"nnz from indices: {places.shape[1]}, nnz from values: {list(held.shape)}"
        raise RuntimeError(f"indices and values must have same nnz, but got {told}")
    _check_places(places, size)
    if size is None:
        size = [int(n) + 1 for n in places.amax(1).tolist()] + list(held.shape[1:]) if places.shape[1] else [0] * places.shape[0]
    shape = tuple(int(n) for n in size)
    if shape[places.shape[0] :] != tuple(held.shape[1:]):
        wanted = [places.shape[1], *shape[places.shape[0] :]]
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {list(held.shape)}: the size is {list(shape)}")
    return CooTensor(places, held, shape, bool(is_coalesced))


def _check_places(places: Any, size: Any) -> None:
    if not places.shape[1]:
        return
    low, high = places.amin(1).tolist(), places.amax(1).tolist()
    if min(low) < 0:
        raise RuntimeError(f"found negative index {int(min(low))} for dim {low.index(min(low))}")
    if size is not None:
        if len(size) < len(high):
            raise RuntimeError(f"number of dimensions must be sparse_dim ({len(high)}) or more, but got size {list(size)}")
        for dim, (found, bound) in enumerate(zip(high, size, strict=False)):
            if found >= bound:
                raise RuntimeError(f"size is inconsistent with indices: for dim {dim}, size is {bound} but found index {int(found)}")


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None, pin_memory: bool = False,
) -> CsrTensor:  # fmt: skip
    """A matrix by rows: row i has the values from ``crow_indices[i]`` up to ``crow_indices[i + 1]`` in the columns ``col_indices``.

    Gradients flow to ``values``. RuntimeError for sizes that do not fit.

    >>> import flambeau as torch
    >>> torch.sparse_csr_tensor([0, 1, 3], [2, 0, 1], [3., 4., 5.], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 5., 0.]])
    """
    held = _values_of(values, dtype, device, requires_grad)
    pointers, columns = as_tensor(crow_indices, device=held.device), as_tensor(col_indices, device=held.device)
    if pointers.ndim != 1 or columns.ndim != 1 or held.ndim != 1:
        raise NotImplementedError("sparse_csr_tensor: batches and dense dimensions are not implemented; use one tensor for each")
    if columns.shape != held.shape or int(pointers[-1].item()) != held.shape[0]:
        raise RuntimeError(
            f"sparse_csr_tensor: {int(pointers[-1].item())} elements by crow_indices, {columns.shape[0]} columns and {held.shape[0]} values"
        )
    shape = (pointers.shape[0] - 1, int(columns.amax().item()) + 1 if held.shape[0] else 0) if size is None else tuple(size)
    if shape[0] != pointers.shape[0] - 1:
        raise RuntimeError(f"sparse_csr_tensor: crow_indices of {pointers.shape[0]} elements for {shape[0]} rows; needs one more than rows")
    return CsrTensor(pointers, columns, held, shape)


def to_sparse(x: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
    """The nonzero elements of a dense tensor and their places."""
    if layout is not None and layout not in (sparse_coo, sparse_csr):
        raise NotImplementedError(f"to_sparse: layout {layout} is not implemented; use torch.sparse_coo or torch.sparse_csr")
    count = len(x.shape) if sparse_dim is None else sparse_dim
    if not 0 < count <= len(x.shape):
        raise RuntimeError(f"to_sparse: sparse_dim must be in [1, {len(x.shape)}], got {count}")
    mask = x.detach() != 0
    places = (mask if count == len(x.shape) else mask.flatten(count).any(-1)).nonzero().t()
    made = CooTensor(places, x[tuple(places.unbind(0))], x.shape, True)
    return made.to_sparse_csr() if layout is sparse_csr else made


Table = dict[str, Callable[..., Any]]
