"""torch.autograd.graph: the tape's entries."""

from __future__ import annotations

from typing import Any

from flambeau.runtime.cuda import driver
from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import Entry as Node

__all__ = ["save_on_cpu", "Node", "increment_version"]


def increment_version(tensor: Any) -> None:
    """Say that a tensor, or several, was changed in place by other means: backward then knows that what it saved is gone."""
    for changed in [tensor] if isinstance(tensor, TensorBase) else tensor:
        changed.memory.version += 1


class save_on_cpu:  # noqa: N801 - torch's own name
    """A context in which backward's tensors are kept on the CPU: where they are already. NotImplementedError where a GPU is in use."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        self.device_type = device_type

    def __enter__(self) -> None:
        if driver.is_loaded():
            raise NotImplementedError("save_on_cpu: what backward keeps stays on its GPU; use torch.utils.checkpoint to keep less")

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""
