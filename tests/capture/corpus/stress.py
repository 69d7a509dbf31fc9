"""Makes a capture flush at every operator, or leave its program at every check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from flambeau import capture


@contextlib.contextmanager
def stressed(*, flush: bool = False, leave: bool = False) -> Iterator[None]:
    """Run with a switch of the capture's on: ``flambeau.capture.stress`` is a record of ``flush`` and ``leave``."""
    if not flush and not leave:
        yield
        return
    switches = getattr(capture, "stress", None)
    if switches is None:
        raise NotImplementedError("this capture has no switches flush and leave (flambeau.capture.stress)")
    before = switches.flush, switches.leave
    switches.flush, switches.leave = flush, leave
    try:
        yield
    finally:
        switches.flush, switches.leave = before
