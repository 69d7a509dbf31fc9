"""Eigenvalues, singular values and determinants of matrices, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.complex import sgn
from flambeau.ops.declare import Value, broadcast_to, normalize_dim, op
from flambeau.ops.factor import is_wide, positive, regular, require_factorable, require_matrices, require_square
from flambeau.ops.reduce import kept, reduced, restored, size_number, vector_norm
from flambeau.ops.samples import torch_norms
from flambeau.prims.complex import angle, conj

EPSILON = {dtypes.float32: 2.0**-23, dtypes.float64: 2.0**-52}


# -- eigenvalues --------------------------------------------------------------------------------------------
class Eigenpairs(NamedTuple):
    """Eigenvalues in ascending order and eigenvectors as columns."""

    eigenvalues: Node
    eigenvectors: Node


def _lower(uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return uplo.upper() == "L"


def _symmetric_samples(m: SampleMaker) -> Calls:
    a, b = m.float(5, 5), m.float(2, 4, 4)
    return [case(a + a.T), case(b + b.swapaxes(-1, -2), "U"), case(m.float(0, 0)), case(m.float(0, 3, 3))]


@op(samples=_symmetric_samples)
def eigh(x: Value, UPLO: str = "L", operator: str = "linalg.eigh") -> Eigenpairs:
    """Eigenvalues and orthonormal eigenvectors of symmetric or Hermitian matrices, from their lower (``UPLO`` "U": upper) triangles."""
    require_square(operator, x)
    return Eigenpairs(*(p.eigh(x, lower=_lower(UPLO), part=i, operator=operator) for i in (0, 1)))


@op(samples=_symmetric_samples)
def eigvalsh(x: Value, UPLO: str = "L") -> Node:
    """The eigenvalues of symmetric or Hermitian matrices in ascending order."""
    return eigh(x, UPLO, "linalg.eigvalsh").eigenvalues


class Eigen(NamedTuple):
    """Eigenvalues and eigenvectors, as columns of length 1; complex."""

    eigenvalues: Node
    eigenvectors: Node


@op(samples=lambda m: [case(m.float(4, 4)), case(m.float(2, 3, 3)), case(m.float(0, 0))])
def eig(x: Value, operator: str = "linalg.eig") -> Eigen:
    """Eigenvalues and eigenvectors of square matrices, complex, in the order in which LAPACK finds them."""
    require_square(operator, x)
    return Eigen(*p.eigenpairs(x, operator))


@op(samples=lambda m: [case(m.float(4, 4)), case(m.float(2, 3, 3)), case(m.float(0, 0)), case(m.complex(3, 3))])
def eigvals(x: Value) -> Node:
    """The eigenvalues of square matrices, complex."""
    return eig(x, "linalg.eigvals").eigenvalues


# -- singular values ----------------------------------------------------------------------------------------
class SingularVectors(NamedTuple):
    """The factors of A = U diag(S) Vh."""

    U: Node
    S: Node
    Vh: Node


def _any_samples(m: SampleMaker) -> Calls:
    some = [case(regular(m, 4, 4)), case(regular(m, 2, 3, 5)), case(regular(m, 5, 3)), case(m.float(0, 3)), case(m.float(0, 2, 2))]
    return [*some, case(m.complex(2, 4, 3))]


def singular_parts(x: Node, full: bool, operator: str) -> SingularVectors:
    """U, S, Vh by the primitive; of empty matrices U and Vh are identity matrices, or empty."""
    m, n = x.shape[-2:]
    if m == 0 or n == 0:
        batch = x.shape[:-2]
        u, v = (p.constant(0, (*batch, *shape), x.dtype) for shape in ((m, m if full else 0), (n if full else 0, n)))
        return SingularVectors(p.identity(u) if full else u, p.constant(0, (*batch, 0), x.dtype.to_real()), p.identity(v) if full else v)
    return SingularVectors(*(p.svd(x, wide=is_wide(x), full=full, part=i, operator=operator) for i in range(3)))


@op(samples=_any_samples)
def svd(x: Value, full_matrices: bool = True, operator: str = "linalg.svd") -> SingularVectors:
    """U, S and Vh with x = U diag(S) Vh; singular values in descending order; ``full_matrices``: U and Vh are square."""
    require_matrices(operator, x)
    return singular_parts(x, full_matrices, operator)


@op(samples=_any_samples)
def svdvals(x: Value, operator: str = "linalg.svdvals") -> Node:
    """The singular values of matrices in descending order."""
    require_matrices(operator, x)
    return singular_parts(x, False, operator).S


def _magnitudes(x: Node, hermitian: bool, operator: str) -> Node:
    """The singular values; of symmetric matrices the sizes of the eigenvalues."""
    if not hermitian:
        return svdvals(x, operator)
    require_square(operator, x)
    return p.abs_(p.eigh(x, lower=True, part=0, operator="linalg.eigvalsh"))


def _threshold(values: Node, x: Node, atol: Node | None, rtol: Node | None) -> Node:
    """max(atol, rtol * largest value), of the shape of ``values``; the default rtol is the larger size times the type's epsilon."""
    batch = values.shape[:-1]
    top = p.reduce(values, kind="max", axes=(values.rank - 1,))
    if rtol is None:
        m, n = x.shape[-2:]
        relative = p.mul(size_number(n if is_wide(x) else m, top), p.number(EPSILON[top.dtype], top))
        if atol is not None:
            given = broadcast_to(p.converted(atol, top.dtype), batch)
            relative = p.where(p.lt(p.number(0, given), given), p.number(0, relative), relative)
    else:
        relative = broadcast_to(p.converted(rtol, top.dtype), batch)
    limit = p.mul(relative, top)
    if atol is not None:
        limit = p.maximum(limit, broadcast_to(p.converted(atol, top.dtype), batch))
    return p.rows_of(limit, values.shape[-1])


