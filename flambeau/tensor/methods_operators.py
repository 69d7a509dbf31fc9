"""Python's operators on tensors. What is neither tensor nor number is left to the other operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import ops
from flambeau.tensor.arguments import OPERANDS, TENSORS
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.functions_pointwise import power

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class OperatorMethods(TensorBase):
    """The operators +, -, *, /, //, %, **, @, &, |, ^, ~, <<, >> and the comparisons."""

    __slots__ = ()
    # numpy leaves an operator with a tensor on the right to the tensor.
    __array_priority__ = 1000

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Any) -> Tensor:
        return ops.add(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __radd__(self, other: Any) -> Tensor:
        return ops.add(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __iadd__(self, other: Any) -> Any:
        return call_into(ops.add, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __sub__(self, other: Any) -> Tensor:
        return ops.sub(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rsub__(self, other: Any) -> Tensor:
        return ops.sub(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __isub__(self, other: Any) -> Any:
        return call_into(ops.sub, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __mul__(self, other: Any) -> Tensor:
        return ops.mul(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rmul__(self, other: Any) -> Tensor:
        return ops.mul(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __imul__(self, other: Any) -> Any:
        return call_into(ops.mul, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __truediv__(self, other: Any) -> Tensor:
        return ops.true_divide(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rtruediv__(self, other: Any) -> Tensor:
        return ops.true_divide(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __itruediv__(self, other: Any) -> Any:
        return call_into(ops.true_divide, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __floordiv__(self, other: Any) -> Tensor:
        return ops.floor_divide(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Tensor:
        return ops.floor_divide(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __ifloordiv__(self, other: Any) -> Any:
        return call_into(ops.floor_divide, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __mod__(self, other: Any) -> Tensor:
        return ops.remainder(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rmod__(self, other: Any) -> Tensor:
        return ops.remainder(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __imod__(self, other: Any) -> Any:
        return call_into(ops.remainder, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __matmul__(self, other: Any) -> Tensor:
        return ops.matmul(self, other) if isinstance(other, TENSORS) else NotImplemented

    def __rmatmul__(self, other: Any) -> Tensor:
        return ops.matmul(other, self) if isinstance(other, TENSORS) else NotImplemented

    def __and__(self, other: Any) -> Tensor:
        return ops.bitwise_and(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rand__(self, other: Any) -> Tensor:
        return ops.bitwise_and(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __iand__(self, other: Any) -> Any:
        return call_into(ops.bitwise_and, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __or__(self, other: Any) -> Tensor:
        return ops.bitwise_or(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __ror__(self, other: Any) -> Tensor:
        return ops.bitwise_or(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __ior__(self, other: Any) -> Any:
        return call_into(ops.bitwise_or, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __xor__(self, other: Any) -> Tensor:
        return ops.bitwise_xor(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rxor__(self, other: Any) -> Tensor:
        return ops.bitwise_xor(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __ixor__(self, other: Any) -> Any:
        return call_into(ops.bitwise_xor, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __lshift__(self, other: Any) -> Tensor:
        return ops.bitwise_left_shift(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rlshift__(self, other: Any) -> Tensor:
        return ops.bitwise_left_shift(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __ilshift__(self, other: Any) -> Any:
        return call_into(ops.bitwise_left_shift, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __rshift__(self, other: Any) -> Tensor:
        return ops.bitwise_right_shift(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rrshift__(self, other: Any) -> Tensor:
        return ops.bitwise_right_shift(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __irshift__(self, other: Any) -> Any:
        return call_into(ops.bitwise_right_shift, self, (self, other), {}) if isinstance(other, OPERANDS) else NotImplemented

    def __pow__(self, exponent: Any) -> Tensor:
        if not isinstance(exponent, OPERANDS):
            return NotImplemented
        operator, operands = power(self, exponent)
        return operator(*operands)

    def __rpow__(self, other: Any) -> Tensor:
        return ops.pow(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __ipow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, OPERANDS):
            return NotImplemented
        operator, operands = power(self, exponent)
        return call_into(operator, self, operands, {})

    def __rdiv__(self, other: Any) -> Tensor:
        return ops.true_divide(other, self)

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __pos__(self) -> Tensor:
        return ops.positive(self)

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __invert__(self) -> Tensor:
        if self.meta.dtype.is_inexact:
            raise TypeError(f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, got {self.meta.dtype}")
        return ops.bitwise_not(self)

    def __eq__(self, other: Any) -> Any:  # type: ignore[override]
        return ops.eq(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __ne__(self, other: Any) -> Any:  # type: ignore[override]
        return ops.ne(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return ops.lt(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return ops.le(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return ops.gt(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return ops.ge(self, other) if isinstance(other, OPERANDS) else NotImplemented
