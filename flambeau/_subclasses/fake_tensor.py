"""torch._subclasses.fake_tensor: tensors of PyTorch's tracers, of which none is made here."""

from __future__ import annotations

from typing import Any

from flambeau.tensor.tensor_class import Tensor

__all__ = ["FakeTensor", "is_fake"]


class FakeTensor(Tensor):
    """What PyTorch's tracers compute with; tensors on the meta device take its place."""


def is_fake(x: Any) -> bool:
    """False: there are none."""
    return False
