"""The autocast mode: a context manager and decorator, what tells its state, and decorators for Functions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from flambeau.core import dtypes
from flambeau.core.context import context
from flambeau.core.dtypes import dtype
from flambeau.runtime.cuda import driver
from flambeau.tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DEVICES = ("cpu", "cuda")
_LOWER = (dtypes.bfloat16, dtypes.float16)


def _checked(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not is_autocast_available(device_type):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'; use one of {', '.join(_DEVICES)}")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a kind of device."""
    return device_type in _DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a kind of device in this thread."""
    return any(device == _checked(device_type) for device, _ in context.autocast)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast for a kind of device on or off; given a bool alone, for "cuda"."""
    device, on = ("cuda", device_type) if enabled is None else (_checked(device_type), enabled)
    others = tuple(pair for pair in context.autocast if pair[0] != device)
    context.autocast = (*others, (device, get_autocast_dtype(device))) if on else others


def get_autocast_dtype(device_type: str) -> dtype:
    """The type that autocast for a kind of device computes products in."""
    return context.autocast_dtypes.get(_checked(device_type), dtypes.bfloat16 if device_type == "cpu" else dtypes.float16)


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the type that autocast for a kind of device computes products in."""
    context.autocast_dtypes = {**context.autocast_dtypes, _checked(device_type): dtype}
    if is_autocast_enabled(device_type):
        set_autocast_enabled(device_type, True)


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU on or off."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """`get_autocast_dtype` of the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype` of the CPU."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """`get_autocast_dtype` of GPUs."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype` of GPUs."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are cast once for all their uses in a block."""
    return context.autocast_cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether parameters are cast once for all their uses in a block."""
    context.autocast_cached = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget parameters that were cast."""
    if context.autocast_cache is not None:
        context.autocast_cache = {}


class autocast:  # noqa: N801 - torch's own name
    """Inside, operators on tensors of ``device_type`` choose their precision: see PyTorch's autocast operator reference.

    ``dtype``: bfloat16 or float16 (default: `get_autocast_dtype`); ``cache_enabled``: cast each parameter once. Also a decorator.

    >>> import flambeau as torch
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     torch.ones(2, 2) @ torch.ones(2, 2)
    tensor([[2., 2.],
            [2., 2.]], dtype=torch.bfloat16)
    """

    def __init__(self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        self.device = _checked(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cached = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled)
        self._before: list[tuple[Any, ...]] = []
        if self._enabled and self.device == "cuda" and not driver.is_present():
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
            self._enabled = False
        if self._enabled and self.fast_dtype not in _LOWER:
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtype of torch.bfloat16, torch.float16 currently.", stacklevel=2,
            )  # fmt: skip
            self._enabled = False

    def __enter__(self) -> Self:
        self._before.append((context.autocast, context.autocast_dtypes, context.autocast_cached, context.autocast_cache))
        set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_enabled(self.device, self._enabled)
        context.autocast_cached = self._cached
        if not self._cached or context.autocast_cache is None:
            context.autocast_cache = {} if self._cached else None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        context.autocast, context.autocast_dtypes, context.autocast_cached, context.autocast_cache = self._before.pop()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapped


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    if isinstance(value, Tensor):
        floating = value.is_floating_point() and value.dtype is not dtypes.float64 and value.device.type == device_type
        return value.to(dtype) if floating else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Callable[..., Any]:
    """Decorate the ``forward`` of a Function: with ``cast_inputs``, under autocast it runs without it on floating inputs of that type."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward, device = fwd, _checked(device_type)

    @functools.wraps(forward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device)
        args[0]._fwd_used_autocast = is_autocast_enabled(device) and cast_inputs is None
        if cast_inputs is None or not is_autocast_enabled(device):
            return forward(*args, **kwargs)
        with autocast(device, enabled=False):
            return forward(*_cast(args, device, cast_inputs), **_cast(kwargs, device, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the ``backward`` of a Function: it runs in the mode that its `custom_fwd` ran in."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward, device = bwd, _checked(device_type)

    @functools.wraps(backward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return backward(*args, **kwargs)

    return decorated
