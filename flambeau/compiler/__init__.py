"""torch.compiler: compile() and what controls it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.capture.compiled import RECOMPILE_LIMIT, CompiledFunction
from flambeau.core.compile_hook import set_compile_function
from flambeau.core.context import context, outside_capture
from flambeau.nn.compiled_module import OptimizedModule
from flambeau.nn.modules.module import Module

__all__ = ["compile", "disable", "is_compiling", "is_dynamo_compiling", "reset"]

BACKENDS = ("inductor", "flambeau", "eager", "aot_eager")
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(  # noqa: A001 - torch's own name
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,  # noqa: A002
    recompile_limit: int | None = None,
) -> Any:  # fmt: skip
    """A function or Module whose calls are recorded into one graph, compiled, and replayed while their guards hold.

    Whole training steps are recorded too: forward, ``backward()``, clipping, optimizer. What cannot be recorded runs eagerly,
    with one line that says why; ``fullgraph=True`` raises RuntimeError instead. ``compiled.explain()`` shows the result.
    ``mode`` and ``options`` are accepted and have no effect. ``backend="eager"`` only calls the function.

    >>> import flambeau as torch
    >>> f = torch.compile(lambda x: (x * 2).relu())
    >>> f(torch.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name, disable=disable,
            recompile_limit=recompile_limit,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"compile: needs a function or Module, got {type(model).__name__}")
    if callable(backend):
        raise NotImplementedError("compile: own back ends are not supported yet; leave backend out")
    if backend not in BACKENDS:
        raise RuntimeError(f"compile: unknown backend {backend!r}; use one of {', '.join(BACKENDS)}")
    if mode not in MODES:
        raise RuntimeError(f"compile: unknown mode {mode!r}; use one of {', '.join(map(str, MODES))}")
    limit = RECOMPILE_LIMIT if recompile_limit is None else recompile_limit
    eager = disable or backend in ("eager", "aot_eager")
    if isinstance(model, Module):
        return OptimizedModule(model, CompiledFunction(model.__call__, fullgraph, eager, limit))
    return CompiledFunction(model, fullgraph, eager, limit)


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorate a function that a capture must not record: the capture ends where it is called, and its caller runs eagerly."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if context.capture is not None:
            context.capture.flush()
        with outside_capture():
            return fn(*args, **kwargs)

    return eager


def is_compiling() -> bool:
    """Whether a capture is recording now."""
    return context.capture is not None


is_dynamo_compiling = is_compiling


def reset() -> None:
    """Forget nothing: compiled functions own their programs. Here for programs that call it."""


set_compile_function(compile)
