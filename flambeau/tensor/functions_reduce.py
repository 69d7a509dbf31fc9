"""Reductions along dimensions, running reductions, order along a dimension and statistics."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import named_results, normalize_dims
from flambeau.tensor.arguments import TENSORS, given, need_tensor, numpy_names, write_out

Dims = int | Sequence[int] | None


@named_results
class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any


# -- sums and means -------------------------------------------------------------------------------------
@numpy_names
def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """The sum along ``dim`` (an int, several, or all for None); integers are summed in int64.

    >>> import flambeau as torch
    >>> torch.sum(torch.ones(2, 3), dim=1)
    tensor([3., 3.])
    """
    result = ops.sum(input, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """The mean along ``dim`` (an int, several, or all for None)."""
    result = ops.mean(input, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """The product along ``dim`` (all for None)."""
    result = ops.prod(input, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """The sum along ``dim``, NaN counting as 0."""
    result = ops.nansum(input, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """The mean along ``dim`` of the elements that are not NaN."""
    result = ops.nanmean(input, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """How many elements along ``dim`` differ from 0."""
    return ops.count_nonzero(input, dim)


@numpy_names
def logsumexp(input: Any, dim: int | Sequence[int], keepdim: bool = False, *, out: Any = None) -> Any:
    """log(sum(exp(input))) along ``dim`` without overflow."""
    result = ops.logsumexp(input, dim, keepdim)
    return result if out is None else write_out(out, result)


# -- logic and extremes ---------------------------------------------------------------------------------
@numpy_names
def all(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether every element along ``dim`` differs from 0."""
    result = ops.all(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def any(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether an element along ``dim`` differs from 0."""
    result = ops.any(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def amax(input: Any, dim: Dims = (), keepdim: bool = False, *, out: Any = None) -> Any:
    """The largest element along ``dim``; equal ones share the gradient."""
    result = ops.amax(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def amin(input: Any, dim: Dims = (), keepdim: bool = False, *, out: Any = None) -> Any:
    """The smallest element along ``dim``; equal ones share the gradient."""
    result = ops.amin(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> MinMax:
    """The smallest and the largest element along ``dim`` (of all for None)."""
    dims = () if dim is None else dim
    if out is not None and builtins.any(o.dtype is not input.dtype for o in out):
        raise RuntimeError(f"aminmax: Expected out tensors to have dtype {input.dtype}, but got {', '.join(str(o.dtype) for o in out)}")
    result = MinMax(ops.amin(input, dims, keepdim), ops.amax(input, dims, keepdim))
    return result if out is None else write_out(out, result)


@numpy_names
def argmax(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The position along ``dim`` of the largest element (None: in the flattened tensor)."""
    result = ops.argmax(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def argmin(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The position along ``dim`` of the smallest element (None: in the flattened tensor)."""
    result = ops.argmin(input, dim, keepdim)
    return result if out is None else write_out(out, result)


def _extreme(along: Any, between: Any, input: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    need_tensor(along.name, "input", input)
    out = named.pop("out", None)
    other = named.pop("other", args[0] if args and isinstance(args[0], TENSORS) else None)
    if other is not None:
        result = between(input, other)
    else:
        result = along(input, *args, **named)
    return result if out is None else write_out(out, result)


@numpy_names
def max(input: Any, *args: Any, **named: Any) -> Any:
    """``max(input)``: the largest element; ``max(input, dim, keepdim=False)``: along ``dim`` with its position, as
    (values, indices); ``max(input, other)``: the larger one, element by element.

    >>> import flambeau as torch
    >>> torch.max(torch.tensor([[1, 5], [4, 2]]), dim=1).indices
    tensor([1, 0])
    """
    return _extreme(ops.max, ops.maximum, input, args, named)


@numpy_names
def min(input: Any, *args: Any, **named: Any) -> Any:
    """The smallest element, with the forms of ``max``."""
    return _extreme(ops.min, ops.minimum, input, args, named)


@numpy_names
def median(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower of the middle elements of all, or along ``dim`` with its position."""
    result = ops.median(input, dim, keepdim)
    return result if out is None else write_out(out, result)


@numpy_names
def mode(input: Any, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The most frequent element along ``dim`` and the last place where it is."""
    result = ops.mode(input, dim, keepdim)
    return result if out is None else write_out(out, result)


# -- spread ---------------------------------------------------------------------------------------------
def spread(operator: Any, input: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``var``, ``std`` and the like in their forms: (unbiased), (dim, unbiased, keepdim), (dim, *, correction, keepdim)."""
    names = ("dim", "unbiased", "keepdim")
    if args and isinstance(args[0], bool):
        args = (None, *args)
    given = dict(zip(names, args, strict=False)) | named
    out = given.pop("out", None)
    unbiased, correction = given.get("unbiased"), given.get("correction")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    unknown = set(given) - {"dim", "unbiased", "keepdim", "correction"}
    if unknown:
        raise TypeError(f"{operator.name}() got an unexpected keyword argument '{unknown.pop()}'")
    result = operator(input, given.get("dim"), correction, builtins.bool(given.get("keepdim", False)))
    return result if out is None else write_out(out, result)


@numpy_names
def var(input: Any, *args: Any, **named: Any) -> Any:
    """The variance along ``dim``: squared deviations from the mean over N - ``correction`` (1)."""
    return spread(ops.var, input, args, named)


@numpy_names
def std(input: Any, *args: Any, **named: Any) -> Any:
    """The standard deviation along ``dim``."""
    return spread(ops.std, input, args, named)


@numpy_names
def var_mean(input: Any, *args: Any, **named: Any) -> Any:
    """The variance and the mean along ``dim``."""
    return spread(ops.var_mean, input, args, named)


@numpy_names
def std_mean(input: Any, *args: Any, **named: Any) -> Any:
    """The standard deviation and the mean along ``dim``."""
    return spread(ops.std_mean, input, args, named)


@numpy_names
def norm(
    input: Any, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, out: Any = None, dtype: dtype | None = None
) -> Any:
    """The vector norm of order ``p`` along ``dim``; "fro" is order 2."""
    result = ops.norm(input, p, dim, keepdim, dtype)
    return result if out is None else write_out(out, result)


# -- running reductions ---------------------------------------------------------------------------------
@numpy_names
def cumsum(input: Any, dim: int, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """Running sums along ``dim``."""
    result = ops.cumsum(input, dim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def cumprod(input: Any, dim: int, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """Running products along ``dim``."""
    result = ops.cumprod(input, dim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def cummax(input: Any, dim: int, *, out: Any = None) -> Any:
    """The largest element so far along ``dim`` and where it stands."""
    result = ops.cummax(input, dim)
    return result if out is None else write_out(out, result)


@numpy_names
def cummin(input: Any, dim: int, *, out: Any = None) -> Any:
    """The smallest element so far along ``dim`` and where it stands."""
    result = ops.cummin(input, dim)
    return result if out is None else write_out(out, result)


@numpy_names
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *, out: Any = None) -> Any:
    """The differences of neighbours along ``dim``, taken ``n`` times."""
    if not input.meta.shape:
        raise RuntimeError("diff: expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    parts = [part for part in (prepend, input, append) if part is not None]
    result = ops.cat(parts, dim) if n and len(parts) > 1 else input
    for _ in builtins.range(builtins.min(n, result.size(dim))):
        later, earlier = ops.slice_(result, dim, 1), ops.slice_(result, dim, 0, -1)
        result = ops.sub(later, earlier) if result.meta.dtype.category != "bool" else ops.logical_xor(later, earlier)
    result = ops.clone(result) if result is input else result
    return result if out is None else write_out(out, result)


@numpy_names
def logcumsumexp(input: Any, dim: int, *, out: Any = None) -> Any:
    """log(cumsum(exp(input))) along ``dim`` without overflow."""
    return ops.logcumsumexp(input, dim) if out is None else write_out(out, ops.logcumsumexp(input, dim))


# -- order ----------------------------------------------------------------------------------------------
@numpy_names
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None) -> Any:
    """The elements in order along ``dim``, and where each was; equal ones keep their order."""
    result = ops.sort(input, dim, descending, True)
    return result if out is None else write_out(out, result)


@numpy_names
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None) -> Any:
    """Where each element of the sorted dimension was."""
    return given(out, ops.argsort(input, dim, descending, True))


def msort(input: Any, *, out: Any = None) -> Any:
    """Sorted along the first dimension."""
    result = ops.msort(input)
    return result if out is None else write_out(out, result)


@numpy_names
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """The k largest (or smallest) elements along ``dim`` in order, and where they are."""
    result = ops.topk(input, k, dim, largest, sorted)
    return result if out is None else write_out(out, result)


@numpy_names
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The k-th smallest element along ``dim``, counted from 1, and where it is."""
    result = ops.kthvalue(input, k, dim, keepdim)
    return result if out is None else write_out(out, result)


# -- whole tensors --------------------------------------------------------------------------------------
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements."""
    need_tensor("equal", "other", other)
    if input is other and not input.meta.dtype.is_floating_point:
        return True
    return input.meta.shape == other.meta.shape and builtins.bool(ops.all(ops.eq(input, other)).item())


def allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements satisfy |input - other| <= atol + rtol * |other|."""
    return builtins.bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)).item())


@numpy_names
def softmax(input: Any, dim: int, dtype: dtype | None = None, *, out: Any = None) -> Any:
    """exp(input) scaled to sum 1 along ``dim``."""
    result = ops.softmax(input, dim, dtype)
    return result if out is None else write_out(out, result)


@numpy_names
def log_softmax(input: Any, dim: int, dtype: dtype | None = None, *, out: Any = None) -> Any:
    """The logarithm of ``softmax``."""
    result = ops.log_softmax(input, dim, dtype)
    return result if out is None else write_out(out, result)


def frobenius_norm(input: Any, dim: int | Sequence[int], keepdim: bool = False, *, out: Any = None) -> Any:
    """The root of the sum of squares along one or two dimensions, of all elements without any."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return given(out, ops.vector_norm(input, 2, dims or None, keepdim))


def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The sum of singular values: ``nuclear_norm(input, keepdim)`` of a matrix, or of those in two dimensions."""
    if dim is None or isinstance(dim, builtins.bool):
        if len(input.meta.shape) != 2:
            raise RuntimeError(f"nuclear_norm: Expected a tensor with 2 dimensions, but got {len(input.meta.shape)} dimensions")
        dim, keepdim = (-2, -1), builtins.bool(dim) or keepdim
    return given(out, ops.matrix_norm(input, "nuc", tuple(dim), keepdim))


def hash_tensor(input: Any, dim: Dims = (), *, keepdim: bool = False, mode: int = 0, out: Any = None) -> Any:
    """The exclusive or of all elements' bits along ``dim`` (all for ()), of floats as float64 and of others as int64, in uint64."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}; there is 0")
    if input.meta.dtype.is_complex:
        raise NotImplementedError(f"hash_tensor: not implemented for '{input.meta.dtype.scalar_name}'; use torch.view_as_real")
    rank = len(input.meta.shape)
    axes = normalize_dims(dim, rank, "hash_tensor") if rank else ()
    if not input.meta.numel and not (isinstance(dim, int) or dim):
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify it with dim.")
    bits = ops.to_dtype(input, dtypes.float64 if input.is_floating_point() else dtypes.int64).view(dtypes.int64)
    kept = [i for i in range(rank) if i not in axes]
    shape = [1 if i in axes else n for i, n in enumerate(input.meta.shape)] if keepdim else [input.meta.shape[i] for i in kept]
    rows = ops.permute(bits, (*kept, *axes)) if rank else bits
    rows = ops.reshape(rows, (*[input.meta.shape[i] for i in kept], math.prod(input.meta.shape[i] for i in axes)))
    while (n := rows.meta.shape[-1]) > 1:
        folded = ops.bitwise_xor(rows[..., : n // 2], rows[..., n // 2 : n // 2 * 2])
        rows = ops.cat([folded, rows[..., n - 1 :]], -1) if n % 2 else folded
    made = rows if rows.meta.numel else ops.zeros((*rows.meta.shape[:-1], 1), dtypes.int64)
    return given(out, ops.reshape(made, shape).view(dtypes.uint64))


def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0, unsafe: bool = False,
    initial: Any = None,
) -> Any:  # fmt: skip
    """sum, mean, max, min or prod of successive parts along ``axis``, by their lengths or their bounds; ``initial`` joins each part.

    ``lengths`` has the shape of the dimensions before ``axis`` and the number of parts. Empty parts without ``initial`` give 0, NaN,
    -inf, inf or 1.
    """
    kinds = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "max": ("amax", -math.inf), "min": ("amin", math.inf), "prod": ("prod", 1.0)}
    if reduce not in kinds:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, max or min, got {reduce}")
    if indices is not None or (lengths is None and offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined, and not indices.")
    lengths = ops.to_dtype(lengths if lengths is not None else diff(offsets), dtypes.int64)
    shape, parts, rank = list(data.meta.shape), lengths.meta.shape[-1], len(data.meta.shape)
    axis = len(lengths.meta.shape) - 1
    ends = ops.cumsum(lengths, -1)
    if not unsafe and lengths.meta.numel and (ops.amin(lengths, ()).item() < 0 or not ops.all(ops.eq(ends[..., -1], shape[axis])).item()):
        raise RuntimeError("segment_reduce(): Expected lengths that are not negative and sum to data.size(axis) along it when !unsafe.")
    spread = [1] * (rank - axis - 1)
    places = ops.expand(ops.arange(0, 1, shape[axis]), (*shape[:axis], shape[axis]))
    number = ops.searchsorted(ends, places.contiguous(), right=True)
    number = ops.expand(ops.reshape(number, (*number.meta.shape, *spread)), shape)
    kind, first = kinds[reduce]
    base = ops.full([*shape[:axis], parts, *shape[axis + 1 :]], first if initial is None else initial, data.meta.dtype)
    made = ops.scatter_reduce(base, axis, number, data, kind)
    if reduce != "mean":
        return made
    counts = ops.reshape(lengths, (*lengths.meta.shape, *spread))
    return ops.true_divide(made, counts if initial is None else ops.clamp(counts, 1))
