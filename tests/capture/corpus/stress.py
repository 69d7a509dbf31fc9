"""Makes a capture run what it records after every operator, or leave its program at every check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def stressed(*, flush: bool = False, leave: bool = False) -> Iterator[None]:
    """Run with the capture's switches set so."""
    from flambeau.capture.stress import stress  # here, for these programs run without flambeau too

    before = stress.flush, stress.leave
    stress.flush, stress.leave = flush, leave
    try:
        yield
    finally:
        stress.flush, stress.leave = before
