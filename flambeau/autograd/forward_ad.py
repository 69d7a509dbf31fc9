"""torch.autograd.forward_ad: tensors that carry a tangent along.

A dual tensor is an alias that the tape starts from; ``unpack_dual`` computes the tangent of a result from the tape (see
`autograd.pushforward`), so what is computed under ``no_grad`` has none.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import local
from typing import Any, NamedTuple

from flambeau.autograd.pushforward import Pushforward, fresh
from flambeau.core.context import context
from flambeau.tensor.base import TensorBase
from flambeau.tensor.tape import Entry

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor; the tangent is None where there is none."""

    primal: Any
    tangent: Any


class _State(local):
    """The dual tensors made in the level that is entered, and their tangents; None outside."""

    duals: list[tuple[Any, Any]] | None = None


_state = _State()


def enter_dual_level() -> int:
    """Begin a level, in which dual tensors can be made; there is one at a time."""
    if _state.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment; use torch.func.jvp, which nests")
    _state.duals = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; its tangents are gone."""
    if _state.duals is None:
        raise RuntimeError("Trying to exit a forward AD level but no level is entered; call enter_dual_level() first")
    _state.duals = None


@contextmanager
def dual_level() -> Generator[int]:
    """A level as a context.

    >>> import flambeau as torch
    >>> from flambeau.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(torch.tensor([1., 2.]), torch.tensor([1., 0.]))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor([2., 0.])
    """
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """``tensor`` with a tangent of the same shape and dtype: an alias, which takes part in autograd."""
    if _state.duals is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, TensorBase) or not value.meta.dtype.is_inexact:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {getattr(value, 'dtype', type(value).__name__)}")
    if tensor.meta.shape != tangent.meta.shape:
        raise RuntimeError(f"make_dual: Expected a tangent of the primal's shape {list(tensor.shape)}, but got {list(tangent.shape)}")
    dual = fresh(tensor, context.batching[-1].serial if context.batching else 0, context.grad_enabled)
    _state.duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor and its tangent."""
    if _state.duals is None:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in _state.duals:
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    duals, others = _reached(tensor, _state.duals)
    if not duals:
        return UnpackedDualTensor(tensor, None)
    again = context.grad_enabled and others
    found = Pushforward([tensor], [d for d, _ in duals], context.batching[-1].serial if context.batching else 0)
    return UnpackedDualTensor(tensor if again else tensor.detach(), found.push([t for _, t in duals], again)[0])


def _reached(tensor: Any, duals: list[tuple[Any, Any]]) -> tuple[list[tuple[Any, Any]], bool]:
    """The dual tensors that the tape leads to, and whether it leads to anything else, or a tangent takes part in autograd."""
    places = {(id(d), 0) if d.entry is None else (id(d.entry), d.output): k for k, (d, _) in enumerate(duals)}
    seen: set[tuple[int, int]] = set()
    found, others = set[int](), False
    stack = [(tensor.entry, tensor.output)] if tensor.entry is not None else []
    while stack:
        target, output = stack.pop()
        key = (id(target), output)
        if key in places:
            found.add(places[key])
        elif isinstance(target, Entry):
            if (id(target), -1) not in seen:
                seen.add((id(target), -1))
                stack += [edge for edge in target.edges if edge is not None]
        else:
            others = True
    chosen = [duals[k] for k in sorted(found)]
    return chosen, others or any(t._requires_grad for _, t in chosen) or any(d.entry is not None for d, _ in chosen)
