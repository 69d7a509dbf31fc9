"""What distributions share: broadcasting of parameters, probabilities and logits, properties computed once, triangles as vectors."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from flambeau import ops
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import default_float
from flambeau.tensor import Tensor
from flambeau.tensor.creation import ones, tensor, tril_indices, zeros
from flambeau.tensor.functions_random import normal
from flambeau.tensor.functions_shape import broadcast_tensors
from flambeau.tensor.grad_mode import enable_grad
from flambeau.tensor.type_info import finfo

EULER = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers get the type of the first floating tensor, or the default one.

    ValueError for anything else.
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    like = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {"dtype": default_float()} if like is None else {"dtype": like.dtype, "device": like.device}
    return tuple(broadcast_tensors(*[v if isinstance(v, Tensor) else tensor(v, **options) for v in values]))


def _standard_normal(shape: Any, dtype: dtype, device: Any = None) -> Any:
    """Normal numbers with mean 0 and variance 1."""
    return normal(zeros(shape, dtype=dtype, device=device), ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities moved away from 0 and 1 by the precision of their type."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log odds (``is_binary``), or of unnormalized log probabilities in the last dimension."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The inverse of `logits_to_probs`; log probabilities where not ``is_binary``."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property:  # noqa: N801 - torch's own name
    """A property that is computed when first asked for, and then an attribute of the object."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements on and below a diagonal [..., D, D], row by row, as a vector [..., count]; ValueError for a diagonal outside."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, offset=diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The inverse of `tril_matrix_to_vec`, zero elsewhere; ValueError when no matrix has that many elements there."""
    # count = (n + diag) (n + diag + 1) / 2 for the size n.
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - n <= finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square matrix."
        )
    out = zeros(vec.shape[:-1] + (round(n), round(n)), dtype=vec.dtype, device=vec.device)
    rows, columns = tril_indices(round(n), round(n), offset=diag, device=vec.device)
    out[..., rows, columns] = vec
    return out
