"""torch.backends.openmp: OpenMP is not used: kernels run on threads of their own."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
