"""backward() and grad(): from tensors to the engine and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.core.device import cpu
from flambeau.ops.declare import ALL
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import run_backward


def backward(
    tensors: Sequence[Any], gradients: Sequence[Any], retain_graph: bool | None, create_graph: bool, inputs: Sequence[Any] | None = None
) -> None:
    """Accumulate gradients of ``tensors`` into leaves (only into ``inputs`` when given)."""
    roots = [_root(t, g, create_graph) for t, g in zip(tensors, gradients, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is not None and not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = run_backward(roots, retain_graph=keep, create_graph=create_graph, inputs=inputs, accumulate=accumulate, add=_sum)
    for tensor in inputs or ():
        if id(tensor) in found:
            accumulate(tensor, found[id(tensor)])


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of ``outputs`` by ``inputs``, as a tuple, without touching ``.grad``.

    ``grad_outputs`` weigh the outputs (a one-element output needs none). RuntimeError when an input was not used, unless
    ``allow_unused`` (None in its place) or ``materialize_grads`` (zeros).

    >>> import flambeau as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched is not supported; call grad() once for each cotangent")
    many = [outputs] if isinstance(outputs, TensorBase) else list(outputs)
    wanted = [inputs] if isinstance(inputs, TensorBase) else list(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    weights = [None] * len(many) if grad_outputs is None else [grad_outputs] if isinstance(grad_outputs, TensorBase) else list(grad_outputs)
    for t in wanted:
        if not dispatch.wants_gradient(t):
            raise RuntimeError(
                "One of the differentiated Tensors does not require grad. Call requires_grad_() on it before computing with it."
            )
    roots = [_root(t, g, create_graph) for t, g in zip(many, weights, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    found = run_backward(roots, retain_graph=keep, create_graph=create_graph, inputs=wanted, accumulate=accumulate, add=_sum)
    out: list[Any] = []
    for t in wanted:
        value = found.get(id(t))
        if value is None and materialize_grads:
            value = dispatch.new_zeros(t.meta)
        elif value is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the "
                "desired behavior."
            )
        out.append(value)
    return tuple(out)


def _root(tensor: Any, gradient: Any, create_graph: bool) -> tuple[Any, int, Any]:
    if not dispatch.wants_gradient(tensor):
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn: nothing was recorded for it")
    if gradient is None:
        if tensor.meta.numel != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, got shape {list(tensor.meta.shape)}; pass gradient= or "
                "reduce it first"
            )
        if tensor.meta.dtype.is_complex:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.meta.dtype}")
        gradient = ones_like(tensor)
    elif not isinstance(gradient, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    elif gradient.meta.shape != tensor.meta.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output has a shape of torch.Size({list(gradient.meta.shape)}) and output has a shape of "
            f"torch.Size({list(tensor.meta.shape)})."
        )
    target, output = dispatch.edge_of(tensor) or (tensor, 0)
    return target, output, gradient


def ones_like(tensor: Any) -> Any:
    """Ones in the shape and type of a tensor."""
    if tensor.meta.device is cpu:
        return ALL["ones"](tensor.meta.shape, dtype=tensor.meta.dtype)
    ones = dispatch.new_zeros(tensor.meta)
    return dispatch.call_into(ALL["assign"], ones, (ones, 1), {})


def _sum(a: Any, b: Any, own: bool) -> Any:
    if own and not context.grad_enabled and context.capture is None and a.meta is b.meta:
        return dispatch.call_into(ALL["add"], a, (a, b), {})
    return ALL["add"](a, b)


def accumulate(leaf: Any, gradient: Any) -> None:
    """Add a gradient to ``leaf.grad``; the first one is kept as it is unless others may see its memory."""
    if context.capture is not None:
        context.capture.gradient_read(leaf)
    if leaf._grad is None:
        recorded = context.grad_enabled and gradient._requires_grad
        leaf._grad = gradient if recorded or (gradient.view_of is None and gradient.meta.contiguous) else ALL["clone"](gradient)
    elif context.grad_enabled:
        leaf._grad = ALL["add"](leaf._grad, gradient)
    else:
        dispatch.call_into(ALL["add"], leaf._grad, (leaf._grad, gradient), {})
    if leaf.post_accumulate_hooks:
        for hook in list(leaf.post_accumulate_hooks.values()):
            hook(leaf)
