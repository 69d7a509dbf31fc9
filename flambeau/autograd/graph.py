"""torch.autograd.graph: the tape's entries."""

from __future__ import annotations

from typing import Any

from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import Entry as Node

__all__ = ["Node", "increment_version"]


def increment_version(tensor: Any) -> None:
    """Say that a tensor, or several, was changed in place by other means: backward then knows that what it saved is gone."""
    for changed in [tensor] if isinstance(tensor, TensorBase) else tensor:
        changed.memory.version += 1
