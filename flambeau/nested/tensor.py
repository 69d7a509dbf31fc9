"""Nested tensors: a batch of tensors that differ in one dimension, packed in one dense tensor along it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.layout import jagged
from flambeau.core.shape import Size
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import as_tensor, tensor
from flambeau.tensor.functions_shape import split
from flambeau.tensor.other_layout import OtherLayout

__all__ = ["NestedTensor", "RaggedSize", "as_nested_tensor", "need_jagged", "nested_tensor", "nested_tensor_from_jagged"]

_numbers = itertools.count(1)


class RaggedSize:
    """The size of the ragged dimension: equal to itself alone, so that only tensors of the same lengths fit."""

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"


class NestedTensor(OtherLayout):
    """``packed`` holds the tensors one after another along dimension ``ragged - 1``; the lengths are the differences of ``bounds``.

    ``ragged`` is the dimension of the nested tensor whose size ``length`` differs from one to the next; dimension 0 is the batch.
    """

    __slots__ = ("bounds", "length", "packed", "ragged", "sizes")
    packed: Any
    bounds: Any
    length: RaggedSize
    ragged: int
    sizes: tuple[int, ...]
    called = "nested (jagged)"
    is_nested = True
    layout = jagged  # type: ignore[assignment]

    def __new__(cls, packed: Any, bounds: Any, sizes: tuple[int, ...], length: RaggedSize, ragged: int = 1) -> NestedTensor:
        made = super().__new__(cls, (len(sizes), *packed.shape), packed.dtype, packed.device)
        made.packed, made.bounds, made.sizes, made.length, made.ragged = packed, bounds, sizes, length, ragged
        return made

    def like(self, packed: Any, ragged: int | None = None) -> NestedTensor:
        """Other elements in the same lengths."""
        return NestedTensor(packed, self.bounds, self.sizes, self.length, self.ragged if ragged is None else ragged)

    # -- shape ------------------------------------------------------------------------------------------
    @property
    def shape(self) -> Any:
        """The sizes, that of the ragged dimension as a symbol."""
        inner: list[Any] = list(self.packed.shape)
        inner[self.ragged - 1] = self.length
        return Size((len(self.sizes), *inner))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        return self.packed.ndim + 1

    def dim(self) -> int:
        return self.packed.ndim + 1

    def numel(self) -> int:
        """How many elements there are in all."""
        return self.packed.numel()

    def __len__(self) -> int:
        return len(self.sizes)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self.packed.is_contiguous()

    def contiguous(self, memory_format: Any = None) -> Any:
        return self.like(self.packed.contiguous())

    # -- parts ------------------------------------------------------------------------------------------
    def values(self) -> Any:
        """The elements of all tensors, one after another along the ragged dimension."""
        return self.packed

    def offsets(self) -> Any:
        """Where each tensor begins in the values, and the end: [batch + 1] int64."""
        return self.bounds

    def lengths(self) -> None:
        """None: the tensors lie without gaps."""

    def rows(self) -> Any:
        """The tensor that each place along the ragged dimension of the values belongs to."""
        return ops.compressed_rows(self.bounds, self.packed.shape[self.ragged - 1])

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The tensors, as views; along dimension 0 only."""
        if dim % self.ndim:
            raise RuntimeError("unbind(): only supported for jagged layout nested tensors on dim=0")
        return tuple(split(self.packed, list(self.sizes), self.ragged - 1))

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self.unbind()[index]
        raise NotImplementedError("nested tensors are indexed by a number only; unbind() gives their parts, values() all elements")

    # -- autograd ---------------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self.packed.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.packed.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.packed.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The gradient of the values, in the same lengths."""
        return None if self.packed.grad is None else self.like(self.packed.grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.packed.grad = None if value is None else value.packed

    @property
    def grad_fn(self) -> Any:
        return self.packed.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self.packed.is_leaf

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None) -> None:
        self.packed.backward(None if gradient is None else gradient.packed, retain_graph, create_graph, inputs)

    def detach(self) -> Any:
        return self.like(self.packed.detach())

    def clone(self, *, memory_format: Any = None) -> Any:
        return self.like(self.packed.clone())

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The tensor with another dtype, or on another device."""
        packed = self.packed.to(*args, **kwargs)
        return NestedTensor(packed, self.bounds.to(packed.device), self.sizes, self.length, self.ragged)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.detach().clone().requires_grad_(self.requires_grad and self.is_leaf))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return nested_tensor_from_jagged, (self.packed, self.bounds, None, self.ragged)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        history = "" if not self.requires_grad else ", requires_grad=True" if self.is_leaf else f", grad_fn={self.grad_fn!r}"
        return f"NestedTensor(size={tuple(self.shape)}, offsets={self.bounds!r}{history}, contiguous={self.is_contiguous()})"


# -- making them ----------------------------------------------------------------------------------------
def need_jagged(name: str, layout: Any) -> None:
    """NotImplementedError for another layout."""
    if layout is not jagged:
        raise NotImplementedError(f"{name}: only layout=torch.jagged is implemented; give it, or pad the tensors and stack them")


def _packed(name: str, tensors: Sequence[Any]) -> NestedTensor:
    if not tensors:
        raise RuntimeError(f"{name}: Cannot construct a nested tensor from an empty tensor list")
    first = tensors[0]
    for t in tensors:
        if t.ndim != first.ndim or not t.ndim or t.shape[1:] != first.shape[1:] or t.dtype is not first.dtype:
            told = f"{first.dtype} {list(first.shape)} and {t.dtype} {list(t.shape)}"
            raise RuntimeError(f"{name}: tensors may differ in their first dimension only, got {told}")
    sizes = tuple([int(t.shape[0]) for t in tensors])
    bounds = tensor([0, *itertools.accumulate(sizes)], dtype=dtypes.int64, device=first.device)
    return NestedTensor(ops.cat(list(tensors), 0), bounds, sizes, RaggedSize())


def nested_tensor(
    tensor_list: Sequence[Any], *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:  # fmt: skip
    """A leaf with copies of tensors (or lists of numbers) that differ in their first dimension; ``layout`` must be ``torch.jagged``.

    >>> import flambeau as torch
    >>> nt = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    >>> nt.sum(1)
    tensor([[2., 2., 2.],
            [4., 4., 4.]])
    """
    need_jagged("nested_tensor", layout)
    made = _packed("nested_tensor", [as_tensor(t, dtype=dtype, device=device).detach() for t in tensor_list])
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> NestedTensor:
    """As `nested_tensor`, but gradients flow back to the tensors; a dense tensor is taken for a batch of equal lengths."""
    if isinstance(ts, NestedTensor):
        return ts
    need_jagged("as_nested_tensor", layout)
    parts = list(ts.unbind(0)) if isinstance(ts, TensorBase) else list(ts)  # type: ignore[attr-defined]
    return _packed("as_nested_tensor", [as_tensor(t, dtype=dtype, device=device) for t in parts])


def nested_tensor_from_jagged(
    values: Any, offsets: Any = None, lengths: Any = None, jagged_dim: int | None = None, min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """A view of packed ``values`` as a batch: tensor i from ``offsets[i]`` up to ``offsets[i + 1]`` of dimension ``jagged_dim`` - 1.

    ``lengths`` may be given instead of offsets. Gradients flow to ``values``. RuntimeError for neither.

    >>> import flambeau as torch
    >>> nt = torch.nested.nested_tensor_from_jagged(torch.arange(5.), torch.tensor([0, 2, 5]))
    >>> [t.tolist() for t in nt.unbind()]
    [[0.0, 1.0], [2.0, 3.0, 4.0]]
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets = ops.cat([ops.zeros((1,), dtypes.int64).to(lengths.device), ops.cumsum(ops.to_dtype(lengths, dtypes.int64), 0)], 0)
        lengths = None
    if lengths is not None:
        raise NotImplementedError("nested_tensor_from_jagged: gaps (offsets and lengths) are not implemented; give one of them")
    known = _met.get(id(offsets))
    if known is None or known[0] is not offsets:
        ends = offsets.tolist()
        known = (offsets, tuple([b - a for a, b in itertools.pairwise(ends)]), RaggedSize())
        _met[id(offsets)] = known
        if len(_met) > _MOST:
            del _met[next(iter(_met))]
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 1 <= ragged <= values.ndim or sum(known[1]) != values.shape[ragged - 1]:
        told = f"offsets up to {sum(known[1])} and jagged_dim={ragged} do not fit values {list(values.shape)}"
        raise RuntimeError(f"nested_tensor_from_jagged: {told}")
    return NestedTensor(values, ops.to_dtype(offsets, dtypes.int64), known[1], known[2], ragged)


# What the last offsets mean, so that tensors made with the same ones fit each other.
_met: dict[int, tuple[Any, tuple[int, ...], RaggedSize]] = {}
_MOST = 64

