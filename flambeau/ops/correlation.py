"""Sums of products over sliding windows and their gradients, on nodes: what convolutions are made of.

A window is a view (``prims.window``), so that a product's operand is gathered from the images where it is packed. Images are
[b, g * c, *n], filters [g * o, c, *k] and results [b, g * o, *l], for g groups of channels that do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as pairs
from math import gcd

from flambeau import prims as p
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops.matmul import multiply
from flambeau.ops.rearrange import constant_padded
from flambeau.ops.view import cut, with_axis

Ints = Sequence[int]
# A step takes a product for each residue of the places; for more than these, what each element adds is made first and then added.
MOST_RESIDUES = 16
# Elements of a filter of one channel become terms of a sum, as far as they are not more than this; over other axes the sum is a loop.
MOST_TERMS = 64


def windows(x: Node, first: int, sizes: Ints, steps: Ints, dilations: Ints) -> Node:
    """Windows over the axes from ``first`` on: [..., *lengths] -> [..., *counts, *sizes]."""
    for i, (size, step, dilation) in enumerate(zip(sizes, steps, dilations, strict=True)):
        if size == 1:  # one element is no window: a slice with a step
            count = p.window_count(x.shape[first + i], 1, step, 1)
            x = cut(x, first + i, 0, count, step)
            x = p.reshape(x, shape=(*x.shape, 1))
        else:
            x = p.window(x, axis=first + i, size=size, step=step, dilation=dilation)
    return x


def folded(x: Node, first: int, lengths: Sequence[Dim], sizes: Ints, steps: Ints, dilations: Ints) -> Node:
    """The transpose of ``windows``: windows added where they overlap, on axes of the given lengths."""
    for i in reversed(range(len(sizes))):
        x = p.fold_windows(x, first + i, lengths[i], sizes[i], steps[i], dilations[i])
    return x


def padded(x: Node, first: int, before: Sequence[Dim], after: Sequence[Dim], value: float = 0) -> Node:
    """x with ``value`` around the axes from ``first`` on; negative amounts take away."""
    return constant_padded(x, {first + i: (a, b) for i, (a, b) in enumerate(zip(before, after, strict=True))}, value)


def correlated(x: Node, weight: Node, steps: Ints, dilations: Ints, groups: int) -> Node:
    """The sums of products of every window with every filter of its group."""
    count = weight.rank - 2
    sizes = [int(k) for k in weight.shape[2:]]
    if groups > 1 and weight.shape[1] == 1:
        return _channelwise(x, weight, steps, dilations)
    view = windows(x, 2, sizes, steps, dilations)
    lengths = view.shape[2 : 2 + count]
    outputs = weight.shape[0] // groups
    columns = _columns(view, count, groups)
    out = multiply(p.reshape(weight, shape=(*columns.shape[:-2], outputs, columns.shape[-2])), columns)
    return _images(out, view.shape[0], weight.shape[0], lengths)


def _channelwise(x: Node, weight: Node, steps: Ints, dilations: Ints) -> Node:
    """Each channel on its own: [b, c, *n] and [c * m, 1, *k] -> [b, c * m, *l]."""
    count, (batch, channels), sizes = weight.rank - 2, x.shape[:2], [int(k) for k in weight.shape[2:]]
    times = weight.shape[0] // channels
    lengths = [p.window_count(n, k, s, d) for n, k, s, d in zip(x.shape[2:], sizes, steps, dilations, strict=True)]
    looped = count
    while looped and product(sizes[looped - 1 :]) <= MOST_TERMS:
        looped -= 1
    outer, inner = sizes[:looped], sizes[looped:]
    view = windows(x, 2, outer, steps[:looped], dilations[:looped])
    shape = (batch, channels, times, *lengths, *outer)
    rows: dict[tuple[int, ...], Node] = {}
    for place in pairs(*map(range, inner)):
        seen, factor = view, p.reshape(weight, shape=(1, channels, times, *sizes))
        for i, k in enumerate(place, looped):
            seen = cut(seen, 2 + i, k * dilations[i], lengths[i], steps[i])
            factor = cut(factor, 3 + i, k, 1)
        factor = p.reshape(factor, shape=(1, channels, times, *(1,) * count, *outer))
        term = p.mul(p.expand(with_axis(seen, 2), shape=shape), p.expand(factor, shape=shape))
        row = rows.get(place[:-1])
        rows[place[:-1]] = term if row is None else p.add(row, term)
    total = _sum_in_pairs(list(rows.values()))
    if looped:
        total = p.reduce(total, kind="sum", axes=tuple(range(3 + count, 3 + count + looped)))
    return p.reshape(total, shape=(batch, channels * times, *lengths))


def _sum_in_pairs(terms: list[Node]) -> Node:
    """Neighbours first: no addition waits for all before it, as those of one chain do."""
    while len(terms) > 1:
        pairwise = [p.add(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairwise + terms[len(pairwise) * 2 :]
    return terms[0]


def _columns(view: Node, count: int, groups: int) -> Node:
    """Windows [b, g * c, *l, *k] as the columns of matrices: [g, c * k, b * l], or without g where that is 1."""
    batch, lengths, sizes = view.shape[0], view.shape[2 : 2 + count], view.shape[2 + count :]
    lead = (groups,) if groups > 1 else ()
    g, channels = len(lead), view.shape[1] // groups
    split = p.reshape(view, shape=(batch, *lead, channels, *lengths, *sizes))
    spatial, kernel = range(2 + g, 2 + g + count), range(2 + g + count, 2 + g + 2 * count)
    columns = p.permute(split, axes=(*range(1, 2 + g), *kernel, 0, *spatial))
    return p.reshape(columns, shape=(*lead, channels * product(sizes), batch * product(lengths)))


def _images(rows: Node, batch: Dim, channels: Dim, lengths: Sequence[Dim]) -> Node:
    """[g, o, b * l] or [o, b * l] -> [b, g * o, *l]."""
    lead = rows.shape[:-1]
    out = p.reshape(rows, shape=(*lead, batch, *lengths))
    n = len(lead)
    out = p.permute(out, axes=(n, *range(n), *range(n + 1, out.rank)))
    return p.reshape(out, shape=(batch, channels, *lengths))


def _rows(x: Node, groups: int) -> Node:
    """The inverse of ``_images``: [b, g * c, *l] -> [g, c, b * l], or without g where that is 1."""
    batch, channels, *lengths = x.shape
    lead = (groups, channels // groups) if groups > 1 else (channels,)
    split = p.reshape(x, shape=(batch, *lead, *lengths))
    n = len(lead)
    out = p.permute(split, axes=(*range(1, 1 + n), 0, *range(1 + n, split.rank)))
    return p.reshape(out, shape=(*lead, batch * product(lengths)))


# -- gradients --------------------------------------------------------------------------------------------
def filter_gradient(x: Node, g: Node, sizes: Ints, steps: Ints, dilations: Ints, groups: int) -> Node:
    """By the filters of ``correlated(x, ...)``, whose gradient is g [b, g * o, *l]: [g * o, c, *sizes]."""
    count = len(sizes)
    ends = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(g.shape[2:], steps, dilations, sizes, strict=True)]
    for i, end in enumerate(ends):
        x = cut(x, 2 + i, 0, end)
    view = windows(x, 2, sizes, steps, dilations)
    channels = x.shape[1] // groups
    if groups > 1 and channels == 1:
        return _channelwise_gradient(view, g, count)
    out = multiply(_rows(g, groups), p.transpose(_columns(view, count, groups)))
    return p.reshape(out, shape=(g.shape[1], channels, *sizes))


def _channelwise_gradient(view: Node, g: Node, count: int) -> Node:
    """Of each image first, then of all: [b, c, *l, *k] and [b, c * m, *l] -> [c * m, 1, *k]."""
    batch, channels = view.shape[:2]
    lengths, sizes = view.shape[2 : 2 + count], view.shape[2 + count :]
    times = g.shape[1] // channels
    shape = (batch, channels, times, *sizes, *lengths)
    order = (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    left = p.expand(with_axis(p.permute(view, axes=order), 2), shape=shape)
    right = p.expand(p.reshape(g, shape=(batch, channels, times, *(1,) * count, *lengths)), shape=shape)
    each = p.reduce(p.mul(left, right), kind="sum", axes=tuple(range(3 + count, 3 + 2 * count)))
    return p.reshape(p.reduce(each, kind="sum", axes=(0,)), shape=(g.shape[1], 1, *sizes))


def image_gradient(
    g: Node, weight: Node, before: Ints, lengths: Sequence[Dim], steps: Ints, dilations: Ints, groups: int
) -> Node:
    """By the images of a correlation, ``before`` elements of padding left out: g [b, g * o, *l] -> [b, g * c, *lengths].

    Place i gets g[j] * weight[k] where step * j + dilation * k == i + before. Among the places of one residue modulo the step that is
    a correlation with step 1 of g with every so manieth element of the filters, in reverse.
    """
    sizes = [int(k) for k in weight.shape[2:]]
    if product(steps) > MOST_RESIDUES:
        return _spread(g, weight, before, lengths, steps, dilations, groups)
    axes = [
        [_residue(r, *numbers) for r in range(numbers[0])]
        for numbers in zip(steps, dilations, sizes, before, lengths, g.shape[2:], strict=True)
    ]
    # Padded once, as far as any residue needs: what lies in memory serves all.
    low, high = ([max(getattr(r, side) for r in own if r.taps) for own in axes] for side in ("before", "after"))
    around, turned = padded(g, 2, low, high), _exchanged(weight, groups)
    parts = {at: _part(around, low, turned, [axes[i][r] for i, r in enumerate(at)], groups) for at in pairs(*map(range, steps))}
    out = _interleaved(parts, steps, ())
    for i, (step, pad, n) in enumerate(zip(steps, before, lengths, strict=True)):
        out = cut(out, 2 + i, pad % step, n) if step > 1 else out
    return out


@dataclass(frozen=True)
class _Residue:
    """What places of one residue on one axis need: ``taps`` elements of the filter from ``first`` on in reverse, ``step`` apart.

    They are ``dilation`` apart on g, which has ``before`` and ``after`` elements of padding; there are so many ``places``.
    """

    places: Dim
    taps: int
    first: int
    step: int
    dilation: int
    before: Dim
    after: Dim


def _residue(r: int, step: int, dilation: int, size: int, before: int, n: Dim, given: Dim) -> _Residue:
    start = before // step
    places, common = (n + before - 1) // step - start + 1, gcd(step, dilation)
    chosen = [k for k in range(size) if (k * dilation - r) % step == 0]
    if not chosen:
        return _Residue(places, 0, 0, 1, 1, 0, 0)
    span = dilation // common * (len(chosen) - 1)
    low = (dilation * chosen[0] - r) // step + span - start
    return _Residue(places, len(chosen), chosen[-1], step // common, dilation // common, low, places + span - low - given)


def _exchanged(weight: Node, groups: int) -> Node:
    """[g * o, c, *k] -> [g * c, o, *k]."""
    outputs, channels, *sizes = weight.shape
    if groups == 1:
        return p.permute(weight, axes=(1, 0, *range(2, weight.rank)))
    split = p.reshape(weight, shape=(groups, outputs // groups, channels, *sizes))
    out = p.permute(split, axes=(0, 2, 1, *range(3, split.rank)))
    return p.reshape(out, shape=(groups * channels, outputs // groups, *sizes))


def _part(g: Node, low: Sequence[Dim], weight: Node, axes: Sequence[_Residue], groups: int) -> Node:
    """The gradient at the places of one residue on each axis, zeros where no element of the filters comes to lie; g has padding ``low``."""
    if not all(a.taps for a in axes):
        return p.constant(0, (g.shape[0], weight.shape[0], *(a.places for a in axes)), g.dtype)
    for i, a in enumerate(axes):
        weight = cut(weight, 2 + i, a.first, a.taps, -a.step)
        g = cut(g, 2 + i, low[i] - a.before, a.places + a.dilation * (a.taps - 1))
    return correlated(g, weight, (1,) * len(axes), [a.dilation for a in axes], groups)


def _interleaved(parts: dict[tuple[int, ...], Node], steps: Ints, at: tuple[int, ...]) -> Node:
    """The parts of all residues in turn along each axis: [b, c, *m] -> [b, c, *(m * step)]."""
    axis = len(at)
    if axis == len(steps):
        return parts[at]
    pieces = [_interleaved(parts, steps, (*at, r)) for r in range(steps[axis])]
    if len(pieces) == 1:
        return pieces[0]
    out = p.cat(*(with_axis(x, 3 + axis) for x in pieces), axis=3 + axis)
    return p.reshape(out, shape=(*out.shape[: 2 + axis], out.shape[2 + axis] * steps[axis], *out.shape[4 + axis :]))


def _spread(
    g: Node, weight: Node, before: Ints, lengths: Sequence[Dim], steps: Ints, dilations: Ints, groups: int
) -> Node:
    """The same as ``image_gradient``: what each element adds to its window, added where windows overlap."""
    count, outputs = weight.rank - 2, weight.shape[0] // groups
    sizes = [int(k) for k in weight.shape[2:]]
    lead = (groups,) if groups > 1 else ()
    left = p.transpose(p.reshape(weight, shape=(*lead, outputs, weight.shape[1] * product(sizes))))
    rows = multiply(left, _rows(g, groups))
    n, channels = len(lead), weight.shape[1] * groups
    out = p.reshape(rows, shape=(*lead, weight.shape[1], *sizes, g.shape[0], *g.shape[2:]))
    kernel, spatial = range(n + 1, n + 1 + count), range(n + 2 + count, n + 2 + 2 * count)
    out = p.permute(out, axes=(n + 1 + count, *range(n + 1), *spatial, *kernel))
    out = p.reshape(out, shape=(g.shape[0], channels, *g.shape[2:], *sizes))
    whole = [
        m if (m := (j - 1) * s + d * (k - 1) + 1) >= n + b else n + b
        for j, s, d, k, n, b in zip(g.shape[2:], steps, dilations, sizes, lengths, before, strict=True)
    ]
    out = folded(out, 2, whole, sizes, steps, dilations)
    for i, (pad, n) in enumerate(zip(before, lengths, strict=True)):
        out = cut(out, 2 + i, pad, n)
    return out
