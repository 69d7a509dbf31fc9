"""Which small matrices are worked on one a lane, and by which kernel."""

from __future__ import annotations

from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes
from flambeau.templates.lane_eigh import lane_eigh
from flambeau.templates.lane_factor import lane_cholesky, lane_elimination, lane_qr, lane_triangular_solve
from flambeau.templates.lane_svd import lane_svd

__all__ = ["lane_kernel"]

_KERNELS = {
    "eigh": lane_eigh, "cholesky": lane_cholesky, "triangular_solve": lane_triangular_solve, "lu": lane_elimination,
    "solve": lane_elimination, "inverse": lane_elimination, "qr": lane_qr, "svd": lane_svd,
}  # fmt: skip
# Beyond, LAPACK is faster: a thread's tables have left the nearest caches.
_LARGEST = {"eigh": 144, "cholesky": 32, "triangular_solve": 32, "lu": 32, "solve": 32, "inverse": 32, "qr": 32, "svd": 32}
_TWO_VECTORS = 20


def lane_kernel(spec: FactorSpec, sizes: Sizes, usual: FactorKernel) -> FactorKernel:
    """The kernel for matrices of these sizes: by lanes where that takes less time than ``usual``, empty lanes included.

    The choice depends on nothing but sizes and types.
    """
    largest = _LARGEST.get(spec.kind, 0)
    if not 1 <= min(sizes.m, sizes.n) <= max(sizes.m, sizes.n, sizes.k) <= largest or (spec.kind in ("lu", "svd") and sizes.m != sizes.n):
        return usual
    narrow = spec.vector_bits // (8 * spec.element.itemsize)
    kernel = _KERNELS[spec.kind](spec, 2 if sizes.n <= _TWO_VECTORS and sizes.batch > narrow else 1)
    filled = -(-sizes.batch // kernel.block) * kernel.block
    return kernel if filled * kernel.nanoseconds(sizes) < sizes.batch * usual.nanoseconds(sizes) else usual
