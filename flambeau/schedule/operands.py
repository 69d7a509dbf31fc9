"""What templates read from memory: operands as strided views of buffers, and the sizes and strides of matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flambeau import prims as p
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, axis, contiguous_strides, evaluate, floor_divide, is_constant, linear_index, product, substitute
from flambeau.ir.graph import INPUT
from flambeau.ir.kernel import LOAD, RESULT, Kernel, loaded_nodes
from flambeau.ir.node import Node
from flambeau.schedule.build import BuiltKernel
from flambeau.schedule.specs import Strides
from flambeau.schedule.views import coefficient_of, reads_of, widened
from flambeau.schedule.windows import WindowOperand, over_copied_images, window_operand


@dataclass(frozen=True, slots=True)
class StridedOperand:
    """``leaf`` (an input or computed node) read at ``offset + sum of coordinate * stride``."""

    leaf: Node
    offset: Dim
    strides: Strides


def strided_operand(node: Node, layouts: Mapping[Node, Strides], widens: bool = False) -> StridedOperand | None:
    """The node as a strided view of a buffer; None when it needs more than strides (padding, joins, splits).

    ``layouts`` gives the strides of what lies in memory otherwise than row-major. ``widens``: the reader converts to float32.
    """
    names = [f"k{i}" for i in range(len(node.shape))]
    coordinates = tuple(
        0 if is_constant(n, 1) else axis(name, n) for name, n in zip(names, node.shape, strict=True)
    )
    at = coordinates
    leaf = node
    while leaf.op is not INPUT:
        source = widened(leaf) if widens else None
        if source is not None:
            leaf = source
            continue
        if leaf in layouts or leaf.op.family != "view":
            break
        reads = reads_of(leaf, at)
        if len(reads) != 1 or reads[0].conditions:
            return None
        leaf, at = leaf.sources[reads[0].position], reads[0].coordinates
    if leaf.op is not INPUT and leaf.op.family == "source":
        return None
    rest = linear_index(at, layouts.get(leaf) or contiguous_strides(leaf.shape))
    strides: list[Dim] = []
    for coordinate in coordinates:
        if is_constant(coordinate, 0):
            strides.append(0)
            continue
        factor = coefficient_of(rest, coordinate)
        if factor is None:
            return None
        strides.append(factor)
        rest = rest - factor * coordinate
    return StridedOperand(leaf, rest, tuple(strides))


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch axes as two levels: ``outer`` times ``inner`` batches, and the (outer, inner) strides of each operand."""

    outer: Dim
    inner: Dim
    strides: tuple[tuple[Dim, Dim], ...]


def batch_levels(sizes: Sequence[Dim], operands: Sequence[Strides]) -> Batches | None:
    """Batch axes of these sizes, whose strides each operand gives, as two levels; None when they do not merge into so few."""
    axes = [(size, strides) for size, *strides in reversed(list(zip(sizes, *operands, strict=True))) if not is_constant(size, 1)]
    levels: list[tuple[Dim, list[Dim]]] = []
    for size, strides in axes:
        if levels and all(is_constant(s - t * levels[-1][0], 0) for s, t in zip(strides, levels[-1][1], strict=True)):
            levels[-1] = levels[-1][0] * size, levels[-1][1]
        else:
            levels.append((size, strides))
    if len(levels) > 2:
        return None
    if len(levels) == 1:
        # Results are often stored with the last axis elsewhere.
        size, strides = axes[0]
        levels = [axes[0], (product(n for n, _ in axes[1:]), [size * s for s in strides])]
    (inner, near), (outer, far) = levels or [(1, [0] * len(operands))] * 2
    return Batches(outer, inner, tuple(zip(far, near, strict=True)))


