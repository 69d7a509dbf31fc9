"""What public functions do with sparse tensors, and torch.sparse's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.sparse.tensor import CooTensor, CsrTensor, SparseTensor, Table
from flambeau.tensor import Tensor
from flambeau.tensor.functions_index import unique
from flambeau.tensor.type_info import promote_types

__all__ = ["addmm", "log_softmax", "mm", "softmax", "sum"]


def _entries(a: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and values of a sparse matrix."""
    if isinstance(a, CsrTensor):
        return a.rows(), ops.to_dtype(a.columns, dtypes.int64), a.held
    if a.sparse_dim() != 2 or a.dense_dim():
        raise NotImplementedError(f"a product needs a sparse matrix, got {a.sparse_dim()} sparse and {a.dense_dim()} dense dimensions")
    return a.places[0], a.places[1], a.held


def _turned(a: Any) -> Any:
    """The transposed matrix; of compressed rows in COO."""
    return (a.to_sparse_coo() if isinstance(a, CsrTensor) else a).transpose(0, 1)


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of a sparse matrix with a dense one, [n, k] x [k, m]: dense. Gradients flow to both, of the values at their places.

    A dense matrix times a sparse one works too. NotImplementedError for two sparse ones.

    >>> import flambeau as torch
    >>> a = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
    >>> torch.sparse.mm(a, torch.ones(3, 2))
    tensor([[3., 3.],
            [4., 4.]])
    """
    if reduce != "sum":
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r} is not implemented; use index_reduce on the gathered rows")
    if isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor):
        raise NotImplementedError("a product of two sparse matrices is not implemented; call .to_dense() on one of them")
    if not isinstance(mat1, SparseTensor):
        return ops.transpose(mm(_turned(mat2), ops.transpose(mat1, 0, 1)), 0, 1) if isinstance(mat2, SparseTensor) else ops.mm(mat1, mat2)
    if mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"sparse.mm: shapes {list(mat1.shape)} and {list(mat2.shape)} cannot be multiplied")
    return ops.sparse_product(*_entries(mat1), mat2, mat1.shape[0])


def _matmul(a: Any, b: Any) -> Any:
    if b.ndim == 1 and isinstance(a, SparseTensor):
        return mm(a, b.unsqueeze(1)).squeeze(1)
    if a.ndim == 1:
        return mm(a.unsqueeze(0), b).squeeze(0)
    return mm(a, b) if a.ndim == 2 and b.ndim == 2 else NotImplemented


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * mat + alpha * (mat1 @ mat2) with a sparse mat1: dense."""
    return ops.add(ops.mul(mat, beta), ops.mul(mm(mat1, mat2), alpha))


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:  # noqa: A001 - torch's own name
    """The sum of all elements, or over dimensions: sparse while a sparse dimension is left, else dense.

    >>> import flambeau as torch
    >>> a = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
    >>> torch.sparse.sum(a), torch.sparse.sum(a, 1).to_dense()
    (tensor(7.), tensor([3., 4.]))
    """
    a = input.to_sparse_coo() if dtype is None else input.to_sparse_coo().to(dtype)
    if dim is None:
        return a.held.sum()
    rank, sparse = a.ndim, a.sparse_dim()
    gone = {d % rank for d in ([dim] if isinstance(dim, int) else dim)}
    inner = [d - sparse + 1 for d in gone if d >= sparse]
    held = a.held.sum(inner) if inner else a.held
    kept = [d for d in range(sparse) if d not in gone]
    if not kept:
        return held.sum(0)
    shape = [n for d, n in enumerate(a.shape) if d not in gone]
    return CooTensor(ops.stack([a.places[d] for d in kept], 0), held, shape, a.sorted and len(kept) == sparse).coalesce()


