"""PyTorch's own functions, called with flambeau's tensors in a process that has both libraries: they mean those of the same name here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["counterpart"]

# Modules of PyTorch's builtin functions, whose names have the public module in front.
_PREFIXES = {"torch._C._linalg": "linalg", "torch._C._fft": "fft", "torch._C._special": "special"}


def counterpart(func: Callable[..., Any]) -> Callable[..., Any]:
    """This library's function for one of PyTorch's, which asks ``__torch_function__`` of arguments; other functions unchanged.

    Raises NotImplementedError where there is none.
    """
    module = getattr(func, "__module__", None) or ""
    return func if module.partition(".")[0] != "torch" else _find(module, func.__qualname__.partition(".")[0], func.__name__)


@cache
def _find(module: str, owner: str, name: str) -> Callable[..., Any]:
    holder: Any = importlib.import_module("flambeau")
    if owner == "Tensor":
        holder = holder.Tensor
    if module in _PREFIXES:
        holder, name = getattr(holder, _PREFIXES[module]), name.removeprefix(_PREFIXES[module] + "_")
    elif module in ("torch.nn.functional", "torch._C._nn"):
        holder = holder.nn.functional
    found = getattr(holder, name, None)
    if found is None:
        raise NotImplementedError(f"PyTorch's {module}.{name} was called with flambeau's tensors, and there is no function of that name "
                                  "here: convert them (`torch.from_numpy(x.numpy())`) or run the program with `flambeau run`")
    return found
