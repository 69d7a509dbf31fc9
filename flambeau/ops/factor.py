"""Factorizations of matrices; every dimension before the last two is a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, broadcast_shapes, broadcast_to, named_results, op
from flambeau.prims.complex import conj
from flambeau.prims.indexing import unexpand


# -- checks and samples -------------------------------------------------------------------------------------
def require_matrices(operator: str, x: Node, name: str = "A") -> None:
    """torch's errors for what is no batch of matrices of a type that can be factored."""
    if x.rank < 2:
        raise RuntimeError(f"{operator}: The input tensor {name} must have at least 2 dimensions.")
    require_factorable(operator, x)


def require_factorable(operator: str, x: Node) -> None:
    """torch's errors for integers and for types with too few digits."""
    kind = x.dtype.scalar_name
    if not x.dtype.is_inexact:
        raise RuntimeError(f"{operator}: Expected a floating point or complex tensor as input. Got {kind}")
    if x.dtype.to_real() not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{operator}: Low precision dtypes not supported. Got {kind}")


def require_square(operator: str, x: Node, name: str = "A") -> None:
    """As ``require_matrices``; they are square too."""
    require_matrices(operator, x, name)
    if not x.shape[-1] == x.shape[-2]:
        rows, columns = x.shape[-2:]
        raise RuntimeError(f"{operator}: {name} must be batches of square matrices, but they are {rows} by {columns} matrices")


def is_wide(x: Node) -> bool:
    return x.shape[-2] < x.shape[-1]


def least(x: Node) -> Dim:
    """The smaller size of a matrix."""
    return x.shape[-2] if is_wide(x) else x.shape[-1]


def regular(m: SampleMaker, *shape: int) -> Any:
    """Random matrices with a strong diagonal."""
    x = m.float(*shape)
    for i in range(min(shape[-2:])):
        x[..., i, i] += 3 + i
    return x


def positive(m: SampleMaker, *shape: int) -> Any:
    """Random symmetric positive definite matrices."""
    x = m.float(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


# -- Cholesky -----------------------------------------------------------------------------------------------
@named_results
class CholeskyInfo(NamedTuple):
    """The factor, and the order of the first leading minor that is not positive, or 0 (int32)."""

    L: Node
    info: Node


def _positive_samples(m: SampleMaker) -> Calls:
    some = [case(positive(m, 4, 4)), case(positive(m, 2, 3, 3), True), case(m.float(0, 0)), case(m.float(2, 0, 3, 3))]
    z = m.complex(2, 3, 3)
    return [*some, case(z @ z.conj().swapaxes(-1, -2) + np.eye(3))]


@op(samples=_positive_samples)
def cholesky(x: Value, upper: bool = False, operator: str = "linalg.cholesky") -> Node:
    """L with x = L L' of symmetric positive definite matrices, from their lower triangles; ``upper``: U with x = U' U."""
    require_square(operator, x)
    return p.cholesky(x, upper=upper, part=0, operator=operator)


@op(samples=_positive_samples)
def cholesky_ex(x: Value, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """``cholesky`` that tells of matrices that are not positive definite instead of raising."""
    require_square("linalg.cholesky_ex", x)
    operator = "linalg.cholesky_ex" if check_errors else ""
    return CholeskyInfo(*(p.cholesky(x, upper=upper, part=i, operator=operator) for i in (0, 1)))


# -- systems ------------------------------------------------------------------------------------------------
@named_results
class SolveInfo(NamedTuple):
    """The solution, and where elimination met a zero, or 0 (int32)."""

    result: Node
    info: Node


def is_vector_side(a: Node, b: Node) -> bool:
    """Whether torch takes ``b`` for one vector for each matrix."""
    return b.rank == 1 or (a.rank - 1 == b.rank and all(x == y for x, y in zip(a.shape[:-1], b.shape, strict=True)))


def _system(operator: str, a: Node, b: Node, left: bool) -> tuple[Node, Node, bool]:
    """A and B with equal batches, and whether B was a vector; of X A = B the transposed system."""
    require_square(operator, a, "A")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{operator}: Expected A and B to have the same dtype, but found A of type {a.dtype} and B of type {b.dtype}")
    vector = is_vector_side(a, b)
    if not left and vector:
        raise RuntimeError(f"{operator}: Vector broadcasting of the left hand side is not supported for left=False.")
    b = p.reshape(b, shape=(*b.shape, 1)) if vector else b
    if b.rank < 2:
        raise RuntimeError(f"{operator}: The input tensor B must have at least 2 dimensions.")
    a, b = (a, b) if left else (p.transpose(a), p.transpose(b))
    if not a.shape[-1] == b.shape[-2]:
        given = b.shape[-2:] if left else (b.shape[-1], b.shape[-2])
        form = "AX = B" if left else "XA = B"
        sizes = f"({a.shape[-2]}x{a.shape[-1]} and {given[0]}x{given[1]})"
        raise RuntimeError(f"{operator}: Incompatible shapes of A and B for the equation {form} {sizes}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], operator=operator)
    return broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:])), vector


