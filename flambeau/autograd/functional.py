"""torch.autograd.functional: products with and whole Jacobians and Hessians, through the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.autograd.pushforward import Pushforward
from flambeau.tensor import Tensor
from flambeau.tensor.batching import map_batch
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.functions_shape import stack
from flambeau.tensor.gradients import grad


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _fresh(inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    """Inputs to differentiate by: the tensors themselves with ``create_graph``, else detached ones."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in _tuple(inputs))


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The results of ``func``, and the product of the vector ``v`` with its Jacobian.

    >>> import flambeau as torch
    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([2., 4.])
    """
    given = _fresh(inputs, create_graph)
    outputs = func(*given)
    found = grad(
        _tuple(outputs),
        given,
        None if v is None else _tuple(v),
        create_graph=create_graph,
        allow_unused=not strict,
        materialize_grads=not strict,
    )
    single = isinstance(inputs, Tensor)
    kept = outputs if create_graph else outputs.detach() if isinstance(outputs, Tensor) else tuple(o.detach() for o in outputs)
    return kept, found[0] if single else found


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The results of ``func``, and the product of its Jacobian with the vector ``v``; exact, see `autograd.pushforward`.

    >>> import flambeau as torch
    >>> torch.autograd.functional.jvp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([2., 4.])
    """
    given = _fresh(inputs, create_graph)
    outputs = func(*given)
    many = _tuple(outputs)
    if v is None and any(x.meta.numel != 1 for x in given):
        raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single Tensor of one element.")
    tangents = [ops.clone(x.detach()).fill_(1) for x in given] if v is None else list(_tuple(v))
    found = Pushforward(many, given).push(tangents, create_graph)
    if strict and any(t is None for t in found):
        raise RuntimeError("jvp: an output does not depend on the inputs, which strict=True forbids; use strict=False for zeros")
    pushed = tuple(zeros_like(o) if t is None else t for t, o in zip(found, many, strict=True))
    kept = tuple(o if create_graph else o.detach() for o in many)
    return (kept[0], pushed[0]) if isinstance(outputs, Tensor) else (kept, pushed)


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The derivatives of every element of the results by every element of the inputs, [*output shape, *input shape].

    Several results or inputs give tuples (of results, then of inputs). With ``vectorize`` all rows are computed at a time, or all
    columns where ``strategy`` is "forward-mode", which needs it.

    >>> import flambeau as torch
    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}')
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError('jacobian: `strategy="forward-mode"` is only supported with `vectorize=True`.')
    given = _fresh(inputs, create_graph)
    outputs = func(*given)
    if strategy == "forward-mode":
        rows = _columns(_tuple(outputs), given, create_graph)
    else:
        rows = tuple((_all_rows if vectorize else _rows)(output, given, create_graph) for output in _tuple(outputs))
    if isinstance(inputs, Tensor):
        rows = tuple(row[0] for row in rows)
    return rows[0] if isinstance(outputs, Tensor) else rows


def _unit_vectors(x: Any) -> Any:
    return ops.to_dtype(ops.eye(x.meta.numel, None, x.meta.dtype), x.meta.dtype).to(x.meta.device).reshape(x.meta.numel, *x.meta.shape)


def _all_rows(output: Any, inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    if not output.requires_grad or not output.meta.numel:
        return _rows(output, inputs, create_graph)
    found = grad(
        output, inputs, _unit_vectors(output), True, create_graph, allow_unused=True, is_grads_batched=True, materialize_grads=True
    )
    return tuple(g.reshape((*output.shape, *x.shape)) for g, x in zip(found, inputs, strict=True))


def _columns(outputs: tuple[Any, ...], inputs: tuple[Any, ...], create_graph: bool) -> tuple[tuple[Any, ...], ...]:
    linear = Pushforward(outputs, inputs)
    rows: list[list[Any]] = [[] for _ in outputs]
    for k, x in enumerate(inputs):

        def pushed(tangent: Any, k: int = k) -> list[Any]:
            given = [tangent if i == k else zeros_like(other) for i, other in enumerate(inputs)]
            return linear.push(given, create_graph)

        found = map_batch(pushed, x.meta.numel, "error", _unit_vectors(x)) if x.meta.numel else [None] * len(outputs)
        for row, column, output in zip(rows, found, outputs, strict=True):
            shape = (*output.shape, *x.shape)
            row.append(zeros_like(x).sum().expand(shape).clone() if column is None else column.movedim(0, -1).reshape(shape))
    return tuple(tuple(row) for row in rows)


def _rows(output: Any, inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    parts: list[list[Any]] = [[] for _ in inputs]
    for element in output.reshape(-1).unbind(0):
        if element.requires_grad:
            found = grad(element, inputs, retain_graph=True, create_graph=create_graph, allow_unused=True, materialize_grads=True)
        else:
            found = tuple(zeros_like(x) for x in inputs)
        for part, gradient in zip(parts, found, strict=True):
            part.append(gradient)
    return tuple(
        stack(part).reshape((*output.shape, *x.shape)) if part else zeros_like(x).expand((*output.shape, *x.shape))
        for part, x in zip(parts, inputs, strict=True)
    )


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function with one element as its result."""

    def gradient(*given: Any) -> Any:
        output = func(*given)
        if not isinstance(output, Tensor) or output.meta.numel != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        found = grad(output, given, create_graph=True, allow_unused=True, materialize_grads=True)
        return found[0] if isinstance(inputs, Tensor) else found

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result of ``func``, and the product of the vector ``v`` with its Hessian."""
    given = _fresh(inputs, create_graph)
    output = func(*given)
    first = grad(output, given, create_graph=True, allow_unused=True, materialize_grads=True)
    weights = None if v is None else _tuple(v)
    found = grad(first, given, weights, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    return output if create_graph else output.detach(), found[0] if isinstance(inputs, Tensor) else found


hvp = vhp
