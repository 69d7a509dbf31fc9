"""Maxima, means and norms over windows.

`kernel_size`, `stride` (default: the kernel's size), `padding` and `dilation` are one number or one for each dimension; with
`return_indices` the positions of the maxima in the flattened input planes come second.
"""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.nn.sizes import _pair, _single
from flambeau.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
]  # fmt: skip


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool1d` and the positions of the maxima."""
    return ops.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool2d` and the positions of the maxima."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool3d` and the positions of the maxima."""
    return ops.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maxima of windows of (N, C, L) or (C, L)."""
    return ops.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maxima of windows of (N, C, H, W) or (C, H, W).

    >>> import flambeau as torch
    >>> torch.nn.functional.max_pool2d(torch.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[3.]]])
    """
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maxima of windows of (N, C, D, H, W) or (C, D, H, W)."""
    return ops.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """Means of windows of (N, C, L) or (C, L)."""
    return ops.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Means of windows of (N, C, H, W) or (C, H, W); `divisor_override` takes the place of the window's size."""
    return ops.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Means of windows of (N, C, D, H, W) or (C, D, H, W)."""
    return ops.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """p-norms of windows of (N, C, L) or (C, L), without the sign."""
    sums = avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(sums, _single(kernel_size), norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """p-norms of windows of (N, C, H, W) or (C, H, W), without the sign."""
    sums = avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(sums, _pair(kernel_size), norm_type)


def _root(means: Tensor, kernel: tuple[int, ...], norm_type: float) -> Tensor:
    size = 1
    for length in kernel:
        size *= length
    return (ops.sign(means) * ops.relu(ops.abs(means)) * size) ** (1.0 / norm_type)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows chosen so that the result is (N, C, output_size)."""
    return ops.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows chosen so that the result is (N, C, *output_size); None keeps a dimension."""
    return ops.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows chosen so that the result is (N, C, *output_size); None keeps a dimension."""
    return ops.adaptive_avg_pool3d(input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows chosen so that the result is (N, C, output_size)."""
    return ops.adaptive_max_pool1d(input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows chosen so that the result is (N, C, *output_size); None keeps a dimension."""
    return ops.adaptive_max_pool2d(input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows chosen so that the result is (N, C, *output_size); None keeps a dimension."""
    return ops.adaptive_max_pool3d(input, output_size, return_indices)
