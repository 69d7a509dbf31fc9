"""grad(): gradients as results."""

from __future__ import annotations

from typing import Any

from flambeau.core.context import context
from flambeau.tensor import dispatch
from flambeau.tensor.autograd import accumulate, root_of, sum_of
from flambeau.tensor.base import TensorBase
from flambeau.tensor.batching import map_batch
from flambeau.tensor.tape import run_backward


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of ``outputs`` by ``inputs``, as a tuple, without touching ``.grad``.

    ``grad_outputs`` weigh the outputs (a one-element output needs none); with ``is_grads_batched`` each has one more dimension, the
    first, and so have the gradients: one for each place along it. RuntimeError when an input was not used, unless ``allow_unused``
    (None in its place) or ``materialize_grads`` (zeros).

    >>> import flambeau as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        return _batched_grad(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
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
    if context.capture is not None and not context.capture.holds_tape(many, wanted):
        context.capture.flush("gradients are taken of what an earlier part computed")
    roots = [root_of(t, g, create_graph) for t, g in zip(many, weights, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    found = run_backward(roots, retain_graph=keep, create_graph=create_graph, inputs=wanted, accumulate=accumulate, add=sum_of)
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


def _batched_grad(
    outputs: Any, inputs: Any, cotangents: Any, create_graph: bool, allow_unused: bool | None, zeros: bool
) -> tuple[Any, ...]:
    given = [cotangents] if isinstance(cotangents, TensorBase) else list(cotangents or ())
    first = next((g for g in given if g is not None), None)
    if first is None or not first.meta.shape:
        raise RuntimeError("grad: is_grads_batched needs grad_outputs with the batch as their first dimension")

    def gradients(*weights: Any) -> tuple[Any, ...]:
        return grad(outputs, inputs, list(weights), True, create_graph, allow_unused=allow_unused, materialize_grads=zeros)

    return tuple(map_batch(gradients, first.meta.shape[0], "error", *given))
