"""torch.utils.dlpack: tensors to and from other libraries without copies."""

from __future__ import annotations

from typing import Any

from flambeau.tensor import Tensor
from flambeau.tensor.creation import from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, which another library takes over once.

    >>> import flambeau as torch
    >>> type(torch.utils.dlpack.to_dlpack(torch.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()