def _tolerance_samples(m: SampleMaker) -> Calls:
    low = m.float(4, 2) @ m.float(2, 5)
    return [case(regular(m, 4, 4)), case(low, 1e-6), case(m.float(2, 5, 3), None, 0.5), case(positive(m, 3, 3), hermitian=True)]


@op(samples=_tolerance_samples)
def matrix_rank(x: Value, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False) -> Node:
    """How many singular values are above max(atol, rtol * the largest), int64."""
    require_matrices("linalg.matrix_rank", x)
    if x.shape[-1] == 0 or x.shape[-2] == 0:
        return p.constant(0, x.shape[:-2], dtypes.int64)
    values = _magnitudes(x, hermitian, "linalg.svdvals")
    above = p.lt(_threshold(values, x, atol, rtol), values)
    return p.reduce(p.cast(above, to=dtypes.int64), kind="sum", axes=(values.rank - 1,))


def _pinv_samples(m: SampleMaker) -> Calls:
    some = [case(regular(m, 4, 4)), case(regular(m, 2, 5, 3), 1e-3), case(regular(m, 2, 3, 5), None, 1e-3)]
    return [*some, case(m.complex(4, 3))]


@op(samples=_pinv_samples)
def pinv(x: Value, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False) -> Node:
    """The pseudoinverse (Moore and Penrose), without singular values up to max(atol, rtol * the largest)."""
    require_matrices("linalg.pinv", x)
    if hermitian:
        require_square("linalg.pinv", x)
    if x.shape[-1] == 0 or x.shape[-2] == 0:
        return p.adjoint(x)
    if hermitian:
        signed, u = (p.eigh(x, lower=True, part=i, operator="linalg.eigh") for i in (0, 1))
        values, v = p.abs_(signed), p.mul(u, p.like(p.columns_of(p.sign(signed), x.shape[-1]), u))
    else:
        u, values, turned = singular_parts(x, False, "linalg.svd")
        v = p.adjoint(turned)
    above = p.lt(_threshold(values, x, atol, rtol), values)
    one = p.number(1, values)
    inverse = p.where(above, p.div(one, p.where(above, values, one)), p.number(0, values))
    return p.matmul(p.mul(v, p.like(p.columns_of(inverse, v.shape[-2]), v)), p.adjoint(u))


