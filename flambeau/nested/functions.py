"""What public functions do with nested tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.nested.tensor import NestedTensor, need_jagged, nested_tensor_from_jagged
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full

__all__ = ["masked_select", "narrow", "to_padded_tensor"]


def _places(a: NestedTensor) -> tuple[Any, Any]:
    """Of each place along the ragged dimension of the values: which tensor, and the place in it."""
    rows = a.rows()
    return rows, ops.arange(0, 1, rows.shape[0], dtypes.int64).to(rows.device) - a.bounds[rows]


def _ragged_first(a: NestedTensor) -> Any:
    return ops.movedim(a.packed, a.ragged - 1, 0)


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Any = None) -> Any:
    """A dense tensor: the tensors with ``padding`` after them up to the longest, or to ``output_size``.

    >>> import flambeau as torch
    >>> nt = torch.nested.nested_tensor([[1., 2.], [3.]], layout=torch.jagged)
    >>> torch.nested.to_padded_tensor(nt, 0.)
    tensor([[1., 2.],
            [3., 0.]])
    """
    longest = max(input.sizes, default=0)
    if output_size is not None:
        length = output_size[input.ragged]
        if length < longest or tuple(output_size[:1]) != (len(input.sizes),):
            told = f"{len(input.sizes)} tensors of up to {longest}"
            raise RuntimeError(f"to_padded_tensor: output_size {list(output_size)} does not hold {told}")
        longest = length
    packed = _ragged_first(input)
    start = full((len(input.sizes), longest, *packed.shape[1:]), padding, dtype=packed.dtype, device=packed.device)
    return ops.movedim(start.index_put(_places(input), packed), 1, input.ragged)


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = None) -> NestedTensor:
    """From each row of a dense tensor [batch, n, ...] ``length`` elements from ``start`` on, numbers or tensors [batch]; a copy.

    >>> import flambeau as torch
    >>> x = torch.arange(8.).view(2, 4)
    >>> nt = torch.nested.narrow(x, 1, torch.tensor([0, 2]), torch.tensor([3, 1]), layout=torch.jagged)
    >>> [t.tolist() for t in nt.unbind()]
    [[0.0, 1.0, 2.0], [6.0]]
    """
    need_jagged("narrow", layout)
    if dim != 1:
        raise RuntimeError(f"narrow: jagged tensors are made along dim=1, got dim={dim}")
    line = ops.arange(0, 1, tensor.shape[1], dtypes.int64).to(tensor.device)
    first, count = (v.unsqueeze(1) if isinstance(v, Tensor) else full((tensor.shape[0], 1), v, dtype=dtypes.int64) for v in (start, length))
    return masked_select(tensor, ops.logical_and(line >= first, line < first + count))


def masked_select(tensor: Any, mask: Any) -> NestedTensor:
    """From each row of a dense tensor [batch, n, ...] the elements under a mask [batch, n].

    >>> import flambeau as torch
    >>> x = torch.arange(6.).view(2, 3)
    >>> [t.tolist() for t in torch.nested.masked_select(x, x % 2 == 0).unbind()]
    [[0.0, 2.0], [4.0]]
    """
    if mask.ndim != 2 or tuple(tensor.shape[:2]) != tuple(mask.shape):
        shapes = f"{list(mask.shape)} and {list(tensor.shape)}"
        raise RuntimeError(f"masked_select: the mask must be [batch, n] as the tensor begins, got {shapes}")
    return nested_tensor_from_jagged(tensor[mask], lengths=mask.sum(1))


def _from_padded(dense: Any, like: NestedTensor, ragged: int) -> NestedTensor:
    return like.like(ops.movedim(ops.movedim(dense, ragged, 1)[_places(like)], 0, ragged - 1), ragged)


# -- pointwise ------------------------------------------------------------------------------------------
def _operand(a: NestedTensor, other: Any) -> Any:
    """What an operand of a pointwise function means for the values of ``a``; NotImplemented where it does not fit."""
    if not isinstance(other, Tensor):
        return other
    if isinstance(other, NestedTensor):
        if other.length is not a.length or other.ragged != a.ragged:
            shapes = f"{tuple(a.shape)} and {tuple(other.shape)}"
            raise RuntimeError(f"cannot call a pointwise function with shapes {shapes}: the lengths differ in origin")
        return other.packed
    missing = a.ndim - other.ndim
    if missing < 0:
        return NotImplemented
    if missing > a.ragged:
        return other
    along = other.shape[a.ragged - missing]
    if along != 1:
        return NotImplemented
    if missing or other.shape[0] == 1:
        return other if missing else other.squeeze(0)
    spread = ops.movedim(ops.squeeze(other, a.ragged)[a.rows()], 0, a.ragged - 1)
    return spread


def _elementwise(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An elementwise function: of the values."""
    first = next(a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor))
    given, named = [_operand(first, a) for a in args], {k: _operand(first, a) for k, a in kwargs.items()}
    return NotImplemented if any(g is NotImplemented for g in (*given, *named.values())) else first.like(func(*given, **named))


