"""Batch normalization taken into the layer before it, for evaluation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from flambeau import ops
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.creation import ones_like, zeros_like

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

Layer = TypeVar("Layer", bound=Module)


def _fused(layer: Layer, bn: Any, function: Any, *args: Any) -> Layer:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    out: Any = deepcopy(layer)
    out.weight, out.bias = function(out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *args)
    return out


def fuse_conv_bn_eval(conv: Layer, bn: Module, transpose: bool = False) -> Layer:
    """A convolution that does what `conv` and then `bn` do, both in evaluation; `transpose` for transposed convolutions.

    >>> import flambeau as torch
    >>> conv, norm = torch.nn.Conv2d(2, 3, 1).eval(), torch.nn.BatchNorm2d(3).eval()
    >>> x = torch.randn(1, 2, 4, 4)
    >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-5)
    True
    """
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the convolution of `fuse_conv_bn_eval`."""
    shape = [1] * conv_w.dim()
    shape[int(transpose)] = -1
    return _weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def _weights(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float, scale: Tensor | None, shift: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    shifted = zeros_like(mean).to(weight.dtype) if bias is None else bias
    factor = ops.rsqrt(variance + eps) * (ones_like(mean) if scale is None else scale)
    moved = (shifted - mean) * factor + (zeros_like(mean) if shift is None else shift)
    return (
        Parameter((weight * factor.reshape(shape)).detach().to(weight.dtype), weight.requires_grad),
        Parameter(moved.detach().to(shifted.dtype), shifted.requires_grad),
    )


def fuse_linear_bn_eval(linear: Layer, bn: Module) -> Layer:
    """A Linear that does what `linear` and then `bn` do, both in evaluation."""
    features, found = linear.out_features, bn.num_features
    if features != found and found != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
                             f"{features} and bn.num_features={found}")  # fmt: skip
    return _fused(linear, bn, fuse_linear_bn_weights)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the Linear of `fuse_linear_bn_eval`."""
    return _weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
