"""A module whose ``forward`` is the code of a graph."""

from __future__ import annotations

import copy
import linecache
from typing import Any

from flambeau.fx.graph import Graph, PythonCode
from flambeau.nn import Module

__all__ = ["GraphModule"]

_count = [0]


class GraphModule(Module):
    """A module with the parts of ``root`` (a module, or a dict of attributes by dotted name) that ``graph`` uses.

    After a change of the graph call `recompile`. ``code`` is the source of ``forward``.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """An instance of a class of its own, which has its own forward."""
        own = next(base for base in cls.__mro__ if not base.__dict__.get("_generated"))
        return super().__new__(type(cls.__name__, (own,), {"_generated": True, "__module__": cls.__module__}))  # type: ignore[arg-type]

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _put(self, node.target, _get(root, node.target) if isinstance(root, Module) else root[node.target])
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; setting it recompiles."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        return self._code

    def recompile(self) -> PythonCode:
        """Make ``forward`` of the graph as it is now."""
        written = self._graph.python_code("self")
        self._code = written.src
        _count[0] += 1
        name = f"<flambeau.fx graph {_count[0]}>"
        linecache.cache[name] = (len(written.src), None, written.src.splitlines(keepends=True), name)
        names = dict(written.globals)
        exec(compile(written.src, name, "exec"), names)
        type(self).forward = names["forward"]
        return written

    def print_readable(self, print_output: bool = True, **kwargs: Any) -> str:
        """The source, printed too."""
        if print_output:
            print(self.code)
        return self.code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted name."""
        _put(self, target, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a dotted name; False if there is none."""
        path, _, name = target.rpartition(".")
        owner = _get(self, path) if path else self
        if name not in owner._modules:
            return False
        del owner._modules[name]
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node uses."""
        used = {node.target for node in self.graph.nodes if node.op in ("call_module", "get_attr")}
        for name, _ in list(self.named_modules()):
            if name and not any(f"{u}.".startswith(f"{name}.") or f"{name}.".startswith(f"{u}.") for u in used):
                self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = GraphModule.__new__(type(self))
        memo[id(self)] = made
        vars(made).update(copy.deepcopy({key: value for key, value in vars(self).items() if key != "_graph"}, memo))
        type(made).__name__ = type(self).__name__
        made.graph = copy.deepcopy(self._graph, memo)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in vars(self).items() if key not in ("_graph", "_code")}
        written = self._graph.python_code("self")
        return _restored, (state, written.src, written.globals, type(self).__name__)

    def __str__(self) -> str:
        return f"{super().__repr__()}\n{self.code}"


def _get(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def _put(root: Module, path: str, value: Any) -> None:
    *owners, name = path.split(".")
    for part in owners:
        if not hasattr(root, part):
            root.add_module(part, Module())
        root = getattr(root, part)
    if isinstance(value, Module) or hasattr(value, "requires_grad") and getattr(value, "is_leaf", False) and value.requires_grad:
        setattr(root, name, value)
    elif hasattr(value, "requires_grad"):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def _restored(state: dict[str, Any], source: str, names: dict[str, Any], class_name: str) -> GraphModule:
    from flambeau.fx._symbolic_trace import Tracer  # noqa: PLC0415 - it makes GraphModules

    holder = Module()
    vars(holder).update(state)
    scope = dict(names)
    exec(source, scope)
    code = type("Restored", (Module,), {"forward": scope["forward"]})()
    vars(code).update(vars(holder))
    tracer = Tracer()
    tracer.is_leaf_module = lambda m, name: True  # type: ignore[method-assign]
    return GraphModule(code, tracer.trace(code), class_name)
