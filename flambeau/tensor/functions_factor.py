"""Factorizations and what follows from them, as functions of torch; ``torch.linalg`` has their younger forms."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau import ops
from flambeau.tensor.arguments import given
from flambeau.tensor.autocasting import as_one
from flambeau.tensor.functions_complex import adjoint
from flambeau.tensor.functions_random import randn


class SingularVectors(NamedTuple):
    """The factors of A = U diag(S) V'."""

    U: Any
    S: Any
    V: Any


class TriangularSolution(NamedTuple):
    """The solution, and a copy of the triangular matrix."""

    solution: Any
    cloned_coefficient: Any


def cholesky(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """L with input = L @ L.mH of Hermitian positive definite matrices; ``upper``: U with input = U.mH @ U.

    >>> import flambeau as torch
    >>> torch.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return given(out, ops.cholesky(input, upper, "cholesky"))


def cholesky_inverse(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The inverse of A, from its Cholesky factor."""
    return given(out, ops.cholesky_inverse(input, upper))


def cholesky_solve(input: Any, input2: Any, upper: bool = False, *, out: Any = None) -> Any:
    """X with A @ X = input, from the Cholesky factor of A, ``input2``."""
    return given(out, ops.cholesky_solve(input, input2, upper))


def inverse(input: Any, *, out: Any = None) -> Any:
    """The inverse matrices; LinAlgError where one is singular.

    >>> import flambeau as torch
    >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return given(out, ops.inverse(input))


def pinverse(input: Any, rcond: Any = 1e-15) -> Any:
    """The pseudoinverse, without singular values up to ``rcond`` times the largest."""
    return ops.pinv(input, None, rcond)


def det(input: Any) -> Any:
    """The determinants of square matrices.

    >>> import flambeau as torch
    >>> torch.det(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    tensor(5.)
    """
    return ops.det(input)


def logdet(input: Any) -> Any:
    """The logarithm of determinants: NaN of negative ones, -inf of zero."""
    return ops.logdet(input)


def slogdet(input: Any, *, out: Any = None) -> Any:
    """The sign of determinants and the logarithm of their sizes."""
    return given(out, ops.slogdet(input))


def lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The packed factors of A = P L U and the row swaps; with ``get_infos`` also where U has its first zero."""
    result = ops.lu_factor_ex(A, pivot=pivot)
    return given(out, tuple(result) if get_infos else tuple(result)[:2])


def lu_solve(input: Any, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Any:
    """X with A @ X = input, from what `lu` gives for A."""
    return given(out, ops.lu_solve(LU_data, LU_pivots, input, operator="torch.lu_solve"))


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None) -> Any:
    """P, L and U from what `lu` gives."""
    return given(out, ops.lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots))


def qr(input: Any, some: bool = True, *, out: Any = None) -> Any:
    """Q with orthonormal columns and an upper triangle R with input = Q @ R; Q is square where not ``some``."""
    return given(out, ops.qr(input, "reduced" if some else "complete", "qr"))


def geqrf(input: Any, *, out: Any = None) -> Any:
    """R and Householder's reflections whose product is Q, of input = Q @ R."""
    return given(out, ops.geqrf(input))


def orgqr(input: Any, input2: Any, *, out: Any = None) -> Any:
    """The first columns of the product of Householder's reflections, whose factors are ``input2``."""
    return given(out, ops.householder_product(input, input2))


def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False, *, out: Any = None) -> Any:
    """Q @ input3 (input3 @ Q where not ``left``; Q.mT for Q if ``transpose``), with Q the product of Householder's reflections."""
    return given(out, ops.ormqr(input, input2, input3, left, transpose))


def svd(input: Any, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """U, S and V with input = U @ diag(S) @ V.mH; zeros for U and V where not ``compute_uv``."""
    if compute_uv:
        u, s, v = ops.svd(input, not some, "svd")
        return given(out, SingularVectors(u, s, adjoint(v)))
    s = ops.svdvals(input, "svd")
    *batch, m, n = input.meta.shape
    zeros = (ops.expand(ops.full((), 0.0, dtype=input.meta.dtype), (*batch, k, k)) for k in (m, n))
    u, v = (ops.clone(z) for z in zeros)
    return given(out, SingularVectors(u, s, v))


@as_one
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False, *, out: Any = None
) -> Any:
    """X with A @ X = input of a triangle of A, and a copy of A."""
    matrix = ops.transpose(A, -2, -1) if transpose else A
    operator = "triangular_solve"
    x = ops.solve_triangular(matrix, input, upper=upper is not transpose, unitriangular=unitriangular, operator=operator)
    return given(out, TriangularSolution(x, ops.clone(A)))


def matrix_exp(input: Any) -> Any:
    """The exponential of square matrices.

    >>> import flambeau as torch
    >>> torch.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return ops.matrix_exp(input)


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """U, S and V of a close approximation of rank q (Halko, Martinsson and Tropp 2009), by ``niter`` subspace iterations."""
    x = A if M is None else ops.sub(A, M)
    m, n = x.meta.shape[-2:]
    if m < n:
        u, s, v = svd_lowrank(adjoint(x), q, niter)
        return v, s, u
    turned = adjoint(x)
    start = randn(n, 6 if q is None else q, dtype=x.meta.dtype)
    basis = ops.qr(ops.matmul(x, start)).Q
    for _ in range(2 if niter is None else niter):
        basis = ops.qr(ops.matmul(x, ops.qr(ops.matmul(turned, basis)).Q)).Q
    u, s, v = ops.svd(ops.matmul(adjoint(basis), x), False)
    return ops.matmul(basis, u), s, adjoint(v)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """`svd_lowrank` of the rows of A, less their mean if ``center``: the principal components are the columns of the last result."""
    m, n = A.meta.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(ops.sub(A, ops.mean(A, -2, True)) if center else A, q, niter)
