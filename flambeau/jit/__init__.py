"""torch.jit: there is no TorchScript. What programs script or trace is run as the Python that it is; functions are compiled.

``script`` of a function gives a compiled one (see ``torch.compile``), which does the same and fuses what it computes; Modules and
classes stay as they are. ``trace`` gives back what it gets: branches are still taken by the values of each call.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flambeau import serialization
from flambeau.compiler import compile as compile_function
from flambeau.nn.modules.module import Module
from flambeau.tensor.grad_mode import no_grad

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "TracerWarning", "annotate",
    "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy",
    "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

T = TypeVar("T")
Final = typing.Final


class Error(RuntimeError):
    """What PyTorch raises for TorchScript that it cannot run."""


class TracerWarning(Warning):
    """What PyTorch warns with of traces that may not hold for other inputs; never raised here."""


class ScriptModule(Module):
    """A Module, written for TorchScript; ``@torch.jit.script_method`` marks its methods."""


RecursiveScriptModule = TopLevelTracedModule = ScriptModule


class ScriptFunction:
    """The type of PyTorch's scripted functions, which no function here is."""


class CompilationUnit:
    """TorchScript from text, which cannot be run."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        raise NotImplementedError("CompilationUnit: there is no TorchScript; write the functions in Python and call torch.compile")


class Attribute(typing.NamedTuple):
    """A value with the type that TorchScript would give it."""

    value: Any
    type: Any


# -- scripting --------------------------------------------------------------------------------------------
def script(obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """A function, compiled; anything else as it is.

    >>> import flambeau as torch
    >>> @torch.jit.script
    ... def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    ...     return x.relu() * factor
    >>> scaled(torch.tensor([-1.0, 2.0]), 3.0)
    tensor([0., 6.])
    """
    if inspect.isfunction(obj):
        return functools.wraps(obj)(compile_function(obj))  # type: ignore[return-value]
    if builtins.isinstance(obj, Module | dict | list | type) or callable(obj):
        return obj
    raise RuntimeError(f"script: needs a function, a Module or a class, got {type(obj).__name__}")


def _as_it_is(fn: T) -> T:
    return fn


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def export(fn: T) -> T:
    """The method itself."""
    return fn


def unused(fn: T) -> T:
    """The method itself; it can be called here."""
    return fn


def interface(obj: T) -> T:
    """The class itself."""
    return obj


def script_if_tracing(fn: T) -> T:
    """The function itself, since nothing is traced."""
    return fn


_script_if_tracing = _overload = _overload_method = _as_it_is


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself: ``@ignore``, ``@ignore()`` and ``@ignore(drop=True)``."""
    return drop if callable(drop) else _as_it_is


def annotate(the_type: Any, the_value: T) -> T:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value is of a type, whose parameters (``List[int]``) are looked at in lists, tuples and dictionaries."""
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, kind) for kind in target_type)
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, target_type) if target_type is not Any else True
    if origin is typing.Union or type(target_type).__name__ == "UnionType":
        return any(obj is None if kind is type(None) else isinstance(obj, kind) for kind in arguments)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(key, arguments[0]) and isinstance(value, arguments[1]) for key, value in obj.items())
    if origin is tuple:
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(value, arguments[0]) for value in obj)


def is_scripting() -> bool:
    """Whether TorchScript is running: never."""
    return False


def is_tracing() -> bool:
    """Whether a trace is being made: never."""
    return False


# -- tracing ----------------------------------------------------------------------------------------------
def trace(
    func: T, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_kwarg_inputs: dict[str, Any] | None = None, _store_inputs: bool = True,
) -> T:  # fmt: skip
    """The function or Module itself, called once with the examples, so that faults show here as they do in PyTorch."""
    if not callable(func):
        raise TypeError(f"trace: needs a function or Module, got {type(func).__name__}")
    args = () if example_inputs is None else example_inputs if builtins.isinstance(example_inputs, tuple) else (example_inputs,)
    with no_grad():
        func(*args, **(example_kwarg_inputs or {}))
    return func


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False, _store_inputs: bool = True,
) -> Module:  # fmt: skip
    """The Module itself, its methods called once with the examples."""
    for name, example in inputs.items():
        method: Any = mod if name == "forward" else getattr(mod, name)
        if example_inputs_is_kwarg:
            trace(method, example_kwarg_inputs=example)
        else:
            trace(method, example)
    return mod


# -- the rest ---------------------------------------------------------------------------------------------
def freeze(mod: Module, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Module:
    """The Module itself; RuntimeError for one in training mode."""
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before "
                           "freezing.")  # fmt: skip
    return mod


def optimize_for_inference(mod: Module, other_methods: list[str] | None = None) -> Module:
    """The Module itself."""
    return freeze(mod)


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a whole Module as ``torch.save`` does; its class must be there when it is loaded."""
    if _extra_files:
        raise NotImplementedError("jit.save: _extra_files are not supported; write them into files of their own")
    serialization.save(m, f)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False) -> Any:
    """Read what `save` wrote. Archives that PyTorch's TorchScript wrote hold programs that cannot be run: RuntimeError."""
    if _extra_files:
        raise NotImplementedError("jit.load: _extra_files are not supported; read them from files of their own")
    return serialization.load(f, map_location=map_location, weights_only=False)


class Future:
    """The result of `fork`."""

    def __init__(self, *, devices: Any = None) -> None:
        self._result: Any = None
        self._callbacks: list[Callable[[Future], Any]] = []
        self._done = False

    def done(self) -> bool:
        """Whether there is a result."""
        return self._done

    def wait(self) -> Any:
        """The result, or the exception that was set; RuntimeError while there is none."""
        if not self._done:
            raise RuntimeError("Future.wait: there is no result yet, and no other thread that would set it")
        if builtins.isinstance(self._result, BaseException):
            raise self._result
        return self._result

    value = wait

    def set_result(self, result: Any) -> None:
        """Give it a result, once."""
        if self._done:
            raise RuntimeError("Future can only be set once.")
        self._result, self._done = result, True
        for callback in self._callbacks:
            callback(self)

    set_exception = set_result

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback(future)`` when there is a result."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future result of ``callback(future)``."""
        following = Future()

        def run(future: Future) -> None:
            try:
                following.set_result(callback(future))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call the function now, as eager PyTorch does; `wait` gives the result."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()


_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep a strategy, without effect; returns the one before it."""
    before, _strategy[:] = list(_strategy), strategy
    return before


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """A ``with`` block without effect."""
    yield


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted, without effect."""


def onednn_fusion_enabled() -> bool:
    """False: there is no oneDNN."""
    return False
