"""Fills tensors with the values that training starts from; PyTorch's formulas and order of draws.

Every function changes its tensor in place, without recording it for gradients, and returns it. `generator` is the source of random
numbers, by default the global one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.ops import where
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty_like, from_numpy
from flambeau.tensor.functions_random import randperm
from flambeau.tensor.grad_mode import no_grad

__all__ = [
    "_calculate_correct_fan", "_calculate_fan_in_and_fan_out", "_no_grad_trunc_normal_", "calculate_gain", "constant", "constant_",
    "dirac_", "eye_", "kaiming_normal", "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b).

    >>> import flambeau as torch
    >>> w = torch.nn.init.uniform_(torch.empty(3, 5))
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with this mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal with this mean and standard deviation, cut off outside [a, b] (which are values, not numbers of deviations)."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
                      stacklevel=2)  # fmt: skip
    peak = (max(a, min(mean, b)) - mean) / std

    def draw_normal(target: Tensor) -> Tensor:
        target.normal_(mean, std, generator=generator)
        return (target < a) | (target > b)

    def draw_uniform(target: Tensor) -> Tensor:
        target.uniform_(a, b, generator=generator)
        height = ((target - mean) / std).pow(2).mul(-0.5).add(0.5 * peak * peak)
        return empty_like(target).uniform_(generator=generator).log() <= height

    with no_grad():
        # Drawing from the whole curve wastes too much where little of it lies between the bounds.
        inside = math.erf((b - mean) / (std * math.sqrt(2.0))) - math.erf((a - mean) / (std * math.sqrt(2.0)))
        if inside > 0.6:
            return _redraw(tensor, draw_normal)
        return _redraw(tensor, lambda target: ~draw_uniform(target))


def _redraw(tensor: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
    """Fill by `draw`, which says where it failed, until it has succeeded everywhere."""
    failed = draw(tensor)
    while bool(failed.any()):
        candidates = empty_like(tensor)
        refused = draw(candidates)
        tensor.copy_(where(failed, candidates, tensor))
        failed = failed & refused
    return tensor


_no_grad_trunc_normal_ = trunc_normal_


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, for a tensor of two dimensions."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (3 to 5 dimensions) that passes on its inputs, as far as there are channels."""
    dimensions = tensor.dim()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    middle = tuple(length // 2 for length in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's input spreads must be raised to keep them; `param` is a leaky_relu's slope."""
    if nonlinearity in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"):
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input, for a weight (out, in, *window)."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.size(1) * window, tensor.size(0) * window


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [-a, a] with a = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))) * math.sqrt(3.0)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _warn_of_nothing(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform in [-b, b] with b = gain * sqrt(3 / fan) (He et al., 2015); `a` is the leaky_relu's slope."""
    if _warn_of_nothing(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with deviation gain / sqrt(fan) (He et al., 2015); `a` is the leaky_relu's slope."""
    if _warn_of_nothing(tensor):
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix times `gain`; the dimensions after the first count as one (Saxe et al., 2013)."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with no_grad():
        drawn = empty_like(tensor).reshape(rows, columns).normal_(generator=generator).numpy()
        q, r = np.linalg.qr(drawn if rows >= columns else drawn.T)
        # The signs of R's diagonal make the result uniform over all orthogonal matrices.
        q = q * np.sign(np.diagonal(r))
        return tensor.copy_(from_numpy(np.ascontiguousarray(q if rows >= columns else q.T)).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers, of which a share of each column is zero (Martens, 2010). Raises ValueError unless `tensor` is a matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[: math.ceil(sparsity * rows)], column] = 0
    return tensor


def _old(name: str, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=3)
    return function(*args, **kwargs)


def uniform(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `uniform_`."""
    return _old("uniform", uniform_, *args, **kwargs)


def normal(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `normal_`."""
    return _old("normal", normal_, *args, **kwargs)


def constant(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `constant_`."""
    return _old("constant", constant_, *args, **kwargs)


def xavier_uniform(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `xavier_uniform_`."""
    return _old("xavier_uniform", xavier_uniform_, *args, **kwargs)


def xavier_normal(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `xavier_normal_`."""
    return _old("xavier_normal", xavier_normal_, *args, **kwargs)


def kaiming_uniform(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `kaiming_uniform_`."""
    return _old("kaiming_uniform", kaiming_uniform_, *args, **kwargs)


def kaiming_normal(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `kaiming_normal_`."""
    return _old("kaiming_normal", kaiming_normal_, *args, **kwargs)


def eye(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `eye_`."""
    return _old("eye", eye_, *args, **kwargs)


def dirac(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `dirac_`."""
    return _old("dirac", dirac_, *args, **kwargs)


def orthogonal(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `orthogonal_`."""
    return _old("orthogonal", orthogonal_, *args, **kwargs)


def sparse(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `sparse_`."""
    return _old("sparse", sparse_, *args, **kwargs)
