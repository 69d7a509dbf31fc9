"""torch.nn.grad: the gradients of convolutions by their inputs and weights, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.nn import functional as F  # noqa: N812
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros
from flambeau.tensor.grad_mode import enable_grad
from flambeau.tensor.gradients import grad

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(convolve: Callable[..., Tensor], place: int, size: Any, other: Tensor, grad_output: Tensor, settings: Any) -> Tensor:
    """The gradient by one operand, which the convolution is linear in: its value does not matter."""
    with enable_grad():
        wanted = zeros(tuple(size), dtype=other.dtype, device=other.device, requires_grad=True)
        operands = (wanted, other.detach()) if place == 0 else (other.detach(), wanted)
        (found,) = grad(convolve(*operands, None, *settings), wanted, grad_output)
    return found


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv1d` by an input of that size.

    >>> import flambeau as torch
    >>> torch.nn.grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    return _gradient(F.conv1d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv1d` by a weight of that size."""
    return _gradient(F.conv1d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv2d` by an input of that size."""
    return _gradient(F.conv2d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv2d` by a weight of that size."""
    return _gradient(F.conv2d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv3d` by an input of that size."""
    return _gradient(F.conv3d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The gradient of `conv3d` by a weight of that size."""
    return _gradient(F.conv3d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))
