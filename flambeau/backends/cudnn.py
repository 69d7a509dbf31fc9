"""torch.backends.cudnn: there is no cuDNN; its settings can be set and have no effect."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None: there is none."""
    return None


@contextlib.contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False, allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Generator[None]:  # fmt: skip
    """Settings inside a block; they have no effect."""
    before = {name: globals()[name] for name in ("enabled", "benchmark", "deterministic", "allow_tf32")}
    globals().update(enabled=enabled, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32)
    try:
        yield
    finally:
        globals().update(before)
