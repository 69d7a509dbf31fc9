"""The one per-thread record of modes that eager calls test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Context(threading.local):
    """``grad_enabled``: record the tape. ``inference``: results can never take part in autograd. ``capture``: the recorder
    that operator calls go to instead of running, or None. ``anomaly``: check gradients for NaN and tell where they come from.
    ``generator``: what random numbers are drawn from in place of the default generator, or None. ``function_modes``,
    ``operator_modes``: those entered that see calls of public functions, and operators, the innermost last. ``overriding``: whether
    ``__torch_function__`` of arguments is asked. ``devices``: where new tensors are made, the innermost ``with device`` last, None
    for the CPU."""

    grad_enabled: bool = True
    inference: bool = False
    capture: Any = None
    anomaly: bool = False
    generator: Any = None
    function_modes: tuple[Any, ...] = ()
    operator_modes: tuple[Any, ...] = ()
    overriding: bool = True
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
        elif name == "operator_modes":
            _publisher(64, bool(value))

    def bits(self) -> int:
        """The modes that are not the default: 1 gradients off, 2 anomalies looked for, 4 calls are captured, 8 an own generator,
        16 inference mode, 32 modes of functions, 64 of operators."""
        return (
            (not self.grad_enabled) | self.anomaly << 1 | (self.capture is not None) << 2 | (self.generator is not None) << 3
            | self.inference << 4 | bool(self.function_modes) << 5 | bool(self.operator_modes) << 6
        )  # fmt: skip


_set = threading.local.__setattr__


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
