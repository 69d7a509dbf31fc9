"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import ops
from flambeau.nn.functional.padding import pad
from flambeau.tensor import Tensor
from flambeau.tensor.arguments import given

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes are `normalized_shape`.

    >>> import flambeau as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([1.0, 3.0]), (2,), eps=0.0)
    tensor([-1.,  1.])
    """
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions, whose sizes are `normalized_shape`."""
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalization over `num_groups` groups of channels of (N, C, *)."""
    return ops.group_norm(input, num_groups, weight, bias, eps)


def _aside(running: Tensor | None) -> Tensor | None:
    """Running numbers under another name: what is written into them must not put the buffer itself on the tape."""
    return None if running is None else running.detach()


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalization of channels (N, C, *): by the batch in training, which also moves the running numbers, by those otherwise."""
    return ops.batch_norm(input, _aside(running_mean), _aside(running_var), weight, bias, training, momentum, eps)[2]


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalization of each channel of each sample (N, C, *)."""
    return ops.instance_norm(input, _aside(running_mean), _aside(running_var), weight, bias, use_input_stats, momentum, eps)[2]


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x divided by (k + alpha * mean of squares over `size` neighbouring channels) ** beta; input (N, C, *)."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if not input.numel():
        return input
    squares = (input * input).movedim(1, -1)
    windows = ops.avg_pool1d(pad(squares, (size // 2, (size - 1) // 2)).reshape(1, -1, squares.shape[-1] + size - 1), size, 1)
    windows = windows.reshape(squares.shape)
    return input / (windows.movedim(-1, 1) * alpha + k) ** beta


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(p-norm of x along `dim`, eps)."""
    result = ops.normalize(input, p, dim, eps)
    return given(out, result)
