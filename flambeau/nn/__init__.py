"""Neural networks: Modules, their functions, initial values and parameters."""

from flambeau.nn import attention, functional, init, modules, parameter, utils
from flambeau.nn.modules import *  # noqa: F403 - its __all__ is the list of Modules
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention", "functional", "init", "modules", "parameter",
    "utils",
]  # fmt: skip
__all__ += modules.__all__