def _by_groups(input: Any, dim: int, finish: Callable[[Any, Any, Any], Any]) -> Any:
    a = input.to_sparse_coo().coalesce()
    if a.dense_dim() or not -a.ndim <= dim < a.ndim:
        raise NotImplementedError(f"sparse.softmax: needs a tensor without dense dimensions and one of its dimensions, got dim={dim}")
    others = [d for d in range(a.ndim) if d != dim % a.ndim]
    numbers = a.places[0] * 0
    if others:
        numbers = CooTensor(ops.stack([a.places[d] for d in others], 0), a.held, [a.shape[d] for d in others]).flat_places()
    groups, inverse = unique(numbers, return_inverse=True)
    count = groups.shape[0]
    start = ops.zeros((count,), a.held.dtype).to(a.held.device)
    highest = ops.scatter_reduce(start, 0, inverse, a.held.detach(), "amax", include_self=False)
    shifted = a.held - highest[inverse]
    total = ops.index_add(start, 0, inverse, shifted.exp())
    return a._with(finish(shifted, total, inverse))


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax of the stored elements along a dimension: the others count as minus infinity.

    >>> import flambeau as torch
    >>> a = torch.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1., 1., 5.], (2, 3))
    >>> torch.sparse.softmax(a, 1).values()
    tensor([0.5000, 0.5000, 1.0000])
    """
    given = input if dtype is None else input.to(dtype)
    return _by_groups(given, dim, lambda shifted, total, at: shifted.exp() / total[at])


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return _by_groups(input if dtype is None else input.to(dtype), dim, lambda shifted, total, at: shifted - total.log()[at])


# -- arithmetic -----------------------------------------------------------------------------------------
def _add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
        return _add_dense(a, b, alpha)
    if a.shape != b.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")
    x, y = a.to_sparse_coo(), b.to_sparse_coo()
    if x.sparse_dim() != y.sparse_dim():
        raise RuntimeError(f"add: tensors with {x.sparse_dim()} and {y.sparse_dim()} sparse dimensions; they must have the same")
    total = CooTensor(ops.cat([x.places, y.places], 1), ops.cat([x.held, ops.mul(y.held, alpha)], 0), a.shape)
    return total.coalesce().to_sparse_csr() if isinstance(a, CsrTensor) else total.coalesce() if x.sorted and y.sorted else total


def _add_dense(a: Any, b: Any, alpha: Any) -> Any:
    if isinstance(a, Tensor) and not isinstance(a, SparseTensor):
        x = b.to_sparse_coo()
        if a.shape != b.shape:
            raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")
        both = promote_types(a.dtype, x.dtype)
        return ops.to_dtype(a, both).index_put(tuple(x.places.unbind(0)), ops.to_dtype(ops.mul(x.held, alpha), both), accumulate=True)
    return NotImplemented


def _add_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    found = _add(a, b, alpha=alpha)
    if found is NotImplemented or isinstance(a, SparseTensor):
        return NotImplemented
    if found.dtype != a.dtype:
        raise RuntimeError(f"add_: a result of type {found.dtype} cannot be stored in a tensor of type {a.dtype}; use add")
    x = b.to_sparse_coo()
    return a.index_put_(tuple(x.places.unbind(0)), ops.to_dtype(ops.mul(x.held, alpha), a.dtype), accumulate=True)


def _mul(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if not isinstance(b, Tensor) or not b.ndim:
        return a._with(a.held * b)
    if isinstance(b, SparseTensor):
        x, y = a.to_sparse_coo().coalesce(), b.to_sparse_coo().coalesce()
        if not (x.places.shape == y.places.shape and bool((x.places == y.places).all())):
            raise NotImplementedError("mul: a product of sparse tensors with different places is not implemented; call .to_dense() on one")
        return x._with(x.held * y.held)
    x = a.to_sparse_coo()
    dense = b.expand(a.shape)
    made = x._with(x.held * dense[tuple(x.places.unbind(0))])
    return made.to_sparse_csr() if isinstance(a, CsrTensor) else made


def _div(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None or not isinstance(a, SparseTensor) or (isinstance(b, Tensor) and b.ndim):
        return NotImplemented
    return a._with(a.held / b)


def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return _add(a, b, alpha=-alpha)


def _elementwise(name: str) -> Callable[..., Any]:
    """A function that leaves zero zero: of the values, whose places must not come twice."""

    def act(a: Any, *args: Any, **kwargs: Any) -> Any:
        whole = a.coalesce() if isinstance(a, CooTensor) else a
        return whole._with(getattr(whole.held, name)(*args, **kwargs))

    return act


def _transpose(a: Any, dim0: int = 0, dim1: int = 1) -> Any:
    if isinstance(a, CsrTensor):
        return _turned(a).to_sparse_csr() if dim0 % 2 != dim1 % 2 else a
    return a.transpose(dim0, dim1)


def _t(a: Any) -> Any:
    return a if a.ndim < 2 else _transpose(a, 0, 1) if a.ndim == 2 else NotImplemented


def _total(a: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return NotImplemented if keepdim else sum(a, dim, dtype)


def _sparse_mask(x: Any, mask: Any) -> Any:
    """The elements of a dense tensor at the places of a sparse one."""
    if isinstance(x, SparseTensor):
        return NotImplemented
    places = mask.to_sparse_coo()
    made = places._with(x[tuple(places.places.unbind(0))])
    return made.to_sparse_csr() if isinstance(mask, CsrTensor) else made


def _index_select(a: Any, dim: int, index: Any) -> Any:
    """Slices along a sparse dimension: the elements whose place in it is chosen."""
    if isinstance(a, CsrTensor) or dim % a.ndim >= a.sparse_dim():
        return NotImplemented
    whole, axis = a.coalesce(), dim % a.ndim
    hit = (whole.places[axis].unsqueeze(0) == index.unsqueeze(1)).nonzero()
    chosen = whole.places[:, hit[:, 1]]
    places = ops.stack([hit[:, 0] if d == axis else chosen[d] for d in range(a.sparse_dim())], 0)
    return CooTensor(places, whole.held[hit[:, 1]], [len(index) if d == axis else n for d, n in enumerate(a.shape)])


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a.to_dense() == b.to_dense()).all())


_TABLE: Table = {
    "mm": mm, "spmm": mm, "smm": mm, "hspmm": mm, "matmul": _matmul, "__matmul__": _matmul, "mv": _matmul,
    "__rmatmul__": lambda a, b: _matmul(b, a),
    "addmm": addmm, "sspaddmm": addmm, "add": _add, "add_": _add_, "__radd__": lambda a, b: _add(b, a), "__iadd__": _add_, "sub": _sub,
    "subtract": _sub, "mul": _mul, "multiply": _mul, "__rmul__": _mul, "div": _div, "divide": _div, "true_divide": _div, "t": _t, "T": _t,
    "mT": _t, "transpose": _transpose, "swapaxes": _transpose, "sum": _total, "sparse_mask": _sparse_mask, "index_select": _index_select,
    "to_dense": lambda a, *args, **kwargs: a.to_dense(*args, **kwargs),
    "softmax": lambda a, dim, *_, dtype=None: softmax(a, dim, dtype=dtype),
    "log_softmax": lambda a, dim, *_, dtype=None: log_softmax(a, dim, dtype=dtype), "equal": _equal, "clone": lambda a, **_: a.clone(),
    "detach": lambda a: a.detach(), "is_sparse": lambda a: a.is_sparse, "is_coalesced": lambda a: a.is_coalesced(),
    "zeros_like": lambda a, **_: CooTensor(a.to_sparse_coo().places[:, :0], a.held[:0], a.shape, True), "data": lambda a: a.detach(),
    "numel": lambda a: a.numel(), "requires_grad": lambda a: a.requires_grad,
    **{name: _elementwise(name) for name in (
        "abs", "neg", "negative", "sqrt", "relu", "sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "atanh", "sign", "expm1", "log1p",
        "square", "pow", "floor", "ceil", "trunc", "round", "erf", "rad2deg", "deg2rad", "isnan", "isinf",
    )},
    **{name: (lambda a, *_, name=name, **__: a._with(getattr(a.held, name)())) for name in (
        "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "cpu", "cuda",
    )},
}  # fmt: skip
SparseTensor.table = _TABLE

