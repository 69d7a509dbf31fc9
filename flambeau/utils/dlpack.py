"""torch.utils.dlpack: tensors of other libraries over the same memory, and ours for them."""

from __future__ import annotations

from typing import Any

from flambeau.tensor.creation import from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """A capsule that another library's ``from_dlpack`` takes, once."""
    return tensor.__dlpack__()
