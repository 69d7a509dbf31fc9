"""torch.backends.mkldnn: oneDNN is not used."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

enabled = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


@contextlib.contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none") -> Generator[None]:
    """Accepted."""
    yield
