"""The one per-thread record of modes that eager calls test."""

from __future__ import annotations

import threading
from typing import Any


class Context(threading.local):
    """``grad_enabled``: record the tape. ``inference``: results can never take part in autograd. ``capture``: the recorder
    that operator calls go to instead of running, or None. ``anomaly``: check gradients for NaN and tell where they come from."""

    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.capture: Any = None
        self.anomaly = False


context = Context()
