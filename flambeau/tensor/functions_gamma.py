"""The incomplete gamma functions: series and continued fractions, run until all elements have settled."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import need_tensor, write_out
from flambeau.tensor.functions_shape import broadcast_tensors
from flambeau.tensor.grad_mode import no_grad

MOST_STEPS = 20000
TINY = 1e-300


def igamma(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized lower incomplete gamma function P(input, other), for numbers >= 0, else NaN.

    Differentiable by ``other`` only.
    """
    return _incomplete("igamma", input, other, False, out)


def igammac(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized upper incomplete gamma function 1 - P(input, other), accurate where it vanishes."""
    return _incomplete("igammac", input, other, True, out)


def _incomplete(name: str, a: Any, x: Any, upper: bool, out: Any) -> Any:
    need_tensor(name, "input", a)
    need_tensor(name, "other", x)
    kind = ops.add(a, x).meta.dtype
    if not kind.is_floating_point:
        raise NotImplementedError(f"{name}: not implemented for {kind}; convert with .float()")
    if dispatch.wants_gradient(a):
        raise NotImplementedError(f"{name}: the derivative by 'input' is not implemented; detach() it")
    with no_grad():
        wide_a, wide_x = broadcast_tensors(ops.to_dtype(a, dtypes.float64), ops.to_dtype(x, dtypes.float64))
        value = ops.to_dtype(_regularized(wide_a, wide_x, upper), kind)
        slope = ops.to_dtype(ops.exp(_log_density(wide_a, wide_x)), kind)
    if dispatch.wants_gradient(x):
        slope = ops.neg(slope) if upper else slope
        value = ops.add(value, ops.mul(slope, ops.sub(x, x.detach())))
    return value if out is None else write_out(out, value)


def _log_density(a: Any, x: Any) -> Any:
    """log(x ** (a - 1) * exp(-x) / gamma(a))."""
    return ops.sub(ops.sub(ops.xlogy(ops.sub(a, 1), x), x), ops.lgamma(a))


def _regularized(a: Any, x: Any, upper: bool) -> Any:
    bad = ops.logical_or(ops.logical_or(ops.lt(a, 0), ops.lt(x, 0)), ops.logical_and(ops.eq(a, 0), ops.eq(x, 0)))
    plain = ops.logical_and(ops.logical_and(ops.gt(a, 0), ops.gt(x, 0)), ops.isfinite(ops.add(a, x)))
    by_series = ops.logical_or(ops.lt(x, ops.add(a, 1)), ops.logical_not(plain))
    # What a method is not for gets numbers that it settles on at once.
    low = _series(ops.where(ops.logical_and(plain, by_series), a, 1.0), ops.where(ops.logical_and(plain, by_series), x, 0.5))
    high = _fraction(ops.where(by_series, 1.0, a), ops.where(by_series, 3.0, x))
    value = ops.where(by_series, ops.sub(1, low) if upper else low, high if upper else ops.sub(1, high))
    # All of the weight lies below where a = 0 or x is infinite, above where x = 0 or a is infinite.
    below = ops.logical_and(ops.logical_or(ops.eq(a, 0), ops.isinf(x)), ops.logical_not(ops.isinf(a)))
    edge = ops.where(below, 0.0 if upper else 1.0, 1.0 if upper else 0.0)
    value = ops.where(plain, value, edge)
    bad = ops.logical_or(bad, ops.logical_or(ops.isnan(ops.add(a, x)), ops.logical_and(ops.isinf(a), ops.isinf(x))))
    return ops.where(bad, math.nan, value)


def _series(a: Any, x: Any) -> Any:
    """P(a, x) for x < a + 1: x ** a exp(-x) / gamma(a + 1) times the sum of x ** n / ((a + 1) ... (a + n))."""
    term = total = ops.add(ops.mul(a, 0), 1.0)
    for n in range(1, MOST_STEPS):
        term = ops.mul(term, ops.true_divide(x, ops.add(a, float(n))))
        total = ops.add(total, term)
        if n % 16 == 0 and not ops.any(dispatch.whole(ops.gt(term, ops.mul(total, 1e-17)))).item():
            break
    return ops.mul(total, ops.exp(ops.sub(ops.add(_log_density(a, x), ops.log(x)), ops.log(a))))


def _fraction(a: Any, x: Any) -> Any:
    """1 - P(a, x) for x >= a + 1: Legendre's continued fraction, by the modified method of Lentz."""
    b = ops.add(ops.sub(x, a), 1.0)
    c, d = ops.add(ops.mul(b, 0), 1 / TINY), ops.true_divide(1, b)
    h = d
    for n in range(1, MOST_STEPS):
        numerator = ops.mul(ops.sub(a, float(n)), float(n))
        b = ops.add(b, 2.0)
        d = ops.true_divide(1, _apart(ops.add(ops.mul(numerator, d), b)))
        c = _apart(ops.add(ops.true_divide(numerator, c), b))
        factor = ops.mul(c, d)
        h = ops.mul(h, factor)
        if n % 16 == 0 and not ops.any(dispatch.whole(ops.gt(ops.abs(ops.sub(factor, 1)), 1e-15))).item():
            break
    return ops.mul(h, ops.exp(ops.add(_log_density(a, x), ops.log(x))))


def _apart(x: Any) -> Any:
    """x, kept away from zero."""
    return ops.where(ops.lt(ops.abs(x), TINY), TINY, x)
