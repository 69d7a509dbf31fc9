"""Values that stand for the results of steps while a program is traced: what is done with them becomes nodes."""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Iterator
from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_aggregate
from flambeau.tensor.functions_linear import einsum
from flambeau.tensor.tensor_class import Tensor

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The program asks a value that is not known while it is traced."""


class TracerBase:
    """Makes nodes of ``graph`` and proxies of them."""

    graph: Graph
    record_stack_traces = False

    def create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: Any = None, type_expr: Any = None
    ) -> Node:
        """A node of the graph; override it to see each."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The value that stands for a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: Any = None, type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:  # fmt: skip
        """A node with arguments that may hold proxies, and its proxy."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as a node can hold it: proxies become their nodes. NotImplementedError for other objects."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if a is None or a is ... or callable(a) or isinstance(a, (str, bytes, int, float, complex, bool, dtype, Tensor, Node)):
            return a
        if type(a).__module__.startswith("flambeau."):  # Devices, layouts, memory formats.
            return a
        raise NotImplementedError(f"argument of type: {type(a)}: a node of a graph cannot hold it; override create_arg")

    def to_bool(self, obj: Proxy) -> bool:
        """What ``if`` asks; TraceError, unless overridden."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What unpacking asks: known for ``a, b = value``; TraceError otherwise."""
        frame = inspect.currentframe()
        caller = frame.f_back.f_back  # type: ignore[union-attr]
        step = next(i for i in dis.get_instructions(caller.f_code) if i.offset >= caller.f_lasti)  # type: ignore[union-attr]
        if step.opname == "UNPACK_SEQUENCE":
            return (obj[i] for i in range(step.arg or 0))  # type: ignore[index]
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
            "function argument. Index it, or trace the function that loops as one step (torch.fx.wrap)."
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``**value`` asks."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the result of ``node``; operators, methods and functions of tensors on it make nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.node = node
        self.tracer = tracer if tracer is not None else GraphAppendingTracer(node.graph)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        return Attribute(self, name)

    def __deepcopy__(self, memo: Any) -> Proxy:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})

    def keys(self) -> Any:
        """The keys of a mapping that the proxy stands for."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """A call of one of the library's functions becomes a node."""
        found: list[Proxy] = []
        map_aggregate((args, kwargs or {}), lambda part: found.append(part) if isinstance(part, Proxy) else None)
        tracer = found[0].tracer
        if function is einsum and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])  # As torch: passes that read einsums find operands.
        owner = getattr(function, "__objclass__", None)
        if owner is not None and issubclass(owner, Tensor) or getattr(Tensor, getattr(function, "__name__", ""), None) is function:
            return tracer.create_proxy("call_method", function.__name__, args, kwargs or {})
        return tracer.create_proxy("call_function", function, args, kwargs or {})


class Attribute(Proxy):
    """An attribute of a proxy: a node of its own only if it is not just called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node  # type: ignore[return-value]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operator(name: str, reflected: bool) -> Any:
    function = getattr(operator, name)
    if reflected:
        return lambda self, other: self.tracer.create_proxy("call_function", function, (other, self), {})
    return lambda self, *rest: self.tracer.create_proxy("call_function", function, (self, *rest), {})


for _name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split():
    setattr(Proxy, f"__{_name.rstrip('_')}__", _operator(_name, reflected=False))
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _operator(_name, reflected=True))
for _name in "lt le gt ge eq ne neg pos invert abs getitem iadd isub imul itruediv".split():
    setattr(Proxy, f"__{_name}__", _operator("abs" if _name == "abs" else _name, reflected=False))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
