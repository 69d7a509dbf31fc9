"""Orthogonal polynomials of degree ``n``, a number or a tensor of them: 0 where n is negative, its whole part elsewhere.

Each is computed by its recurrence, as many steps as the largest degree asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import need_some_tensor, write_out
from flambeau.tensor.base import TensorBase

Step = Callable[[int, Any, Any, Any], Any]


def _polynomial(name: str, x: Any, n: Any, out: Any, first: Callable[[Any], Any], step: Step) -> Any:
    """``first(x)`` is the polynomial of degree 1, ``step(k, x, p, q)`` the one of degree k + 1 from those of k and k - 1."""
    need_some_tensor(name, x, n)
    one = ops.true_divide(ops.add(ops.mul(x, 0), ops.add(ops.mul(n, 0), 1)), 1)
    x = ops.mul(one, x)
    degree = ops.trunc(n) if isinstance(n, TensorBase) else int(n)
    largest = degree if isinstance(degree, int) else int(ops.amax(dispatch.whole(degree), ()).item()) if degree.meta.numel else 0
    before, last = one, first(x)
    value = ops.where(ops.eq(ops.mul(one, degree), 0), one, 0.0)
    for k in range(1, largest + 1):
        value = ops.where(ops.eq(ops.mul(one, degree), float(k)), last, value)
        before, last = last, step(k, x, last, before)
    return value if out is None else write_out(out, value)


def _doubled(k: int, x: Any, p: Any, q: Any) -> Any:
    return ops.sub(ops.mul(ops.add(x, x), p), q)


def chebyshev_polynomial_t(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the first kind."""
    return _polynomial("chebyshev_polynomial_t", input, n, out, lambda x: x, _doubled)


def chebyshev_polynomial_u(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the second kind."""
    return _polynomial("chebyshev_polynomial_u", input, n, out, lambda x: ops.add(x, x), _doubled)


def chebyshev_polynomial_v(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the third kind."""
    return _polynomial("chebyshev_polynomial_v", input, n, out, lambda x: ops.sub(ops.add(x, x), 1), _doubled)


def chebyshev_polynomial_w(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the fourth kind."""
    return _polynomial("chebyshev_polynomial_w", input, n, out, lambda x: ops.add(ops.add(x, x), 1), _doubled)


def _shifted(name: str, x: Any, n: Any) -> Any:
    need_some_tensor(name, x, n)
    return ops.sub(ops.mul(x, 2.0), 1.0) if isinstance(x, TensorBase) else 2 * x - 1


def shifted_chebyshev_polynomial_t(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the first kind at 2 * input - 1."""
    return chebyshev_polynomial_t(_shifted("shifted_chebyshev_polynomial_t", input, n), n, out=out)


def shifted_chebyshev_polynomial_u(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the second kind at 2 * input - 1."""
    return chebyshev_polynomial_u(_shifted("shifted_chebyshev_polynomial_u", input, n), n, out=out)


def shifted_chebyshev_polynomial_v(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the third kind at 2 * input - 1."""
    return chebyshev_polynomial_v(_shifted("shifted_chebyshev_polynomial_v", input, n), n, out=out)


def shifted_chebyshev_polynomial_w(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Chebyshev polynomial of the fourth kind at 2 * input - 1."""
    return chebyshev_polynomial_w(_shifted("shifted_chebyshev_polynomial_w", input, n), n, out=out)


def hermite_polynomial_h(input: Any, n: Any, *, out: Any = None) -> Any:
    """The physicists' Hermite polynomial."""
    step: Step = lambda k, x, p, q: ops.mul(ops.sub(ops.mul(x, p), ops.mul(q, float(k))), 2.0)  # noqa: E731
    return _polynomial("hermite_polynomial_h", input, n, out, lambda x: ops.add(x, x), step)


def hermite_polynomial_he(input: Any, n: Any, *, out: Any = None) -> Any:
    """The probabilists' Hermite polynomial."""
    step: Step = lambda k, x, p, q: ops.sub(ops.mul(x, p), ops.mul(q, float(k)))  # noqa: E731
    return _polynomial("hermite_polynomial_he", input, n, out, lambda x: x, step)


def laguerre_polynomial_l(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Laguerre polynomial."""

    def step(k: int, x: Any, p: Any, q: Any) -> Any:
        return ops.true_divide(ops.sub(ops.mul(ops.sub(2.0 * k + 1, x), p), ops.mul(q, float(k))), k + 1.0)

    return _polynomial("laguerre_polynomial_l", input, n, out, lambda x: ops.sub(1, x), step)


def legendre_polynomial_p(input: Any, n: Any, *, out: Any = None) -> Any:
    """The Legendre polynomial."""

    def step(k: int, x: Any, p: Any, q: Any) -> Any:
        return ops.true_divide(ops.sub(ops.mul(ops.mul(x, 2.0 * k + 1), p), ops.mul(q, float(k))), k + 1.0)

    return _polynomial("legendre_polynomial_p", input, n, out, lambda x: x, step)
