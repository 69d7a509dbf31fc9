"""backward(): from tensors to the engine and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.core.device import cpu
from flambeau.ops.declare import ALL
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import all_hooks, call_hook, run_backward


def backward(
    tensors: Sequence[Any], gradients: Sequence[Any], retain_graph: bool | None, create_graph: bool, inputs: Sequence[Any] | None = None
) -> None:
    """Accumulate gradients of ``tensors`` into leaves (only into ``inputs`` when given)."""
    if context.batching:
        raise RuntimeError("backward() called inside vmap, where there is no one gradient to accumulate; use torch.func.grad or vjp")
    roots = [root_of(t, g, create_graph) for t, g in zip(tensors, gradients, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is not None and not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = run_backward(roots, retain_graph=keep, create_graph=create_graph, inputs=inputs, accumulate=accumulate, add=sum_of)
    for tensor in inputs or ():
        if id(tensor) in found:
            accumulate(tensor, found[id(tensor)])


def root_of(tensor: Any, gradient: Any, create_graph: bool) -> tuple[Any, int, Any]:
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


def sum_of(a: Any, b: Any, own: bool) -> Any:
    if a.is_sparse or b.is_sparse:
        return a + b
    if own and not context.grad_enabled and context.capture is None and a.meta is b.meta and not dispatch.level_of([a, b]):
        return dispatch.call_into(ALL["add"], a, (a, b), {})
    return ALL["add"](a, b)


def accumulate(leaf: Any, gradient: Any) -> None:
    """Add a gradient to ``leaf.grad``; the first one is kept as it is unless others may see its memory."""
    if context.capture is not None:
        context.capture.gradient_read(leaf)
    if gradient.is_sparse or (leaf._grad is not None and leaf._grad.is_sparse):
        leaf._grad = gradient if leaf._grad is None else leaf._grad + gradient
    elif leaf._grad is None:
        recorded = context.grad_enabled and gradient._requires_grad
        leaf._grad = gradient if recorded or (gradient.view_of is None and gradient.meta.contiguous) else ALL["clone"](gradient)
    elif context.grad_enabled:
        leaf._grad = ALL["add"](leaf._grad, gradient)
    else:
        dispatch.call_into(ALL["add"], leaf._grad, (leaf._grad, gradient), {})
    for hook in all_hooks(leaf)[2] if leaf.post_accumulate_hooks or context.capture is not None else ():
        call_hook(hook, leaf)