def _system_samples(m: SampleMaker) -> Calls:
    a = regular(m, 4, 4)
    return [
        case(a, m.float(4, 2)), case(a, m.float(4)), case(regular(m, 2, 1, 3, 3), m.float(4, 3, 2)), case(a, m.float(3, 4), left=False),
        case(regular(m, 2, 3, 3), m.float(2, 3)), case(m.float(0, 0), m.float(0, 2)),
        case(m.complex(2, 3, 3) + 3 * np.eye(3), m.complex(2, 3, 2)),
    ]  # fmt: skip


def _solved(operator: str, a: Node, b: Node, left: bool, part: int, check: bool) -> Node:
    a, b, vector = _system(operator, a, b, left)
    out = p.solve(a, b, part=part, operator=operator if check else "")
    if part:
        return out
    return p.reshape(out, shape=out.shape[:-1]) if vector else out if left else p.transpose(out)


@op(samples=_system_samples)
def solve(a: Value, b: Value, *, left: bool = True) -> Node:
    """X with a X = b, or X a = b where not ``left``; b may be a vector for each matrix."""
    return _solved("linalg.solve", a, b, left, 0, True)


@op(samples=_system_samples)
def solve_ex(a: Value, b: Value, *, left: bool = True, check_errors: bool = False) -> SolveInfo:
    """``solve`` that tells of singular matrices instead of raising."""
    return SolveInfo(*(_solved("linalg.solve_ex", a, b, left, part, check_errors) for part in (0, 1)))


def _inverse_samples(m: SampleMaker) -> Calls:
    some = [case(regular(m, 4, 4)), case(regular(m, 2, 3, 3)), case(m.float(0, 0)), case(m.float(2, 0, 3, 3))]
    return [*some, case(m.complex(2, 3, 3) + 3 * np.eye(3))]


@op(samples=_inverse_samples)
def inverse(a: Value, operator: str = "linalg.inv") -> Node:
    """The inverse matrices."""
    require_square(operator, a, "A")
    return p.inverse(a, part=0, operator=operator)


@op(samples=_inverse_samples)
def inverse_ex(a: Value, *, check_errors: bool = False) -> SolveInfo:
    """``inverse`` that tells of singular matrices instead of raising."""
    require_square("linalg.inv_ex", a, "A")
    operator = "linalg.inv_ex" if check_errors else ""
    return SolveInfo(*(p.inverse(a, part=part, operator=operator) for part in (0, 1)))


def _triangular_samples(m: SampleMaker) -> Calls:
    a = regular(m, 4, 4)
    return [
        case(a, m.float(4, 2), upper=True), case(regular(m, 2, 1, 3, 3), m.float(4, 3, 2), upper=False),
        case(a, m.float(3, 4), upper=True, left=False), case(a, m.float(4, 2), upper=False, unitriangular=True),
        case(m.float(0, 0), m.float(0, 2), upper=True),
    ]  # fmt: skip


@op(samples=_triangular_samples)
def solve_triangular(
    a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False, operator: str = "linalg.solve_triangular"
) -> Node:
    """X with a X = b (X a = b where not ``left``), of a triangle of a; ``unitriangular``: with ones on its diagonal."""
    require_square(operator, a, "A")
    require_matrices(operator, b, "B")
    a, b, _ = _matrix_system(operator, a, b, left)
    out = p.triangular_solve(a, b, upper=upper is left, unit=unitriangular)
    return out if left else p.transpose(out)


