"""Products of vectors, matrices and batches of matrices, and the linear layer."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.comparison import eq
from flambeau.ops.declare import Size, Value, Values, broadcast_shapes, broadcast_to, normalize_dim, op
from flambeau.ops.view import as_dims, cut
from flambeau.prims.complex import conj

PRODUCT = "same"  # torch multiplies matrices of one dtype only


def _require_rank(operator: str, **ranks: tuple[Node, int]) -> None:
    for name, (x, rank) in ranks.items():
        if x.rank != rank:
            raise RuntimeError(f"{operator}: {name} must be a {rank}-D tensor, got shape {list(x.shape)}")


def _text(shape: Sequence[Dim]) -> str:
    return "x".join(map(str, shape))


def _require_inner(operator: str, a: Node, b: Node) -> None:
    if not a.shape[-1] == b.shape[-2]:
        raise RuntimeError(f"{operator}: mat1 and mat2 shapes cannot be multiplied ({_text(a.shape)} and {_text(b.shape)})")


def _require_batches(operator: str, a: Node, b: Node) -> None:
    _require_rank(operator, batch1=(a, 3), batch2=(b, 3))
    if not (a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]):
        raise RuntimeError(f"{operator}: batches of shapes {list(a.shape)} and {list(b.shape)} do not match")


def _plus(operator: str, x: Node, beta: Node | int, made: Node, alpha: Node | int) -> Node:
    """beta * x + alpha * made, x broadcast."""
    if broadcast_shapes(x.shape, made.shape, operator=operator) != made.shape:
        raise RuntimeError(f"{operator}: input of shape {list(x.shape)} does not expand to {list(made.shape)}")
    x = broadcast_to(x, made.shape)
    beta, alpha = (p.converted(f, x.dtype) if isinstance(f, Node) else f for f in (beta, alpha))
    if not isinstance(beta, int):
        # NaN and infinity in x must not count where beta is 0.
        factor = broadcast_to(beta, x.shape)
        x = p.where(eq(factor, p.number(0, factor)), p.number(0, x), x * factor)
    return x + (made if isinstance(alpha, int) else made * broadcast_to(alpha, made.shape))


def multiply(a: Node, b: Node) -> Node:
    """[..., n, k] x [..., k, m] -> [..., n, m]; integers, for which there is no product of tiles, as a sum of products."""
    if a.dtype.is_inexact:
        return p.matmul(a, b)
    if a.dtype is dtypes.bool_:
        raise RuntimeError("matmul: products of bool matrices are not supported; convert them to an integer or floating point type")
    *batch, n, k = a.shape
    m = b.shape[-1]
    shape = (*batch, n, m, k)
    left = p.expand(p.reshape(a, shape=(*batch, n, 1, k)), shape=shape)
    right = p.expand(p.reshape(p.transpose(b), shape=(*batch, 1, m, k)), shape=shape)
    return p.reduce(p.mul(left, right), kind="sum", axes=(len(shape) - 1,))


# -- fixed ranks ------------------------------------------------------------------------------------------
@op(
    promote=PRODUCT,
    samples=lambda m: [case(m.float(3, 4), m.float(4, 5)), case(m.int(2, 3), m.int(3, 2)), case(m.float(2, 0), m.float(0, 3))],
)
def mm(x: Value, mat2: Value) -> Node:
    """Matrix product: [n, k] x [k, m] -> [n, m]."""
    _require_rank("mm", self=(x, 2), mat2=(mat2, 2))
    _require_inner("mm", x, mat2)
    return multiply(x, mat2)


@op(promote=PRODUCT, samples=lambda m: [case(m.float(2, 3, 4), m.float(2, 4, 5)), case(m.float(0, 2, 3), m.float(0, 3, 2))])
def bmm(x: Value, mat2: Value) -> Node:
    """A product for each pair of matrices: [b, n, k] x [b, k, m] -> [b, n, m]."""
    _require_batches("bmm", x, mat2)
    return multiply(x, mat2)


def matrix_vector(a: Node, v: Node) -> Node:
    """[n, k] x [k] -> [n]."""
    return p.reshape(multiply(a, p.reshape(v, shape=(*v.shape, 1))), shape=a.shape[:-1])


@op(promote=PRODUCT, samples=lambda m: [case(m.float(3, 4), m.float(4))])
def mv(x: Value, vec: Value) -> Node:
    """Matrix times vector: [n, k] x [k] -> [n]."""
    _require_rank("mv", self=(x, 2), vec=(vec, 1))
    if not x.shape[1] == vec.shape[0]:
        raise RuntimeError(f"mv: size mismatch, got input ({_text(x.shape)}), vec ({vec.shape[0]})")
    return matrix_vector(x, vec)


@op(promote=PRODUCT, samples=lambda m: [case(m.float(5), m.float(5)), case(m.int(3), m.int(3)), case(m.float(0), m.float(0))])
def dot(x: Value, tensor: Value) -> Node:
    """The sum of products of two vectors."""
    _require_rank("dot", self=(x, 1), tensor=(tensor, 1))
    if not x.shape[0] == tensor.shape[0]:
        raise RuntimeError(
            f"dot: inconsistent tensor size, expected tensor [{x.shape[0]}] and src [{tensor.shape[0]}] to have the same number of elements"
        )
    return p.reduce(p.mul(x, tensor), kind="sum", axes=(0,))


@op(promote="arithmetic", samples=lambda m: [case(m.float(3), m.float(4)), case(m.int(3), m.float(2))])
def outer(x: Value, vec2: Value) -> Node:
    """Every product of an element of one vector and one of another: [n], [m] -> [n, m]."""
    _require_rank("outer", self=(x, 1), vec2=(vec2, 1))
    shape = (x.shape[0], vec2.shape[0])
    return p.mul(p.expand(p.reshape(x, shape=(shape[0], 1)), shape=shape), broadcast_to(vec2, shape))


# -- with a term added ------------------------------------------------------------------------------------
def _addmm_samples(m: SampleMaker) -> Calls:
    a, b = m.float(3, 4), m.float(4, 5)
    return [case(m.float(3, 5), a, b), case(m.float(5), a, b, beta=0.5, alpha=-2.0), case(m.float(3, 1), a, b), case(m.float(), a, b)]


@op(promote=PRODUCT, promoted=("x", "mat1", "mat2"), samples=_addmm_samples)
def addmm(x: Value, mat1: Value, mat2: Value, *, beta: Value | int = 1, alpha: Value | int = 1) -> Node:
    """beta * x + alpha * (mat1 @ mat2)."""
    return _plus("addmm", x, beta, mm(mat1, mat2), alpha)


@op(
    promote=PRODUCT, promoted=("x", "mat", "vec"),
    samples=lambda m: [case(m.float(3), m.float(3, 4), m.float(4)), case(m.float(1), m.float(3, 4), m.float(4), beta=0.5)],
)  # fmt: skip
def addmv(x: Value, mat: Value, vec: Value, *, beta: Value | int = 1, alpha: Value | int = 1) -> Node:
    """beta * x + alpha * (mat @ vec)."""
    return _plus("addmv", x, beta, mv(mat, vec), alpha)


@op(
    promote=PRODUCT, promoted=("x", "vec1", "vec2"), stepwise=True,
    samples=lambda m: [case(m.float(3, 4), m.float(3), m.float(4)), case(m.float(4), m.float(3), m.float(4), alpha=0.5)],
)  # fmt: skip
def addr(x: Value, vec1: Value, vec2: Value, *, beta: Value | int = 1, alpha: Value | int = 1) -> Node:
    """beta * x + alpha * outer(vec1, vec2)."""
    return _plus("addr", x, beta, outer(vec1 if isinstance(alpha, int) else vec1 * p.converted(alpha, vec1.dtype), vec2), 1)


def _batch_samples(m: SampleMaker) -> Calls:
    a, b = m.float(2, 3, 4), m.float(2, 4, 5)
    return [case(m.float(3, 5), a, b), case(m.float(5), a, b, beta=0.5, alpha=-2.0)]


@op(promote=PRODUCT, promoted=("x", "batch1", "batch2"), samples=_batch_samples)
def baddbmm(x: Value, batch1: Value, batch2: Value, *, beta: Value | int = 1, alpha: Value | int = 1) -> Node:
    """beta * x + alpha * bmm(batch1, batch2)."""
    return _plus("baddbmm", x, beta, bmm(batch1, batch2), alpha)


@op(promote=PRODUCT, promoted=("x", "batch1", "batch2"), samples=_batch_samples)
def addbmm(x: Value, batch1: Value, batch2: Value, *, beta: Value | int = 1, alpha: Value | int = 1) -> Node:
    """beta * x + alpha * the sum over the batch of the products: one product with the batch joined to the inner size."""
    _require_batches("addbmm", batch1, batch2)
    b, n, k = batch1.shape
    wide = p.reshape(p.permute(batch1, axes=(1, 0, 2)), shape=(n, b * k))
    return _plus("addbmm", x, beta, multiply(wide, p.reshape(batch2, shape=(b * k, batch2.shape[2]))), alpha)


# -- any rank ---------------------------------------------------------------------------------------------
def batched_product(a: Node, b: Node, operator: str) -> Node:
    """[..., n, k] x [..., k, m] with the leading axes broadcast."""
    _require_inner(operator, a, b)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], operator=operator)
    return multiply(broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:])))


def rows_product(x: Node, b: Node, operator: str) -> Node:
    """[..., k] x [k, m] -> [..., m] as one product: all leading axes are rows."""
    k, m = b.shape
    if not x.shape[-1] == k:
        rows = (product(x.shape[:-1]), x.shape[-1])
        raise RuntimeError(f"{operator}: mat1 and mat2 shapes cannot be multiplied ({_text(rows)} and {_text(b.shape)})")
    if x.rank == 2:
        return multiply(x, b)
    out = multiply(p.reshape(x, shape=(product(x.shape[:-1]), k)), b)
    return p.reshape(out, shape=(*x.shape[:-1], m))


def _matmul_samples(m: SampleMaker) -> Calls:
    shapes = [
        ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (2, 4, 5)), ((2, 0), (0, 3)),
    ]  # fmt: skip
    return [*(case(m.float(*a), m.float(*b)) for a, b in shapes), case(m.int(2, 3), m.int(3, 2))]


@op(promote=PRODUCT, samples=_matmul_samples)
def matmul(x: Value, other: Value) -> Node:
    """Products of vectors, matrices or broadcast batches of matrices, by the ranks of the operands."""
    if not x.rank or not other.rank:
        raise RuntimeError(f"matmul: both arguments need to be at least 1D, but they are {x.rank}D and {other.rank}D")
    if x.rank == 1 and other.rank == 1:
        return dot(x, other)
    if other.rank == 1:
        out = rows_product(x, p.reshape(other, shape=(*other.shape, 1)), "matmul")
        return p.reshape(out, shape=out.shape[:-1])
    if x.rank == 1:
        out = batched_product(p.reshape(x, shape=(1, *x.shape)), other, "matmul")
        return p.reshape(out, shape=(*out.shape[:-2], out.shape[-1]))
    return rows_product(x, other, "matmul") if other.rank == 2 else batched_product(x, other, "matmul")


def _linear_samples(m: SampleMaker) -> Calls:
    w, b = m.float(5, 4), m.float(5)
    return [case(m.float(3, 4), w, b), case(m.float(2, 3, 4), w), case(m.float(4), w, b), case(m.float(2, 4), m.float(4), m.float())]


@op(promote=PRODUCT, samples=_linear_samples)
def linear(x: Value, weight: Value, bias: Value | None = None) -> Node:
    """x @ weight.T + bias: [..., in], [out, in], [out] -> [..., out], as one product with all leading dimensions as rows."""
    if weight.rank == 1:
        out = matmul(x, weight)
    elif x.rank == 1:
        out = matrix_vector(weight, x) if weight.shape[1] == x.shape[0] else rows_product(x, p.transpose(weight), "linear")
    else:
        out = rows_product(x, p.transpose(weight), "linear")
    return out if bias is None else p.add(out, broadcast_to(bias, out.shape))


def _bilinear_samples(m: SampleMaker) -> Calls:
    return [case(m.float(3, 4), m.float(3, 2), m.float(5, 4, 2), m.float(5)), case(m.float(2, 3, 4), m.float(2, 3, 2), m.float(5, 4, 2))]


@op(promote=PRODUCT, samples=_bilinear_samples, stepwise=True)
def bilinear(input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Node:
    """out[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j], plus bias."""
    o, i, j = weight.shape
    if input1.shape[:-1] != input2.shape[:-1] or not (input1.shape[-1] == i and input2.shape[-1] == j):
        raise RuntimeError(f"bilinear: inputs {list(input1.shape)} and {list(input2.shape)} do not fit weight {list(weight.shape)}")
    flat = p.reshape(p.permute(weight, axes=(1, 0, 2)), shape=(i, o * j))
    shape = (*input1.shape[:-1], o, j)
    left = p.reshape(matmul(input1, flat), shape=shape)
    right = p.expand(p.reshape(input2, shape=(*input2.shape[:-1], 1, j)), shape=shape)
    left, right = (p.converted(v, v.dtype.compute) for v in (left, right))
    out = p.converted(p.reduce(p.mul(left, right), kind="sum", axes=(len(shape) - 1,)), weight.dtype)
    return out if bias is None else out + bias


# -- contractions -----------------------------------------------------------------------------------------
def contract(a: Node, b: Node, pairs: Sequence[tuple[int, int]], batch: Sequence[tuple[int, int]] = ()) -> Node:
    """Sum over paired axes with one product of matrices; the result has the batch axes, then a's others, then b's."""
    free_a = [i for i in range(a.rank) if i not in [x for x, _ in (*pairs, *batch)]]
    free_b = [i for i in range(b.rank) if i not in [y for _, y in (*pairs, *batch)]]
    lead = tuple(a.shape[x] for x, _ in batch)
    rows, columns = tuple(a.shape[i] for i in free_a), tuple(b.shape[i] for i in free_b)
    inner = product(a.shape[x] for x, _ in pairs)
    left = p.permute(a, axes=(*(x for x, _ in batch), *free_a, *(x for x, _ in pairs)))
    right = p.permute(b, axes=(*(y for _, y in batch), *(y for _, y in pairs), *free_b))
    left = p.reshape(left, shape=(*lead, product(rows), inner))
    right = p.reshape(right, shape=(*lead, inner, product(columns)))
    return p.reshape(multiply(left, right), shape=(*lead, *rows, *columns))


def _tensordot_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(2, 3, 4), m.float(3, 4, 5)), case(m.float(2, 3), m.float(4, 2), ((0,), (1,))), case(m.float(2), m.float(3), 0),
        case(m.float(2, 3, 4), m.float(4, 3), ((1, 2), (1, 0))), case(m.float(2, 1, 4), m.float(4, 3), ((1, 2), (1, 0))),
    ]  # fmt: skip


@op(promote=PRODUCT, samples=_tensordot_samples)
def tensordot(a: Value, b: Value, dims: int | tuple[tuple[int, ...], tuple[int, ...]] = 2) -> Node:
    """Sum over the last ``dims`` dimensions of a and the first of b, or over the pairs of dimensions given."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: expects dims >= 0, but got dims={dims}")
        dims = (tuple(range(a.rank - dims, a.rank)), tuple(range(dims)))
    left = [normalize_dim(d, a.rank, "tensordot") for d in as_dims(dims[0])]
    right = [normalize_dim(d, b.rank, "tensordot") for d in as_dims(dims[1])]
    pairs = list(zip(left, right, strict=False))
    if len(left) != len(right) or any(not (a.shape[i] == b.shape[j] or a.shape[i] == 1 or b.shape[j] == 1) for i, j in pairs):
        raise RuntimeError(f"tensordot: contracted dimensions need to match, but got {dims} of {list(a.shape)} and {list(b.shape)}")
    # Against an axis of size 1 the other operand is summed first.
    a = _summed(a, [i for i, j in pairs if b.shape[j] == 1 and not a.shape[i] == 1])
    b = _summed(b, [j for i, j in pairs if a.shape[i] == 1 and not b.shape[j] == 1])
    return contract(a, b, pairs)


