"""torch._foreach_*: one operation on each of a list of tensors. Forms that end in ``_`` change them in place and return nothing.

Second operands are one for all (a number or a 0-d tensor) or a list with one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import ops
from flambeau.ops.declare import Operator
from flambeau.tensor import dispatch
from flambeau.tensor.functions_pointwise import power
from flambeau.tensor.functions_reduce import norm

Tensors = Sequence[Any]
Operand = Any


def _calls(name: str, tensors: Tensors, operands: tuple[Operand, ...]) -> list[tuple[Any, ...]]:
    """The operands of each call; RuntimeError for lists of other lengths."""
    if not len(tensors):
        raise RuntimeError(f"_foreach_{name}: Tensor list must have at least one tensor.")
    columns: list[Sequence[Any]] = [tensors]
    for operand in operands:
        several = isinstance(operand, (list, tuple))
        if several and len(operand) != len(tensors):
            raise RuntimeError(
                f"_foreach_{name}: Tensor lists must have the same number of tensors, got {len(tensors)} and {len(operand)}"
            )
        columns.append(operand if several else [operand] * len(tensors))
    return list(zip(*columns, strict=True))


def _new(operator: Operator, tensors: Tensors, *operands: Operand, **options: Any) -> tuple[Any, ...]:
    return tuple(operator(*call, **options) for call in _calls(operator.name, tensors, operands))


def _into(operator: Operator, tensors: Tensors, *operands: Operand, **options: Any) -> None:
    for call in _calls(operator.name, tensors, operands):
        dispatch.call_into(operator, call[0], call, options)


def _foreach_add(self: Tensors, other: Operand, *, alpha: Any = 1) -> tuple[Any, ...]:
    """x + alpha * other."""
    return _new(ops.add, self, other, alpha=alpha)


def _foreach_add_(self: Tensors, other: Operand, *, alpha: Any = 1) -> None:
    """x + alpha * other, in place."""
    _into(ops.add, self, other, alpha=alpha)


def _foreach_sub(self: Tensors, other: Operand, *, alpha: Any = 1) -> tuple[Any, ...]:
    """x - alpha * other."""
    return _new(ops.sub, self, other, alpha=alpha)


def _foreach_sub_(self: Tensors, other: Operand, *, alpha: Any = 1) -> None:
    """x - alpha * other, in place."""
    _into(ops.sub, self, other, alpha=alpha)


def _foreach_mul(self: Tensors, other: Operand) -> tuple[Any, ...]:
    """x * other."""
    return _new(ops.mul, self, other)


def _foreach_mul_(self: Tensors, other: Operand) -> None:
    """x * other, in place."""
    _into(ops.mul, self, other)


def _foreach_div(self: Tensors, other: Operand) -> tuple[Any, ...]:
    """x / other."""
    return _new(ops.true_divide, self, other)


def _foreach_div_(self: Tensors, other: Operand) -> None:
    """x / other, in place."""
    _into(ops.true_divide, self, other)


def _foreach_maximum(self: Tensors, other: Operand) -> tuple[Any, ...]:
    """The larger of x and other."""
    return _new(ops.maximum, self, other)


def _foreach_maximum_(self: Tensors, other: Operand) -> None:
    """The larger of x and other, in place."""
    _into(ops.maximum, self, other)


_foreach_clamp_min, _foreach_clamp_min_ = _foreach_maximum, _foreach_maximum_


def _foreach_minimum(self: Tensors, other: Operand) -> tuple[Any, ...]:
    """The smaller of x and other."""
    return _new(ops.minimum, self, other)


def _foreach_minimum_(self: Tensors, other: Operand) -> None:
    """The smaller of x and other, in place."""
    _into(ops.minimum, self, other)


_foreach_clamp_max, _foreach_clamp_max_ = _foreach_minimum, _foreach_minimum_


def _foreach_pow(self: Tensors, exponent: Operand) -> tuple[Any, ...]:
    """x ** exponent; a number for all x and a list of exponents also do."""
    if not isinstance(self, (list, tuple)):
        self = [self] * len(exponent)
    return tuple(_powered(*call) for call in _calls("pow", self, (exponent,)))


def _powered(x: Any, exponent: Any) -> Any:
    operator, operands = power(x, exponent)
    return operator(*operands)


def _foreach_pow_(self: Tensors, exponent: Operand) -> None:
    """x ** exponent, in place."""
    for x, e in _calls("pow", self, (exponent,)):
        operator, operands = power(x, e)
        dispatch.call_into(operator, x, operands, {})


def _foreach_lerp(self: Tensors, tensors1: Tensors, weight: Operand) -> tuple[Any, ...]:
    """x + weight * (tensors1 - x)."""
    return _new(ops.lerp, self, tensors1, weight)


def _foreach_lerp_(self: Tensors, tensors1: Tensors, weight: Operand) -> None:
    """x + weight * (tensors1 - x), in place."""
    _into(ops.lerp, self, tensors1, weight)


def _with_values(operator: Operator, run: Callable[..., Any], tensors: Tensors, first: Tensors, second: Tensors, value: Operand) -> Any:
    if hasattr(value, "tolist"):  # a vector with one factor for each
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return run(operator, tensors, first, second, value=value)
    calls = _calls(operator.name, tensors, (first, second, value))
    out = [run(operator, [x], [a], [b], value=factor) for x, a, b, factor in calls]
    return tuple(made[0] for made in out) if run is _new else None


def _foreach_addcmul(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1) -> tuple[Any, ...]:
    """x + value * tensor1 * tensor2."""
    return _with_values(ops.addcmul, _new, self, tensor1, tensor2, value)


def _foreach_addcmul_(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1) -> None:
    """x + value * tensor1 * tensor2, in place."""
    _with_values(ops.addcmul, _into, self, tensor1, tensor2, value)


def _foreach_addcdiv(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1) -> tuple[Any, ...]:
    """x + value * tensor1 / tensor2."""
    return _with_values(ops.addcdiv, _new, self, tensor1, tensor2, value)


def _foreach_addcdiv_(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1) -> None:
    """x + value * tensor1 / tensor2, in place."""
    _with_values(ops.addcdiv, _into, self, tensor1, tensor2, value)


# -- of one tensor --------------------------------------------------------------------------------------
def _foreach_abs(self: Tensors) -> tuple[Any, ...]:
    """|x|."""
    return _new(ops.abs, self)


def _foreach_abs_(self: Tensors) -> None:
    """|x|, in place."""
    _into(ops.abs, self)


def _foreach_exp(self: Tensors) -> tuple[Any, ...]:
    """e ** x."""
    return _new(ops.exp, self)


def _foreach_exp_(self: Tensors) -> None:
    """e ** x, in place."""
    _into(ops.exp, self)


def _foreach_neg(self: Tensors) -> tuple[Any, ...]:
    """-x."""
    return _new(ops.neg, self)


def _foreach_neg_(self: Tensors) -> None:
    """-x, in place."""
    _into(ops.neg, self)


def _foreach_reciprocal(self: Tensors) -> tuple[Any, ...]:
    """1 / x."""
    return _new(ops.reciprocal, self)


def _foreach_reciprocal_(self: Tensors) -> None:
    """1 / x, in place."""
    _into(ops.reciprocal, self)


def _foreach_sigmoid(self: Tensors) -> tuple[Any, ...]:
    """1 / (1 + e ** -x)."""
    return _new(ops.sigmoid, self)


def _foreach_sigmoid_(self: Tensors) -> None:
    """1 / (1 + e ** -x), in place."""
    _into(ops.sigmoid, self)


def _foreach_sign(self: Tensors) -> tuple[Any, ...]:
    """-1, 0 or 1."""
    return _new(ops.sign, self)


def _foreach_sign_(self: Tensors) -> None:
    """-1, 0 or 1, in place."""
    _into(ops.sign, self)


def _foreach_sqrt(self: Tensors) -> tuple[Any, ...]:
    """The square root."""
    return _new(ops.sqrt, self)


def _foreach_sqrt_(self: Tensors) -> None:
    """The square root, in place."""
    _into(ops.sqrt, self)


def _foreach_rsqrt(self: Tensors) -> tuple[Any, ...]:
    """1 / sqrt(x)."""
    return _new(ops.rsqrt, self)


def _foreach_rsqrt_(self: Tensors) -> None:
    """1 / sqrt(x), in place."""
    _into(ops.rsqrt, self)


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> None:
    """The contents of ``src``."""
    for x, source in _calls("copy", self, (src,)):
        x.copy_(source)


def _foreach_zero_(self: Tensors) -> None:
    """Zeros."""
    for (x,) in _calls("zero", self, ()):
        x.zero_()


def _foreach_norm(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    """The vector norm of order ``ord``."""
    return tuple(norm(x, ord, dtype=dtype) for (x,) in _calls("norm", self, ()))
