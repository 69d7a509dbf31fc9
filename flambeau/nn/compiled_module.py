"""The Module that compile() gives for a Module: the same one behind a compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """Calls ``module`` through a compiled function; everything else is the Module's own. Its state dict has the prefix ``_orig_mod.``."""

    def __init__(self, module: Module, compiled: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled"] = compiled

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Module, compiled."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def explain(self) -> Any:
        """What was compiled and why; print it."""
        return self.__dict__["_compiled"].explain()

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "training") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)
