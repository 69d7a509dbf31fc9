"""Complex tensors: made of real ones, taken apart, conjugated. A conjugate is computed at once, never pending."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.tensor.arguments import write_out
from flambeau.tensor.base import TensorBase


def complex(real: Any, imag: Any, *, out: Any = None) -> Any:
    """real + i * imag, complex64 of float32 and complex128 of float64.

    >>> import flambeau as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([-2.0]))
    tensor([1.-2.j])
    """
    _require_tensors("complex", real=real, imag=imag)
    result = ops.complex(real, imag)
    if out is not None and out.meta.dtype is not result.meta.dtype:
        raise RuntimeError(f"complex: out has the type {out.meta.dtype}, the result has {result.meta.dtype}; give an out of that type")
    return result if out is None else write_out(out, result)


def _require_tensors(operator: str, **arguments: Any) -> None:
    for position, (name, value) in enumerate(arguments.items(), start=1):
        if not isinstance(value, TensorBase):
            raise TypeError(f"{operator}(): argument '{name}' (position {position}) must be Tensor, not {type(value).__name__}")


def polar(abs: Any, angle: Any, *, out: Any = None) -> Any:
    """abs * (cos(angle) + i * sin(angle))."""
    _require_tensors("polar", abs=abs, angle=angle)
    result = ops.polar(abs, angle)
    return result if out is None else write_out(out, result)


def real(input: Any) -> Any:
    """The real part, a view; of a real tensor, itself.

    >>> import flambeau as torch
    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return ops.real(input) if input.meta.dtype.is_complex else input


def imag(input: Any) -> Any:
    """The imaginary part, a view; RuntimeError for real tensors."""
    return ops.imag(input)


def view_as_real(input: Any) -> Any:
    """The parts of complex numbers in a new last dimension of size 2, a view; RuntimeError for real tensors."""
    return ops.view_as_real(input)


def view_as_complex(input: Any) -> Any:
    """Real numbers, two along the last dimension, as complex ones, a view. RuntimeError where the strides do not allow it.

    >>> import flambeau as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    meta = input.meta
    if meta.dtype.is_floating_point and meta.shape and meta.shape[-1] == 2:
        if meta.strides[-1] != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(s % 2 for s in meta.strides[:-1]) or input.storage_offset_elements % 2:
            raise RuntimeError(
                "Tensor must have a stride divisible by 2 for all but last dimension, and a storage_offset divisible by 2; got strides "
                f"{list(meta.strides)}, storage_offset {input.storage_offset_elements}: clone() it first"
            )
    return ops.view_as_complex(input)


def conj(input: Any) -> Any:
    """The complex conjugate: of a real tensor, itself."""
    return ops.conj(input) if input.meta.dtype.is_complex else input


def conj_physical(input: Any, *, out: Any = None) -> Any:
    """The complex conjugate, in memory of its own."""
    result = ops.conj(input) if input.meta.dtype.is_complex else ops.clone(input)
    return result if out is None else write_out(out, result)


def resolve_conj(input: Any) -> Any:
    """A tensor without a pending conjugation: itself."""
    return input


def resolve_neg(input: Any) -> Any:
    """A tensor without a pending negation: itself."""
    return input


def is_conj(input: Any) -> bool:
    """Whether a conjugation is pending: never."""
    return False


def is_neg(input: Any) -> bool:
    """Whether a negation is pending: never."""
    return False


def isreal(input: Any) -> Any:
    """Whether the imaginary part is 0: of a real tensor, everywhere."""
    return ops.eq(ops.imag(input), 0) if input.meta.dtype.is_complex else ops.full(input.meta.shape, True)


def angle(input: Any, *, out: Any = None) -> Any:
    """The angle of complex numbers, in radians: 0 or pi for real ones."""
    return ops.angle(input) if out is None else write_out(out, ops.angle(input))


def sgn(input: Any, *, out: Any = None) -> Any:
    """input / |input|, 0 at 0: the sign of real numbers."""
    return ops.sgn(input) if out is None else write_out(out, ops.sgn(input))


def adjoint(input: Any) -> Any:
    """The conjugate transpose: the last two dimensions swapped."""
    if len(input.meta.shape) == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conj(ops.transpose(input, -2, -1) if input.meta.shape else input)


class ComplexMethods(TensorBase):
    """Methods of Tensor for complex numbers. Each is the function of that name with the tensor first."""

    __slots__ = ()

    @property
    def real(self) -> Any:
        """The real part, a view; of a real tensor, itself."""
        return real(self)

    @real.setter
    def real(self, value: Any) -> None:
        real(self).copy_(value)

    @property
    def imag(self) -> Any:
        """The imaginary part, a view; RuntimeError for real tensors."""
        return ops.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        imag(self).copy_(value)

    def conj(self) -> Any:
        return conj(self)

    def conj_physical(self) -> Any:
        return conj_physical(self)

    def conj_physical_(self) -> Any:
        return self.copy_(conj(self)) if self.meta.dtype.is_complex else self  # type: ignore[attr-defined]

    def resolve_conj(self) -> Any:
        return self

    def resolve_neg(self) -> Any:
        return self

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return False

    def isreal(self) -> Any:
        return isreal(self)

    def angle(self) -> Any:
        return ops.angle(self)

    def adjoint(self) -> Any:
        return adjoint(self)

    @property
    def H(self) -> Any:  # noqa: N802 - torch's own name
        """The conjugate transpose of a matrix."""
        if len(self.meta.shape) not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {len(self.meta.shape)}-D tensor.")
        return conj(ops.t(self))

    @property
    def mH(self) -> Any:  # noqa: N802
        """The last two dimensions swapped and conjugated."""
        if len(self.meta.shape) < 2:
            raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {len(self.meta.shape)}-D tensor.")
        return adjoint(self)
