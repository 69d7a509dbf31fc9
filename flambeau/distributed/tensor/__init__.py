"""torch.distributed.tensor: tensors that are spread over the processes of a mesh, of which there is one so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flambeau.distributed.device_mesh import DeviceMesh as DeviceMesh
from flambeau.distributed.device_mesh import init_device_mesh as init_device_mesh
from flambeau.tensor.overriding import without_overriding
from flambeau.tensor.tensor_class import Tensor

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor", "init_device_mesh"]


class Placement:
    """What the processes along a dimension of a mesh have of a tensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each has a part (along dimension ``dim``)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each has a term of it."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class Replicate(Placement):
    """Each process has the whole tensor."""


class Shard(Placement):
    """Each process has a part along a dimension of the tensor."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Partial(Placement):
    """Each process has a tensor of the full size; ``reduce_op`` of all is meant."""

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op


class _Spread(NamedTuple):
    mesh: DeviceMesh
    placements: tuple[Placement, ...]


class DTensor(Tensor):
    """A tensor with the mesh and the placements by which it is spread; in one process it holds every element.

    Functions of such tensors give such tensors, placed as the first argument where the shape is the same, replicated otherwise.
    """

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        first = next((a for a in args if isinstance(a, DTensor) and "_spread" in a.__dict__), None)
        for made in result if isinstance(result, (list, tuple)) else [result]:
            if first is not None and isinstance(made, DTensor) and "_spread" not in made.__dict__:
                mesh, placements = first.__dict__["_spread"]
                same = made.meta.shape == first.meta.shape
                made.__dict__["_spread"] = _Spread(mesh, placements if same else (Replicate(),) * mesh.ndim)
        return result

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh, placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Any = None, stride: Any = None,
    ) -> DTensor:  # fmt: skip
        """The tensor of which every process gives its part."""
        made = local_tensor.as_subclass(DTensor)
        made.__dict__["_spread"] = _Spread(device_mesh, _placed(made, device_mesh, placements))
        return made

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.__dict__["_spread"].mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One for each dimension of the mesh."""
        return self.__dict__["_spread"].placements

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """What this process has, as a plain tensor."""
        with without_overriding():
            return self.as_subclass(Tensor)

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """All of it, as a plain tensor."""
        return self.to_local()

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *, async_op: bool = False
    ) -> DTensor:
        """The same tensor with other placements."""
        return DTensor.from_local(self.to_local(), device_mesh or self.device_mesh, placements or self.placements)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"DTensor(local_tensor={self.to_local()!r}, device_mesh={self.device_mesh!r}, placements={self.placements!r})"


def _placed(tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement] | None) -> tuple[Placement, ...]:
    placed = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(placed) != mesh.ndim:
        raise ValueError(f"`placements` must have the same length as `device_mesh.ndim`! Found {len(placed)} for {mesh.ndim} dimensions")
    for placement in placed:
        if isinstance(placement, Shard) and not -tensor.ndim <= placement.dim < tensor.ndim:
            raise IndexError(f"{placement!r} of a tensor of {tensor.ndim} dimensions: dim must be in [{-tensor.ndim}, {tensor.ndim - 1}]")
    return placed


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A leaf with the elements of ``tensor``, spread over the mesh (one of one process if none is given).

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> x = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> (x * 2).full_tensor(), (x * 2).placements
    (tensor([2., 2., 2., 2.]), (Shard(dim=0),))
    >>> torch.distributed.destroy_process_group()
    """
    mesh = init_device_mesh("cpu", (1,)) if device_mesh is None else device_mesh
    return DTensor.from_local(tensor.detach(), mesh, placements).requires_grad_(tensor.requires_grad)
