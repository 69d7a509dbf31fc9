"""How losses are combined: the old pair of flags and today's word."""

from __future__ import annotations

import warnings

__all__ = ["reduction_from_flags"]


def reduction_from_flags(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """``reduction``, or what the old flags say where one of them is given (with a warning)."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead.", stacklevel=3)
    return chosen
