"""Factorizations: Cholesky, LU, QR, LDL, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.tensor.arguments import given


def cholesky(A: Any, *, upper: bool = False, out: Any = None) -> Any:
    """L with A = L @ L.mH of Hermitian positive definite matrices (``upper``: U with A = U.mH @ U), from the lower (upper) triangles.

    Raises LinAlgError, with the number in the batch, for a matrix that is not positive definite.

    >>> import flambeau as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return given(out, ops.cholesky(A, upper))


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """L as by `cholesky`, and info (int32): the order of the first leading minor that is not positive, or 0."""
    return given(out, ops.cholesky_ex(A, upper, check_errors))


def lu(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """P, L and U with A = P @ L @ U: a permutation, ones on the diagonal of a lower triangle, an upper triangle.

    >>> import flambeau as torch
    >>> torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    return given(out, ops.lu(A, pivot=pivot))


def lu_factor(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """L below and U above the diagonal of one matrix, and the row that each row was swapped with, from 1 on (int32)."""
    return given(out, ops.lu_factor(A, pivot=pivot))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """As `lu_factor`, and info (int32): the first zero on the diagonal of U, from 1 on, or 0."""
    return given(out, ops.lu_factor_ex(A, pivot=pivot, check_errors=check_errors))


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False, out: Any = None) -> Any:
    """X with A @ X = B (X @ A = B where not ``left``; A.mH for A if ``adjoint``), from what `lu_factor` gives for A."""
    return given(out, ops.lu_solve(LU, pivots, B, left=left, adjoint=adjoint))


def qr(A: Any, mode: str = "reduced", *, out: Any = None) -> Any:
    """Q with orthonormal columns and an upper triangle R with A = Q @ R.

    ``mode``: "reduced" (Q has min(m, n) columns), "complete" (Q is square) or "r" (Q is empty).

    >>> import flambeau as torch
    >>> q, r = torch.linalg.qr(torch.randn(5, 3))
    >>> torch.allclose(q.mT @ q, torch.eye(3), atol=1e-5)
    True
    """
    return given(out, ops.qr(A, mode))


def householder_product(A: Any, tau: Any, *, out: Any = None) -> Any:
    """The first columns of the product of Householder's reflections, whose vectors stand below the diagonal of A."""
    return given(out, ops.householder_product(A, tau))


def ldl_factor(A: Any, *, hermitian: bool = False, out: Any = None) -> Any:
    """The packed factors of A = P L D L.mT P.mT of symmetric matrices, from their lower triangles, and LAPACK's pivots (int32).

    ``hermitian``: of Hermitian matrices, with L.mH for L.mT.
    """
    return given(out, ops.ldl_factor(A, hermitian=hermitian))


def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """As `ldl_factor`, and info (int32): the first zero in D, from 1 on, or 0."""
    return given(out, ops.ldl_factor_ex(A, hermitian=hermitian, check_errors=check_errors))


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False, out: Any = None) -> Any:
    """X with A @ X = B, from what `ldl_factor` gives for A."""
    return given(out, ops.ldl_solve(LD, pivots, B, hermitian=hermitian))


def eigh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues in ascending order and orthonormal eigenvectors, as columns, of symmetric or Hermitian matrices from a triangle.

    The sign (of complex ones the phase) of an eigenvector is not determined, nor is a basis for equal eigenvalues.

    >>> import flambeau as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return given(out, ops.eigh(A, UPLO))


def eigvalsh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """The eigenvalues of symmetric or Hermitian matrices in ascending order."""
    return given(out, ops.eigvalsh(A, UPLO))


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:
    """U, S and Vh with A = U @ diag(S) @ Vh, singular values in descending order; U and Vh are square if ``full_matrices``.

    >>> import flambeau as torch
    >>> torch.linalg.svd(torch.tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    _require_no_driver("linalg.svd", driver)
    return given(out, ops.svd(A, full_matrices))


def svdvals(A: Any, *, driver: str | None = None, out: Any = None) -> Any:
    """The singular values of matrices in descending order."""
    _require_no_driver("linalg.svdvals", driver)
    return given(out, ops.svdvals(A))


def _require_no_driver(operator: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(f"{operator}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend. Leave it out.")


def eig(A: Any, *, out: Any = None) -> Any:
    """Eigenvalues and eigenvectors, as columns of length 1, of square matrices; complex.

    >>> import flambeau as torch
    >>> torch.linalg.eig(torch.tensor([[1.0, 0.0], [0.0, 2.0]])).eigenvalues
    tensor([1.+0.j, 2.+0.j])
    """
    return given(out, ops.eig(A))


def eigvals(A: Any, *, out: Any = None) -> Any:
    """Eigenvalues of square matrices; complex."""
    return given(out, ops.eigvals(A))
