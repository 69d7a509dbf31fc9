"""torch._C: the few of its names that Python code outside torch uses."""

from __future__ import annotations

from flambeau.core.context import context
from flambeau.core.linear_algebra_errors import LinAlgError
from flambeau.tensor.overriding import plain_function, without_overriding
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.type_info import get_default_device

TensorBase = Tensor
_TensorBase = Tensor
_TensorMeta = type(Tensor)
_LinAlgError = LinAlgError
_disabled_torch_function_impl = plain_function


class DisableTorchFunctionSubclass(without_overriding):
    """A context in which ``__torch_function__`` of arguments is not asked, that of modes is.

    >>> import flambeau as torch
    >>> class Samples(torch.Tensor):
    ...     pass
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     type(torch.ones(2).as_subclass(Samples) + 1).__name__
    'Tensor'
    """

    def __init__(self) -> None:
        super().__init__()


class DisableTorchFunction(without_overriding):
    """A context in which no ``__torch_function__`` is asked."""

    def __init__(self) -> None:
        super().__init__(modes=True)


def _is_torch_function_enabled() -> bool:
    """Whether ``__torch_function__`` of arguments is asked."""
    return context.overriding


def _is_torch_function_mode_enabled() -> bool:
    """Whether a function mode is active."""
    return bool(context.function_modes)


def _len_torch_function_stack() -> int:
    """How many function modes are active."""
    return len(context.function_modes)


def _get_tracing_state() -> None:
    """None: there are no traces by TorchScript."""
    return None


def _are_functorch_transforms_active() -> bool:
    """Whether the calling code runs inside `vmap`."""
    return bool(context.batching)


def _get_default_device() -> str:
    """The device of new tensors, by name."""
    return str(get_default_device())


def _log_api_usage_once(event: str) -> None:
    """Nothing: no use is counted."""
