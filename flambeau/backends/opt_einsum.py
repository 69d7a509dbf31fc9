"""torch.backends.opt_einsum: opt_einsum is not used: einsum contracts from left to right."""

from __future__ import annotations

enabled = False
strategy = "auto"


def is_available() -> bool:
    """False."""
    return False
