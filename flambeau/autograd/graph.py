"""torch.autograd.graph: the tape's entries, hooks of several tensors, and hooks of what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from flambeau.core.context import context
from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import AccumulateGrad
from flambeau.tensor.tape import Entry as Node

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


def increment_version(tensor: Any) -> None:
    """Say that a tensor, or several, was changed in place by other means: backward then knows that what it saved is gone."""
    for changed in [tensor] if isinstance(tensor, TensorBase) else tensor:
        changed.memory.version += 1


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: an entry of the tape, and which of its results the tensor is."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor that requires gradients; RuntimeError for others."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(AccumulateGrad(tensor), 0) if tensor.grad_fn is None else GradientEdge(tensor.grad_fn, tensor.output)


# -- what is kept for backward ----------------------------------------------------------------------------
_refused: list[str] = []


class saved_tensors_hooks:  # noqa: N801 - torch's own name
    """A block in which each tensor kept for backward is replaced by ``pack_hook(tensor)``; backward takes ``unpack_hook`` of that.

    Compiled functions keep what they keep. Second derivatives by leaves are not followed.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().tolist(), lambda values: torch.tensor(values)):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self._hooks = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _refused:
            raise RuntimeError(_refused[-1])
        if context.capture is not None:
            raise NotImplementedError("saved_tensors_hooks inside a compiled function are not supported; enter them around its call")
        context.saved_hooks = (*context.saved_hooks, self._hooks)

    def __exit__(self, *_: object) -> None:
        context.saved_hooks = context.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """A block in which what is kept for backward is kept on the CPU."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu() if t.device.type != "cpu" else t.clone()), lambda kept: kept[1].to(kept[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """A block in which entering `saved_tensors_hooks` raises RuntimeError with this message."""
    _refused.append(error_message)
    try:
        yield
    finally:
        _refused.pop()


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[None]:
    """A block in which what is kept for backward may be changed in place: copies are kept."""
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        yield


# -- hooks ------------------------------------------------------------------------------------------------
class _Handle:
    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> _Handle:
    """Call ``fn`` once in each backward: with the gradients of all tensors when the last one is there, or with the first one ("any").

    A backward that does not come by all of them does not call it in mode "all"; a tensor that comes again begins a new one.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    found: dict[int, Any] = {}

    def hook_of(place: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            if place in found:
                found.clear()
            found[place] = gradient
            if mode == "any" and len(found) == 1:
                fn(gradient)
            if len(found) == len(tensors):
                gradients = [found[i] for i in range(len(tensors))]
                found.clear()
                if mode == "all":
                    fn(gradients)

        return hook

    return _Handle([tensor.register_hook(hook_of(place)) for place, tensor in enumerate(tensors)])
