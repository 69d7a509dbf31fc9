"""torch.random: the default generator and its state."""

from __future__ import annotations

from collections.abc import Generator as Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.tensor.functions_random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices", device_type: str | None = None
) -> Iterator[None]:
    """A ``with`` block after which the default generator goes on as if nothing had been drawn inside.

    >>> import flambeau as torch
    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     _ = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
