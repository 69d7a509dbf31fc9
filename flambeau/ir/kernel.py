"""Kernel: one loop nest as data. Expressions are nodes over load, scalar, index, inside, check, reduce and pointwise primitives.

Every expression node stands for one element (its aval has shape ``()``) at the current values of the kernel's axes. Index
arithmetic (``Dim`` expressions over axis, symbol and loaded atoms) sits in the attributes of loads and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Atom, Dim, atoms_of, axis, loaded, substitute
from flambeau.ir.node import Node, toposort


class KernelOperation:
    """An operation that exists only inside kernels; ``dtype`` of its result comes from an attribute or a source."""

    __slots__ = ("fixed", "name")

    def __init__(self, name: str, fixed: dtype | None = None) -> None:
        self.name = name
        self.fixed = fixed

    def infer(self, sources: tuple[Node, ...], attributes: Mapping[str, Any]) -> Aval:
        return Aval((), self.fixed or attributes.get("dtype") or sources[0].dtype)

    def __repr__(self) -> str:
        return f"kernel.{self.name}"


LOAD = KernelOperation("load")  # [valid], buffer: int, index: Dim, dtype; where valid is false nothing is read, gives 0
SCALAR = KernelOperation("scalar")  # slot: int, dtype; a number passed at run time
INDEX = KernelOperation("index", dtypes.int64)  # value: Dim
INSIDE = KernelOperation("inside", dtypes.bool_)  # value: Dim, lower: Dim, upper: Dim; lower <= value < upper
CHECK = KernelOperation("check", dtypes.int64)  # index[, valid], size: Dim, operator: str; reports and clamps when outside [0, size)
REDUCE = KernelOperation("reduce")  # value, kind: str, axes: tuple[str, ...]; combined over those axes
ARGREDUCE = KernelOperation("argreduce", dtypes.int64)  # value, kind: max | min, axes, position: Dim; position of the first extremum
RESULT = KernelOperation("result")  # dtype; the finished element of the template (a matrix product) around this epilogue


def load(buffer: int, index: Dim, dtype: dtype, valid: Node | None = None) -> Node:
    return Node(LOAD, () if valid is None else (valid,), buffer=buffer, index=index, dtype=dtype)


def scalar(slot: int, dtype: dtype) -> Node:
    return Node(SCALAR, (), slot=slot, dtype=dtype)


def index_value(value: Dim) -> Node:
    return Node(INDEX, (), value=value)


def inside(value: Dim, lower: Dim, upper: Dim) -> Node:
    return Node(INSIDE, (), value=value, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True)
class KernelAxis:
    """A loop: 0 <= name < size. Only axes with ``parallel`` may be divided among threads."""

    name: str
    size: Dim
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class BufferParameter:
    """One buffer of a kernel. ``access`` is read, write or update (read and written at the same index)."""

    dtype: dtype
    access: str


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value`` where ``valid``; with a ``mode`` (add, mul, max, min) combined with what is there.

    A value that does not depend on the inner axes is stored once for each point of the outer axes.
    """

    buffer: int
    index: Dim
    value: Node
    mode: str = "set"
    valid: Node | None = None


@dataclass(frozen=True)
class Kernel:
    """One loop nest.

    ``outer`` axes enclose everything. ``inner`` axes are looped over as often as the reductions along them ask for
    (softmax: maximum, sum, result), inside each point of the outer axes; a store or value that depends on them lives in
    those loops. ``vector`` names the axis along which lanes run: the last inner axis (row-wise) or the last outer axis
    (pointwise, or column-wise reductions). ``sizes`` are the symbols passed as int64, ``scalars`` the types of the numbers
    passed at run time. Arguments lie in the slots: error record, grain, buffers, sizes, scalars.
    """

    outer: tuple[KernelAxis, ...]
    inner: tuple[KernelAxis, ...]
    vector: str
    buffers: tuple[BufferParameter, ...]
    sizes: tuple[str, ...]
    scalars: tuple[dtype, ...]
    stores: tuple[Store, ...]

    @property
    def roots(self) -> tuple[Node, ...]:
        """All expression nodes that the stores name."""
        out = [s.value for s in self.stores] + [s.valid for s in self.stores if s.valid is not None]
        for store in self.stores:
            out += loaded_nodes(store.index)
        return tuple(out)

    def nodes(self) -> list[Node]:
        """Every expression node, sources first, those inside indices included."""
        return toposort(self.roots, operands)

    def __str__(self) -> str:
        return as_python(self)


