"""Which small matrices are worked on one a lane, and by which kernel."""

from __future__ import annotations

from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes
from flambeau.templates.lane_eigh import lane_eigh
from flambeau.templates.lane_factor import lane_cholesky, lane_elimination, lane_qr, lane_triangular_solve

__all__ = ["lane_kernel"]

_KERNELS = {
    "eigh": lane_eigh, "cholesky": lane_cholesky, "triangular_solve": lane_triangular_solve, "lu": lane_elimination,
    "solve": lane_elimination, "inverse": lane_elimination, "qr": lane_qr,
}  # fmt: skip
# Up to these sizes they are faster than LAPACK, measured with batches that fill all lanes.
_LARGEST = {"eigh": 64, "cholesky": 32, "triangular_solve": 32, "lu": 32, "solve": 32, "inverse": 32, "qr": 32}
_TWO_VECTORS = 20


def lane_kernel(spec: FactorSpec, sizes: Sizes) -> FactorKernel | None:
    """The kernel for matrices of these sizes; None where LAPACK is to do it."""
    largest = _LARGEST.get(spec.kind, 0)
    if not 1 <= min(sizes.m, sizes.n) <= max(sizes.m, sizes.n, sizes.k) <= largest or (spec.kind == "lu" and sizes.m != sizes.n):
        return None
    return _KERNELS[spec.kind](spec, 2 if sizes.n <= _TWO_VECTORS else 1)
