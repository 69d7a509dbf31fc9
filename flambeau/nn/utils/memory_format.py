"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any, TypeVar

from flambeau.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type, ...], memory_format: Any) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all Conv2d and ConvTranspose2d in `module` as torch.channels_last, or back; returns it."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all Conv3d and ConvTranspose3d in `module` as torch.channels_last_3d, or back; returns it."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
