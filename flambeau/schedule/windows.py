"""Factors of matrix products that are views over sliding windows: each matrix axis is a number of digits with a stride for each.

Of the windows of images [b, c, h, w] the rows are (c, kh, kw) and the columns (b, oh, ow); the template reads them from the images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flambeau import prims as p
from flambeau.core.symbolic import Dim, axis, contiguous_strides, is_constant, linear_index
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node
from flambeau.schedule.specs import Strides
from flambeau.schedule.views import coefficient_of, reads_of, refine, widened

# What the template has slots for.
MOST_DIGITS = 4
_VIEWS = ("permute", "reshape", "window", "slice")


@dataclass(frozen=True, slots=True)
class Digits:
    """An axis whose position is a number of digits of these sizes, outermost first; each moves its own stride."""

    sizes: Strides
    strides: Strides

    def filled(self) -> Digits:
        """The same with as many digits as the template takes."""
        missing = MOST_DIGITS - len(self.sizes)
        return Digits((*(1,) * missing, *self.sizes), (*(0,) * missing, *self.strides))


@dataclass(frozen=True, slots=True)
class WindowOperand:
    """``leaf`` (an input or computed node) read at ``offset``, plus a stride for each batch axis, plus what the digits move."""

    leaf: Node
    offset: Dim
    batch: Strides
    rows: Digits
    columns: Digits


def window_operand(node: Node, layouts: Mapping[Node, Strides]) -> WindowOperand | None:
    """A product's factor as windows of a buffer; None when it is no such view. ``layouts`` as for ``strided_operand``."""
    leaf, chain = _below(node)
    if not any(n.op is p.window or n.op is p.slice_ for n in chain) or (leaf.op is not INPUT and leaf.op.family in ("view", "source")):
        return None
    found = _digits(node, chain)
    if found is None:
        return None
    sizes, outermost, reached, below = found
    places = {d: 0 if is_constant(n, 1) else axis(f"k{d}", n) for d, n in sizes.items()}
    at = tuple(linear_index([places[d] for d in own], contiguous_strides([sizes[d] for d in own])) for own in reached)
    for view in below:
        if widened(view) is None:
            (read,) = reads_of(view, at)
            at = read.coordinates
    rest = linear_index(at, layouts.get(leaf) or contiguous_strides(leaf.shape))
    parts: list[Digits] = []
    for own in outermost:
        strides: list[Dim] = []
        for place in (places[d] for d in own):
            step = 0 if is_constant(place, 0) else coefficient_of(rest, place)
            if step is None:
                return None
            strides.append(step)
            rest = rest - step * place
        parts.append(_merged(Digits(tuple(sizes[d] for d in own), tuple(strides))))
    *batch, rows, columns = parts
    if any(len(d.sizes) > 1 for d in batch) or max(len(rows.sizes), len(columns.sizes)) > MOST_DIGITS:
        return None
    return WindowOperand(leaf, rest, tuple(d.strides[0] if d.strides else 0 for d in batch), rows, columns)


def over_copied_images(node: Node, layouts: Mapping[Node, Strides]) -> Node | None:
    """The factor as windows of something that lies in memory, where it is of windows at all: of a copy if need be."""
    if window_operand(node, layouts) is not None:
        return node
    leaf, chain = _below(node)
    if not any(n.op is p.window for n in chain) or leaf.op is INPUT or leaf.op.family not in ("view", "source"):
        return None
    copy: Node = p.copy(leaf)
    for view in reversed(chain):
        copy = Node(view.op, (copy,), **view.attributes)
    return copy if window_operand(copy, layouts) is not None else None


def _below(node: Node) -> tuple[Node, list[Node]]:
    """What lies below a chain of views, and the chain from the outside in."""
    chain: list[Node] = []
    while node.op is not INPUT and (node.op.name in _VIEWS or widened(node) is not None):
        chain.append(node)
        node = node.sources[0]
    return node, chain


def _digits(
    node: Node, chain: Sequence[Node]
) -> tuple[dict[int, Dim], list[list[int]], list[list[int]], Sequence[Node]] | None:
    """The sizes of digits as fine as the reshapes above the first window ask for; None if they do not nest.

    Also the digits of each axis of the outermost view, those of each axis of the first window, and what is left of the chain there.
    """
    sizes = dict[int, Dim](enumerate(node.shape))
    outermost = [[i] for i in sizes]
    current = [[i] for i in sizes]  # of which digits each axis of the view reached consists
    for number, view in enumerate(chain):
        if view.op is p.permute:
            moved = list(current)
            for i, source in enumerate(view.attributes["axes"]):
                moved[source] = current[i]
            current = moved
        elif view.op is p.reshape:
            shape = view.sources[0].shape
            flat = [digit for own in current for digit in own]
            fine = refine(tuple(sizes[d] for d in flat), shape)
            finer = None if fine is None else _split(flat, fine, sizes)
            if finer is None:
                return None
            outermost = [[new for d in own for new in finer[d]] for own in outermost]
            pieces = [new for d in flat for new in finer[d]]
            parts = _grouped(pieces, [sizes[d] for d in pieces], shape)
            if parts is None:
                return None
            current = parts
        elif widened(view) is None:
            return sizes, outermost, current, chain[number:]
    return sizes, outermost, current, ()


def _split(digits: Sequence[int], fine: Sequence[Dim], sizes: dict[int, Dim]) -> dict[int, list[int]] | None:
    """New digits of the sizes ``fine``, entered into ``sizes``, that each of the old ones consists of."""
    names = list(range(len(sizes), len(sizes) + len(fine)))
    sizes.update(zip(names, fine, strict=True))
    parts = _grouped(names, fine, [sizes[d] for d in digits])
    return None if parts is None else dict(zip(digits, parts, strict=True))


def _grouped(items: Sequence[int], sizes: Sequence[Dim], wholes: Sequence[Dim]) -> list[list[int]] | None:
    """The items in runs whose sizes multiply to each of the wholes."""
    rest = list(zip(items, sizes, strict=True))
    out: list[list[int]] = []
    for whole in wholes:
        own: list[int] = []
        volume: Dim = 1
        while not is_constant(whole - volume, 0):
            if not rest:
                return None
            item, size = rest.pop(0)
            own.append(item)
            volume = volume * size
        out.append(own)
    return out


def _merged(digits: Digits) -> Digits:
    """Without digits of one value, and with those that follow on each other as one."""
    sizes: list[Dim] = []
    strides: list[Dim] = []
    for size, stride in zip(digits.sizes, digits.strides, strict=True):
        if is_constant(size, 1):
            continue
        if sizes and is_constant(strides[-1] - stride * size, 0):
            sizes[-1], strides[-1] = sizes[-1] * size, stride
        else:
            sizes.append(size)
            strides.append(stride)
    return Digits(tuple(sizes), tuple(strides))
