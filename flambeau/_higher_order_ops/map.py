"""map: a function of each slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._higher_order_ops.scan import slices_of, stacked

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001 - torch's own name
    """``f(x, *args)`` of each slice x of ``xs`` along dimension 0, stacked; both may be containers of tensors.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import map
    >>> map(lambda x, k: x.sum() * k, torch.ones(2, 3), 10)
    tensor([30., 30.])
    """
    return stacked([f(x, *args) for x in slices_of("map", xs, 0)])
