"""Runs a module or function on proxies and gives the graph of what it does."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import Proxy, TracerBase
from flambeau.nn import Module, Parameter
from flambeau.tensor.tensor_class import Tensor

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

# The functions that are one step each: by the globals of the module that has them, and their names there.
_wrapped: list[tuple[dict[str, Any], str]] = []
_tracing = [False]


def is_fx_tracing() -> bool:
    """Whether a program is being traced now."""
    return _tracing[0]


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let a function of the calling module be one step of a graph instead of being traced; also a decorator.

    >>> import flambeau as torch
    >>> @torch.fx.wrap
    ... def twice(x):
    ...     return x + x
    >>> [node.name for node in torch.fx.symbolic_trace(lambda x: twice(x)).graph.nodes]
    ['x', 'twice', 'output']
    """
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    _wrapped.append((sys._getframe(1).f_globals, name))
    return fn_or_name


class Tracer(TracerBase):
    """Traces; override `is_leaf_module` to say which modules are single steps (those of ``torch.nn`` are), and other methods for more."""

    def __init__(
        self, autowrap_modules: tuple[Any, ...] = (math,), autowrap_functions: tuple[Any, ...] = (), param_shapes_constant: bool = False
    ) -> None:
        self._functions = {id(f) for m in autowrap_modules for f in vars(m).values() if callable(f)} | {id(f) for f in autowrap_functions}
        self._modules = autowrap_modules
        self.root: Module = Module()

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a submodule is one step."""
        return type(m).__module__.startswith(("flambeau.nn", "torch.nn")) and not hasattr(m, "__getitem__")

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a submodule of the root; NameError if it has none."""
        path = self._paths.get(id(mod))
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of a submodule becomes."""
        path = self.path_of_module(m)
        return forward(*args, **kwargs) if not self.is_leaf_module(m, path) else self.create_proxy("call_module", path, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy for parameters and buffers of the root."""
        name = self._tensors.get(id(attr_val)) if isinstance(attr_val, Tensor) else None
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
        return parameter_proxy_cache[name]

    def create_arg(self, a: Any) -> Any:
        """As `TracerBase.create_arg`; parameters, other tensors and submodules become nodes that read them from the root."""
        return super().create_arg(map_aggregate(a, self._constant))

    def _constant(self, a: Any) -> Any:
        if isinstance(a, (Tensor, Module)):
            name = self._tensors.get(id(a)) if isinstance(a, Tensor) else self._paths.get(id(a))
            if name is None:
                if isinstance(a, Parameter):
                    raise NameError("parameter is not a member of this module")
                name = next(f"_tensor_constant{i}" for i in range(len(self._tensors) + 1) if not hasattr(self.root, f"_tensor_constant{i}"))
                setattr(self.root, name, a)
                self._tensors[id(a)] = name
            return self.create_node("get_attr", name, (), {})
        return a

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Any, list[Any]]:
        """The function and its arguments: proxies, but for those that ``concrete_args`` gives."""
        positional: list[Any] = [self.root] if is_module else []
        named: dict[str, Any] = {}
        parameters = list(inspect.signature(root_fn).parameters.values())[1 if is_module else 0 :]
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        for parameter in parameters:
            if concrete_args is not None and parameter.name in concrete_args:
                value = concrete_args[parameter.name]
            else:
                default = () if parameter.default is parameter.empty else (parameter.default,)
                value = self.create_proxy("placeholder", stars.get(parameter.kind, "") + parameter.name, default, {}, name=parameter.name)
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        return functools.partial(root_fn, **named) if named else root_fn, positional

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function."""
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = type(root).forward if is_module else root
        self.graph = Graph(tracer_cls=type(self))
        self._paths = {id(module): name for name, module in self.root.named_modules()}
        self._tensors = {id(t): name for named in (self.root.named_buffers(), self.root.named_parameters()) for name, t in named}
        for prefix, module in self.root.named_modules():
            plain = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
            self._tensors.update({id(value): f"{prefix}.{name}" if prefix else name for name, value in plain.items()})
        call, args = self.create_args_for_root(function, is_module, concrete_args)
        with self._patched(getattr(function, "__globals__", {})):
            result = call(*args)
            self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    @contextmanager
    def _patched(self, of_root: dict[str, Any]) -> Iterator[None]:
        """For the time of tracing: calls of modules and reads of their parameters go to us, and wrapped functions are steps."""
        call, read, cache = Module.__call__, Module.__getattr__, dict[str, Any]()
        own = [(of_root, name) for name, value in of_root.items() if id(value) in self._functions]
        changed = [(vars(m), n, f) for m in self._modules for n, f in vars(m).items() if callable(f) and not isinstance(f, type)]
        builtin = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
        for names, name in _wrapped + own:
            if name in names or name in builtin:  # what was wrapped may be gone
                changed.append((names, name, names[name] if name in names else builtin[name]))
        missing = [(names, name) for names, name in _wrapped if name not in names]
        before = _tracing[0]
        try:
            _tracing[0] = True
            Module.__call__ = lambda m, *args, **kwargs: self.call_module(m, functools.partial(call, m), args, kwargs)  # type: ignore[method-assign]
            Module.__getattr__ = lambda m, name: self.getattr(name, read(m, name), cache)  # type: ignore[method-assign]
            for names, name, function in changed:
                names[name] = _step(function)
            yield
        finally:
            _tracing[0] = before
            Module.__call__, Module.__getattr__ = call, read
            for names, name, function in reversed(changed):
                names[name] = function
            for names, name in missing:
                names.pop(name, None)


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as one step where an argument is a proxy."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda part: found.append(part) if isinstance(part, Proxy) else None)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs) if found else function(*args, **kwargs)

    return called


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module that does what ``root`` does, from the graph of its steps; TraceError where it branches on a value.

    >>> import flambeau as torch
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    >>> [node.op for node in traced.graph.nodes]
    ['placeholder', 'call_module', 'call_module', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
