"""torch.distributed.tensor: tensors spread over several processes, of which there is one: programs ask whether theirs are such."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.device_mesh import init_device_mesh as init_device_mesh
from flambeau.tensor.tensor_class import Tensor

__all__ = ["DTensor", "DeviceMesh", "distribute_tensor", "init_device_mesh"]


class DTensor(Tensor):
    """A tensor spread over processes; none is made here."""


def distribute_tensor(tensor: Any, device_mesh: Any = None, placements: Any = None, *, src_data_rank: int | None = 0) -> DTensor:
    """Spread a tensor. NotImplementedError, as of `DeviceMesh`."""
    raise NotImplementedError("distribute_tensor: groups have one process so far; use the tensor as it is")
