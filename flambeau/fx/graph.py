"""A program as a list of nodes, and the Python code that it stands for."""

from __future__ import annotations

import builtins
import keyword
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flambeau.fx.node import Node, map_arg

__all__ = ["Graph"]

# What code shows as Python's own signs; {0} and {1} are the operands.
_SIGNS = {
    **dict.fromkeys(("add", "iadd"), "+"), **dict.fromkeys(("sub", "isub"), "-"), **dict.fromkeys(("mul", "imul"), "*"),
    "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<",
    "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_FORMS = {
    getattr(operator, name): f"{{0}} {sign} {{1}}" for name, sign in _SIGNS.items()
} | {operator.neg: "-{0}", operator.pos: "+{0}", operator.invert: "~{0}", operator.getitem: "{0}[{1}]"}  # fmt: skip


class Graph:
    """A program: nodes in the order in which they run. Build one by the methods that make nodes, or by `symbolic_trace`.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(torch.relu, (x,)))
    >>> torch.fx.GraphModule(torch.nn.Module(), graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None, tracer_extras: Mapping[str, Any] | None = None) -> None:
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._list: list[Node] = []
        self._root = Node(self, "", "root", "", (), {})
        self._place: int | None = None
        self._names: set[str] = set()

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self._list)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind, in order; ``target`` picks among functions, methods and modules."""
        return [node for node in self._list if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The node that returns."""
        return next(node for node in reversed(self._list) if node.op == "output")

    def _free_name(self, wanted: str) -> str:
        wanted = re.sub(r"\W", "_", wanted)
        wanted = f"_{wanted}" if not wanted or wanted[0].isdigit() else wanted
        taken = lambda name: name in self._names or keyword.iskeyword(name) or hasattr(builtins, name)  # noqa: E731
        name, count = wanted, 0
        stem = re.sub(r"_\d+$", "", wanted) if taken(wanted) else wanted
        while taken(name):
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def create_node(
        self, op: str, target: Any, args: tuple[Any, ...] | None = None, kwargs: Mapping[str, Any] | None = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node at the place where nodes go now (the end, unless inside `inserting_before` or `inserting_after`)."""
        node = Node(self, self._free_name(name or _default_name(op, target)), op, target, args or (), kwargs or {}, type_expr)
        if self._place is None:
            self._list.append(node)
        else:
            self._list.insert(self._place, node)
            self._place += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the program; ``*name`` and ``**name`` as in Python."""
        return self.create_node(
            "placeholder", name, () if default_value is ... else (default_value,), name=name.lstrip("*"), type_expr=type_expr
        )

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module, by its dotted name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a submodule, by its dotted name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None, name: str | None = None
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the program returns: a node, or tuples, lists and dicts of them."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda node: node) -> Node:
        """A copy of a node of another graph; ``arg_transform`` gives the nodes of this graph for those it takes."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copy = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Copy the nodes of ``g``, but for its output, and give what it returns; ``val_map`` is filled, and kept where it has a node."""
        for node in g._list:
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            if node not in val_map:
                val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses; RuntimeError otherwise."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {dict(to_erase.users)}!"
            )
        if to_erase._erased:
            return
        place = self._list.index(to_erase)
        del self._list[place]
        if self._place is not None and place < self._place:
            self._place -= 1
        to_erase._set((), {})
        to_erase._erased = True

    @contextmanager
    def _inserting(self, place: int) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Inside ``with``, nodes go before ``n`` (before the first one if none is given)."""
        return self._inserting(0 if n is None or n.op == "root" else self._list.index(n))

    def inserting_after(self, n: Node | None = None) -> Any:
        """Inside ``with``, nodes go after ``n``."""
        return self._inserting(len(self._list) if n is None or n.op == "root" else self._list.index(n) + 1)

    def _neighbour(self, node: Node, step: int) -> Node:
        place = (self._list.index(node) if node is not self._root else -1 if step > 0 else len(self._list)) + step
        return self._list[place] if 0 <= place < len(self._list) else self._root

    def _move(self, node: Node, to: Node, after: int) -> None:
        if node is not to:
            self._list.remove(node)
            self._list.insert(self._list.index(to) + after, node)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove what nobody uses and has no effect; whether anything went."""
        before = len(self._list)
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node or Node.is_impure)(node):
                self.erase_node(node)
        return len(self._list) < before

    def lint(self) -> None:
        """RuntimeError where a node takes one that comes later or belongs to another graph, or a name is there twice."""
        seen: set[Node] = set()
        for node in self._list:
            for source in node.all_input_nodes:
                if source.graph is not self or source not in seen:
                    raise RuntimeError(f"Argument '{source}' of Node '{node}' was used before it has been defined! Please check the order.")
            seen.add(node)
        if len({node.name for node in self._list}) < len(self._list):
            raise RuntimeError("two nodes of the graph have the same name")

    def python_code(self, root_module: str = "self", *, verbose: bool = False, **kwargs: Any) -> PythonCode:
        """The program as the source of ``forward``, and the objects that its names stand for."""
        return _Writer(self, root_module).code()

    def print_tabular(self) -> None:
        """Print a table of the nodes."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [tuple(str(part) for part in (n.op, n.name, n.target, n.args, n.kwargs)) for n in self._list]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        print("\n".join("  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows))

    def __str__(self) -> str:
        given = ", ".join(f"%{node.name}" for node in self.find_nodes(op="placeholder"))
        return "\n    ".join([f"graph({given}):", *(node.format_node() for node in self._list)])

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        copy, nodes = Graph(tracer_cls=self._tracer_cls), dict[Node, Any]()
        result = copy.graph_copy(self, nodes)
        if any(node.op == "output" for node in self._list):
            copy.output(result).meta = dict(self.output_node().meta)
        memo[id(self)] = copy
        return copy


class _Nodes:
    """The nodes of a graph, which may be changed while one goes through them."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes))

    def __reversed__(self) -> Iterator[Node]:
        return iter(self._nodes[::-1])

    def __len__(self) -> int:
        return len(self._nodes)


