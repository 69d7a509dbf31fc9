"""Which small matrices are worked on one a lane, and by which kernel."""

from __future__ import annotations

from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes
from flambeau.templates.lane_eigh import lane_eigh

__all__ = ["lane_kernel"]

_KERNELS = {"eigh": lane_eigh}
# Up to these sizes (of float32, float64) they are faster than LAPACK, measured with batches that fill all lanes.
_LARGEST = {"eigh": (64, 64)}

_TWO_VECTORS = 20


def lane_kernel(spec: FactorSpec, sizes: Sizes) -> FactorKernel | None:
    """The kernel for matrices of these sizes; None where LAPACK is to do it.

    The choice depends on sizes and types alone, so that a matrix is factored in the same way in whatever company.
    """
    if spec.kind not in _KERNELS or not 1 <= sizes.n <= _LARGEST[spec.kind][spec.element.itemsize == 8]:
        return None
    return _KERNELS[spec.kind](spec, 2 if sizes.n <= _TWO_VECTORS else 1)
