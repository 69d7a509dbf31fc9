"""Maxima, means and norms over windows.

`kernel_size`, `stride` (default: the kernel's size), `padding` and `dilation` are one number or one for each dimension; with
`return_indices` the positions of the maxima in the flattened input planes come second.
"""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.nn.sizes import _ntuple, _pair, _single, _triple
from flambeau.tensor import Tensor
from flambeau.tensor.functions_random import rand

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
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


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """p-norms of windows of (N, C, D, H, W) or (C, D, H, W), without the sign."""
    sums = avg_pool3d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(sums, _triple(kernel_size), norm_type)


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


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` and the positions of the maxima."""
    return ops.adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` and the positions of the maxima."""
    return ops.adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` and the positions of the maxima."""
    return ops.adaptive_max_pool3d(input, output_size, True)


# -- back from maxima, and windows at random ------------------------------------------------------------
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Zeros with the maxima of (N, C, L) or (C, L) back in their places: `indices` of `max_pool1d`.

    `output_size` says which of the sizes that pool to this one is meant. Raises ValueError for another.
    """
    return ops.max_unpool(input, indices, _unpooled_size(input, 1, kernel_size, stride, padding, output_size))


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """As `max_unpool1d`, of (N, C, H, W) or (C, H, W)."""
    return ops.max_unpool(input, indices, _unpooled_size(input, 2, kernel_size, stride, padding, output_size))


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """As `max_unpool1d`, of (N, C, D, H, W) or (C, D, H, W)."""
    return ops.max_unpool(input, indices, _unpooled_size(input, 3, kernel_size, stride, padding, output_size))


def _unpooled_size(input: Tensor, count: int, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> tuple[int, ...]:
    kernel, pads = _ntuple(count)(kernel_size), _ntuple(count)(padding)
    steps = kernel if stride is None else _ntuple(count)(stride)
    settings = zip(input.shape[-count:], kernel, steps, pads, strict=True)
    usual = tuple((n - 1) * step + size - 2 * pad for n, size, step, pad in settings)
    if output_size is None:
        return usual
    wanted = tuple(output_size)[2:] if len(output_size) == count + 2 else tuple(output_size)
    if len(wanted) != count:
        raise ValueError(f"max_unpool: output_size should have {count} or {count + 2} elements, got {output_size}")
    if any(abs(w - n) >= step for w, n, step in zip(wanted, usual, steps, strict=True)):
        raise ValueError(f"max_unpool: invalid output_size {wanted}: it must differ from {usual} by less than the stride {steps}")
    return wanted


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool2d` and the positions of the maxima."""
    return _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples, True)


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool3d` and the positions of the maxima."""
    return _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples, True)


def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maxima of windows of (N, C, H, W) or (C, H, W) at random places, `output_size` or `output_ratio` of the size of them."""
    return _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples, return_indices)


def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maxima of windows of (N, C, D, H, W) or (C, D, H, W) at random places."""
    return _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples, return_indices)


def _fractional(
    name: str, count: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, draws: Tensor | None, indices: bool
) -> Any:
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}: requires specifying either an output_size or an output_ratio, got {output_size} and {output_ratio}")
    if output_size is None:
        output_size = tuple(int(n * r) for n, r in zip(input.shape[-count:], _ntuple(count)(output_ratio), strict=True))
    if draws is None:
        draws = rand(1 if input.dim() == count + 1 else input.size(0), input.size(-count - 1), count, dtype=input.dtype)
    return ops.fractional_max_pool(input, draws, kernel_size, _ntuple(count)(output_size), indices)
