"""Activation checkpointing: what a function would save for backward is computed again there instead."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from flambeau.autograd import grad
from flambeau.core.context import context
from flambeau.runtime.generator import default_generator
from flambeau.runtime.native.records import next_sequence
from flambeau.tensor import Tensor, dispatch
from flambeau.tensor.grad_mode import enable_grad, no_grad
from flambeau.tensor.tape import SECOND_BACKWARD, Entry

__all__ = [
    "CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The second run of a function did not give what the first one gave."""


class CheckpointPolicy(enum.Enum):
    """What a selective policy may say of an operator."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told of the run that it is asked in."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two contexts in which nothing differs."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Accepted for programs that choose what is saved; here everything is computed again, which changes no result."""
    return noop_context_fn()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """Accepted: the second run always goes to its end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None]:
    """Accepted: a second run that differs says so anyway."""
    yield


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with tensors without history, that require gradients where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in inputs)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs of the tensors and the states of their random number generators: none, all draw from the generator of the CPU.

    >>> import flambeau as torch
    >>> torch.utils.checkpoint.get_device_states(torch.ones(2))
    ([], [])
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Put back what `get_device_states` gave; NotImplementedError for any other states."""
    if devices or states:
        raise NotImplementedError(
            f"set_device_states: got states of the generators of devices {list(devices)}, but all devices draw from the generator of the "
            "CPU: use torch.set_rng_state"
        )


class _State:
    """What a second run must find as the first one did: the random numbers to come, and autocast."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.generator = default_generator.clone_state() if preserve_rng_state else None
        self.autocast = context.autocast

    @contextlib.contextmanager
    def again(self) -> Generator[None]:
        """Put it back inside."""
        before, autocast = default_generator.clone_state(), context.autocast
        if self.generator is not None:
            default_generator.assign(self.generator)
        context.autocast = self.autocast
        try:
            with enable_grad():
                yield
        finally:
            context.autocast = autocast
            if self.generator is not None:
                default_generator.assign(before)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [t for part in parts for t in _tensors(part)]


def _frontier(outputs: Sequence[Any], start: int) -> list[tuple[Any, int]]:
    """Where gradients leave the part of the tape that has been made since ``start``."""
    found: dict[tuple[int, int], tuple[Any, int]] = {}
    pending = [o.entry for o in outputs if o.entry is not None and o.entry.sequence >= start]
    seen = set(map(id, pending))
    while pending:
        for edge in pending.pop().edges:
            if edge is None:
                continue
            target, output = edge
            if isinstance(target, Tensor) or target.sequence < start:
                found[id(target), output] = edge
            elif id(target) not in seen:
                seen.add(id(target))
                pending.append(target)
    return list(found.values())


class _CheckpointEntry(Entry):
    """The tape entry of a function that is run again for its gradients: edges to all that its first run led to."""

    __slots__ = ("again", "determinism", "kinds")
    _title = "CheckpointBackward"

    def __init__(self, edges: list[tuple[Any, int]], outputs: Sequence[Any], again: Callable[[], Any], determinism: str) -> None:
        super().__init__(list(edges), [o.meta for o in outputs])
        self.again: Callable[[], Any] | None = again
        self.determinism = determinism

    def apply(self, cotangents: list[Any]) -> Sequence[Any]:
        if self.again is None:
            raise RuntimeError(SECOND_BACKWARD)
        start = next_sequence()
        outputs = [o for o in _tensors(self.again()) if o.entry is not None and o.entry.sequence >= start]
        if self.determinism == "default" and [o.meta for o in outputs] != list(self.metas):
            raise CheckpointError(
                f"torch.utils.checkpoint: the recomputed outputs {[o.meta for o in outputs]} are not those of forward, {list(self.metas)}: "
                "the function must do the same every time. Pass determinism_check='none' to go on all the same."
            )
        roots = [(o, c) for o, c in zip(outputs, cotangents, strict=False) if c is not None]
        wanted = [_stand_in(edge) for edge in self.edges if edge is not None]
        return grad([o for o, _ in roots], wanted, [c for _, c in roots], create_graph=context.grad_enabled, allow_unused=True)

    def release(self) -> None:
        self.again = None


def _stand_in(edge: tuple[Any, int]) -> Any:
    """A tensor at a place of the tape, whose elements nobody looks at."""
    target, output = edge
    if isinstance(target, Tensor):
        return target
    memory = dispatch.new_zeros(target.metas[output])
    memory.entry, memory.output, memory._requires_grad = target, output, True
    return memory


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, context_fn: Callable[[], Any] = noop_context_fn,
    determinism_check: str = "default", debug: bool = False, preserve_rng_state: bool = True, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """``function(*args, **kwargs)``, saving only its arguments: backward runs it again, with the same random numbers and autocast.

    Both values of ``use_reentrant`` give gradients of arguments and of parameters that the function uses; with True, some argument
    must require a gradient, as in PyTorch. Compiled functions choose by themselves what they save, so it is a plain call there.

    >>> import flambeau as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(lambda x: (x * 3).exp().log(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ('default', 'none'), got {determinism_check!r}")
    if context.capture is not None:
        return function(*args, **kwargs)
    if use_reentrant and not any(t.requires_grad for t in _tensors((args, kwargs))):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        with no_grad():
            return function(*args, **kwargs)
    first, second = context_fn()
    if not context.grad_enabled:
        with first:
            return function(*args, **kwargs)
    state, start = _State(preserve_rng_state), next_sequence()
    with first:
        result = function(*args, **kwargs)
    outputs = [o for o in _tensors(result) if o.entry is not None and o.entry.sequence >= start]
    edges = _frontier(outputs, start)
    if not edges:
        return result

    def again() -> Any:
        with state.again(), second:
            return function(*args, **kwargs)

    entry = _CheckpointEntry(edges, outputs, again, determinism_check)
    for position, tensor in enumerate(outputs):
        tensor.entry, tensor.output, tensor.view_of = entry, position, None
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True, **kwargs: Any
) -> Any:
    """Run functions, or the layers of a Sequential, one after the other, in ``segments`` parts, all but the last checkpointed."""
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
    layers = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(layers) // segments

    def part(start: int, stop: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for layer in layers[start:stop]:
                x = layer(x)
            return x

        return run

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return part(size * (segments - 1), len(layers))(input)
