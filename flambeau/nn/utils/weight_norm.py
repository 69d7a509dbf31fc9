"""Weights as direction times length (Salimans and Kingma, 2016)."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def _length(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all dimensions but one (None: over all), with every dimension kept at size 1 where it has been summed."""
    if dim is None:
        return (v * v).sum().sqrt()
    others = tuple(axis for axis in range(v.dim()) if axis != dim % v.dim())
    return (v * v).sum(others, keepdim=True).sqrt() if others else v.abs()


class WeightNorm:
    """The hook that sets a Module's weight to ``g * v / |v|`` before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight of now."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / _length(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a parameter by its length ``name_g`` along `dim` (None: one for all) and its direction ``name_v``; returns the Module.

    Raises RuntimeError when the parameter is normalized already.

    >>> import flambeau as torch
    >>> [name for name, _ in torch.nn.utils.weight_norm(torch.nn.Linear(2, 3)).named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    if any(isinstance(hook, WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(_length(weight.detach(), dim)))
    module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the parameter one again, with its value of now; ValueError when it is not normalized."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module).detach()
            for part in (name, name + "_g", name + "_v"):
                delattr(module, part)
            setattr(module, name, Parameter(weight))
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
