"""Modules made without drawing initial values."""

from __future__ import annotations

import inspect
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.tensor.functions_random import get_rng_state, set_rng_state

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A Module whose parameters and buffers hold values that nobody may rely on; the random numbers that follow are not moved.

    Raises RuntimeError for a class that does not take ``device``.

    >>> import flambeau as torch
    >>> tuple(torch.nn.utils.skip_init(torch.nn.Linear, 5, 1).weight.shape)
    (1, 5)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(state)
