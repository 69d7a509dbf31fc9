"""Clipping gradients by their total norm or by value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros
from flambeau.tensor.grad_mode import no_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]



def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given: list[Tensor] = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter.grad for parameter in given if parameter.grad is not None]


def _check_finite(total: Tensor, norm_type: float) -> None:
    if not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this "
            "error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients together, in place, so that their norm is at most `max_norm`; returns the norm that they had.

    The norm of order `norm_type` is over all gradients as one vector. With `error_if_nonfinite`, NaN or infinity raises
    RuntimeError and leaves the gradients alone. `foreach` has no effect: it is always one operation over the list.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    """
    gradients = _gradients(parameters)
    if not gradients:
        return zeros(())
    with no_grad():
        if error_if_nonfinite:
            total = get_total_norm(gradients, norm_type, error_if_nonfinite=True)
            _scale(gradients, max_norm, total)
            return total
        most = max_norm if isinstance(max_norm, float) else float(max_norm)  # one that compiled programs read again stays one
        return ops.clip_grad_norm_(gradients, most, float(norm_type))[1]


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn("torch.nn.utils.clip_grad_norm is now deprecated in favor of torch.nn.utils.clip_grad_norm_.", FutureWarning,
                  stacklevel=2)  # fmt: skip
    return clip_grad_norm_(*args, **kwargs)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of order `norm_type` of all tensors as one vector; RuntimeError for NaN or infinity with `error_if_nonfinite`."""
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return zeros(())
    with no_grad():
        norms = ops.stack([ops.vector_norm(value, float(norm_type)) for value in given])
        total = ops.vector_norm(norms, float(norm_type))
    if error_if_nonfinite:
        _check_finite(total, norm_type)
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by min(1, max_norm / (total_norm + 1e-6)), in place."""
    with no_grad():
        _scale(_gradients(parameters), max_norm, total_norm)


def _scale(gradients: list[Tensor], max_norm: float, total: Tensor) -> None:
    factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Keep every element of the gradients in [-clip_value, clip_value], in place."""
    limit = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(min=-limit, max=limit)
