"""Rearranging and resampling images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.creation import linspace, ones

__all__ = [
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "pixel_shuffle", "pixel_unshuffle", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C * r**2, H, W) to (*, C, H * r, W * r) with r = `upscale_factor`."""
    return ops.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H * r, W * r) to (*, C * r**2, H, W) with r = `downscale_factor`."""
    return ops.pixel_unshuffle(input, downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves `groups` groups of channels of (N, C, *)."""
    return ops.channel_shuffle(input, groups)


def _output_sizes(input: Tensor, size: Any, scale_factor: Any) -> tuple[list[int], list[float] | None]:
    """The sizes of the result and the scales that were given."""
    dimensions = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = [int(s) for s in size] if isinstance(size, Sequence) else [int(size)] * dimensions
        if len(sizes) != dimensions:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                             f"{list(input.shape[2:])} and output size of {size}.")  # fmt: skip
        return sizes, None
    scales = [float(s) for s in scale_factor] if isinstance(scale_factor, Sequence) else [float(scale_factor)] * dimensions
    if len(scales) != dimensions:
        raise ValueError(f"scale_factor must have one number for each spatial dimension; got {scale_factor} for {dimensions} dimensions")
    return [math.floor(length * scale) for length, scale in zip(input.shape[2:], scales, strict=True)], scales


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resample (N, C, *) to `size`, or by `scale_factor`.

    `mode` is "nearest", "nearest-exact", "area", "linear" (3-d input), "bilinear" or "bicubic" (4-d), "trilinear" (5-d). With
    `align_corners` the corner pixels keep their places; `antialias` (bilinear and bicubic) weighs all pixels that one covers.
    """
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    sizes, scales = _output_sizes(input, size, scale_factor)
    if recompute_scale_factor:
        scales = None
    if mode == "area":
        pools = {1: ops.adaptive_avg_pool1d, 2: ops.adaptive_avg_pool2d, 3: ops.adaptive_avg_pool3d}
        return pools[len(sizes)](input, tuple(sizes))
    steps = None if scales is None else tuple(1 / scale for scale in scales)
    return ops.interpolate(input, tuple(sizes), mode, bool(align_corners), steps, antialias)


def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """The old name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with the nearest pixel."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` bilinearly with aligned corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Sampling places (N, H, W, 2) of an affine map `theta` (N, 2, 3), for images of `size` (N, C, H, W); of volumes (N, D, H, W, 3).

    Coordinates run from -1 to 1 over the pixels' centres (`align_corners`) or over their outer edges.
    """
    lengths = tuple(size)[2:]
    count = len(lengths)
    if count not in (2, 3) or tuple(theta.shape) != (size[0], count, count + 1):
        raise ValueError(f"affine_grid: Expected theta (N, 2, 3) and size (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W), got "
                         f"{tuple(theta.shape)} and {tuple(size)}")  # fmt: skip
    if min(size) <= 0:
        raise ValueError(f"affine_grid: Expected non-zero, positive output size, got {tuple(size)}")
    lines = [_coordinates(length, bool(align_corners), theta) for length in lengths]
    spread = [line.reshape(-1, *(1,) * (count - 1 - i)).expand(lengths) for i, line in enumerate(lines)]
    grid = ops.stack([*reversed(spread), ones(lengths, dtype=theta.dtype)], dim=-1)
    return (grid.reshape(1, -1, count + 1) @ theta.transpose(1, 2)).reshape(size[0], *lengths, count)


def _coordinates(length: int, align_corners: bool, like: Tensor) -> Tensor:
    out = linspace(-1, 1, length, dtype=like.dtype) if length > 1 else like.new_zeros(1)
    return out if align_corners else out * ((length - 1) / length)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Images (N, C, H, W) sampled at places `grid` (N, H', W', 2) in [-1, 1], as (x, y); volumes at (N, D', H', W', 3).

    `mode` is "bilinear", "nearest" or (images) "bicubic"; `padding_mode` "zeros", "border" or "reflection" for places outside.
    """
    return ops.grid_sample(input, grid, mode, padding_mode, bool(align_corners))