@dataclass(frozen=True)
class MatmulOperands:
    """Sizes and strides (outer batch, inner batch, row, column) of one batched product, offsets and strides in elements.

    ``buffers`` are numbers of program buffers. The stride of an axis of one element is 1. Where the second factor is of
    ``windows``, its own strides but the outer one are those digits', and the inner batches are parts of its columns.
    """

    outer: Dim
    inner: Dim
    rows: Dim
    columns: Dim
    depth: Dim
    buffers: tuple[int, int]
    dtypes: tuple[dtype, dtype]
    offsets: tuple[Dim, Dim]
    strides: tuple[tuple[Dim, Dim, Dim, Dim], tuple[Dim, Dim, Dim, Dim]]
    windows: WindowOperand | None = None

    def with_batched_columns(self, batches: Dim) -> MatmulOperands:
        """The columns of windows as those of so many inner batches."""
        return replace(self, inner=batches, columns=floor_divide(self.columns, batches))

    def window_numbers(self, sizes: Mapping[str, int]) -> list[int]:
        """Sizes (but the outermost) and strides of the digits of windows, rows first; nothing without windows. A size of 0 divides
        nothing, for there is no position to take apart, and counts as 1."""
        if self.windows is None:
            return []
        out: list[int] = []
        for digits in (self.windows.rows.filled(), self.windows.columns.filled()):
            out += [max(1, evaluate(size, sizes)) for size in digits.sizes[1:]]
            out += [evaluate(stride, sizes) for stride in digits.strides]
        return out

    @property
    def batch(self) -> Dim:
        return self.outer * self.inner

    def transposed(self) -> MatmulOperands:
        """The product of the transposes, which gives the transpose of the result."""
        (a, b), swapped = self.strides, lambda pair: (pair[1], pair[0])  # noqa: E731
        return replace(
            self, rows=self.columns, columns=self.rows, buffers=swapped(self.buffers), dtypes=swapped(self.dtypes),
            offsets=swapped(self.offsets), strides=((*b[:2], b[3], b[2]), (*a[:2], a[3], a[2])),
        )  # fmt: skip


def readable_factors(factors: tuple[Node, ...], layouts: Mapping[Node, Strides]) -> tuple[Node, ...]:
    """A product's factors, copied as far as the template cannot read them."""
    ready = tuple(f if _is_readable(f, layouts) else _copied(f, layouts) for f in factors)
    windows = None if ready[1] is factors[1] else over_copied_images(factors[1], layouts)
    if windows is not None and _batches((ready[0], windows), layouts) is not None:
        return ready[0], windows
    for copied in ((), (1,), (0,)):
        chosen = tuple(p.copy(f) if i in copied else f for i, f in enumerate(ready))
        if _batches(chosen, layouts) is not None:
            return chosen
    return tuple(p.copy(f) for f in factors)


def _is_readable(node: Node, layouts: Mapping[Node, Strides]) -> bool:
    """Whether the template can read a factor: by strides, contiguous along rows or columns."""
    operand = strided_operand(node, layouts, widens=True)
    return operand is not None and any(is_constant(s, 1) for s in _matrix_strides(operand, node.shape))


def _matrix_strides(operand: StridedOperand, shape: Sequence[Dim]) -> tuple[Dim, Dim]:
    """Row and column stride of a factor; that of an axis of one element is 1."""
    row, column = (1 if is_constant(n, 1) else s for n, s in zip(shape[-2:], operand.strides[-2:], strict=True))
    return row, column


def _copied(node: Node, layouts: Mapping[Node, Strides]) -> Node:
    """The node over a copy of the deepest view from which on it is readable, so that others may share the copy."""
    chain = [node]
    while chain[-1].op is not INPUT and (chain[-1].op.name in ("permute", "reshape", "expand") or widened(chain[-1]) is not None):
        chain.append(chain[-1].sources[0])
    for at in range(len(chain) - 1, 0, -1):
        if _is_readable(node, {**layouts, chain[at]: contiguous_strides(chain[at].shape)}):
            copy: Node = p.copy(chain[at])
            for view in reversed(chain[:at]):
                copy = Node(view.op, (copy,), **view.attributes)
            return copy
    return p.copy(node)


def _windows_of(factor: Node, layouts: Mapping[Node, Strides]) -> WindowOperand | None:
    """A product's second factor as windows, unless it can be read by strides."""
    return None if _is_readable(factor, layouts) else window_operand(factor, layouts)


