"""torch.distributed for a group of one process: its collectives give what they get. Larger groups are not there yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flambeau.core.processes import group as _group
from flambeau.core.processes import need_group as _need
from flambeau.distributed import device_mesh as device_mesh
from flambeau.distributed import nn as nn
from flambeau.distributed import rpc as rpc
from flambeau.distributed import tensor as tensor
from flambeau.distributed.device_mesh import DeviceMesh as DeviceMesh
from flambeau.distributed.device_mesh import init_device_mesh as init_device_mesh
from flambeau.distributed.process_group import ProcessGroup as ProcessGroup
from flambeau.distributed.reduce_op import ReduceOp as ReduceOp
from flambeau.tensor.tensor_class import Tensor as _Tensor

__all__ = [
    "DeviceMesh", "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "destroy_process_group", "gather", "get_backend",
    "get_rank", "get_world_size", "init_device_mesh", "init_process_group", "is_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "new_group", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip


class Work:
    """A collective that is done."""

    def wait(self, timeout: Any = None) -> bool:
        """True: there is nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True


def is_available() -> bool:
    """False, as in a PyTorch built without it: libraries leave out shards, meshes and FSDP. Groups of one process work all the same."""
    return False


def is_initialized() -> bool:
    """Whether `init_process_group` has been called."""
    return bool(_group)


def is_nccl_available() -> bool:
    """False: there is no library for several processes."""
    return False


is_gloo_available = is_mpi_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether a launcher of processes started this one."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
    store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Begin a group: of ``world_size`` processes, which is that of the environment (WORLD_SIZE) where it is -1, and must be 1.

    >>> import flambeau as torch
    >>> torch.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    if _group:
        raise ValueError("trying to initialize the default process group twice!")
    size = int(os.environ.get("WORLD_SIZE", "1")) if world_size == -1 else world_size
    place = int(os.environ.get("RANK", "0")) if rank == -1 else rank
    if size != 1:
        raise NotImplementedError(f"init_process_group: groups of {size} processes are not there yet; run the program in one process")
    if place != 0:
        raise ValueError(f"init_process_group: rank {place} is not in a group of 1 process")
    _group["backend"] = (backend or "gloo").lower()


def destroy_process_group(group: Any = None) -> None:
    """End the group."""
    _need()
    if group is None or isinstance(group, ProcessGroup):
        _group.clear()


def get_rank(group: Any = None) -> int:
    """0."""
    _need()
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    _need()
    return 1


def get_backend(group: Any = None) -> str:
    """The name that `init_process_group` was given."""
    _need()
    return _group["backend"]


def new_group(ranks: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> ProcessGroup:
    """A group of this process."""
    _need()
    if ranks is not None and list(ranks) != [0]:
        raise ValueError(f"new_group: ranks {list(ranks)} are not all in a group of 1 process")
    return ProcessGroup()


# -- collectives ------------------------------------------------------------------------------------------
def _done(later: bool) -> Work | None:
    return Work() if later else None


def _only(operator: str, rank: int) -> None:
    _need()
    if rank != 0:
        raise ValueError(f"{operator}: rank {rank} is not in a group of 1 process")


def _one(operator: str, tensors: Sequence[Any]) -> Any:
    _need()
    if len(tensors) != 1:
        raise ValueError(f"{operator}: needs 1 tensor, for a group of 1 process, got {len(tensors)}")
    return tensors[0]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait for all processes of the group."""
    _need()
    return _done(async_op)


def all_reduce(tensor: _Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensors of all processes combined, in place."""
    _need()
    return _done(async_op)


def reduce(
    tensor: _Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False, group_dst: Any = None
) -> Work | None:
    """The tensors of all processes combined at one."""
    _only("reduce", dst or 0)
    return _done(async_op)


def broadcast(tensor: _Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: Any = None) -> Work | None:
    """The tensor of one process at all."""
    _only("broadcast", src or 0)
    return _done(async_op)


def all_gather(tensor_list: Sequence[_Tensor], tensor: _Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensors of all processes in a list."""
    _one("all_gather", tensor_list).copy_(tensor)
    return _done(async_op)


def all_gather_into_tensor(output_tensor: _Tensor, input_tensor: _Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensors of all processes one after another."""
    _need()
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return _done(async_op)


def reduce_scatter_tensor(
    output: _Tensor, input: _Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensors of all processes combined, a part for each."""
    return all_gather_into_tensor(output, input, group, async_op)


def reduce_scatter(
    output: _Tensor, input_list: Sequence[_Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The lists of all processes combined, an element for each."""
    output.copy_(_one("reduce_scatter", input_list))
    return _done(async_op)


def gather(
    tensor: _Tensor, gather_list: Sequence[_Tensor] | None = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: Any = None,
) -> Work | None:  # fmt: skip
    """The tensors of all processes in a list at one."""
    _only("gather", dst or 0)
    return all_gather(gather_list or (), tensor, group, async_op)


def scatter(
    tensor: _Tensor, scatter_list: Sequence[_Tensor] | None = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: Any = None,
) -> Work | None:  # fmt: skip
    """An element of a list of one process at each."""
    _only("scatter", src or 0)
    return reduce_scatter(tensor, scatter_list or (), ReduceOp.SUM, group, async_op)


def all_to_all(
    output_tensor_list: Sequence[_Tensor], input_tensor_list: Sequence[_Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """An element of each process's list at each."""
    return all_gather(output_tensor_list, _one("all_to_all", input_tensor_list), group, async_op)


def all_to_all_single(
    output: _Tensor, input: _Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """A part of each process's tensor at each."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The objects of all processes in a list."""
    _one("all_gather_object", object_list)
    object_list[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: Any = None
) -> None:
    """The objects of one process at all."""
    _only("broadcast_object_list", src or 0)


def send(tensor: _Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> None:
    """ValueError: there is no other process."""
    _need()
    raise ValueError("send: there is no other process in a group of 1")


def recv(tensor: _Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: Any = None) -> int:
    """ValueError: there is no other process."""
    _need()
    raise ValueError("recv: there is no other process in a group of 1")
