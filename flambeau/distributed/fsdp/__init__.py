"""torch.distributed.fsdp: models whose parameters are spread over the processes, of which there is one so far."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flambeau.core.processes import need_group
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import clip_grad_norm_
from flambeau.tensor.tensor_class import Tensor

__all__ = [
    "CPUOffload", "FSDPModule", "FullStateDictConfig", "FullyShardedDataParallel", "MixedPrecision", "MixedPrecisionPolicy",
    "ShardingStrategy", "StateDictType", "fully_shard",
]  # fmt: skip
# What the names of a wrapped model's parameters begin with inside the wrapper.
INSIDE = "_fsdp_wrapped_module."


class ShardingStrategy(enum.Enum):
    """What is spread: all of a model's state, all but its parameters, or nothing."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class StateDictType(enum.Enum):
    """What a state dict holds of each parameter; in one process the same."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class FullStateDictConfig:
    """Where full state dicts lie, and in which processes."""

    offload_to_cpu: bool = False
    rank0_only: bool = False


@dataclass
class CPUOffload:
    """Whether parameters lie on the CPU while they are not used."""

    offload_params: bool = False


@dataclass
class MixedPrecision:
    """The types to compute in; all None, as `torch.autocast` does this here."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """As `MixedPrecision`, for `fully_shard`."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


def _require_plain(name: str, precision: Any, offload: Any) -> None:
    if precision is not None and any(getattr(precision, f"{n}_dtype", None) is not None for n in ("param", "reduce", "buffer", "output")):
        raise NotImplementedError(f"{name}: {precision} is not supported; use torch.autocast")
    if offload is not None and (not isinstance(offload, CPUOffload) or offload.offload_params):
        raise NotImplementedError(f"{name}: {offload} is not supported; keep parameters on one device")


class FullyShardedDataParallel(Module):
    """Calls ``module``, whose parameters, and their names, stay what they are in a group of one process.

    ValueError before ``torch.distributed.init_process_group``.
    """

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None, backward_prefetch: Any = None,
        mixed_precision: MixedPrecision | None = None, ignored_modules: Any = None, param_init_fn: Any = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False, limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Any = None, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        need_group()
        _require_plain("FullyShardedDataParallel", mixed_precision, cpu_offload)
        self._fsdp_wrapped_module = module if device_id is None else module.to(device_id)
        self.sharding_strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self._register_load_state_dict_pre_hook(_name_inside)

    @property
    def module(self) -> Module:
        """The model."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """That of the model, under its own names."""
        return self.module.state_dict(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Those of the model, under its own names."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(INSIDE, ""), parameter

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that their norm is at most ``max_norm``; gives the norm before."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up in each process alone."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False, offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, parameters are whole, as they always are in one process."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None, optim_state_dict_config: Any = None
    ) -> Iterator[None]:
        """Inside, state dicts are of that type, all of which are the same in one process."""
        yield


def _name_inside(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Move what is there for the wrapper to where the wrapped module looks for it."""
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(prefix + INSIDE)]:
        state_dict[prefix + INSIDE + name[len(prefix) :]] = state_dict.pop(name)


class FSDPModule:
    """What the class of a model gets as a base from `fully_shard`; in one process there is nothing to gather or to spread."""

    def unshard(self, async_op: bool = False) -> None:
        """Gather the parameters."""

    def reshard(self) -> None:
        """Free what was gathered."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward combines the gradients of all processes."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward is the last before a step."""

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether backward frees what was gathered."""


def fully_shard(
    module: Any, *, mesh: Any = None, reshard_after_forward: bool | int | None = None, shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: Any = None, ignored_params: Any = None, dp_mesh_dims: Any = None,
) -> Any:  # fmt: skip
    """Spread the parameters of a Module (or of several) over the processes; gives it back, with `FSDPModule` as a base of its class."""
    need_group()
    _require_plain("fully_shard", mp_policy, offload_policy)
    for one in module if isinstance(module, (list, tuple)) else [module]:
        if not isinstance(one, FSDPModule):
            kind = type(one)
            names: Mapping[str, Any] = {"__module__": kind.__module__}
            one.__class__ = _sharded.setdefault(kind, type(f"FSDP{kind.__name__}", (FSDPModule, kind), dict(names)))
    return module


_sharded: dict[type, type] = {}
