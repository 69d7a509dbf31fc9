"""Setting random parts to zero in training."""

from __future__ import annotations

import warnings

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

# The value that selu gives for minus infinity.
_SELU_FLOOR = -1.7580993408473766


def _check_chance(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with chance `p` and divides the others by 1 - p; the input itself when not `training`.

    Raises ValueError unless 0 <= p <= 1.
    """
    _check_chance(p)
    if not training or p == 0:
        return input
    # Nothing is drawn where the chance leaves no choice.
    out = _dropped(input, p) if p < 1 else input * 0
    return input.copy_(out) if inplace else out


def _dropped(input: Tensor, p: float) -> Tensor:
    """Elements are decided on in the order of memory, as in PyTorch, which makes the same numbers drop the same elements."""
    sizes, strides = input.shape, input.stride()
    order = sorted(range(len(sizes)), key=lambda i: -strides[i])
    if order == list(range(len(sizes))) or any(n != 1 and s == 0 for n, s in zip(sizes, strides, strict=True)):
        return ops.dropout(input, p, True)
    return ops.dropout(input.permute(order), p, True).permute([order.index(i) for i in range(len(order))])


def _channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Dropout of whole channels of (N, C, *)."""
    _check_chance(p)
    if not training or p == 0:
        return input
    out = ops.feature_dropout(input, p, True) if p < 1 else input * 0
    return input.copy_(out) if inplace else out


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L)."""
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    if input.dim() == 3:
        return _channels(input, p, training, inplace)
    out = _channels(input.unsqueeze(0), p, training, False).squeeze(0)
    return input.copy_(out) if inplace else out


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, H, W)."""
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated; use dropout instead.", stacklevel=2)
    return _channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated; use dropout instead.", stacklevel=2)
    if input.dim() != 4:
        return _channels(input, p, training, inplace)
    out = _channels(input.unsqueeze(0), p, training, False).squeeze(0)
    return input.copy_(out) if inplace else out


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of SELU networks (Klambauer et al., 2017)."""
    _check_chance(p)
    out = ops.alpha_dropout(input, p, training)
    return input.copy_(out) if inplace else out


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *)."""
    _check_chance(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input.zero_() if inplace else input * 0
    shape = (*input.shape[:2], *(1,) * (input.dim() - 2))
    mask = empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5
    out = (input * mask + _SELU_FLOOR * (1 - mask)) * scale - scale * p * _SELU_FLOOR
    return input.copy_(out) if inplace else out
