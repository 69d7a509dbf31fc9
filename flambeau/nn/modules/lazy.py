"""Layers that learn the size of their input from the first one."""

from __future__ import annotations

import itertools
from typing import Any

from flambeau.core.dtypes import dtype, int64
from flambeau.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from flambeau.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from flambeau.nn.modules.linear import Linear
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros
from flambeau.tensor.grad_mode import no_grad

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "LazyModuleMixin",
]  # fmt: skip


class LazyModuleMixin:
    """For Modules with uninitialized parameters: the first call gives these their shapes, then the Module becomes a `cls_to_become`.

    Subclasses define `initialize_parameters`, which gets the arguments of the call and materializes the parameters.

    >>> import flambeau as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> _ = layer(torch.ones(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: type[Any] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._take_shapes)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Override: give the parameters their shapes."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(value) for value in itertools.chain(self._parameters.values(), self._buffers.values()))

    def reset_parameters(self: Any) -> None:
        """Draw the parameters anew; nothing while they have no shape."""
        # A layer is made without channels before its parameters are replaced.
        if not self.has_uninitialized_params() and getattr(self, self._size_name) != 0:
            super().reset_parameters()  # type: ignore[misc]

    _size_name = "in_features"

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_entries().items():
            destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()

    def _take_shapes(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, own in self._own_entries().items():
            given = state_dict.get(prefix + name)
            if is_lazy(own) and given is not None and not is_lazy(given):
                with no_grad():
                    own.materialize(given.shape)

    def _load_entry(self: Any, name: str, own: Any, key: str, value: Any, assign: bool, errors: list[str]) -> None:
        if not (is_lazy(own) and is_lazy(value)):
            super()._load_entry(name, own, key, value, assign, errors)  # type: ignore[misc]

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _wait(self: Any, names: dict[str, bool], device: Any, dtype: dtype | None) -> None:
        for name, wanted in names.items():
            if wanted:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    def _materialize(self: Any, shapes: dict[str, tuple[int, ...]]) -> None:
        with no_grad():
            for name, shape in shapes.items():
                if is_lazy(getattr(self, name)):
                    getattr(self, name).materialize(shape)
            self.reset_parameters()


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose `in_features` is the last size of its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: dtype | None = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._wait({"weight": True, "bias": bias}, device, dtype)

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give the parameters the shapes for an input."""
        width = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = width
            self._materialize({"weight": (self.out_features, width), "bias": (self.out_features,)})
        elif self.in_features == 0 and width != self.weight.shape[-1]:
            raise AssertionError(f"The in_features inferred from input: {width} is not equal to in_features from self.weight: "
                                 f"{self.weight.shape[-1]}")  # fmt: skip
        self.in_features = width


class _LazyConv(LazyModuleMixin):
    """A convolution whose `in_channels` is the number of channels of its first input."""

    _size_name = "in_channels"

    def __init__(
        self: Any, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self.out_channels = out_channels
        self._wait({"weight": True, "bias": bias}, device, dtype)

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters the shapes for an input."""
        if not self.has_uninitialized_params():  # they came from a state
            self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        rank = self.dimensions + 1
        if input.dim() not in (rank, rank + 1):
            raise RuntimeError(f"Expected {rank}D (unbatched) or {rank + 1}D (batched) input to {type(self).__name__}, but got input of "
                               f"size: {input.shape}")  # fmt: skip
        self.in_channels = input.shape[-rank]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        self._materialize({"weight": (first, second // self.groups, *self.kernel_size), "bias": (self.out_channels,)})


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that learns `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that learns `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that learns `in_channels` from its first input."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self: Any, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
        bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        LazyModuleMixin.__init__(self, 0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self.out_channels = out_channels
        self._wait({"weight": True, "bias": bias}, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """Normalization whose `num_features` is the number of channels of its first input."""

    _size_name = "num_features"

    def __init__(
        self: Any, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: dtype | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._wait({"weight": affine, "bias": affine and bias}, device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), dtype=int64, device=device)

    def initialize_parameters(self: Any, input: Tensor) -> None:
        """Give the parameters the shapes for an input."""
        waiting, self.num_features = self.has_uninitialized_params(), input.shape[1]
        if waiting:
            self._materialize(dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,)))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An InstanceNorm1d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An InstanceNorm2d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An InstanceNorm3d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
