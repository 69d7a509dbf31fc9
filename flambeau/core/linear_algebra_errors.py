"""What goes wrong with matrices, in torch's words."""

from __future__ import annotations

__all__ = ["LinAlgError", "linear_algebra_error"]


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive definite, or an iteration did not converge."""


_NO_CONVERGENCE = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated {} (error code: {{}})."
)
_SINGULAR = "The solver failed because the input matrix is singular."
_NO_INVERSE = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order {} is not "
    "positive-definite)."
)
_MESSAGES = {
    "linalg.cholesky": _NOT_POSITIVE, "cholesky": _NOT_POSITIVE, "linalg.cholesky_ex": _NOT_POSITIVE,
    "linalg.inv": _NO_INVERSE, "linalg.inv_ex": _NO_INVERSE,
    "linalg.solve": _SINGULAR, "linalg.solve_ex": _SINGULAR,
    "linalg.lu_factor_ex": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. Call linalg.lu instead.",
    "linalg.ldl_factor_ex": "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero.",
    **{f"linalg.{name}": _NO_CONVERGENCE.format("eigenvalues") for name in ("eigh", "eigvalsh", "eig", "eigvals")},
    **{f"linalg.{name}": _NO_CONVERGENCE.format("singular values") for name in ("svd", "svdvals")},
}  # fmt: skip
OPERATORS = tuple(_MESSAGES)
NOT_FINITE = -4  # what LAPACK says of an operand with NaN


def linear_algebra_error(operator: str, info: int, element: int | None) -> LinAlgError:
    """The error for LAPACK's ``info`` about one matrix, number ``element`` of a batch (None: there is no batch)."""
    text = _MESSAGES[operator].format(info)
    if info == NOT_FINITE:
        text = "The algorithm failed to converge because the input matrix contained non-finite values."
    batch = "" if element is None else f"(Batch element {element}): "
    return LinAlgError(f"{operator}: {batch}{text}")