INDEX_ATTRIBUTES = ("index", "value", "lower", "upper", "size", "position")


def loaded_nodes(index: Dim) -> list[Node]:
    """The nodes behind the loaded atoms of an index."""
    found = [a for a in atoms_of(index) if a.kind == "loaded"]
    return [a.payload for a in sorted(found, key=lambda a: a.name)]  # type: ignore[misc]


def index_dims(node: Node) -> list[Dim]:
    """The index expressions in a kernel node's attributes."""
    if not isinstance(node.op, KernelOperation):
        return []
    return [node.attributes[k] for k in INDEX_ATTRIBUTES if k in node.attributes]


def operands(node: Node) -> list[Node]:
    """Sources and the nodes inside index attributes."""
    out = list(node.sources)
    for dim in index_dims(node):
        out += loaded_nodes(dim)
    return out


def axes_in(index: Dim) -> set[str]:
    """Names of the axes that an index depends on directly (not through loaded values)."""
    return {a.name for a in atoms_of(index) if a.kind == "axis"}


def free_axes(order: Iterable[Node]) -> dict[Node, frozenset[str]]:
    """For each node of a topological order the axes it depends on; a reduction binds its own."""
    free: dict[Node, frozenset[str]] = {}
    for node in order:
        names: set[str] = set()
        for operand in operands(node):
            names |= free[operand]
        for dim in index_dims(node):
            names |= axes_in(dim)
        if node.op is REDUCE or node.op is ARGREDUCE:
            names -= set(node.attributes["axes"])
        free[node] = frozenset(names)
    return free


def as_python(kernel: Kernel, name: str = "kernel") -> str:
    """The kernel as readable Python: one line a value, loops by their axes."""
    order = kernel.nodes()
    names = {node: f"v{i}" for i, node in enumerate(order)}
    loaded = {a.name: names[a.payload] for n in order for d in index_dims(n) for a in atoms_of(d) if a.kind == "loaded"}  # type: ignore[index]
    for store in kernel.stores:
        loaded |= {a.name: names[a.payload] for a in atoms_of(store.index) if a.kind == "loaded"}  # type: ignore[index]

    def dim(value: Dim) -> str:
        text = str(value)
        for label, variable in loaded.items():
            text = text.replace(label, variable)
        return text

    def literal(value: Any) -> str:
        return repr(value) if type(value) in (str, tuple) else dim(value)

    parameters = [f"b{i}: {b.access} {b.dtype.short}" for i, b in enumerate(kernel.buffers)]
    parameters += list(kernel.sizes) + [f"c{i}: {d.short}" for i, d in enumerate(kernel.scalars)]
    lines = [f"def {name}({', '.join(parameters)}):"]
    for a in kernel.outer:
        lanes = "  # lanes" if a.name == kernel.vector else ""
        lines.append(f"  for {a.name} in {'parallel' if a.parallel else 'range'}({a.size}):{lanes}")
    for a in kernel.inner:
        lines.append(f"    # inner: {a.name} in range({a.size}){', lanes' if a.name == kernel.vector else ''}")
    for node in order:
        arguments = [names[s] for s in node.sources]
        arguments += [f"{k}={literal(v)}" for k, v in node.attributes.items() if k not in ("shape",)]
        lines.append(f"    {names[node]} = {node.op.name}({', '.join(arguments)})  # {node.dtype.short}")
    for store in kernel.stores:
        sign = {"set": "=", "add": "+=", "mul": "*="}.get(store.mode, f"={store.mode}")
        where = f"  if {names[store.valid]}" if store.valid is not None else ""
        lines.append(f"    b{store.buffer}[{dim(store.index)}] {sign} {names[store.value]}{where}")
    return "\n".join(lines) + "\n"


