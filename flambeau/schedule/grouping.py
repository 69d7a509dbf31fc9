"""Fusion: decides which nodes one kernel computes together, walking from the outputs to the inputs once.

Every node is read by its consumers at coordinates written in the consumers' loop axes. A pointwise node joins the group
of a consumer when it is read there at exactly one place for each of its elements; a reduction joins when the axes that
its readers do not use are the axes it reduces (softmax: one group); a matrix product joins as the core of a pointwise
group, which becomes its epilogue. Nodes read by other groups too are stored by their own; cheap ones are recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flambeau.core.symbolic import (
    Dim,
    Expression,
    atoms_of,
    axis,
    contiguous_strides,
    delinearize,
    divide_out,
    is_constant,
    linear_index,
    product,
    settle,
    substitute,
)
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, toposort
from flambeau.schedule.costs import is_cheap, pointwise_cost
from flambeau.schedule.views import Coordinates, bounded, factor_leaf, reads_of, refine, split_axis

MAX_MEMBERS = 400
TEMPLATE_FAMILIES = ("row", "random", "join", "factor")
# What a node is made of is looked for among so many nodes.
MOST_THINGS = 32
COMPUTED = ("pointwise", "matmul", "reduce")


@dataclass(eq=False)
class Group:
    """Nodes that one kernel computes. ``axes`` are its loops, ``inner`` the names of those it reduces over."""

    number: int
    kind: str  # loop, matmul, scatter, join (of what other groups store), or the name of a template (scan, argsort, random, eigh ...)
    axes: list[tuple[str, Dim]] = field(default_factory=list)
    inner: tuple[str, ...] = ()
    members: dict[Node, Coordinates] = field(default_factory=dict)  # in reverse topological order
    sources_at: dict[Node, Coordinates] = field(default_factory=dict)  # reduction -> coordinates of its operand
    core: Node | None = None
    inner_batches: Dim = 1  # a product's batches are numbered (outer, inner); how many inner ones each outer one has
    column_batches: Dim = 1  # so many inner batches are parts of the product's columns (`operands.MatmulOperands.windows`)
    transposed: bool = False  # the product is computed as (B' A')', whose elements are contiguous along a column
    downstream: int = 0  # bit set of the groups that (transitively) read this one
    readers: set[int] = field(default_factory=set)
    feeders: set[int] = field(default_factory=set)

    def axis_atoms(self) -> dict[str, Expression]:
        return {name: axis(name, size) for name, size in self.axes}  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Use:
    """``group`` reads a node at ``at`` (in the group's axes). ``exact``: through views that cover the whole node."""

    group: Group
    at: Coordinates
    exact: bool
    conditional: bool = False
    opaque: bool = False  # needs the whole node in memory


@dataclass
class Grouping:
    """The result: every computing node is a member of a group or inlined; ``stored`` nodes get a buffer."""

    groups: list[Group]
    group_of: dict[Node, Group]
    inlined: set[Node]
    stored: set[Node]
    uses: dict[Node, list[Use]]  # of members and of graph inputs

    def add_order(self, first: Group, then: Group) -> bool:
        """Make ``then`` run after ``first``; False when it must run before."""
        if first is then or (then.downstream >> first.number) & 1:
            return first is then
        connect(self.groups, first, then)
        return True


def connect(groups: list[Group], first: Group, then: Group) -> None:
    """Record that ``then`` reads what ``first`` computes."""
    if then.number in first.readers:
        return
    first.readers.add(then.number)
    then.feeders.add(first.number)
    stack = [(first, then.downstream | 1 << then.number)]
    while stack:
        group, reach = stack.pop()
        if group.downstream | reach != group.downstream:
            group.downstream |= reach
            stack.extend((groups[f], group.downstream) for f in group.feeders)


def group_nodes(graph: Graph) -> Grouping:
    """Fuse a legalized graph (outputs are computing nodes; template operands are affine views of stored nodes)."""
    return _Fuser(graph).run()


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = set(graph.outputs)
        self.order = toposort(graph.outputs)
        self.uses: dict[Node, list[Use]] = {}
        self.groups: list[Group] = []
        self.group_of: dict[Node, Group] = {}
        self.inlined: set[Node] = set()
        self.axis_count = 0
        self.factorizations: dict[tuple[object, ...], Group] = {}
        self.factors = {factor_leaf(s) for node in self.order if node.op is not INPUT and node.op.family == "matmul" for s in node.sources}
        # What stored nodes are made of, element by element, with one of them.
        self.made: dict[object, Node] = {}

    def run(self) -> Grouping:
        for node in reversed(self.order):
            read = node in self.uses or node in self.outputs
            if read and node.op is not INPUT and node.op.family not in ("view", "source"):
                self._place(node)
        stored = self._stored()
        return Grouping(self.groups, self.group_of, self.inlined, stored, self.uses)

    # -- placing ----------------------------------------------------------------------------------------
    def _place(self, node: Node) -> None:
        family = node.op.family
        uses = self.uses.get(node, [])
        if family in TEMPLATE_FAMILIES:
            self._template(node)
        elif family == "index" and node.op.name == "take":
            self._inline_or_place(node, uses)
        elif family == "index":
            self._scatter(node)
        elif family in ("pointwise", "reduce", "matmul"):
            self._inline_or_place(node, uses)
        else:
            raise NotImplementedError(f"no schedule for primitive {node.op.name} of family {family}")

    def _inline_or_place(self, node: Node, uses: list[Use]) -> None:
        for group in self._candidates(node, uses):
            if self._join(node, group, [u for u in uses if u.group is group]):
                self._connect(node, group, uses)
                return
        if self._may_inline(node, uses):
            self.inlined.add(node)
            # Each place once: in a long chain of numbers, the ways to reach one would double at every step.
            for group, at, conditional in {(u.group.number, u.at, u.conditional): None for u in uses}:
                self._push(node, self.groups[group], at, False, conditional)
            return
        group = self._sibling(node, uses) or self._new_loop(node)
        self._connect(node, group, uses)

    def _sibling(self, node: Node, uses: list[Use]) -> Group | None:
        """The group of a stored node of the same shape that is made of the same things: now with this one too."""
        if node.op.family != "pointwise":
            return None
        # What a product reads is computed with its copies, not these where copies of others are.
        whole = next((u.group for u in uses if u.group.kind == "join"), None)
        things = [s for s in node.sources if s in self.factors] or _made_of(node, whole)
        others = {self.made[t]: None for t in things if t in self.made}
        self.made |= dict.fromkeys(things, node)
        for other in others:
            group = self.group_of[other]
            apart = any(u.group is group or (u.group.downstream >> group.number) & 1 for u in uses)
            fits = group.kind == "loop" and not group.inner and len(group.members) < MAX_MEMBERS
            if fits and not apart and other.shape == node.shape:
                self._admit(node, group, group.members[other])
                return group
        return None

    def _candidates(self, node: Node, uses: list[Use]) -> list[Group]:
        """Groups that read the node, those that run first (most others downstream) first."""
        seen = {u.group.number: u.group for u in uses}
        ordered = sorted(seen.values(), key=lambda g: -g.downstream.bit_count())
        others = set(seen)
        out: list[Group] = []
        for group in ordered:
            if group.kind not in ("loop", "matmul", "scatter") or len(group.members) >= MAX_MEMBERS:
                continue
            if group.kind == "scatter" and (len(others) > 1 or node in self.outputs):
                continue  # its loop stores nothing but the scattered values
            if group.inner and node.op.family == "pointwise" and reads_product(node):
                continue  # it becomes the product's epilogue instead
            if any((self.groups[n].downstream >> group.number) & 1 for n in others if n != group.number):
                continue
            out.append(group)
        return out

    def _may_inline(self, node: Node, uses: list[Use]) -> bool:
        if node in self.outputs or node.op.family in ("reduce", "matmul") or not uses:
            return False
        if any(u.opaque for u in uses):
            return False
        if len(uses) == 1 and (is_constant(product(node.shape) - self._volume(uses[0].group), 0) or _reads_once(node, uses[0])):
            return True
        if not node.shape:
            return pointwise_cost(node) < 100
        whole = [s for s in node.sources if is_constant(product(s.shape) - product(node.shape), 0)]
        return is_cheap(node) and len(whole) <= 1

    def _volume(self, group: Group) -> Dim:
        return product(size for _, size in group.axes)

    def _join(self, node: Node, group: Group, uses: list[Use]) -> bool:
        at = uses[0].at
        if any(u.at != at or not u.exact or u.conditional or u.opaque for u in uses):
            return False
        atoms = group.axis_atoms()
        used = _axis_names(at)
        if not used <= set(atoms) or not _covers(node, used, group):
            return False
        rest = tuple(name for name, _ in group.axes if name not in used)
        family = node.op.family
        if family == "matmul":
            return self._join_core(node, group, at, rest)
        if family == "reduce":
            return self._join_reduction(node, group, at, rest)
        return self._join_pointwise(node, group, at, rest)

    def _join_core(self, node: Node, group: Group, at: Coordinates, rest: tuple[str, ...]) -> bool:
        if group.kind != "loop" or group.core is not None or group.inner or rest or not is_float(node):
            return False
        if core_axes(node, at, dict(group.axes), 1) is None:
            return False
        group.kind = "matmul"
        group.core = node
        self._admit(node, group, at)
        return True

    def _join_pointwise(self, node: Node, group: Group, at: Coordinates, rest: tuple[str, ...]) -> bool:
        if rest and group.kind != "loop":
            return False
        if rest and group.inner != rest:
            trailing = rest == tuple(name for name, _ in group.axes[-len(rest) :])
            if group.inner or not trailing or is_cheap(node):
                return False
            group.inner = rest
        self._admit(node, group, at)
        return True

    def _join_reduction(self, node: Node, group: Group, at: Coordinates, rest: tuple[str, ...]) -> bool:
        if group.kind != "loop" or group.core is not None:
            return False
        axes = reduced_axes(node)
        shape = node.sources[0].shape
        sizes = [shape[a] for a in axes]
        if rest:
            if group.inner not in ((), rest):
                return False
            by_name = dict(group.axes)
            volume = product(by_name[name] for name in rest)
            if not is_constant(volume - product(sizes), 0):
                return False
            atoms = group.axis_atoms()
            linear = linear_index([atoms[n] for n in rest], contiguous_strides([by_name[n] for n in rest]))
            positions = delinearize(linear, sizes)
            group.inner = rest
        elif group.inner:
            return False
        else:
            if any(m.op.family == "take" for m in group.members):
                return False
            positions = tuple(self._new_axis(group, size) for size in sizes)
            group.inner = tuple(str(p) for p in positions if isinstance(p, Expression))
        self._admit(node, group, at, _spread(at, axes, positions, len(shape)))
        return True

    # -- new groups -------------------------------------------------------------------------------------
    def _group(self, kind: str) -> Group:
        group = Group(len(self.groups), kind)
        self.groups.append(group)
        return group

    def _new_axis(self, group: Group, size: Dim) -> Dim:
        if is_constant(size, 1):
            return 0
        name = f"i{self.axis_count}"
        self.axis_count += 1
        group.axes.append((name, size))
        return axis(name, size)

    def _new_loop(self, node: Node) -> Group:
        group = self._group("loop")
        if node.op.family == "reduce":
            axes = reduced_axes(node)
            shape = node.sources[0].shape
            at = self._coordinates(group, [n for i, n in enumerate(shape) if i not in axes], ())
            positions = tuple(self._new_axis(group, shape[a]) for a in axes)
            group.inner = tuple(str(p) for p in positions if isinstance(p, Expression))
            self._admit(node, group, at, _spread(at, axes, positions, len(shape)))
            return group
        if node.op.family == "matmul":
            group.kind = "matmul" if is_float(node) else "loop"
            if group.kind == "loop":
                raise NotImplementedError(f"matmul of {node.dtype}: convert the operands to a floating point type")
            group.core = node
            at = tuple(self._new_axis(group, size) for size in node.shape)
        else:
            at = self._coordinates(group, node.shape, node.sources)
        self._admit(node, group, at)
        return group

    def _coordinates(self, group: Group, shape: Sequence[Dim], operands: Iterable[Node]) -> Coordinates:
        """New axes for ``shape``, as fine as the reshapes right below ask for, so that few divisions are needed."""
        finest = tuple(shape)
        for operand in operands:
            while operand.op is not INPUT and operand.op.name in ("permute", "reshape"):
                if operand.op.name == "permute":
                    break
                finer = refine(finest, operand.sources[0].shape)
                finest = finer if finer is not None else finest
                operand = operand.sources[0]
        if finest == tuple(shape):
            return tuple(self._new_axis(group, size) for size in shape)
        positions = [self._new_axis(group, size) for size in finest]
        return delinearize(linear_index(positions, contiguous_strides(finest)), shape)

    def _template(self, node: Node) -> None:
        known = self.factorizations.get(_factorization(node)) if node.op.family == "factor" else None
        group = known or self._group(node.op.name)
        self.group_of[node] = group
        group.members[node] = ()
        self._connect(node, group, self.uses.get(node, []))
        if known is not None:
            return  # another part of a factorization: its operands are read already
        if node.op.family == "factor":
            self.factorizations[_factorization(node)] = group
        for source in node.sources:
            self._read(source, group, (), False, False, opaque=True)

    def _scatter(self, node: Node) -> None:
        """Update in place the copy made of the first operand; index axes keep their order, the others are free."""
        group = self._group("scatter")
        values = node.sources[1]
        count = len(node.sources[2].shape)
        at_index = tuple(self._new_axis(group, size) for size in values.shape[:count])
        at_rest = tuple(self._new_axis(group, size) for size in values.shape[count:])
        self.group_of[node] = group
        group.members[node] = (*at_index, *at_rest)
        self._connect(node, group, self.uses.get(node, []))
        self._read(node.sources[0], group, (), False, False, opaque=True)
        self._read(values, group, (*at_index, *at_rest), True, False)
        for index in node.sources[2:]:
            self._read(index, group, at_index, True, False)

    # -- bookkeeping ------------------------------------------------------------------------------------
    def _admit(self, node: Node, group: Group, at: Coordinates, source_at: Coordinates | None = None) -> None:
        group.members[node] = at
        self.group_of[node] = group
        if source_at is not None:
            group.sources_at[node] = source_at
        if node.op.family == "matmul":
            for source in node.sources:
                self._read(factor_leaf(source), group, (), False, False, opaque=True)
        else:
            self._push(node, group, at if source_at is None else source_at, True, False)

    def _push(self, node: Node, group: Group, at: Coordinates, exact: bool, conditional: bool) -> None:
        """Tell the operands of a computing node where they are read."""
        if node.op.name == "take":
            rank = len(node.sources[1].shape)
            for index in node.sources[1:]:
                self._read(index, group, at[:rank], exact, conditional)
            self._read(node.sources[0], group, (), False, True)
            return
        for source in node.sources:
            self._read(source, group, at, exact, conditional)

    def _read(self, node: Node, group: Group, at: Coordinates, exact: bool, conditional: bool, opaque: bool = False) -> None:
        """Follow views down to the computing nodes that ``group`` reads through ``node``."""
        stack = [(node, at, exact, conditional)]
        seen: set[Node] = set()
        while stack:
            node, at, exact, conditional = stack.pop()
            if node.op is not INPUT and node.op.family == "source":
                continue
            if node.op is INPUT or node.op.family != "view":
                self.uses.setdefault(node, []).append(Use(group, at, exact, conditional, opaque))
                continue
            if opaque or (conditional and not at):
                stack.extend((s, (), False, True) for s in node.sources if s not in seen)
                seen.update(node.sources)
                continue
            for read in reads_of(node, at):
                whole = exact and read.exact and not read.conditions
                stack.append((node.sources[read.position], bounded(node, read), whole, conditional or bool(read.conditions)))

    def _connect(self, node: Node, group: Group, uses: list[Use]) -> None:
        """Record that every other group that reads the node comes after ``group``."""
        for other in {u.group.number for u in uses}:
            if other != group.number:
                connect(self.groups, group, self.groups[other])

    def _stored(self) -> set[Node]:
        stored: set[Node] = set(self.outputs)
        for node, group in self.group_of.items():
            inner = group.kind in ("loop", "matmul") or (group.kind == "scatter" and node.op.name != "scatter")
            if not inner or any(u.group is not group for u in self.uses.get(node, [])):
                stored.add(node)
        return stored


def _made_of(node: Node, whole: Group | None) -> list[object]:
    """Computed nodes of a node's shape that it reads element by element, through pointwise work alone, the nearest first.

    A part of a join may read parts of them: these are given together with the join, ``whole``.
    """
    out: dict[object, None] = {}
    waiting: list[tuple[Node, bool]] = [(node, False)]
    for current, is_part in waiting:
        for source in current.sources if len(out) < MOST_THINGS else ():
            inside = is_part
            while whole is not None and source.op is not INPUT and source.op.family == "view" and len(source.sources) == 1:
                (source,), inside = source.sources, True
            thing = (source, whole) if inside else source
            if thing not in out and source.op is not INPUT and source.op.family in COMPUTED and (inside or source.shape == node.shape):
                out[thing] = None
                waiting += [(source, inside)] if source.op.family == "pointwise" else []
    return list(out)


def _factorization(node: Node) -> tuple[object, ...]:
    """What all parts of one factorization have in common."""
    return (node.op, node.sources, *((k, v) for k, v in node.attributes.items() if k != "part"))


def _reads_once(node: Node, use: Use) -> bool:
    """Whether a conditional use reads different elements of ``node`` at all points of its group's loops."""
    if not use.conditional or not use.at:
        return False
    index = settle(linear_index(use.at, contiguous_strides(node.shape)))
    start = substitute(index, {name: 0 for name, _ in use.group.axes})
    sizes = dict(use.group.axes)
    digits = split_axis(index - start, sizes, axis("whole", product(sizes.values())))
    return digits is not None and len(digits) == len(sizes)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction drops."""
    attributes = node.attributes
    return attributes["axes"] if "axes" in attributes else (attributes["axis"],)


def reads_product(node: Node) -> bool:
    """Whether a pointwise node works on a matrix product of its own shape, with nothing but reshapes in between, and its other
    operands do not come from that product, which has then to be finished first."""
    for source in node.sources:
        core = source
        while core.op is not INPUT and core.op.name in ("reshape", "permute"):
            core = core.sources[0]
        if core.op is not INPUT and core.op.family == "matmul" and is_constant(product(core.shape) - product(node.shape), 0):
            return not any(comes_from(other, core) for other in node.sources if other is not source)
    return False


def comes_from(node: Node, origin: Node) -> bool:
    """Whether ``node`` is computed from ``origin`` in a few steps without another matrix product."""
    seen: set[Node] = set()
    stack = [node]
    while stack and len(seen) < 64:
        current = stack.pop()
        if current is origin:
            return True
        if current not in seen and current.op is not INPUT and current.op.family != "matmul":
            seen.add(current)
            stack.extend(current.sources)
    return False


def is_float(node: Node) -> bool:
    return node.dtype.is_floating_point


def _axis_names(at: Coordinates) -> set[str]:
    names: set[str] = set()
    for i in at:
        names |= {a.name for a in atoms_of(i) if a.kind in ("axis", "loaded")}
    return names


def product_axes(node: Node, inner_batches: Dim, column_batches: Dim = 1) -> list[tuple[str, Dim]]:
    """A product's own axes: outer and inner batch, row, column. ``column_batches`` inner batches are parts of the columns."""
    own, _ = divide_out(inner_batches, column_batches)
    outer, rest = divide_out(product(node.shape[:-2]), own)
    columns, more = divide_out(node.shape[-1], column_batches)
    assert is_constant(rest, 0) and is_constant(more, 0)
    return [("o", outer), ("i", inner_batches), ("m", node.shape[-2]), ("n", columns)]


def core_axes(
    node: Node, at: Coordinates, sizes: dict[str, Dim], inner_batches: Dim, column_batches: Dim = 1
) -> dict[str, Dim] | None:
    """The group's axes in terms of `product_axes`, when each of the latter is a mix of some of the former."""
    batch = linear_index(at[:-2], contiguous_strides(node.shape[:-2]))
    axes = product_axes(node, inner_batches, column_batches)
    outer, inner, row, column = (0 if is_constant(size, 1) else axis(name, size) for name, size in axes)
    batches = outer * inner_batches + inner
    if not is_constant(column_batches, 1):
        batches, column = outer, inner * axes[-1][1] + column
    replaced: dict[str, Dim] = {}
    for index, whole in zip((batch, *at[-2:]), (batches, row, column), strict=True):
        digits = split_axis(index, sizes, whole)
        if digits is None or not digits.keys().isdisjoint(replaced):
            return None
        replaced |= digits
    return replaced


def _covers(node: Node, used: set[str], group: Group) -> bool:
    """Whether the used axes run over as many points as the node has elements."""
    volume = product(size for name, size in group.axes if name in used)
    return is_constant(volume - product(node.shape), 0)


def _spread(at: Coordinates, axes: tuple[int, ...], positions: Sequence[Dim], rank: int) -> Coordinates:
    kept = iter(at)
    inner = iter(positions)
    return tuple(next(inner) if i in axes else next(kept) for i in range(rank))
