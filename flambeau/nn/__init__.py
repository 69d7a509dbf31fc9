"""Neural networks: Modules, their functions, initial values and parameters."""

from typing import Any

from flambeau.nn import attention, functional, grad, init, modules, parallel, parameter, utils
from flambeau.nn.modules import *  # noqa: F403 - its __all__ is the list of Modules
from flambeau.nn.parallel import DataParallel
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention", "functional", "grad", "init",
    "modules", "parallel", "parameter", "utils",
]  # fmt: skip
__all__ += modules.__all__


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """``device``, ``dtype`` and ``memory_format`` of a constructor's arguments, those in its ``factory_kwargs`` included.

    TypeError for other names, and for one that is given twice.
    """
    given = dict(kwargs or {})
    found = dict(given.pop("factory_kwargs", {}))
    unknown = given.keys() - {"device", "dtype", "memory_format"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name, value in given.items():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = value
    return found
