"""torch.dropout, torch.layer_norm and the like: forms of layers that lie beside those of torch.nn.functional."""

from __future__ import annotations

from typing import Any

from flambeau import ops


def dropout(input: Any, p: float, train: bool) -> Any:
    """Zero each element with probability ``p`` and scale the others by 1 / (1 - p); the input itself when not training."""
    return ops.dropout(input, p, train)


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
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: scale_grad_by_freq and sparse gradients are not supported; leave them False")
    return ops.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def celu(input: Any, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return ops.celu(input, alpha)


def selu(input: Any) -> Any:
    """Scaled exponential linear units."""
    return ops.selu(input)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """The input where its size is above ``lambd``, else 0."""
    return ops.hardshrink(input, lambd)


def prelu(input: Any, weight: Any) -> Any:
    """The input above 0, times ``weight`` below."""
    return ops.prelu(input, weight)


def threshold(input: Any, threshold: float, value: float) -> Any:
    """The input above ``threshold``, else ``value``."""
    return ops.threshold(input, threshold, value)


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