def _batches(factors: Sequence[Node], layouts: Mapping[Node, Strides]) -> Batches | None:
    windows = _windows_of(factors[1], layouts)
    if windows is None:
        found = [strided_operand(f, layouts, widens=True) for f in factors]
        return batch_levels(factors[0].shape[:-2], [o.strides[:-2] for o in found if o is not None])
    left = strided_operand(factors[0], layouts, widens=True)
    assert left is not None
    # Inner batches are parts of the columns.
    levels = batch_levels(factors[0].shape[:-2], [left.strides[:-2], windows.batch])
    if levels is None or not is_constant(levels.outer, 1):
        return None
    return Batches(levels.inner, 1, tuple((near, 0) for _, near in levels.strides))


def matmul_operands(core: Node, layouts: Mapping[Node, Strides], buffers: Mapping[Node, int]) -> MatmulOperands:
    """How the template finds the factors of a legalized product."""
    windows = _windows_of(core.sources[1], layouts)
    a, b = (strided_operand(f, layouts, widens=True) for f in core.sources)
    batches, second = _batches(core.sources, layouts), windows or b
    assert a is not None and second is not None and batches is not None, "legalize copies what is neither strided nor of windows"
    rows, depth = core.sources[0].shape[-2:]
    steps = (
        _matrix_strides(o, f.shape) if isinstance(o, StridedOperand) else (0, 0)
        for o, f in zip((a, second), core.sources, strict=True)
    )
    near, far = ((*batch, row, column) for batch, (row, column) in zip(batches.strides, steps, strict=True))
    return MatmulOperands(
        batches.outer, batches.inner, rows, core.shape[-1], depth, (buffers[a.leaf], buffers[second.leaf]),
        (a.leaf.dtype, second.leaf.dtype), (a.offset, second.offset), (near, far), windows,
    )  # fmt: skip


def runs_along_columns(kernel: Kernel) -> bool:
    """Whether all that an epilogue stores is contiguous along the columns of the product."""
    column = axis(kernel.outer[-1].name, kernel.outer[-1].size)
    steps = [coefficient_of(s.index, column) for s in kernel.stores]
    return all(step is not None and is_constant(step, 1) for step in steps)


def runs_along_rows(kernel: Kernel) -> bool:
    """Whether more of what an epilogue reads and writes is contiguous along the rows of the product than along its columns."""
    indices = [s.index for s in kernel.stores] + [n.attributes["index"] for n in kernel.nodes() if n.op is LOAD]
    along_rows, along_columns = (
        sum(is_constant(step, 1) for i in indices if (step := coefficient_of(i, axis(a.name, a.size))) is not None)
        for a in kernel.outer[-2:]
    )
    return along_rows > along_columns


@dataclass(frozen=True, slots=True)
class PlainStore:
    """The result of a template stored as it is: in which buffer of the program, with strides (outer, inner, row); the last is 1."""

    buffer: int
    offset: Dim
    strides: tuple[Dim, Dim, Dim]


def plain_store(built: BuiltKernel) -> PlainStore | None:
    """What an epilogue does when it is so little that the template can do it."""
    kernel = built.kernel
    if len(kernel.stores) != 1:
        return None
    (store,) = kernel.stores
    if store.value.op is not RESULT or store.mode != "set" or store.valid is not None:
        return None
    rest, steps = store.index, list[Dim]()
    for loop in kernel.outer:
        if is_constant(loop.size, 1):
            steps.append(1)
            continue
        place = axis(loop.name, loop.size)
        step = coefficient_of(rest, place)
        if step is None:
            return None
        steps.append(step)
        rest = rest - step * place
    if not is_constant(steps[3], 1) or loaded_nodes(rest):
        return None
    sizes = dict(zip(kernel.sizes, built.sizes, strict=True))
    offset, outer, inner, row = (substitute(d, sizes) for d in (rest, *steps[:3]))
    return PlainStore(built.buffers[store.buffer], offset + built.origins[store.buffer], (outer, inner, row))
