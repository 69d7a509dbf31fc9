"""Traces an operator's body with symbolic sizes into a GraphFunction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, SizeScope, symbol
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node
from flambeau.ops.declare import Operator, map_nodes
from flambeau.prims.pointwise import cast

NUMBER_TYPES = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


@dataclass(frozen=True, slots=True, eq=False)
class TensorSlot:
    """Stands for tensor ``index`` in a template of arguments; `tensor_slots` gives the one for an index."""

    index: int


_tensor_slots: list[TensorSlot] = []


def tensor_slots(start: int, stop: int) -> tuple[TensorSlot, ...]:
    """The slots from ``start`` to ``stop``: the same objects every time, so that templates of long lists are hashed and compared fast."""
    while stop > len(_tensor_slots):
        _tensor_slots.append(TensorSlot(len(_tensor_slots)))
    return tuple(_tensor_slots[start:stop])


@dataclass(frozen=True, slots=True)
class NumberSlot:
    """Stands for run-time number ``index`` of Python type ``kind``."""

    index: int
    kind: type


@dataclass(frozen=True, slots=True)
class SizeSlot:
    """Stands for run-time size ``index``."""

    index: int


Template = tuple[Any, ...]


def fill(template: Any, tensors: Sequence[Any], numbers: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Put values in place of the slots of a template."""
    if isinstance(template, TensorSlot):
        return tensors[template.index]
    if isinstance(template, NumberSlot):
        return numbers[template.index]
    if isinstance(template, SizeSlot):
        return sizes[template.index]
    if type(template) is tuple:
        return tuple(fill(t, tensors, numbers, sizes) for t in template)
    return template


@dataclass(frozen=True)
class Traced:
    """A traced operator: the function, the shape of its result (a template of output positions) and what was decided."""

    function: GraphFunction
    structure: Any
    size_symbols: tuple[int | str, ...]


def trace_operator(
    operator: Operator, template: Template, avals: Sequence[tuple[tuple[int, ...], dtypes.dtype, bool]], numbers: Sequence[type],
    sizes: Sequence[int], shared: Sequence[tuple[int | str, ...]] | None = None,
    cast_to: dtypes.dtype | None = None, mutated: Sequence[int] = (), concrete: bool = False,
) -> Traced:  # fmt: skip
    """Trace ``operator`` for tensors of the given (shape, dtype, weak); sizes of 2 and more become symbols.

    ``shared`` names the symbol of each axis instead (equal names are equal sizes). Comparisons of sizes are answered
    with the sizes at hand; two sizes found equal become one symbol, so the body is traced again until nothing new is found equal.
    ``cast_to`` is the type that results are converted to (in-place operators and ``out=``); the first results are converted to
    the types of the tensors ``mutated``, which they will be written into. ``concrete``: no size becomes a symbol.
    """
    names, hints = (
        _symbols(avals, sizes, shared) if not concrete else ({**{i: list(a[0]) for i, a in enumerate(avals)}, "sizes": list(sizes)}, {})
    )
    while True:
        scope = SizeScope(hints)
        with scope:
            inputs, size_values = _inputs(names, avals, numbers, sizes)
            nodes = inputs[: len(avals)]
            arguments = fill(template, nodes, inputs[len(avals) :], size_values)
            result = operator.inline(list(arguments))
            if cast_to is not None:
                result = map_nodes(lambda n: _narrowed(operator.name, n, cast_to), result)
        if not _merge(names, scope):
            break
    outputs: list[Node] = []
    structure = flatten(result, outputs)
    for k, position in enumerate(mutated):
        outputs[k] = outputs[k] if outputs[k].dtype is avals[position][1] else cast(outputs[k], to=avals[position][1])
    predicates = tuple((r, e, t) for (r, e), t in scope.predicates.items())
    function = GraphFunction(operator.name, Graph(tuple(inputs), tuple(outputs)), len(avals), predicates)
    return Traced(function, structure, tuple(names["sizes"]))


