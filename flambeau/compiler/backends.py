"""Own back ends of ``compile``: functions that are given the captured graph and return what runs in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau import ops
from flambeau.core.context import outside_capture
from flambeau.interp.functions import GraphFunction
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import INPUT, Graph, as_python
from flambeau.ir.node import Node
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import from_numpy
from flambeau.tensor.dispatch import CallPlan, call_into, execute, new_tensor
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.plans import make_plan

__all__ = ["BackendCompilerFailed", "CapturedGraph", "GraphNode", "list_backends", "lookup_backend", "register_backend"]

Backend = Callable[..., Callable[..., Any]]
OURS = {"inductor": (), "flambeau": (), "eager": ("debug",), "aot_eager": ("debug",)}
EAGER = ("eager", "aot_eager")
_registered: dict[str, tuple[Backend, tuple[str, ...]]] = {}


class BackendCompilerFailed(RuntimeError):
    """A back end raised while it compiled; the cause is what it raised."""


@dataclass(eq=False)
class GraphNode:
    """One value of a `CapturedGraph`. ``op``: placeholder, call_function or output; ``target`` is the primitive, ``args`` are the
    nodes that it is applied to and ``kwargs`` its attributes; ``meta["val"]`` tells shape and dtype; ``users`` use it."""

    op: str
    name: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    users: dict[GraphNode, None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name


class GraphNodes:
    """The nodes of a graph in order: ``graph.nodes``."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = list(_nodes(graph))
        self._text = as_python(graph, "forward")

    def __str__(self) -> str:
        return self._text

    def print_tabular(self) -> None:
        """Print a line for each node."""
        for n in self.nodes:
            print(f"{n.op:14} {n.name:10} {n.target!s:24} {n.args} {n.kwargs or ''}")


def _nodes(graph: Graph) -> Iterator[GraphNode]:
    made: dict[Node, GraphNode] = {}
    for node in graph.nodes():
        if node.op is INPUT:
            one = GraphNode("placeholder", node.attributes["label"], node.attributes["label"])
        else:
            name = f"t{len(made) - len(graph.inputs)}"
            one = GraphNode("call_function", name, node.op, tuple([made[s] for s in node.sources]), dict(node.attributes))
        made[node] = one
        one.meta["val"] = node.aval
        for source in one.args:
            source.users[one] = None
        yield one
    yield GraphNode("output", "output", "output", (tuple(made[o] for o in graph.outputs),))


class CapturedGraph:
    """What a back end is given: a graph of primitives, in which nothing is changed in place.

    Calling it runs it as ``compile`` would by itself, on tensors of any strides; `reference` runs it node by node in numpy.
    ``graph.nodes`` are its nodes; ``code`` and ``print_readable()`` show it as Python. Back ends read it and cannot change it.
    """

    def __init__(self, function: GraphFunction, sizes: dict[str, int]) -> None:
        graph = function.at_sizes(sizes) if function.symbols else function.graph
        self._function = GraphFunction(function.name, graph, function.tensors)
        self._plans: dict[Any, CallPlan] = {}
        self.graph = GraphNodes(graph)
        self.code = str(self.graph)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        tensors, numbers = list(inputs[: self._function.tensors]), list(inputs[self._function.tensors :])
        metas = tuple([t.meta for t in tensors])
        if metas not in self._plans:
            results: list[Any] = [(None, None)] * len(self._function.graph.outputs)
            self._plans[metas] = make_plan(self._function, None, metas, {}, [None] * len(metas), results, ())
        return tuple(execute(self._plans[metas], tensors, numbers))

    forward = __call__

    def reference(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it node by node in numpy: slow, and made for comparing."""
        arrays = [t.detach().numpy() if isinstance(t, TensorBase) else t for t in inputs]  # type: ignore[attr-defined]
        return tuple([from_numpy(a.copy()) for a in run_reference(self._function.graph, arrays)])

    def print_readable(self) -> str:
        """Print the graph as Python, and return that."""
        print(self.code)
        return self.code


def register_backend(compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a back end a name for ``compile(backend=name)``; also a decorator.

    >>> import flambeau as torch
    >>> @torch._dynamo.register_backend(name="shown")
    ... def shown(graph, inputs):
    ...     print(len(inputs))
    ...     return graph
    >>> torch.compile(lambda x: x * 2, backend="shown")(torch.ones(1))
    1
    tensor([2.])
    """
    if compiler_fn is None:
        return lambda f: register_backend(f, name, tags)
    _registered[name or compiler_fn.__name__] = compiler_fn, tuple(tags)
    return compiler_fn


def lookup_backend(name: Any) -> Backend | str:
    """The back end of a name, or the name where it is one of ours; RuntimeError for unknown ones."""
    if not isinstance(name, str):
        return name
    if name in _registered:
        return _registered[name][0]
    if name not in OURS:
        raise RuntimeError(f"compile: unknown backend {name!r}; use one of {', '.join(sorted({*OURS, *_registered}))}, or register it")
    return name


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that ``compile(backend=...)`` takes; those that only call the function have the tag "debug".

    >>> import flambeau as torch
    >>> "inductor" in torch.compiler.list_backends()
    True
    """
    tags = {**OURS, **{name: found[1] for name, found in _registered.items()}}
    return sorted(name for name, own in tags.items() if not set(own) & set(exclude_tags or ()))


def builder(backend: Backend, kwargs: dict[str, Any]) -> Callable[[CallPlan], Callable[..., None]]:
    """What makes of the plan of a segment the function that runs it, through a back end."""
    name = getattr(backend, "__name__", type(backend).__name__)

    def build(plan: CallPlan) -> Callable[..., None]:
        made: list[Callable[..., Any]] = []
        graph = CapturedGraph(plan.run.function, plan.sizes)

        def run(operands: Sequence[Any], numbers: Sequence[Any], results: Sequence[Any]) -> None:
            inputs = [*[new_tensor(t.memory, t.address, t.meta) for t in operands], *numbers]
            with no_grad(), outside_capture():
                if not made:
                    made.append(_compiled(backend, name, graph, inputs, kwargs))
                found = made[0](*inputs)
                _take(name, found if isinstance(found, (tuple, list)) else (found,), results)

        return run

    return build


def _compiled(backend: Backend, name: str, graph: CapturedGraph, inputs: list[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    try:
        found = backend(graph, inputs, **kwargs)
    except Exception as error:
        raise BackendCompilerFailed(f"compile: backend={name!r} raised:\n{type(error).__name__}: {error}") from error
    if not callable(found):
        raise BackendCompilerFailed(f"compile: backend={name!r} must return a function of the graph's inputs, got {type(found).__name__}")
    return found


def _take(name: str, found: Sequence[Any], results: Sequence[Any]) -> None:
    """Copy what a back end's function returned to where the results are expected."""
    if len(found) != len(results):
        raise RuntimeError(f"compile: what backend={name!r} returned gave {len(found)} results; the graph has {len(results)} outputs")
    for value, place in zip([v.clone() for v in found], results, strict=True):  # a result may be an input that is written to
        if value.meta.shape != place.meta.shape or value.meta.dtype is not place.meta.dtype:
            raise RuntimeError(
                f"compile: what backend={name!r} returned gave {value.meta!r} where the graph gives {place.meta!r}; convert it there"
            )
        version = place.memory.version
        target = new_tensor(place.memory, place.address, place.meta)
        call_into(ops.assign, target, (target, value), {})
        place.memory.version = version

