"""torch._dynamo: what programs tell ``compile`` about the sizes of their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.compiler import disable, is_compiling, reset
from flambeau.tensor.base import TensorBase

__all__ = ["disable", "is_compiling", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset"]


def mark_dynamic(
    t: Any, index: int | Sequence[int], *, hint_override: int | None = None, min: int | None = None, max: int | None = None,  # noqa: A002
    specialize_on: Any = None,
) -> None:  # fmt: skip
    """Let the sizes of ``t`` in the dimensions ``index`` be variables of what is compiled for it, from the first call on.

    Sizes of 0 and 1 are always compiled for themselves, and so is a size that the function fixes. ``hint_override``, ``min``, ``max``
    and ``specialize_on`` are not needed: what is compiled relies on nothing but what it checks.

    >>> import flambeau as torch
    >>> x = torch.ones(3, 2)
    >>> torch._dynamo.mark_dynamic(x, 0)
    >>> torch.compile(lambda x: x.sum(1))(x)
    tensor([2., 2., 2.])
    """
    _mark("mark_dynamic", t, index, "_dynamo_dynamic_indices")


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """As `mark_dynamic`, which never insists."""
    _mark("maybe_mark_dynamic", t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """Compile for each size of ``t`` in the dimensions ``index`` (all if None) that comes, whatever sizes come."""
    _mark("mark_static", t, range(t.dim()) if index is None else index, "_dynamo_static_indices")


def _mark(name: str, t: Any, index: int | Sequence[int], attribute: str) -> None:
    if not isinstance(t, TensorBase):
        raise TypeError(f"{name}: needs a tensor, got {type(t).__name__}")
    dims = [index] if isinstance(index, int) else list(index)
    rank = len(t.meta.shape)
    for dim in dims:
        if not -rank <= dim < rank:
            raise IndexError(f"{name}: there is no dimension {dim} in a tensor of {rank} dimensions; use one from {-rank} to {rank - 1}")
    setattr(t, attribute, {*getattr(t, attribute, ()), *(dim % rank for dim in dims)})
