"""One step of a graph: what is called, with which arguments, and which steps use the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph

__all__ = ["Node", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")


def map_aggregate(argument: Any, change: Callable[[Any], Any]) -> Any:
    """``argument`` with ``change`` applied to what its tuples, lists, dicts and slices hold.

    >>> from flambeau.fx.node import map_aggregate
    >>> map_aggregate((1, [2]), lambda number: number + 1)
    (2, [3])
    """
    if isinstance(argument, tuple):
        parts = [map_aggregate(part, change) for part in argument]
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    if isinstance(argument, list):
        return [map_aggregate(part, change) for part in argument]
    if isinstance(argument, dict):
        return {key: map_aggregate(part, change) for key, part in argument.items()}
    if isinstance(argument, slice):
        return slice(*(map_aggregate(part, change) for part in (argument.start, argument.stop, argument.step)))
    return change(argument)


def map_arg(argument: Any, change: Callable[[Node], Any]) -> Any:
    """``argument`` with ``change`` applied to each Node in it."""
    return map_aggregate(argument, lambda part: change(part) if isinstance(part, Node) else part)


class Node:
    """A step: ``op`` is one of placeholder, call_function, call_method, call_module, get_attr and output; ``target`` is the function
    or the name; ``users`` are the nodes that take its result; ``meta`` is free for passes. Made by `Graph`'s methods."""

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], return_type: Any = None
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"a node's op is one of {', '.join(OPS)}, got {op!r}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._erased = False
        self._set(tuple(args), dict(kwargs))

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = {}
        map_arg((args, kwargs), lambda node: self._inputs.setdefault(node))
        for node in self._inputs:
            node.users.setdefault(self)
        self._args, self._kwargs = args, kwargs

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, nodes among them."""
        return self._args

    @args.setter
    def args(self, args: Iterable[Any]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    @property
    def next(self) -> Node:
        """The node after this one; the graph's root after the last."""
        return self.graph._neighbour(self, 1)

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self.graph._neighbour(self, -1)

    def prepend(self, node: Node) -> None:
        """Move ``node`` to the place before this one."""
        self.graph._move(node, self, 0)

    def append(self, node: Node) -> None:
        """Move ``node`` to the place after this one."""
        self.graph._move(node, self, 1)

    def update_arg(self, index: int, argument: Any) -> None:
        """Replace one positional argument."""
        self.args = (*self.args[:index], argument, *self.args[index + 1 :])

    def update_kwarg(self, name: str, argument: Any) -> None:
        """Replace one named argument."""
        self.kwargs = {**self.kwargs, name: argument}

    def replace_input_with(self, old: Node, new: Node) -> None:
        """Take ``new`` wherever ``old`` is an argument."""
        self._set(*map_arg((self._args, self._kwargs), lambda node: new if node is old else node))

    def replace_all_uses_with(self, new: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True) -> list[Node]:
        """Let the users of this node take ``new``; gives the users that were changed."""
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, new)
        return changed

    def is_impure(self) -> bool:
        """Whether the step must stay though nobody uses its result."""
        if self.op == "call_module":
            return True
        name = getattr(self.target, "__name__", str(self.target))
        changes = self.op in ("call_function", "call_method") and name.endswith("_") and not name.endswith("__")
        return self.op in ("placeholder", "output") or changes or name in ("setitem", "_assert")

    def format_node(self) -> str:
        """One line: ``%add = call_function[target=add](args = (%x, 1), kwargs = {})``."""
        if self.op == "placeholder":
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
        if self.op == "output":
            return f"return {_shown(self.args[0])}"
        target = self.target if isinstance(self.target, str) else _function_name(self.target)
        given = "" if self.op == "get_attr" else f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]{given}"

    def __repr__(self) -> str:
        return self.name


class _Shown:
    def __init__(self, node: Node) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"%{self.node.name}"


def _shown(argument: Any) -> str:
    return repr(map_arg(argument, _Shown))


def _function_name(function: Any) -> str:
    module = getattr(function, "__module__", "") or ""
    name = getattr(function, "__name__", repr(function))
    return f"{module}.{name}" if module else name
