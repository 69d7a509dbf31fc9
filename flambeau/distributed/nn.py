"""torch.distributed.nn: collectives that gradients go through, for a group of one process."""

from __future__ import annotations

from typing import Any

from flambeau.core.processes import need_group
from flambeau.distributed.reduce_op import ReduceOp
from flambeau.tensor.tensor_class import Tensor

__all__ = ["all_gather", "all_reduce", "broadcast"]


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes combined."""
    need_group()
    return tensor.clone()


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    need_group()
    return (tensor.clone(),)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one process at all."""
    need_group()
    return tensor.clone()
