"""Folding: how the operands of a pointwise operator are seen on as few axes as their strides allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flambeau.ops.declare import broadcast_shapes
from flambeau.runtime.storage import TensorMeta, contiguous_strides

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Folding:
    """The axes of a broadcast ``shape`` in memory order (``order``, outermost first), merged in ``groups``.

    Axes of size 1 are in no group. ``strides`` are those of a new result.
    """

    shape: Ints
    order: Ints
    groups: tuple[Ints, ...]
    strides: Ints

    def fold(self, shape: Ints, strides: Ints) -> tuple[Ints, Ints] | None:
        """An operand's folded shape (1 where it broadcasts) and strides; None when its strides do not merge so.

        A 0-d operand stays one, and another never becomes one: promotion treats them apart.
        """
        if not shape:
            return (), ()
        lead = len(self.shape) - len(shape)
        sizes: list[int] = []
        out: list[int] = []
        for group in self.groups:
            spread = [a < lead or (shape[a - lead] == 1) for a in group]
            if all(spread):
                sizes.append(1)
                out.append(0)
                continue
            if any(spread):
                return None
            inner = group[-1]
            for a, b in zip(group, group[1:], strict=False):
                if strides[a - lead] != strides[b - lead] * shape[b - lead] and 0 not in shape:
                    return None
            size = 1
            for a in group:
                size *= shape[a - lead]
            sizes.append(size)
            out.append(strides[inner - lead])
        return (tuple(sizes), tuple(out)) if sizes else ((1,), (0,))


def make_folding(metas: Sequence[TensorMeta], operator: str) -> Folding:
    """The coarsest folding that all operands agree on; the result is laid out like the operands (torch's rule)."""
    first = metas[0]
    rank = len(first.shape)
    if first.contiguous and all(len(m.shape) == rank and m.shape == first.shape and m.contiguous for m in metas):
        axes = tuple(i for i, n in enumerate(first.shape) if n != 1)
        order = tuple(range(rank))
        return Folding(first.shape, order, (axes,) if axes else (), contiguous_strides(first.shape))
    shape: Ints = broadcast_shapes(*[m.shape for m in metas], operator=operator)  # type: ignore[assignment]
    aligned = [_align(m, shape) for m in metas]
    order = _memory_order(shape, aligned)
    kept = [a for a in order if shape[a] != 1]
    groups: list[list[int]] = []
    for a in kept:
        if groups and all(_merges(s, groups[-1][-1], a, shape) for s in aligned):
            groups[-1].append(a)
        else:
            groups.append([a])
    return Folding(shape, order, tuple(map(tuple, groups)), _result_strides(shape, order))


def _align(meta: TensorMeta, shape: Ints) -> list[int | None]:
    """Strides on the broadcast axes; None where the operand is repeated."""
    lead = len(shape) - len(meta.shape)
    out: list[int | None] = [None] * lead
    for size, stride, full in zip(meta.shape, meta.strides, shape[lead:], strict=True):
        out.append(None if size == 1 and full != 1 else stride)
    return out


def _merges(strides: list[int | None], outer: int, inner: int, shape: Ints) -> bool:
    a, b = strides[outer], strides[inner]
    if a is None or b is None:
        return a is None and b is None
    return a == b * shape[inner]


def _memory_order(shape: Ints, operands: Sequence[list[int | None]]) -> Ints:
    """Axes sorted by stride, outermost first: for each pair the first operand whose strides tell decides."""
    order = list(range(len(shape)))
    for i in range(1, len(order)):
        at = i
        while at and _goes_outside(order[at], order[at - 1], shape, operands):
            order[at], order[at - 1] = order[at - 1], order[at]
            at -= 1
    return tuple(order)


def _goes_outside(a: int, b: int, shape: Ints, operands: Sequence[list[int | None]]) -> bool:
    for strides in operands:
        x, y = strides[a] or 0, strides[b] or 0
        if x and y and x != y:
            return x > y
        if x and y and shape[a] != shape[b]:
            return False
    return False


def _result_strides(shape: Ints, order: Ints) -> Ints:
    out = [0] * len(shape)
    running = 1
    for a in reversed(order):
        out[a] = running
        running *= max(shape[a], 1)
    return tuple(out)
