"""The one per-thread record of modes that eager calls test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Context(threading.local):
    """``grad_enabled``: record the tape. ``inference``: results can never take part in autograd. ``capture``: the recorder
    that operator calls go to instead of running, or None. ``anomaly``: check gradients for NaN and tell where they come from.
    ``generator``: what random numbers are drawn from in place of the default generator, or None."""

    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.capture: Any = None
        self.anomaly = False
        self.generator: Any = None


context = Context()


@contextmanager
def outside_capture() -> Iterator[None]:
    """Run tensor code now even while a capture records: for state that is made once and lives on between calls."""
    capture, context.capture = context.capture, None
    try:
        yield
    finally:
        context.capture = capture