def verify(kernel: Kernel) -> None:
    """Raise ValueError when the kernel breaks a rule of this module; run after each pass in tests."""
    axes = {a.name for a in (*kernel.outer, *kernel.inner)}
    inner = {a.name for a in kernel.inner}
    order = kernel.nodes()
    free = free_axes(order)
    last = (kernel.inner or kernel.outer or (None,))[-1]
    outer_last = kernel.outer[-1].name if kernel.outer else None
    if kernel.vector not in {outer_last, last.name if last else None, ""}:
        raise ValueError(f"vector axis {kernel.vector!r} is neither the last outer nor the last inner axis")
    for node in order:
        if node.aval.shape != ():
            raise ValueError(f"{node!r} is not one element")
        if node.op is LOAD:
            number: int = node.attributes["buffer"]
            if kernel.buffers[number].access == "write":
                raise ValueError(f"{node!r} reads buffer {number}, which is write only")
        if not free[node] <= axes:
            raise ValueError(f"{node!r} uses axes {sorted(free[node] - axes)} that the kernel does not have")
        if node.op in (REDUCE, ARGREDUCE) and not set(node.attributes["axes"]) <= inner:
            raise ValueError(f"{node!r} reduces over an axis that is not inner")
    for store in kernel.stores:
        if kernel.buffers[store.buffer].access == "read":
            raise ValueError(f"store into buffer {store.buffer}, which is read only")
        if kernel.buffers[store.buffer].dtype is not store.value.dtype:
            raise ValueError(f"buffer {store.buffer} of {kernel.buffers[store.buffer].dtype} gets {store.value!r}")


def symbols_in(kernel_parts: Iterable[Dim]) -> list[str]:
    """Names of all size symbols, inside atoms' bounds and opaque atoms too, sorted."""
    names: set[str] = set()
    pending: list[Atom] = [a for d in kernel_parts for a in atoms_of(d)]
    seen: set[Atom] = set()
    while pending:
        a = pending.pop()
        if a in seen:
            continue
        seen.add(a)
        if a.kind == "symbol":
            names.add(a.name)
    return sorted(names)


def substitute_kernel(kernel: Kernel, replacements: Mapping[str, Dim], origins: Sequence[int] = ()) -> Kernel:
    """The kernel with size symbols replaced everywhere and loaded atoms numbered from g0; axes keep their names.

    Buffers are seen from the elements ``origins`` on.
    """
    starts = origins or (0,) * len(kernel.buffers)
    sizes = dict(replacements)
    outer = tuple(KernelAxis(a.name, substitute(a.size, sizes), a.parallel) for a in kernel.outer)
    inner = tuple(KernelAxis(a.name, substitute(a.size, sizes), a.parallel) for a in kernel.inner)
    for a in (*outer, *inner):
        sizes[a.name] = axis(a.name, a.size)
    known: dict[Node, Node] = {}

    def dim(value: Dim) -> Dim:
        for a in atoms_of(value):
            if a.kind == "loaded" and a.name not in sizes:
                node = known[a.payload]  # type: ignore[index]
                count = sum(1 for name in sizes if name.startswith("g"))
                sizes[a.name] = loaded(f"g{count}", node.attributes.get("size", 1), node)
        return substitute(value, sizes)

    for node in kernel.nodes():
        attributes = {key: dim(v) if key in INDEX_ATTRIBUTES else v for key, v in node.attributes.items()} if isinstance(
            node.op, KernelOperation) else dict(node.attributes)  # fmt: skip
        if node.op is LOAD:
            attributes["index"] = attributes["index"] - starts[node.attributes["buffer"]]
        known[node] = Node(node.op, tuple(known[s] for s in node.sources), **attributes)
    stores = tuple(
        Store(s.buffer, dim(s.index) - starts[s.buffer], known[s.value], s.mode, None if s.valid is None else known[s.valid])
        for s in kernel.stores
    )
    return Kernel(outer, inner, kernel.vector, kernel.buffers, kernel.sizes, kernel.scalars, stores)


__all__ = [
    "ARGREDUCE", "CHECK", "INDEX", "INSIDE", "LOAD", "REDUCE", "RESULT", "SCALAR", "BufferParameter", "Kernel", "KernelAxis",
    "KernelOperation", "Store", "as_python", "axes_in", "free_axes", "index_dims", "index_value", "inside", "load",
    "loaded_nodes", "operands", "scalar", "substitute_kernel", "symbols_in", "toposort", "verify",
]  # fmt: skip