def _inner(a: NestedTensor, dim: int) -> int:
    """The dimension of the values that is dimension ``dim``."""
    at = dim % a.ndim
    if at == 0:
        raise RuntimeError("the batch dimension of a nested tensor cannot be used here; unbind() it")
    return at - 1


# -- reductions -----------------------------------------------------------------------------------------
def _reduced(a: NestedTensor, dim: Any, keepdim: bool, name: str) -> Any:
    """A sum or mean: over the ragged dimension dense, over others nested."""
    if dim is None:
        return getattr(a.packed, name)()
    dims = {d % a.ndim for d in ((dim,) if isinstance(dim, int) else dim)}
    if 0 in dims or (a.ragged in dims and len(dims) > 1):
        raise RuntimeError(f"{name}(): reducing along the batch, or the ragged and another dimension, is not supported for nested tensors")
    if a.ragged not in dims:
        found = getattr(a.packed, name)([d - 1 for d in dims], keepdim)
        return a.like(found, a.ragged if keepdim else a.ragged - len([d for d in dims if d < a.ragged]))
    packed = _ragged_first(a)
    total = ops.index_add(ops.zeros((len(a.sizes), *packed.shape[1:]), packed.dtype).to(packed.device), 0, a.rows(), packed)
    if name == "mean":
        lengths = ops.to_dtype(a.bounds[1:] - a.bounds[:-1], packed.dtype)
        total = total / lengths.reshape(-1, *(1,) * (packed.ndim - 1))
    return total.unsqueeze(a.ragged) if keepdim else total


