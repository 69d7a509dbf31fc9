"""Merging and splitting dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.nn.modules.module import Module
from flambeau.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merges the dimensions from `start_dim` to `end_dim`, both included, into one.

    >>> import flambeau as torch
    >>> tuple(torch.nn.Flatten()(torch.ones(32, 1, 5, 5)).shape)
    (32, 25)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension `dim` into dimensions of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise NotImplementedError(f"Unflatten: got a dim of type {type(dim).__name__}; named dimensions are not offered, pass an int")
        if not all(isinstance(size, int) for size in unflattened_size):
            raise TypeError(f"Unflatten: unflattened_size must be integers, got {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