def _matrix_system(operator: str, a: Node, b: Node, left: bool) -> tuple[Node, Node, bool]:
    """As ``_system`` where B is never a vector."""
    lead = (1,) * max(0, a.rank - b.rank)
    return _system(operator, a, p.reshape(b, shape=(*lead, *b.shape)) if lead else b, left)


@op(samples=lambda m: [case(m.float(4, 2), regular(m, 4, 4)), case(m.float(3, 2), regular(m, 2, 3, 3), True)])
def cholesky_solve(b: Value, factor: Value, upper: bool = False) -> Node:
    """X with A X = b, of the Cholesky factor of A."""
    require_square("cholesky_solve", factor, "A")
    require_matrices("cholesky_solve", b, "b")
    factor, b, _ = _matrix_system("cholesky_solve", factor, b, True)
    lower = p.adjoint(factor) if upper else factor
    half = p.triangular_solve(lower, b, upper=False, unit=False)
    return p.triangular_solve(p.adjoint(lower), half, upper=True, unit=False)


@op(samples=lambda m: [case(regular(m, 4, 4)), case(regular(m, 2, 3, 3), True), case(m.float(0, 0))])
def cholesky_inverse(factor: Value, upper: bool = False) -> Node:
    """The inverse of A, of the Cholesky factor of A."""
    require_square("cholesky_inverse", factor)
    lower = p.adjoint(factor) if upper else factor
    half = p.triangular_solve(lower, p.identity(lower), upper=False, unit=False)
    return p.matmul(p.adjoint(half), half)


def _factor_derivative(for_matrix: Node, factor: Node, upper: bool) -> Node:
    """Of A = L L' or U' U, taken for a product of whole matrices, as torch does."""
    both = p.add(for_matrix, p.adjoint(for_matrix))
    return p.matmul(factor, both) if upper else p.matmul(both, factor)


