"""lobpcg: a few eigenvalues of a large symmetric matrix by products with it."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.linalg.decompositions import eigh
from flambeau.tensor.creation import empty_like
from flambeau.tensor.functions_random import randn
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.type_info import finfo

__all__ = ["lobpcg"]


def _orthonormal(basis: Tensor, B: Any) -> Tensor:
    """Columns that span what those of the basis do and are orthonormal in the product by B; directions that are not there go."""
    basis = basis / ops.clamp(ops.vector_norm(basis, 2, 0, True), finfo(basis.dtype).tiny)
    sizes, turn = eigh(basis.mT @ (basis if B is None else B @ basis))
    kept = sizes > sizes[-1] * finfo(basis.dtype).eps * 10 * basis.shape[1]
    return basis @ (turn[:, kept] / ops.sqrt(sizes[kept]))


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None, iK: Tensor | None = None,
    niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None, tracker: Any = None,
    ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The ``k`` largest (or smallest) eigenvalues of symmetric A [m, m] with eigenvectors [m, k], of A x = e B x if B is given.

    Locally optimal block conjugate gradients (Knyazev, 2001): in each of ``niter`` steps (up to 1,000) the best vectors of the space of
    the last ones, of their residuals (through ``iK``, a preconditioner) and of the last directions, until all residuals are below
    ``tol`` (the root of the type's eps) in relation to A. A may be sparse. There are no derivatives: detach A, or use ``linalg.eigh``.

    >>> import flambeau as torch
    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(1.0, 11.0)), k=1)
    >>> values.round(decimals=3)
    tensor([10.])
    """
    if A.requires_grad or (B is not None and B.requires_grad):
        raise NotImplementedError("lobpcg: has no derivatives; detach the matrices, or use torch.linalg.eigh")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', got {method!r}")
    m, count = A.shape[-1], k or n or (1 if X is None else X.shape[-1])
    if m < 3 * count:
        raise ValueError(f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x k (={count})")
    if A.ndim > 2:
        flat = [(A.reshape(-1, m, m)[i], None if B is None else B.reshape(-1, m, m)[i]) for i in range(A.numel() // (m * m))]
        found = [lobpcg(a, count, b, None, None, iK, niter, tol, largest) for a, b in flat]
        return tuple(ops.stack(f, 0).reshape(*A.shape[:-2], *f[0].shape) for f in zip(*found, strict=True))  # type: ignore[return-value]
    with no_grad():
        return _iterated(A, count, B, X, iK, 1000 if niter is None or niter < 0 else niter, tol, largest is not False)


def _iterated(A: Tensor, count: int, B: Any, X: Any, iK: Any, niter: int, tol: float | None, largest: bool) -> tuple[Tensor, Tensor]:
    basis = randn((A.shape[-1], count), dtype=A.dtype, device=A.device) if X is None else X
    limit = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    vectors, directions = basis, empty_like(basis)[:, :0]
    values, scale = basis[0], 0.0
    for step in range(niter + 1):
        space = _orthonormal(basis, B)
        image = A @ space
        found, turn = eigh(space.mT @ image)
        order = slice(-count, None) if largest else slice(0, count)
        new = space @ turn[:, order]
        values = found[order]
        overlap = vectors.mT @ (new if B is None else B @ new)
        directions = new - vectors @ overlap if step else directions
        vectors = new
        residual = image @ turn[:, order] - (new if B is None else B @ new) * values
        scale = max(scale, ops.amax(ops.abs(found), ()).item())
        if step == niter or ops.amax(ops.vector_norm(residual, 2, 0), ()).item() <= limit * scale:
            break
        basis = ops.cat([vectors, residual if iK is None else iK @ residual, directions], 1)
    return (values.flip(0), vectors.flip(1)) if largest else (values, vectors)