def _sum(a: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _reduced(a if dtype is None else a.to(dtype), dim, keepdim, "sum")


def _mean(a: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _reduced(a if dtype is None else a.to(dtype), dim, keepdim, "mean")


def _extreme(name: str) -> Callable[..., Any]:
    def run(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None or (not isinstance(dim, int)):
            return getattr(a.packed, name)() if dim is None else NotImplemented
        if dim % a.ndim != a.ragged:
            return a.like(getattr(a.packed, name)(_inner(a, dim), keepdim), a.ragged - (0 if keepdim or dim % a.ndim > a.ragged else 1))
        packed = _ragged_first(a)
        start = ops.zeros((len(a.sizes), *packed.shape[1:]), packed.dtype).to(packed.device)
        found = start.index_reduce(0, a.rows(), packed, name, include_self=False)
        return found.unsqueeze(a.ragged) if keepdim else found

    return run


def _softmax(a: Any, dim: int, _stacklevel: int = 3, dtype: Any = None, *, logarithm: bool = False) -> Any:
    a = a if dtype is None else a.to(dtype)
    if dim % a.ndim != a.ragged:
        return a.like((ops.log_softmax if logarithm else ops.softmax)(a.packed, _inner(a, dim)))
    packed, rows = _ragged_first(a), a.rows()
    start = ops.zeros((len(a.sizes), *packed.shape[1:]), packed.dtype).to(packed.device)
    highest = start.index_reduce(0, rows, packed.detach(), "amax", include_self=False)
    shifted = packed - highest[rows]
    total = ops.index_add(start, 0, rows, shifted.exp())[rows]
    found = shifted - total.log() if logarithm else shifted.exp() / total
    return a.like(ops.movedim(found, 0, a.ragged - 1))


# -- products -------------------------------------------------------------------------------------------
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if not isinstance(input, NestedTensor) or input.ragged == input.ndim - 1:
        return NotImplemented
    return input.like(ops.linear(input.packed, weight, bias))


def _matmul(a: Any, b: Any) -> Any:
    if isinstance(b, NestedTensor) or not isinstance(a, NestedTensor) or b.ndim > 2 or a.ragged == a.ndim - 1:
        return NotImplemented
    return a.like(ops.matmul(a.packed, b))


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Attention within each tensor, [batch, heads, ragged, width] each: on padded tensors, with what is padding masked out."""
    nested = [isinstance(t, NestedTensor) and t.ndim == 4 and t.ragged == 2 for t in (query, key, value)]
    if not all(nested) or attn_mask is not None or key.length is not value.length:
        return NotImplemented
    q, k, v = (to_padded_tensor(t, 0.0) for t in (query, key, value))
    lengths = key.bounds[1:] - key.bounds[:-1]
    line = ops.arange(0, 1, k.shape[2], dtypes.int64).to(lengths.device)
    mask = (line < lengths.unsqueeze(1)).reshape(-1, 1, 1, k.shape[2])
    if is_causal:
        rows = ops.arange(0, 1, q.shape[2], dtypes.int64).to(lengths.device)
        mask = ops.logical_and(mask, line <= rows.unsqueeze(1))
    found = ops.scaled_dot_product_attention(q, k, v, mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa)
    return _from_padded(found, query, 2)


# -- shape ----------------------------------------------------------------------------------------------
def _transpose(a: Any, dim0: int, dim1: int) -> Any:
    x, y = _inner(a, dim0), _inner(a, dim1)
    ragged = a.ragged - 1
    return a.like(a.packed.transpose(x, y), 1 + (y if ragged == x else x if ragged == y else ragged))


def _unflatten(a: Any, dim: int, sizes: Any) -> Any:
    at = _inner(a, dim)
    if at == a.ragged - 1:
        return NotImplemented
    return a.like(a.packed.unflatten(at, sizes), a.ragged + (len(sizes) - 1 if at < a.ragged - 1 else 0))


def _flatten(a: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = _inner(a, start_dim), _inner(a, end_dim)
    if first <= a.ragged - 1 <= last:
        return NotImplemented
    return a.like(a.packed.flatten(first, last), a.ragged - (last - first if last < a.ragged - 1 else 0))


def _view(a: Any, *shape: Any) -> Any:
    """Another shape with the same batch and ragged dimension, which is named by its size or by -1."""
    wanted = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    if len(wanted) < 2 or wanted[0] not in (-1, len(a.sizes)) or a.ragged != 1:
        return NotImplemented
    if wanted[1] is not a.length and wanted[1] != -1:
        return NotImplemented
    return a.like(a.packed.reshape(a.packed.shape[0], *wanted[2:]))


def _chunk(a: Any, chunks: int, dim: int = 0) -> Any:
    return NotImplemented if _inner(a, dim) == a.ragged - 1 else tuple(a.like(p) for p in a.packed.chunk(chunks, _inner(a, dim)))


def _cat(tensors: Any, dim: int = 0) -> Any:
    if not all(isinstance(t, NestedTensor) for t in tensors):
        return NotImplemented
    first, at = tensors[0], _inner(tensors[0], dim)
    return NotImplemented if at == first.ragged - 1 else first.like(ops.cat([_operand(first, t) for t in tensors], at))


def _unsqueeze(a: Any, dim: int) -> Any:
    at = dim % (a.ndim + 1)
    return NotImplemented if at == 0 else a.like(a.packed.unsqueeze(at - 1), a.ragged + (at <= a.ragged))


def _squeeze(a: Any, dim: int) -> Any:
    at = _inner(a, dim)
    if at == a.ragged - 1 or a.packed.shape[at] != 1:
        return NotImplemented if at == a.ragged - 1 else a
    return a.like(a.packed.squeeze(at), a.ragged - (at < a.ragged - 1))


def _layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if len(normalized_shape) > input.packed.ndim - input.ragged:
        return NotImplemented
    return input.like(ops.layer_norm(input.packed, tuple(normalized_shape), weight, bias, eps))


def _embedding(input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    from_padding = args[0] if args else kwargs.get("padding_idx")
    return NotImplemented if not isinstance(input, NestedTensor) else input.like(ops.embedding(input.packed, weight, from_padding, False))


_ELEMENTWISE = (
    "abs neg negative exp log sqrt rsqrt sin cos tan tanh sigmoid erf exp2 expm1 log1p log2 log10 square reciprocal sign floor ceil "
    "round trunc isnan isinf isfinite logical_not bitwise_not clamp clamp_min clamp_max float double half bfloat16 long int bool "
    "nan_to_num add sub mul div pow maximum minimum eq ne lt le gt ge logical_and logical_or atan2 remainder floor_divide true_divide "
    "multiply subtract divide where masked_fill lerp addcmul __radd__ __rmul__ __rsub__ __rdiv__ __rtruediv__ __rpow__ bitwise_and "
    "bitwise_or relu gelu silu elu leaky_relu softplus selu celu mish relu6 hardtanh hardswish hardsigmoid logsigmoid softsign "
    "tanhshrink dropout zeros_like ones_like full_like empty_like rand_like randn_like"
)
_TABLE: dict[str, Callable[..., Any]] = {
    "sum": _sum, "mean": _mean, "amax": _extreme("amax"), "amin": _extreme("amin"), "softmax": _softmax,
    "log_softmax": lambda a, dim, _stacklevel=3, dtype=None: _softmax(a, dim, dtype=dtype, logarithm=True), "linear": _linear,
    "matmul": _matmul, "scaled_dot_product_attention": _attention, "transpose": _transpose, "unflatten": _unflatten, "flatten": _flatten,
    "view": _view, "reshape": _view, "chunk": _chunk, "cat": _cat, "concat": _cat, "unsqueeze": _unsqueeze, "squeeze": _squeeze,
    "layer_norm": _layer_norm, "embedding": _embedding, "to_padded_tensor": to_padded_tensor,
    "unbind": lambda a, dim=0: a.unbind(dim), "clone": lambda a, **_: a.clone(), "detach": lambda a: a.detach(),
    "data": lambda a: a.detach(), "numel": lambda a: a.numel(), "requires_grad": lambda a: a.requires_grad,
    "to_dense": lambda a, dtype=None, **_: to_padded_tensor(a if dtype is None else a.to(dtype), 0.0),
    "backward": lambda a, *g: a.backward(*g),
}  # fmt: skip

NestedTensor.table, NestedTensor.elementwise = _TABLE, frozenset(_ELEMENTWISE.split())
NestedTensor.of_values = staticmethod(_elementwise)
