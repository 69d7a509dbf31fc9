"""torch.compiler: compile() and what controls it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.capture.compiled import CompiledFunction, living
from flambeau.compiler.artifacts import CacheInfo, load_cache_artifacts, save_cache_artifacts
from flambeau.compiler.backends import EAGER, builder, list_backends, lookup_backend
from flambeau.compiler.guard_filters import (
    keep_portable_guards_unsafe,
    keep_tensor_guards_unsafe,
    skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe,
    skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe,
)
from flambeau.compiler.stance import set_stance
from flambeau.core.compile_hook import set_compile_function
from flambeau.core.context import context, outside_capture
from flambeau.nn.compiled_module import OptimizedModule
from flambeau.nn.modules.module import Module
from flambeau.runtime.native.heap_types import python_form
from flambeau.tensor.creation import as_tensor
from flambeau.tensor.tensor_class import Tensor
from flambeau.utils._pytree import tree_map_only

__all__ = [
    "CacheInfo", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts", "set_stance", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(  # noqa: A001 - torch's own name
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,  # noqa: A002
    recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None,
) -> Any:  # fmt: skip
    """A function or Module whose calls are recorded into one graph, compiled, and replayed while their guards hold.

    Whole training steps are recorded too: forward, ``backward()``, clipping, optimizer. What cannot be recorded runs eagerly,
    with one line that says why; ``fullgraph=True`` raises RuntimeError instead. ``compiled.explain()`` shows the result.
    A size that differs at a later call becomes a variable of the program, so that all further sizes are served by it;
    ``dynamic=True`` makes all sizes variables at once, ``dynamic=False`` none.

    ``backend``: "inductor" (also called "flambeau"), "eager" and "aot_eager" (which only call the function), a registered name, or a
    function ``backend(graph, example_inputs)`` that returns a function of the graph's inputs, see `backends.CapturedGraph`: it is
    called for each graph, at its first run, and also gets ``mode`` and ``options`` where these are given. Backward outside the
    compiled function is still ours. Of "inductor" ``mode`` and ``options`` change nothing,
    but for ``options={"shadow": True}``: beside each graph its operators are run one by one, and the first one whose result differs is
    told by a `ShadowWarning`, with the line that calls it; ``FLAMBEAU_SHADOW=1`` does so for all compiled functions.

    >>> import flambeau as torch
    >>> f = torch.compile(lambda x: (x * 2).relu())
    >>> f(torch.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name, disable=disable,
            recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"compile: needs a function or Module, got {type(model).__name__}")
    if isolate_recompiles or shapes_spec is not None:
        raise NotImplementedError("compile: isolate_recompiles and shapes_spec are not supported yet; use dynamic= for sizes that change")
    if mode is not None and options is not None:
        raise RuntimeError("compile: either mode or options can be given, not both at the same time")
    found, build = lookup_backend(backend), None
    if callable(found):
        build = builder(found, {k: v for k, v in (("mode", mode), ("options", options)) if v is not None})
    elif mode not in MODES:
        raise RuntimeError(f"compile: unknown mode {mode!r}; use one of {', '.join(map(str, MODES))}")
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    function = python_form(model.__call__) if isinstance(model, Module) else model
    shadow = (options or {}).get("shadow")
    compiled = CompiledFunction(function, fullgraph, disable or found in EAGER, recompile_limit, dynamic, build, shadow)
    return OptimizedModule(model, compiled) if isinstance(model, Module) else compiled


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorate a function or Module that must not be captured: compiled functions call it as it is, and go on after it.

    Compiled functions that it calls run as such; ``recursive`` makes no difference, as nothing else that it calls would be captured.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Module):
        return OptimizedModule(fn, disable(fn.__call__, recursive, reason=reason))

    @functools.wraps(_functions("disable", fn))
    def eager(*args: Any, **kwargs: Any) -> Any:
        if context.capture is not None:
            context.capture.flush()
        with outside_capture():
            return fn(*args, **kwargs)

    eager._torchdynamo_disable = True  # type: ignore[attr-defined]
    return eager


def is_compiling() -> bool:
    """Whether a capture is recording now."""
    return context.capture is not None


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a function is being exported; nothing is so far."""
    return False


def _functions(decorator: str, fn: Any) -> Any:
    if not callable(fn):
        raise TypeError(f"{decorator}: needs a function, got {type(fn).__name__}")
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Mark a function, or a list of them, as one that may be captured; every function may be, so nothing changes."""
    return [allow_in_graph(f) for f in fn] if isinstance(fn, (list, tuple)) else _functions("allow_in_graph", fn)


def assume_constant_result(fn: Any) -> Any:
    """Mark a function whose result is always the same. It is called all the same, which is right for every function."""
    return _functions("assume_constant_result", fn)


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """Mark a function that is called often, to be compiled once; what is alike is compiled once anyway."""
    return nested_compile_region if fn is None else _functions("nested_compile_region", fn)


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a Python function that does what ``original_fn`` does, for captures that cannot follow that; it is not needed."""
    _functions("substitute_in_graph", original_fn)
    return functools.partial(_functions, "substitute_in_graph")


def cudagraph_mark_step_begin() -> None:
    """Tell that a new step begins. Results are never overwritten by later calls, so nothing has to be done."""


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of numpy arrays one of tensors; its results have no gradients.

    >>> import flambeau as torch
    >>> import numpy
    >>> torch.compiler.wrap_numpy(numpy.cumsum)(torch.tensor([1.0, 2.0]))
    tensor([1., 3.])
    """

    @functools.wraps(_functions("wrap_numpy", fn))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map_only(Tensor, lambda t: t.numpy(), (args, kwargs))
        return tree_map_only(np.ndarray, as_tensor, fn(*args, **kwargs))

    return wrapped


def reset() -> None:
    """Forget what every compiled function has captured: the next call of each captures anew."""
    for compiled in list(living):
        compiled.reset()


set_compile_function(compile)
