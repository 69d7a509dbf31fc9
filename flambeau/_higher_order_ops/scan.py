"""scan: a function along a dimension that carries a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.tensor.base import TensorBase
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_map

__all__ = ["scan"]


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """``carry, y = combine_fn(carry, x)`` for the slices x of ``xs`` along ``dim``: the last carry, and the ys stacked along dimension 0.

    ``init``, ``xs`` and the ys are tensors, or containers of tensors. With ``reverse`` the slices come from the end; each y stays
    in the place of its x. RuntimeError without a slice, and for a carry of another structure than ``init``.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"scan: Combine_fn must be a callable, but got {combine_fn}")
    slices = slices_of("scan", xs, dim)
    carry, found = init, []
    structure = tree_flatten(init)[1]
    for x in reversed(slices) if reverse else slices:
        result = combine_fn(carry, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise RuntimeError(f"scan: combine_fn must give a carry and an output, got {type(result).__name__}")
        carry, y = result
        if tree_flatten(carry)[1] != structure:
            raise RuntimeError("scan: combine_fn gave a carry of another structure than init")
        found.append(y)
    return carry, stacked(found[::-1] if reverse else found)


def slices_of(function: str, xs: Any, dim: int) -> list[Any]:
    """What ``xs`` holds at each place along ``dim``, in its containers."""
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(x, TensorBase) for x in leaves):
        raise RuntimeError(f"{function}: xs must be tensors, or containers of tensors, got {xs}")
    if any(not -len(x.meta.shape) <= dim < len(x.meta.shape) or not x.meta.shape[dim] for x in leaves):
        shapes = [x.meta.shape for x in leaves]
        raise RuntimeError(f"{function}: all tensors of xs must have a dimension {dim} that is not empty, got shapes {shapes}")
    if len({x.meta.shape[dim] for x in leaves}) > 1:
        raise RuntimeError(f"{function}: the tensors of xs have different sizes along {dim}: {[x.meta.shape for x in leaves]}")
    return [spec.unflatten(parts) for parts in zip(*[ops.unbind(x, dim) for x in leaves], strict=True)]


def stacked(results: list[Any], dim: int = 0) -> Any:
    """One container of tensors with a dimension more, of many containers alike."""
    specs: list[TreeSpec] = [tree_flatten(r)[1] for r in results]
    if any(s != specs[0] for s in specs):
        raise RuntimeError("the results of the steps are of different structures")
    return tree_map(lambda *parts: ops.stack(list(parts), dim), *results)
