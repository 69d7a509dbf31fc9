"""Convolutions over one, two and three dimensions, and their transposes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.sizes import _ntuple
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "_ConvNd", "_ConvTransposeNd"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Weight, bias and geometry of a convolution over `dimensions` dimensions.

    `kernel_size`, `stride`, `padding` and `dilation` are one number or one for each dimension; `padding` may be "valid" or "same".
    """

    dimensions: int
    transposed = False
    bias: Tensor | None
    weight: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = _ntuple(self.dimensions)
        self._check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(stride)
        self.padding = padding if isinstance(padding, str) else sizes(padding)
        self.dilation = sizes(dilation)
        self.output_padding = (0,) * self.dimensions
        self.groups = groups
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty((*channels, *self.kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self._reversed_padding_repeated_twice = self._padding_on_both_sides()
        self.reset_parameters()

    @staticmethod
    def _check(in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, padding_mode: str) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            strides = stride if isinstance(stride, Sequence) else (stride,)
            if padding == "same" and any(s != 1 for s in strides):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'")

    def _padding_on_both_sides(self) -> list[int]:
        """What `functional.pad` takes: both sides of each dimension, the last dimension first."""
        if not isinstance(self.padding, str):
            return [width for width in reversed(self.padding) for _ in range(2)]
        out: list[int] = []
        for position in reversed(range(self.dimensions)):
            total = self.dilation[position] * (self.kernel_size[position] - 1) if self.padding == "same" else 0
            out += [total // 2, total - total // 2]
        return out

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform in [-k, k] with k = 1/sqrt(inputs of one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros, ones = (0,) * self.dimensions, (1,) * self.dimensions
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def _convolve(self, function: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return function(padded, weight, bias, self.stride, (0,) * self.dimensions, self.dilation, self.groups)
        return function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_ConvNd):
    """Convolution of (N, in_channels, L) or (in_channels, L); `weight` is (out_channels, in_channels / groups, kernel_size)."""

    dimensions = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv1d, input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Convolution of images (N, in_channels, H, W) or (in_channels, H, W).

    `weight` is (out_channels, in_channels / groups, *kernel_size).

    >>> import flambeau as torch
    >>> tuple(torch.nn.Conv2d(16, 33, 3, stride=2)(torch.ones(20, 16, 50, 100)).shape)
    (20, 33, 24, 49)
    """

    dimensions = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv2d, input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Convolution of volumes (N, in_channels, D, H, W) or (in_channels, D, H, W)."""

    dimensions = 3

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolve(F.conv3d, input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution as an operation of its own; `weight` is (in_channels, out_channels / groups, *kernel_size)."""

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        self.output_padding = _ntuple(self.dimensions)(output_padding)

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What must be added to the smallest possible result to get `output_size`."""
        if output_size is None:
            return self.output_padding
        wanted = list(output_size)[-self.dimensions :]
        added: list[int] = []
        for i in range(self.dimensions):
            smallest = (
                (input.size(i - self.dimensions) - 1) * self.stride[i] - 2 * self.padding[i]
                + self.dilation[i] * (self.kernel_size[i] - 1) + 1
            )  # fmt: skip
            if not smallest <= wanted[i] <= smallest + self.stride[i] - 1:
                raise ValueError(f"requested an output size of {wanted}, but size {i} must be from {smallest} to "
                                 f"{smallest + self.stride[i] - 1} for an input of {tuple(input.shape)}")  # fmt: skip
            added.append(wanted[i] - smallest)
        return tuple(added)

    def _transpose(self, function: Callable[..., Tensor], input: Tensor, output_size: Sequence[int] | None) -> Tensor:
        added = self._output_padding(input, output_size)
        return function(input, self.weight, self.bias, self.stride, self.padding, added, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, in_channels, L) or (in_channels, L)."""

    dimensions = 1

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transpose(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of images (N, in_channels, H, W) or (in_channels, H, W)."""

    dimensions = 2

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transpose(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of volumes (N, in_channels, D, H, W) or (in_channels, D, H, W)."""

    dimensions = 3

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transpose(F.conv_transpose3d, input, output_size)