class PythonCode:
    """Source text in ``src`` and the objects behind its names in ``globals``."""

    def __init__(self, src: str, objects: dict[str, Any]) -> None:
        self.src, self.globals = src, objects


def _default_name(op: str, target: Any) -> str:
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name.strip("_") if op.startswith("call") else name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower() or "node"


class _Writer:
    """Writes the source of a graph."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph, self.root = graph, root
        self.objects: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "NoneType": type(None)}
        self.taken = {node.name for node in graph.nodes} | {root}

    def name_of(self, value: Any) -> str:
        """A global name for an object that has no form as text."""
        module, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", type(value).__name__)
        wanted = re.sub(r"\W", "_", f"{module}_{name}" if module and module != "builtins" else name)
        if module == "builtins" and getattr(builtins, name, None) is value and name not in self.taken:
            return name
        found, count = wanted, 0
        while found in self.taken or self.objects.get(found, value) is not value or hasattr(builtins, found):
            count += 1
            found = f"{wanted}_{count}"
        self.objects[found] = value
        return found

    def text(self, argument: Any) -> str:
        """An argument as source."""
        if isinstance(argument, Node):
            return argument.name
        if type(argument) is tuple:
            return f"({', '.join(map(self.text, argument))}{',' if len(argument) == 1 else ''})"
        if type(argument) is list:
            return f"[{', '.join(map(self.text, argument))}]"
        if type(argument) is dict:
            return "{" + ", ".join(f"{key!r}: {self.text(part)}" for key, part in argument.items()) + "}"
        if isinstance(argument, slice):
            return f"slice({self.text(argument.start)}, {self.text(argument.stop)}, {self.text(argument.step)})"
        if isinstance(argument, tuple):
            return f"{self.name_of(type(argument))}({', '.join(map(self.text, argument))})"
        plain = argument is None or argument is ... or type(argument) in (bool, int, float, complex, str, bytes)
        return "..." if argument is ... else repr(argument) if plain else self.name_of(argument)

    def attribute(self, path: str) -> str:
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def call(self, node: Node) -> str:
        given = [*map(self.text, node.args), *(f"{key} = {self.text(value)}" for key, value in node.kwargs.items())]
        if node.op == "call_method":
            return f"{given[0]}.{node.target}({', '.join(given[1:])})"
        if node.op == "call_module":
            return f"{self.attribute(node.target)}({', '.join(given)})"
        try:
            form = _FORMS.get(node.target)
        except TypeError:
            form = None
        if form is not None and not node.kwargs:
            return form.format(*given)
        return f"{self.name_of(node.target)}({', '.join(given)})"

    def code(self) -> PythonCode:
        arguments, body = [self.root], []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                stars = "*" * (len(node.target) - len(node.target.lstrip("*")))
                arguments.append(f"{stars}{node.name}" + (f" = {self.text(node.args[0])}" if node.args else ""))
            elif node.op == "output":
                body.append(f"return {self.text(node.args[0])}")
            else:
                value = self.attribute(node.target) if node.op == "get_attr" else self.call(node)
                body.append(f"{node.name} = {value}")
        lines = "".join(f"\n    {line}" for line in body or ["pass"])
        return PythonCode(f"\n\n\ndef forward({', '.join(arguments)}):{lines}\n", self.objects)
