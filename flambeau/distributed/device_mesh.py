"""torch.distributed.device_mesh: arrangements of several processes, of which there is one."""

from __future__ import annotations

from typing import Any

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An arrangement of processes. NotImplementedError: there is one process; leave shards and meshes out."""

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None) -> None:
        raise NotImplementedError("DeviceMesh: groups have one process so far; run without tensor, data or pipeline parallel settings")


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None) -> DeviceMesh:
    """A `DeviceMesh`; NotImplementedError as there."""
    return DeviceMesh(device_type, mesh_shape, mesh_dim_names=mesh_dim_names)
