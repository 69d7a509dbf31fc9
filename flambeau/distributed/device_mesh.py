"""torch.distributed.device_mesh: the processes as a grid, which so far has one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.processes import group
from flambeau.distributed.process_group import ProcessGroup
from flambeau.tensor.creation import tensor
from flambeau.tensor.tensor_class import Tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of the group's processes, with a name for each of its dimensions if ``mesh_dim_names`` gives them."""

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: tuple[str, ...] | None = None) -> None:
        self.device_type = device_type
        self.mesh = mesh if isinstance(mesh, Tensor) else tensor(mesh)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh.numel() != 1:
            raise NotImplementedError(f"DeviceMesh: {self.mesh.numel()} processes are not there yet; give a mesh of one, such as [0]")
        if mesh_dim_names is not None and len(mesh_dim_names) != self.mesh.ndim:
            raise RuntimeError(f"DeviceMesh: {self.mesh.ndim} dimensions need as many names, got {mesh_dim_names}")

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, all 1."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """1."""
        return 1

    def get_rank(self) -> int:
        """0."""
        return 0

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """0."""
        return 0

    def get_coordinate(self) -> list[int]:
        """The place of this process: 0 along every dimension."""
        return [0] * self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of the processes along a dimension."""
        return ProcessGroup()

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        missing = [n for n in wanted if n not in (self.mesh_dim_names or ())]
        if missing:
            raise KeyError(f"DeviceMesh: no dimension called {missing[0]!r}; there are {self.mesh_dim_names}")
        return DeviceMesh(self.device_type, self.mesh.reshape((1,) * len(wanted)), mesh_dim_names=wanted)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}, mesh_dim_names={self.mesh_dim_names})"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None
) -> DeviceMesh:
    """A mesh of all processes in the given shape; begins the group where ``init_process_group`` was not called.

    >>> import flambeau as torch
    >>> torch.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))["data"].size()
    1
    >>> torch.distributed.destroy_process_group()
    """
    if any(size != 1 for size in mesh_shape):
        raise NotImplementedError(f"init_device_mesh: a mesh of {tuple(mesh_shape)} processes is not there yet; run in one, with sizes 1")
    group.setdefault("backend", "gloo")
    return DeviceMesh(device_type, tensor(0).reshape((1,) * len(mesh_shape)), mesh_dim_names=mesh_dim_names)