def _pinv_derivative(cotangents: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Golub and Pereyra 1973: the products are ordered so that the smaller sizes meet first."""
    (g,), (inverse,), (x, *_) = cotangents, outputs, arguments
    t, mm = p.adjoint, p.matmul
    g, turned = t(g), t(inverse)
    if is_wide(x):
        k = mm(g, inverse)
        outside = mm(k, turned)
        first = p.sub(outside, t(mm(inverse, k)))
        rest = p.sub(mm(mm(turned, inverse), p.sub(g, mm(k, x))), mm(mm(x, inverse), outside))
    else:
        k = mm(inverse, g)
        outside = mm(turned, k)
        first = p.sub(outside, t(mm(k, inverse)))
        rest = p.sub(mm(mm(p.sub(g, mm(x, k)), inverse), turned), mm(mm(outside, inverse), x))
    return p.add(first, rest), None, None


pinv.derivative = pinv.complex_derivative = _pinv_derivative


# -- norms --------------------------------------------------------------------------------------------------
ORDERS = ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


def _norm_samples(m: SampleMaker) -> Calls:
    x = m.float(2, 4, 3)
    return [case(x, o) for o in ORDERS] + [case(m.float(3, 2, 4), 1, (0, 2), True), case(x, "nuc", (2, 0)), case(x, -math.inf, (1, 0))]


@op(promote="arithmetic", samples=_norm_samples)
def matrix_norm(
    x: Value, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: dtype | None = None
) -> Node:
    """A norm of the matrices in two dimensions: Frobenius, nuclear, the largest or smallest singular value or sum of a row or column."""
    require_factorable("linalg.matrix_norm", x)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    if x.rank < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    axes = tuple(normalize_dim(d, x.rank, "linalg.matrix_norm") for d in dim)
    if axes[0] == axes[1]:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord not in ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord == "fro":
        return vector_norm(x, 2, list(axes), keepdim)
    rest = tuple(a for a in range(x.rank) if a not in axes)
    out = _matrix_norm(p.permute(x, axes=(*rest, *axes)), ord)
    return kept(out, axes, x.shape, keepdim)


def _matrix_norm(x: Node, ord: float | str) -> Node:
    if isinstance(ord, str) or abs(ord) == 2:
        values = singular_parts(x, False, "linalg.svd").S
        kind = "sum" if ord == "nuc" else "max" if float(ord) > 0 else "min"
        return reduced(values, kind, (values.rank - 1,))
    across = x.rank - 2 if abs(ord) == 1 else x.rank - 1
    sums = reduced(p.abs_(x), "sum", (across,))
    return reduced(sums, "max" if ord > 0 else "min", (sums.rank - 1,))


@op(promote="arithmetic", samples=torch_norms)
def norm(
    x: Value, p: float | str | None = "fro", dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: dtype | None = None
) -> Node:
    """The vector norm of order ``p`` along ``dim``; "fro" is order 2, "nuc" the sum of the singular values of matrices."""
    if p != "nuc":
        return vector_norm(x, 2 if p is None or isinstance(p, str) else p, dim, keepdim)
    if dim is None and x.rank != 2:
        raise RuntimeError(f"linalg.matrix_norm: without dim, the nuclear norm needs a 2-D tensor, got shape {list(x.shape)}")
    return matrix_norm(x, "nuc", (0, 1) if dim is None else tuple(dim), keepdim)  # type: ignore[arg-type]


@op(samples=lambda m: [case(regular(m, 4, 4), o) for o in (None, -2, "fro", 1, math.inf, "nuc")])
def cond(x: Value, ord: float | str | None = None) -> Node:
    """The condition number: norm(x) * norm(inverse of x); infinite for singular matrices."""
    require_matrices("linalg.cond", x)
    if ord is None or ord in (2, -2):
        values = singular_parts(x, False, "linalg.svdvals").S
        first, last = (_end(values, i) for i in (0, values.shape[-1] - 1))
        return p.div(last, first) if ord == -2 else p.div(first, last)
    require_square("linalg.cond", x)
    if ord not in ORDERS:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {ord}")
    inverse, info = (p.inverse(x, part=i, operator="") for i in (0, 1))
    both = (vector_norm(v, 2, [-2, -1]) if ord == "fro" else _matrix_norm(v, ord) for v in (x, inverse))
    found = p.mul(*both)
    return p.where(p.eq(info, p.number(0, info)), found, p.number(math.inf, found))


def _end(values: Node, at: Dim) -> Node:
    cut = p.slice_(values, **p.select_index(values.rank - 1, at, 1, 1, values.shape))
    return p.reshape(cut, shape=values.shape[:-1])


# -- determinants -------------------------------------------------------------------------------------------
class LogDeterminant(NamedTuple):
    """The sign and the logarithm of the size of determinants."""

    sign: Node
    logabsdet: Node


def _square_samples(m: SampleMaker) -> Calls:
    some = [case(m.float(4, 4)), case(m.float(2, 3, 3)), case(m.float(1, 1)), case(m.float(0, 0)), case(m.float(0, 3, 3))]
    return [*some, case(m.complex(2, 3, 3))]


def _pivots_sign(x: Node) -> tuple[Node, Node]:
    """The diagonal of U in x = P L U, and the sign of P."""
    packed, pivots = (p.lu(x, wide=False, part=i) for i in (0, 1))
    places = p.iota(shape=pivots.shape, axis=pivots.rank - 1, dtype=dtypes.int32)
    swapped = p.cast(p.ne(pivots, p.add(places, p.number(1, places))), to=dtypes.int32)
    count = reduced(swapped, "sum", (pivots.rank - 1,))
    odd = p.converted(p.bitwise_and(count, p.number(1, count)), x.dtype)
    return p.diagonal(packed), p.sub(p.number(1, odd), p.mul(odd, p.number(2, odd)))


@op(samples=_square_samples)
def det(x: Value, operator: str = "linalg.det") -> Node:
    """The determinants of square matrices."""
    require_square(operator, x)
    return p.lu(x, wide=False, part=3)


def _det_derivative(cotangents: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """det(x) times the transposed inverse; zero pivots become tiny ones, so that one of them leaves the cofactors of a singular x."""
    (g,), x = cotangents, arguments[0]
    if x.shape[-1] == 0:
        return (None,)
    if x.dtype.is_complex:
        g = conj(g)
    packed, pivots = (p.lu(x, wide=False, part=i) for i in (0, 1))
    diagonal, sign = _pivots_sign(x)
    zero = p.eq(diagonal, p.number(0, diagonal))
    tiny = p.where(zero, p.number(EPSILON[x.dtype.to_real()], diagonal), p.number(0, diagonal))
    packed = p.add(packed, p.on_diagonal(tiny, x.shape[-1], x.shape[-1]))
    whole = p.mul(sign, reduced(p.diagonal(packed), "prod", (diagonal.rank - 1,)))
    turned = p.transpose(packed)
    half = p.triangular_solve(turned, _spread_identity(p.mul(g, whole), x), upper=False, unit=False)
    found = p.triangular_solve(turned, half, upper=True, unit=True)
    found = p.permuted(found, p.inverse_order(p.permutation(pivots, rows=x.shape[-1])))
    return (conj(found) if x.dtype.is_complex else found,)


def _spread_identity(factor: Node, x: Node) -> Node:
    return p.mul(p.identity(x), restored(factor, (x.rank - 2, x.rank - 1), x.shape))


det.derivative = det.complex_derivative = _det_derivative


@op(samples=_square_samples)
def slogdet(x: Value, operator: str = "linalg.slogdet") -> LogDeterminant:
    """The sign of the determinants and the logarithm of their sizes: (0, -inf) of singular matrices."""
    require_square(operator, x)
    diagonal, sign = _pivots_sign(x)
    axes = (diagonal.rank - 1,)
    signs = sgn(diagonal) if x.dtype.is_complex else p.sign(diagonal)
    return LogDeterminant(p.mul(sign, reduced(signs, "prod", axes)), reduced(p.log(p.abs_(diagonal)), "sum", axes))


def _slogdet_derivative(cotangents: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """(g + i Im(s' gs)) times the adjoint inverse, with the sign s and its cotangent gs."""
    (turn, g), (sign, _), x = cotangents, outputs, arguments[0]
    if x.shape[-1] == 0:
        return (None,)
    if x.dtype.is_complex and turn is not None:
        turned = p.part(p.mul(turn, conj(sign)), index=1)
        g = p.pair(p.number(0, turned) if g is None else g, turned)
    if g is None:
        return (None,)
    return (p.solve(p.adjoint(x), _spread_identity(p.like(g, x), x), part=0, operator=""),)


slogdet.derivative = slogdet.complex_derivative = _slogdet_derivative


@op(samples=lambda m: [case(positive(m, 3, 3)), case(positive(m, 2, 2, 2)), case(positive(m, 1, 1))])
def logdet(x: Value) -> Node:
    """The logarithm of determinants; NaN of negative ones."""
    sign, size = slogdet(x, "logdet")
    if x.dtype.is_complex:
        return p.pair(size, angle(sign))
    return p.where(p.lt(sign, p.number(0, sign)), p.number(math.nan, size), size)


# -- the exponential ----------------------------------------------------------------------------------------
_DEGREE_STEP, _STEPS = 4, 5
MOST_SQUARINGS = 24
# Up to these norms the polynomial is exact but for rounding.
LARGEST_NORM = {dtypes.float32: 4.0, dtypes.float64: 1.0}


@op(promote="arithmetic", samples=lambda m: [case(m.float(3, 3)), case(10 * m.float(2, 2, 2)), case(m.float(0, 0))])
def matrix_exp(x: Value, squarings: int = MOST_SQUARINGS) -> Node:
    """exp(x): Taylor's polynomial of degree 19 of x / 2^s, squared s times; s, at most ``squarings``, makes the norm small.

    Paterson and Stockmeyer's evaluation; Moler and Van Loan, Nineteen dubious ways to compute the exponential of a matrix (2003).
    """
    require_square("linalg.matrix_exp", x)
    if x.shape[-1] == 0:
        return x
    axes = (x.rank - 2, x.rank - 1)
    norm = reduced(reduced(p.abs_(x), "sum", (x.rank - 2,)), "max", (x.rank - 2,))
    one = p.number(1, norm)
    smallest, reach = p.number(1e-30, norm), p.number(LARGEST_NORM[norm.dtype], norm)
    count = p.maximum(p.ceil(p.log2(p.div(p.maximum(norm, smallest), reach))), p.number(0, norm))
    count = p.minimum(count, p.number(squarings, norm))
    out = _taylor(p.mul(x, restored(p.div(one, p.exp2(count)), axes, x.shape)))
    for k in range(squarings):
        again = p.lt(p.number(k, count), count)
        out = p.where(p.restore(again, axes, x.shape), p.matmul(out, out), out)
    return out


def _taylor(x: Node) -> Node:
    """The sum of x^k / k! for k < 20, by Horner's rule in x^4."""
    square = p.matmul(x, x)
    powers = [p.identity(x), x, square, p.matmul(square, x)]
    fourth = p.matmul(square, square)
    out: Node | None = None
    for block in reversed(range(_STEPS)):
        terms = [p.mul(v, p.number(1 / math.factorial(_DEGREE_STEP * block + i), v)) for i, v in enumerate(powers)]
        total = p.add(p.add(terms[3], terms[2]), p.add(terms[1], terms[0]))
        out = total if out is None else p.add(p.matmul(out, fourth), total)
    assert out is not None
    return out


