"""Borders round the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import ops
from flambeau.tensor import Tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`pad` holds the widths before and after each dimension, the last dimension first; negative widths cut off.

    `mode` is "constant" (with `value`, default 0), "reflect", "replicate" or "circular".

    >>> import flambeau as torch
    >>> torch.nn.functional.pad(torch.ones(2), (1, 1))
    tensor([0., 1., 1., 0.])
    """
    return ops.pad(input, tuple(pad), mode, value)
