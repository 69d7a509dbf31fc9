"""torch.nn.parallel: models over several devices or processes, as far as there is one of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.core.processes import need_group
from flambeau.nn.modules.module import Module
from flambeau.tensor import Tensor
from flambeau.tensor.functions_shape import cat

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def _one_device(name: str, devices: Any) -> None:
    if devices is not None and len(devices) > 1:
        raise NotImplementedError(f"{name}: several devices in one process are not supported; give one of {list(devices)}")


class _Wrapper(Module):
    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DataParallel(_Wrapper):
    """Calls `module`, whose parameters are saved under ``module.``; on several GPUs it would split the batch, which is not supported."""

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__(module)
        _one_device("DataParallel", device_ids)
        self.dim = dim
        self.device_ids = list(device_ids or ())


class DistributedDataParallel(_Wrapper):
    """Calls `module` and averages gradients over all processes of the group, of which there is one so far.

    ValueError before ``torch.distributed.init_process_group``.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, broadcast_buffers: bool | None = None,
        init_sync: bool = True, process_group: Any = None, bucket_cap_mb: Any = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False,
        delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None, mixed_precision: Any = None,
        device_mesh: Any = None, skip_all_reduce_unused_params: bool = False, bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False, forward_sync_buffers: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(module)
        need_group()
        _one_device("DistributedDataParallel", device_ids)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        if mixed_precision is not None:
            raise NotImplementedError("DistributedDataParallel: mixed_precision is not supported; use torch.autocast")
        self.require_backward_grad_sync = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are not averaged, but added up for a later step."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Accepted: nothing is sent in a group of one process."""


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:
    """``module(*inputs)`` on one device."""
    _one_device("data_parallel", device_ids)
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Parts of the inputs for each device."""
    _one_device("scatter", target_gpus)
    return [inputs]


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The outputs of all devices together."""
    if len(outputs) > 1 and isinstance(outputs[0], Tensor):
        return cat([output.to(target_device) for output in outputs], dim)
    return outputs[0]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A model for each device."""
    _one_device("replicate", devices)
    return [network]


def parallel_apply(modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Each model called with its inputs."""
    options = kwargs_tup or ({},) * len(modules)
    given = [value if isinstance(value, tuple) else (value,) for value in inputs]
    return [module(*args, **kwargs) for module, args, kwargs in zip(modules, given, options, strict=True)]