def _summed(x: Node, axes: Sequence[int]) -> Node:
    if not axes:
        return x
    total = p.reduce(x, kind="sum", axes=tuple(sorted(axes)))
    return p.reshape(total, shape=tuple(1 if i in axes else d for i, d in enumerate(x.shape)))


@op(
    promote="arithmetic",
    samples=lambda m: [case(m.float(2, 3), m.float(3, 2)), case(m.float(2), m.float(2, 3)), case(m.float(2, 2, 2), m.float(3))],
)
def kron(x: Value, other: Value) -> Node:
    """The Kronecker product: blocks of ``other``, each times one element of x."""
    rank = max(x.rank, other.rank)
    a = (1,) * (rank - x.rank) + x.shape
    b = (1,) * (rank - other.rank) + other.shape
    both = tuple(d for pair in zip(a, b, strict=True) for d in pair)
    left = p.expand(p.reshape(x, shape=tuple(d for n in a for d in (n, 1))), shape=both)
    right = p.expand(p.reshape(other, shape=tuple(d for n in b for d in (1, n))), shape=both)
    return p.reshape(p.mul(left, right), shape=tuple(n * k for n, k in zip(a, b, strict=True)))


@op(promote=PRODUCT, samples=lambda m: [case([m.float(2, 3), m.float(3, 4), m.float(4, 2)]), case([m.float(2, 3)])])
def chain_matmul(matrices: Values) -> Node:
    """The product of several matrices, from left to right."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = mm(out, matrix)
    return out


# -- vectors ----------------------------------------------------------------------------------------------
def _cross_samples(m: SampleMaker) -> Calls:
    return [case(m.float(2, 3), m.float(2, 3)), case(m.float(4, 1, 3), m.float(1, 5, 3)), case(m.float(3, 2), m.float(3, 1), 0)]


@op(promote="arithmetic", samples=_cross_samples, stepwise=True)
def cross(x: Value, other: Value, dim: int = -1) -> Node:
    """The cross product of vectors of 3 along ``dim``; the other dimensions broadcast."""
    if x.dtype is dtypes.bool_:
        raise NotImplementedError('"cross" not implemented for \'Bool\'; convert to an integer type')
    if x.rank != other.rank:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = normalize_dim(dim, x.rank, "linalg.cross")
    if not (x.shape[axis] == 3 and other.shape[axis] == 3):
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[axis]} and {other.shape[axis]}")
    shape = broadcast_shapes(x.shape, other.shape, operator="linalg.cross")
    a, b = ([cut(broadcast_to(v, shape), axis, i, 1) for i in range(3)] for v in (x, other))
    parts = [a[i] * b[k] - a[k] * b[i] for i, k in ((1, 2), (2, 0), (0, 1))]
    return p.cat(*parts, axis=axis)


@op(promote=PRODUCT, samples=lambda m: [case(m.float(4, 3), m.float(3)), case(m.float(2, 3, 4), m.float(3, 1), 1)])
def vecdot(x: Value, y: Value, dim: int = -1) -> Node:
    """Sums of products along ``dim``, of x conjugated; the other dimensions broadcast."""
    if not x.rank or not y.rank:
        raise RuntimeError("linalg.vecdot: inputs must have at least 1 dimension")
    shape = broadcast_shapes(x.shape, y.shape, operator="linalg.vecdot")
    axis = normalize_dim(dim, len(shape), "linalg.vecdot")
    x = conj(x) if x.dtype.is_complex else x
    product_of_both = p.mul(broadcast_to(x, shape), broadcast_to(y, shape))
    return p.reduce(product_of_both, kind="sum", axes=(axis,))


@op(promote="arithmetic", samples=lambda m: [case(m.float(4), 4), case(m.float(2, 3), 5), case(m.int(3), 2)])
def vander(x: Value, count: Size) -> Node:
    """The powers x ** 0 ... x ** (count - 1) in a new last dimension; integers as int64."""
    if not count > 1:
        raise RuntimeError(f"N must be greater than 1. Got {count}")
    x = x if x.dtype.is_inexact else p.converted(x, dtypes.int64)
    x = x if x.rank else p.reshape(x, shape=(1,))
    shape = (*x.shape, count - 1)
    powers = p.scan(p.expand(p.reshape(x, shape=(*x.shape, 1)), shape=shape), kind="prod", axis=x.rank)
    return p.cat(p.constant(1, (*x.shape, 1), x.dtype), powers, axis=x.rank)
