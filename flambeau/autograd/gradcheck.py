"""Holds gradients against finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.tensor import Tensor
from flambeau.tensor.functions_random import randn_like
from flambeau.tensor.grad_mode import enable_grad, no_grad
from flambeau.tensor.gradients import grad


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether the gradients of ``func`` agree with central finite differences, for inputs of float64 that require grad.

    Raises GradcheckError where they do not, or returns False without ``raise_exception``. All elements are compared, also in
    ``fast_mode``; undefined gradients and types are what autograd makes them, so there is nothing to check about these.

    >>> import flambeau as torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    if check_batched_grad or check_batched_forward_grad or check_forward_ad:
        raise NotImplementedError("gradcheck: only gradients of backward are compared; leave the checks of batched and forward ones out")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    chosen = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    if not chosen:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    outputs = func(*given)
    many = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    for (i, output), (k, x) in itertools.product(enumerate(many), enumerate(chosen)):
        if not output.requires_grad:
            continue
        analytical, numerical = _analytical(output, x), _numerical(func, given, i, x, eps)
        if not np.allclose(analytical, numerical, rtol, atol):
            if not raise_exception:
                return False
            raise GradcheckError(
                f"Jacobian mismatch for output {i} with respect to input {k},\nnumerical:{numerical}\nanalytical:{analytical}\n"
            )
    return True


def _analytical(output: Any, x: Any) -> Any:
    """[elements of x, elements of output]."""
    columns: list[Any] = []
    for element in output.reshape(-1).unbind(0):
        (found,) = grad(element, x, retain_graph=True, allow_unused=True, materialize_grads=True)
        columns.append(found.detach().array().reshape(-1))
    return np.stack(columns, 1) if columns else np.zeros((x.numel(), 0))


def _numerical(func: Callable[..., Any], inputs: tuple[Any, ...], position: int, x: Any, eps: float) -> Any:
    rows: list[Any] = []
    with no_grad():
        values = x.detach().array()
        for place in np.ndindex(values.shape):
            kept = values[place]
            ends: list[Any] = []
            for step in (eps, -eps):
                values[place] = kept + step
                outputs = func(*inputs)
                output = outputs if isinstance(outputs, Tensor) else outputs[position]
                ends.append(output.detach().array().reshape(-1).copy())  # type: ignore[attr-defined]
            values[place] = kept
            rows.append((ends[0] - ends[1]) / (2 * eps))
    return np.stack(rows) if rows else np.zeros((0, 0))


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """`gradcheck` of the gradients of ``func``, by its inputs and by ``grad_outputs`` (default: random ones).

    >>> import flambeau as torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = func(*given)
    many = [o for o in ([outputs] if isinstance(outputs, Tensor) else outputs) if isinstance(o, Tensor) and o.requires_grad]
    if grad_outputs is None:
        weights = [randn_like(output).requires_grad_() for output in many]
    else:
        weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*args: Any) -> Any:
        values, cotangents = args[: len(given)], args[len(given) :]
        with enable_grad():
            found = func(*values)
        found = [o for o in ([found] if isinstance(found, Tensor) else found) if isinstance(o, Tensor) and o.requires_grad]
        wanted = [x for x in values if isinstance(x, Tensor) and x.requires_grad]
        return grad(found, wanted, cotangents, create_graph=True, allow_unused=True, materialize_grads=True)

    return gradcheck(
        gradients, (*given, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
    )  # fmt: skip