def _cholesky_solve_derivative(cotangents: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    (g,), (x,), (b, factor, upper) = cotangents, outputs, arguments
    for_b = cholesky_solve(g, factor, upper)
    wide = broadcast_to(factor, (*x.shape[:-2], *factor.shape[-2:]))
    for_factor = _factor_derivative(p.neg(p.matmul(for_b, p.adjoint(x))), wide, upper)
    return _summed_to(for_b, b.shape), _summed_to(for_factor, factor.shape)


def _summed_to(x: Node, shape: Sequence[Dim]) -> Node:
    """What was broadcast, summed back to its shape."""
    lead = x.rank - len(shape)
    total = p.reduce(x, kind="sum", axes=tuple(range(lead))) if lead else x
    return unexpand(total, tuple(shape))


def _cholesky_inverse_derivative(cotangents: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    (g,), (x,), (factor, upper) = cotangents, outputs, arguments
    return (_factor_derivative(p.neg(p.matmul(p.matmul(x, g), x)), factor, upper),)


cholesky_solve.derivative = cholesky_solve.complex_derivative = _cholesky_solve_derivative
cholesky_inverse.derivative = cholesky_inverse.complex_derivative = _cholesky_inverse_derivative


# -- LU -----------------------------------------------------------------------------------------------------
@named_results
class LuFactors(NamedTuple):
    """L below and U above the diagonal, and the row that each row was swapped with, from 1 on (int32)."""

    LU: Node
    pivots: Node


@named_results
class LuFactorsInfo(NamedTuple):
    """As `LuFactors`, and the first zero on the diagonal of U, from 1 on, or 0 (int32)."""

    LU: Node
    pivots: Node
    info: Node


@named_results
class Lu(NamedTuple):
    """The factors of A = P L U."""

    P: Node
    L: Node
    U: Node


def _require_pivot(operator: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{operator}: LU without pivoting is not implemented on the CPU")


def _any_samples(m: SampleMaker) -> Calls:
    return [case(regular(m, 4, 4)), case(regular(m, 2, 3, 5)), case(regular(m, 5, 3)), case(m.float(0, 3)), case(m.float(0, 2, 2))]


def _lu_parts(operator: str, x: Node, pivot: bool) -> tuple[Node, Node, Node]:
    _require_pivot(operator, pivot)
    require_matrices(operator, x)
    packed, pivots, info = (p.lu(x, wide=is_wide(x), part=i) for i in range(3))
    return packed, pivots, info


@op(samples=_any_samples)
def lu_factor(x: Value, *, pivot: bool = True) -> LuFactors:
    """The packed factors of x = P L U and the row swaps that make P."""
    return LuFactors(*_lu_parts("linalg.lu_factor", x, pivot)[:2])


@op(samples=_any_samples)
def lu_factor_ex(x: Value, *, pivot: bool = True, check_errors: bool = False) -> LuFactorsInfo:
    """``lu_factor`` that also tells of zeros on the diagonal of U, or raises there."""
    _require_pivot("linalg.lu_factor_ex", pivot)
    require_matrices("linalg.lu_factor_ex", x)
    operator = {"operator": "linalg.lu_factor_ex"} if check_errors else {}
    return LuFactorsInfo(*(p.lu(x, wide=is_wide(x), part=i, **operator) for i in range(3)))


def _unpacked(packed: Node) -> tuple[Node, Node]:
    k = least(packed)
    left = packed if k is packed.shape[-1] else p.first_columns(packed, k)
    right = packed if k is packed.shape[-2] else p.first_rows(packed, k)
    ones = p.on_diagonal(p.constant(1, (*packed.shape[:-2], k), packed.dtype), left.shape[-2], k)
    return p.add(p.triangle(left, False, True), ones), p.triangle(right, True)


def _permutation_matrix(pivots: Node, rows: Dim, like: Node) -> Node:
    order = p.permutation(pivots, rows=rows)
    places = p.columns_of(order, rows)
    row = p.iota(shape=places.shape, axis=places.rank - 2, dtype=dtypes.int64)
    return p.cast(p.eq(places, row), to=like.dtype)


@op(samples=_any_samples)
def lu(x: Value, *, pivot: bool = True) -> Lu:
    """P, L and U with x = P L U."""
    packed, pivots, _ = _lu_parts("linalg.lu", x, pivot)
    return Lu(_permutation_matrix(pivots, x.shape[-2], x), *_unpacked(packed))


def _pivot_samples(m: SampleMaker, n: int, batch: tuple[int, ...] = ()) -> Any:
    lows = [m.int(*batch, 1, low=i + 1, high=n + 1) for i in range(n)]
    return np.concatenate(lows, -1).astype(np.int32)


@op(samples=lambda m: [case(m.float(4, 4), _pivot_samples(m, 4)), case(m.float(2, 3, 3), _pivot_samples(m, 3, (2,)))])
def lu_unpack(packed: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True) -> Lu:
    """P, L and U of what ``lu_factor`` gives; what is not asked for is empty."""
    if unpack_pivots and pivots.dtype is not dtypes.int32:
        raise RuntimeError("lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Use what lu_factor returns.")
    require_matrices("lu_unpack", packed, "LU_data")
    nothing = p.constant(0, (0,), packed.dtype)
    permutation = _permutation_matrix(pivots, packed.shape[-2], packed) if unpack_pivots else nothing
    return Lu(permutation, *(_unpacked(packed) if unpack_data else (nothing, nothing)))


BOTH = ((True, True), (True, False), (False, True), (False, False))


def _lu_solve_samples(m: SampleMaker) -> Calls:
    square = [case(regular(m, 4, 4), _pivot_samples(m, 4), m.float(4, 4), left=left, adjoint=left is turned) for left, turned in BOTH]
    return [*square, case(regular(m, 2, 3, 3), _pivot_samples(m, 3, (2,)), m.float(2, 4, 3), left=False)]


@op(samples=_lu_solve_samples)
def lu_solve(
    packed: Value, pivots: Value, b: Value, *, left: bool = True, adjoint: bool = False, operator: str = "linalg.lu_solve"
) -> Node:
    """X with A X = b (X A = b where not ``left``, A' for A if ``adjoint``), of the factors of A."""
    require_square(operator, packed, "LU")
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError(f"{operator}: pivots should be a Tensor of scalar type torch.int32. Use what lu_factor returns.")
    if not pivots.shape[-1] == packed.shape[-1]:
        raise RuntimeError(f"{operator}: Number of pivots per batch should be same as the dimension of the matrix")
    packed, b, _ = _matrix_system(operator, packed, b, True) if left else _right_system(operator, packed, b)
    order = p.permutation(broadcast_to(pivots, (*packed.shape[:-2], packed.shape[-1])), rows=packed.shape[-1])
    packed = conj(packed) if adjoint and packed.dtype.is_complex else packed
    if adjoint is not left:
        half = p.triangular_solve(packed, p.permuted(b, order), upper=False, unit=True)
        out = p.triangular_solve(packed, half, upper=True, unit=False)
    else:
        turned = p.transpose(packed)
        half = p.triangular_solve(turned, b, upper=False, unit=False)
        out = p.permuted(p.triangular_solve(turned, half, upper=True, unit=True), p.inverse_order(order))
    return out if left else p.transpose(out)


def _right_system(operator: str, a: Node, b: Node) -> tuple[Node, Node, bool]:
    turned, b, vector = _matrix_system(operator, a, b, False)
    return p.transpose(turned), b, vector


# -- QR -----------------------------------------------------------------------------------------------------
@named_results
class Qr(NamedTuple):
    """The factors of A = Q R."""

    Q: Node
    R: Node


@named_results
class Reflections(NamedTuple):
    """R above and the vectors of Householder's reflections below the diagonal, and their factors."""

    a: Node
    tau: Node


def _qr_samples(m: SampleMaker) -> Calls:
    a = regular(m, 5, 3)
    some = [case(a), case(regular(m, 2, 3, 5)), case(regular(m, 4, 4), "complete"), case(a, "r"), case(m.float(0, 3, 2))]
    return [*some, case(m.complex(2, 4, 3))]


@op(samples=_qr_samples)
def qr(x: Value, mode: str = "reduced", operator: str = "linalg.qr") -> Qr:
    """Q and R of x = Q R; of ``mode`` "complete" Q is square, of "r" it is empty."""
    require_matrices(operator, x)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    q, r = (p.qr(x, wide=is_wide(x), complete=mode == "complete", part=i) for i in (0, 1))
    return Qr(p.constant(0, (0,), x.dtype) if mode == "r" else q, r)


@op(samples=lambda m: [case(m.float(5, 3)), case(m.float(2, 3, 4)), case(m.float(0, 3))])
def geqrf(x: Value) -> Reflections:
    """R and the reflections whose product is Q, of x = Q R."""
    require_matrices("geqrf", x)
    return Reflections(*(p.geqrf(x, wide=is_wide(x), part=i) for i in (0, 1)))


def _reflections(operator: str, x: Node, tau: Node) -> tuple[Node, Node]:
    """V and the unit triangle M such that the product of the reflections is 1 - V diag(tau) M^-1 V' (Schreiber and Van Loan 1989)."""
    require_matrices(operator, x, "input")
    if tau.dtype is not x.dtype:
        raise RuntimeError(f"{operator}: tau dtype {tau.dtype} does not match input dtype {x.dtype}")
    if tau.shape[-1] > x.shape[-1]:
        raise RuntimeError(f"{operator}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.rank != x.rank - 1 or not all(a == b for a, b in zip(tau.shape[:-1], x.shape[:-2], strict=True)):
        raise RuntimeError(
            f"{operator}: Expected tau to have one dimension less than input, got {tau.rank} and {x.rank}"
        )
    k = tau.shape[-1]
    x = x if k == x.shape[-1] else p.first_columns(x, k)
    ones = p.on_diagonal(p.constant(1, tau.shape, x.dtype), x.shape[-2], k)
    v = p.add(p.triangle(x, False, True), ones)
    return v, p.mul(p.matmul(p.adjoint(v), v), p.columns_of(tau, k))


@op(samples=lambda m: [case(m.float(5, 3), m.float(3)), case(m.float(2, 4, 4), m.float(2, 2)), case(m.float(0, 3, 2), m.float(0, 2))])
def householder_product(x: Value, tau: Value) -> Node:
    """The first columns of the product of Householder's reflections, as many as x has."""
    v, mixed = _reflections("linalg.householder_product", x, tau)
    if is_wide(x):
        raise RuntimeError("torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]")
    n = x.shape[-1]
    top = p.adjoint(v if v.shape[-2] == n else p.first_rows(v, n))
    inner = p.mul(p.triangular_solve(mixed, top, upper=True, unit=True), p.rows_of(tau, n))
    eye = p.on_diagonal(p.constant(1, (*x.shape[:-2], n), x.dtype), x.shape[-2], n)
    return p.sub(eye, p.matmul(v, inner))


def _ormqr_samples(m: SampleMaker) -> Calls:
    a, tau = m.float(5, 3), m.float(3)
    return [case(a, tau, m.float(5, 2)), case(a, tau, m.float(2, 5), False, True), case(a, tau, m.float(5, 2), True, True)]


@op(samples=_ormqr_samples)
def ormqr(x: Value, tau: Value, other: Value, left: bool = True, transpose: bool = False) -> Node:
    """Q other (other Q where not ``left``, Q' for Q if ``transpose``), of the reflections whose product is Q."""
    v, mixed = _reflections("ormqr", x, tau)
    if not other.shape[-2 if left else -1] == x.shape[-2]:
        raise RuntimeError(f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    other = other if left else p.adjoint(other)
    inner = p.matmul(p.adjoint(v), other)
    spread = p.rows_of(conj(tau) if transpose is left and tau.dtype.is_complex else tau, inner.shape[-1])
    if transpose is left:
        inner = p.triangular_solve(p.adjoint(mixed), p.mul(inner, spread), upper=False, unit=True)
    else:
        inner = p.mul(p.triangular_solve(mixed, inner, upper=True, unit=True), spread)
    out = p.sub(other, p.matmul(v, inner))
    return out if left else p.adjoint(out)


# -- symmetric indefinite matrices --------------------------------------------------------------------------
@named_results
class LdlFactors(NamedTuple):
    """L and the blocks of D, and LAPACK's pivots (int32)."""

    LD: Node
    pivots: Node


@named_results
class LdlFactorsInfo(NamedTuple):
    """As `LdlFactors`, and the first zero of D, from 1 on, or 0 (int32)."""

    LD: Node
    pivots: Node
    info: Node


def _symmetric_samples(m: SampleMaker) -> Calls:
    a, b = m.float(5, 5), m.float(2, 4, 4)
    return [case(a + a.T), case(b + b.swapaxes(-1, -2)), case(m.float(0, 0))]


@op(samples=_symmetric_samples)
def ldl_factor(x: Value, *, hermitian: bool = False) -> LdlFactors:
    """The packed factors of x = P L D L' P' of symmetric matrices, from their lower triangles; D has blocks of 1 and 2."""
    require_square("torch.linalg.ldl_factor_ex", x)
    return LdlFactors(*(p.ldl(x, part=i, hermitian=hermitian) for i in (0, 1)))


@op(samples=_symmetric_samples)
def ldl_factor_ex(x: Value, *, hermitian: bool = False, check_errors: bool = False) -> LdlFactorsInfo:
    """``ldl_factor`` that also tells of zeros in D, or raises there."""
    require_square("torch.linalg.ldl_factor_ex", x)
    operator = {"operator": "linalg.ldl_factor_ex"} if check_errors else {}
    return LdlFactorsInfo(*(p.ldl(x, part=i, hermitian=hermitian, **operator) for i in range(3)))


@op(samples=lambda m: [case(regular(m, 4, 4), np.arange(1, 5, dtype=np.int32), m.float(4, 2))])
def ldl_solve(factors: Value, pivots: Value, b: Value, *, hermitian: bool = False) -> Node:
    """X with A X = b, of what ``ldl_factor`` gives for A."""
    require_square("torch.linalg.ldl_solve", factors, "LD")
    if pivots.dtype.is_floating_point or pivots.dtype is dtypes.bool_:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype}")
    require_matrices("torch.linalg.ldl_solve", b, "B")
    factors, b, _ = _matrix_system("torch.linalg.ldl_solve", factors, b, True)
    pivots = p.converted(broadcast_to(pivots, (*factors.shape[:-2], factors.shape[-1])), dtypes.int32)
    return p.ldl_solve(factors, b, pivots, hermitian=hermitian)
