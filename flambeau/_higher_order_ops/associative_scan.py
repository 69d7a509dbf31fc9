"""associative_scan: a function of two values along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._higher_order_ops.scan import slices_of, stacked

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """The first slice along ``dim``, that combined with the second, that with the third, and so on, in the places of ``xs``.

    ``combine_fn`` is associative. ``combine_mode`` is accepted and makes no difference.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    if not callable(combine_fn):
        raise RuntimeError(f"associative_scan: Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise RuntimeError(f"associative_scan: Combine_mode must be either 'pointwise' or 'generic', but got {combine_mode}")
    slices = slices_of("associative_scan", xs, dim)
    slices = slices[::-1] if reverse else slices
    found = [slices[0]]
    for x in slices[1:]:
        found.append(combine_fn(found[-1], x))
    return stacked(found[::-1] if reverse else found, dim)
