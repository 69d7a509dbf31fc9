"""Modules as functions of their parameters, and many Modules as one with a batch of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from flambeau.nn.utils.stateless import functional_call
from flambeau.tensor.functions_shape import stack

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def stack_module_state(models: Sequence[Module] | Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of Modules of one architecture, each stacked along a new first dimension, by name.

    What is stacked of parameters that require gradients is a leaf that does. RuntimeError for no Modules, or some of different classes
    or modes.

    >>> import flambeau as torch
    >>> models = [torch.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = torch.func.stack_module_state(models)
    >>> params["weight"].shape
    torch.Size([4, 3, 2])
    """
    many = list(models)
    if not many:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in many) or not any(m.training for m in many)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(many[0]) for m in many):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {k: _stacked([dict(m.named_parameters())[k] for m in many]) for k, _ in many[0].named_parameters()}
    buffers = {k: _stacked([dict(m.named_buffers())[k] for m in many]) for k, _ in many[0].named_buffers()}
    return parameters, buffers


def _stacked(tensors: Sequence[Any]) -> Any:
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError("stack_module_state: Expected parameters of one name to agree in requires_grad; set it for all models alike.")
    return stack([t.detach() for t in tensors]).requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch normalizations of a Module keep no running statistics, which cannot be written inside `vmap`; returns it."""
    for module in root.modules():
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