def _narrowed(name: str, node: Node, kind: dtypes.dtype) -> Node:
    """A result in the type of the tensor it is written into; RuntimeError as torch's where that would lose its kind of number."""
    if not dtypes.can_cast(node.dtype, kind):
        raise RuntimeError(f"{name}: result type {node.dtype} can't be cast to the desired output type {kind}")
    return node if node.dtype is kind else cast(node, to=kind)


def _symbols(
    avals: Sequence[tuple[tuple[int, ...], Any, bool]], sizes: Sequence[int], shared: Sequence[tuple[int | str, ...]] | None
) -> tuple[dict[Any, list[Any]], dict[str, int]]:
    names: dict[Any, list[Any]] = {}
    hints: dict[str, int] = {}
    count = 0
    for i, (shape, _, _) in enumerate(avals):
        axes: list[int | str] = []
        for k, n in enumerate(shape):
            if n < 2:
                axes.append(n)
                continue
            name = shared[i][k] if shared is not None else f"s{count}"
            count += 1
            hints[str(name)] = n
            axes.append(str(name))
        names[i] = axes
    names["sizes"] = []
    for k, n in enumerate(sizes):
        names["sizes"].append(f"z{k}" if n >= 2 else n)
        hints[f"z{k}"] = n
    return names, hints


def _inputs(
    names: dict[Any, list[Any]], avals: Sequence[tuple[tuple[int, ...], Any, bool]], numbers: Sequence[type], sizes: Sequence[int]
) -> tuple[list[Node], list[Dim]]:
    nodes = [
        graph_input(f"x{i}", Aval(tuple(_dim(n) for n in names[i]), kind, weak)) for i, (_, kind, weak) in enumerate(avals)
    ]
    nodes += [graph_input(f"c{j}", Aval((), NUMBER_TYPES[kind], True)) for j, kind in enumerate(numbers)]
    return nodes, [_dim(n) for n in names["sizes"]]


def _dim(name: int | str) -> Dim:
    return symbol(name) if isinstance(name, str) else name


def _merge(names: dict[Any, list[Any]], scope: SizeScope) -> bool:
    """Give one name to symbols that were compared and found equal, and its number to one that must have it; returns whether there were any.

    Sizes that share a symbol are required to be equal wherever the function is used, see ``GraphFunction.sizes``, and so are numbers.
    """
    kept: dict[str, str] = {}
    numbers: dict[str, int] = {}

    def root(name: str) -> str:
        while name in kept:
            name = kept[name]
        return name

    for (relation, value), truth in scope.predicates.items():
        if relation != "eq" or not truth or len(value.terms) != 2:
            continue
        (m, c), (n, d) = value.terms
        if len(m) == 1 and not n and m[0].kind == "symbol" and c == 1:
            numbers[m[0].name] = -d
        elif len(m) == len(n) == 1 and c + d == 0 and m[0].kind == n[0].kind == "symbol" and abs(c) == 1:
            keep, drop = sorted((root(m[0].name), root(n[0].name)))
            if keep != drop:
                kept[drop] = keep
    if kept or numbers:
        for axes in names.values():
            axes[:] = [numbers.get(a, root(a)) if isinstance(a, str) else a for a in axes]
    return bool(kept or numbers)


def flatten(value: Any, outputs: list[Node]) -> Any:
    """Collect the nodes of a result; returns its structure with positions in place of nodes. None stays (a list not given)."""
    if value is None:
        return None
    if value is None:
        return None
    if isinstance(value, Node):
        outputs.append(value)
        return len(outputs) - 1
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(flatten(v, outputs) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(flatten(v, outputs) for v in value)
    raise TypeError(f"an operator's body must return nodes, got {type(value).__name__}")


def restructure(structure: Any, values: Sequence[Any]) -> Any:
    """Put values in place of the positions of a structure."""
    if structure is None:
        return None
    if isinstance(structure, int):
        return values[structure]
    if type(structure) is list and set(map(type, structure)) == {int}:
        return list(map(values.__getitem__, structure))
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(restructure(s, values) for s in structure))
    return type(structure)(restructure(s, values) for s in structure)


def positions(structure: Any) -> Iterator[int]:
    """All positions in a structure, in order."""
    if isinstance(structure, int):
        yield structure
    elif structure is not None:
        for part in structure:
            yield from positions(part)
