"""The one per-thread record of modes that eager calls test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any


class Context(threading.local):
    """``grad_enabled``: record the tape. ``inference``: results can never take part in autograd. ``capture``: the recorder that operator
    calls go to instead of running, or None. ``anomaly``: check gradients for NaN and tell where they come from. ``generator``: what
    random numbers are drawn from in place of the default generator, or None. ``function_modes``, ``operator_modes``: those entered that
    see calls of public functions, and operators, the innermost last. ``overriding``: whether ``__torch_function__`` of arguments is
    asked. ``profiler``: what takes the times of all that runs, or None. ``autocast``: kinds of devices with the type that products are
    computed in there; ``autocast_cache``: parameters that were cast to it, by id, or None; ``autocast_cached``: whether a block keeps
    them; ``autocast_dtypes``: the types to use, by kind of device, where they were set. ``batching``: the calls of ``vmap`` that are under
    way, the innermost last. ``saved_hooks``: pairs of functions that what is kept for backward goes
    through, the innermost last. ``devices``: where new tensors are made, the innermost ``with device`` last, None for the CPU."""

    grad_enabled: bool = True
    inference: bool = False
    capture: Any = None
    anomaly: bool = False
    generator: Any = None
    function_modes: tuple[Any, ...] = ()
    operator_modes: tuple[Any, ...] = ()
    overriding: bool = True
    profiler: Any = None
    autocast: tuple[tuple[str, Any], ...] = ()
    autocast_cache: dict[int, Any] | None = None
    autocast_cached: bool = True
    autocast_dtypes: dict[str, Any] = {}  # replaced, never changed
    batching: tuple[Any, ...] = ()
    saved_hooks: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    devices: tuple[Any, ...] = (None,)

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)
        if name == "grad_enabled":
            _publisher(1, not value)
        elif name == "inference":
            _publisher(16, value)
        elif name == "capture":
            _publisher(4, value is not None)
        elif name == "anomaly":
            _publisher(2, value)
        elif name == "generator":
            _publisher(8, value is not None)
        elif name == "function_modes":
            _publisher(32, bool(value))
        elif name in ("operator_modes", "saved_hooks"):
            _publisher(64, bool(self.operator_modes or self.saved_hooks))
        elif name == "batching":
            _publisher(2048, bool(value))
        elif name == "profiler":
            _publisher(4096, value is not None)
        elif name == "autocast":
            on = autocast_bits(value)
            for bit in (128, 256, 512, 1024):
                _publisher(bit, bool(on & bit))

    def bits(self) -> int:
        """The modes that are not the default: 1 gradients off, 2 anomalies looked for, 4 calls are captured, 8 an own generator,
        16 inference mode, 32 modes of functions, 64 of operators or of what is saved, from 128 on autocast, a bit for each kind of device
        and type, 2048 calls are batched, 4096 a profiler looks on."""
        return (
            (not self.grad_enabled) | self.anomaly << 1 | (self.capture is not None) << 2 | (self.generator is not None) << 3
            | self.inference << 4 | bool(self.function_modes) << 5 | bool(self.operator_modes or self.saved_hooks) << 6
            | autocast_bits(self.autocast) | bool(self.batching) << 11 | (self.profiler is not None) << 12
        )  # fmt: skip


_set = threading.local.__setattr__


def autocast_bits(modes: Sequence[tuple[str, Any]]) -> int:
    """The bits of `Context.bits` for what is on."""
    return sum(128 << 2 * (device == "cuda") + (kind.name == "float16") for device, kind in modes)


def _nobody(bit: int, on: bool) -> None:
    pass


_publisher: Callable[[int, bool], None] = _nobody


def set_publisher(publisher: Callable[[int, bool], None]) -> None:
    """Called once by native dispatch: what is told whenever a bit of the modes of the calling thread changes."""
    global _publisher
    _publisher = publisher


context = Context()


def start_state(make: Callable[[], None]) -> None:
    """Call ``make()``, which makes what is not there yet of a state that lives on between calls; a compiled program calls it every time."""
    if context.capture is None:
        make()
    else:
        context.capture.start(make)


@contextmanager
def outside_capture() -> Generator[None]:
    """Run tensor code now even while a capture records: for state that is made once and lives on between calls."""
    capture, context.capture = context.capture, None
    try:
        yield
    finally:
        context.capture = capture
