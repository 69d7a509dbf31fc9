"""torch.dropout, torch.layer_norm and the like: forms of layers that lie beside those of torch.nn.functional."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.ops.grid_sample import MODES as GRID_MODES
from flambeau.ops.grid_sample import PADDINGS as GRID_PADDINGS
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import given


def dropout(input: Any, p: float, train: bool) -> Any:
    """Zero each element with probability ``p`` and scale the others by 1 / (1 - p); the input itself when not training."""
    return ops.dropout(input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """``dropout`` in place."""
    return dispatch.call_into(ops.dropout, input, (input, p, train), {})


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """As ``dropout`` for whole channels of [batch, channels, ...]."""
    return ops.feature_dropout(input, p, train)


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Dropout to SELU's negative saturation that keeps mean and variance."""
    return ops.alpha_dropout(input, p, train)


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enable: bool = True
) -> Any:
    """The input with mean 0 and variance 1 over its last dimensions, times weight plus bias."""
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """The input over its root mean square along its last dimensions, times weight."""
    return ops.rms_norm(input, tuple(normalized_shape), weight, eps)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """Groups of channels with mean 0 and variance 1, times weight plus bias for each channel."""
    return ops.group_norm(input, num_groups, weight, bias, eps)


def embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """The rows of ``weight`` that ``indices`` name."""
    if sparse:
        raise NotImplementedError("embedding: sparse gradients are not supported; leave sparse False")
    return ops.embedding(indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq)


def celu(input: Any, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return ops.celu(input, alpha)


def selu(input: Any) -> Any:
    """Scaled exponential linear units."""
    return ops.selu(input)


def hardshrink(input: Any, lambd: float = 0.5, *, out: Any = None) -> Any:
    """The input where its size is above ``lambd``, else 0."""
    return given(out, ops.hardshrink(input, lambd))


def prelu(input: Any, weight: Any) -> Any:
    """The input above 0, times ``weight`` below."""
    return ops.prelu(input, weight)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """``threshold`` in place."""
    return dispatch.call_into(ops.threshold, input, (input, threshold, value), {})


def threshold(input: Any, threshold: float, value: float, *, out: Any = None) -> Any:
    """The input above ``threshold``, else ``value``."""
    return given(out, ops.threshold(input, threshold, value))


def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of all groups taken in turn."""
    return ops.channel_shuffle(input, groups)


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Channels spread over a finer grid of pixels."""
    return ops.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Pixels gathered as channels of a coarser grid."""
    return ops.pixel_unshuffle(input, downscale_factor)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between x1 and x2 along ``dim``."""
    return ops.cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The norm of order ``p`` of x1 - x2 along the last dimension."""
    return ops.pairwise_distance(x1, x2, p, eps, keepdim)


def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """``torch.nn.functional.grid_sample`` with its modes by number."""
    return ops.grid_sample(input, grid, GRID_MODES[interpolation_mode], GRID_PADDINGS[padding_mode], align_corners)


grid_sampler_2d = grid_sampler
grid_sampler_3d = grid_sampler


def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """``layer_norm`` with the mean and the reciprocal of the deviation of each row."""
    dims = tuple(range(-len(normalized_shape), 0))
    out = ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    variance, mean = ops.var_mean(input, dims, correction=0, keepdim=True)
    return out, mean.detach(), ops.rsqrt(ops.add(variance, eps)).detach()


def native_group_norm(input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> tuple[Any, Any, Any]:
    """``group_norm`` with the mean and the reciprocal of the deviation of each group, [N, group]."""
    if input.meta.numel != N * C * HxW:
        raise RuntimeError(f"native_group_norm: expected {N} * {C} * {HxW} elements, got {input.meta.numel}")
    out = ops.group_norm(input, group, weight, bias, eps)
    variance, mean = ops.var_mean(ops.reshape(input, (N, group, C // group * HxW)), 2, correction=0)
    return out, mean, ops.rsqrt(ops.add(variance, eps))


def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float,
    *, out: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """``batch_norm`` with the mean and the reciprocal of the deviation of each channel; nothing of these in evaluation."""
    result = ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)[2]
    if not training:
        return given(out, (result, ops.zeros((0,), dtype=input.meta.dtype), ops.zeros((0,), dtype=input.meta.dtype)))
    dims = (0, *range(2, len(input.meta.shape)))
    variance, mean = ops.var_mean(input, dims, correction=0)
    return given(out, (result, mean.detach(), ops.rsqrt(ops.add(variance, eps)).detach()))
