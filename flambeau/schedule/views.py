"""Index maps: where an element of a view comes from, so that views cost no copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from flambeau.core import dtypes
from flambeau.core.symbolic import (
    Dim,
    Expression,
    atoms_of,
    axis,
    contiguous_strides,
    delinearize,
    divide_out,
    floor_divide,
    is_constant,
    linear_index,
    modulo,
    product,
    symbol_of,
    within,
)
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node

Coordinates = tuple[Dim, ...]

VIEWS = frozenset(("expand", "reshape", "permute", "slice", "pad", "cat", "as_strided", "window", "diagonal"))


@dataclass(frozen=True, slots=True)
class Condition:
    """``lower <= value < upper`` must hold for an element to come from this operand."""

    value: Dim
    lower: Dim
    upper: Dim


@dataclass(frozen=True, slots=True)
class Read:
    """Operand ``position`` of a view node read at ``coordinates`` where all ``conditions`` hold.

    ``exact`` tells that the map, as far as it does not broadcast, covers the whole operand.
    """

    position: int
    coordinates: Coordinates
    conditions: tuple[Condition, ...] = ()
    exact: bool = True


def reads_of(node: Node, at: Coordinates) -> list[Read]:
    """The operand reads behind element ``at`` of a view node. The conditions of a pad or cat exclude one another."""
    name = node.op.name
    return _MAPS[name](node, at)


def bounded(node: Node, read: Read) -> Coordinates:
    """The coordinates of a read; where conditions keep them inside the operand, divisions can rely on that."""
    if not read.conditions:
        return read.coordinates
    return tuple(within(i, n) for i, n in zip(read.coordinates, node.sources[read.position].shape, strict=True))


def _expand(node: Node, at: Coordinates) -> list[Read]:
    source = node.sources[0].shape
    return [Read(0, tuple(0 if is_constant(n, 1) else i for i, n in zip(at, source, strict=True)))]


def _reshape(node: Node, at: Coordinates) -> list[Read]:
    source = node.sources[0].shape
    if tuple(n for n in source if not is_constant(n, 1)) == tuple(n for n in node.shape if not is_constant(n, 1)):
        kept = iter(i for i, n in zip(at, node.shape, strict=True) if not is_constant(n, 1))
        return [Read(0, tuple(0 if is_constant(n, 1) else next(kept) for n in source))]
    out: list[Dim] = []
    for (first, then), (i, j) in blocks(node.shape, source):
        own = node.shape[first:then]
        out += delinearize(linear_index(at[first:then], contiguous_strides(own)), source[i:j])
    return [Read(0, tuple(out))]


@cache
def blocks(shape: Coordinates, other: Coordinates) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Ranges of axes of two shapes with equal numbers of elements, as short as possible: a reshape moves nothing from one to another."""
    ends = [(len(shape), len(other))]
    volume: Dim = 1
    if not any(is_constant(n, 0) for n in (*shape, *other)):
        for i in range(len(shape) - 1, 0, -1):
            volume = volume * shape[i]
            for j in range(ends[-1][1] - 1, 0, -1):
                if is_constant(product(other[j:]) - volume, 0):
                    ends.append((i, j))
                    break
    ends.append((0, 0))
    return tuple(((a, b), (i, j)) for (a, i), (b, j) in zip(reversed(ends), list(reversed(ends))[1:], strict=False))


def _permute(node: Node, at: Coordinates) -> list[Read]:
    out: list[Dim] = [0] * len(at)
    for i, source in enumerate(node.attributes["axes"]):
        out[source] = at[i]
    return [Read(0, tuple(out))]


def _slice(node: Node, at: Coordinates) -> list[Read]:
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    whole = all(
        size is n or is_constant(size - n, 0)
        for size, n in zip(node.shape, node.sources[0].shape, strict=True)
    )
    return [Read(0, tuple(s + i * step for i, s, step in zip(at, starts, steps, strict=True)), exact=whole)]


def _pad(node: Node, at: Coordinates) -> list[Read]:
    a = node.attributes
    coordinates: list[Dim] = []
    conditions: list[Condition] = []
    for i, low, high, inside, n in zip(at, a["low"], a["high"], a["interior"], node.sources[0].shape, strict=True):
        shifted = i - low
        if not (is_constant(low, 0) and is_constant(high, 0)):
            conditions.append(Condition(shifted, 0, (n - 1) * (inside + 1) + 1))
        if inside:
            conditions.append(Condition(modulo(shifted + (inside + 1) * 4096, inside + 1), 0, 1))
            shifted = floor_divide(shifted, inside + 1)
        coordinates.append(shifted)
    return [Read(0, tuple(coordinates), tuple(conditions), exact=not conditions)]


def _cat(node: Node, at: Coordinates) -> list[Read]:
    axis: int = node.attributes["axis"]
    out: list[Read] = []
    start: Dim = 0
    for position, source in enumerate(node.sources):
        size = source.shape[axis]
        coordinates = tuple(i - start if k == axis else i for k, i in enumerate(at))
        out.append(Read(position, coordinates, (Condition(at[axis], start, start + size),), exact=False))
        start = start + size
    return out


def _as_strided(node: Node, at: Coordinates) -> list[Read]:
    index = linear_index(at, node.attributes["strides"], node.attributes["offset"])
    return [Read(0, (index,), exact=False)]


def _window(node: Node, at: Coordinates) -> list[Read]:
    a = node.attributes
    axis: int = a["axis"]
    inside = at[axis] * a["step"] + at[-1] * a["dilation"]
    return [Read(0, (*at[:axis], inside, *at[axis + 1 : -1]), exact=False)]


def _diagonal(node: Node, at: Coordinates) -> list[Read]:
    return [Read(0, (*at, at[-1]), exact=False)]


_MAPS = {
    "expand": _expand, "reshape": _reshape, "permute": _permute, "slice": _slice, "pad": _pad, "cat": _cat, "as_strided": _as_strided,
    "window": _window, "diagonal": _diagonal,
}  # fmt: skip


def widened(node: Node) -> Node | None:
    """What a node converts exactly to float32, as the template of matrix products does itself; None for other nodes."""
    if node.op is INPUT or node.op.name != "cast" or node.dtype is not dtypes.float32:
        return None
    (source,) = node.sources
    return source if source.dtype in (dtypes.float16, dtypes.bfloat16) else None


def factor_leaf(node: Node) -> Node:
    """The input or computed node that lies in memory below a factor of a legalized product."""
    while node.op is not INPUT and (node.op.family == "view" or widened(node) is not None):
        node = node.sources[0]
    return node


def coefficient_of(index: Dim, axis: Dim) -> Dim | None:
    """The factor of a plain axis in an affine index; None when the index is not affine in it."""
    (atom,) = atoms_of(axis)
    total: Dim = 0
    rest: Dim = index
    while True:
        quotient, remainder = divide_out(rest, axis)
        if is_constant(quotient, 0):
            return total if atom not in atoms_of(rest) else None
        if atom in atoms_of(quotient):
            return None
        total = total + quotient
        rest = remainder


def refine(shape: Coordinates, other: Coordinates) -> Coordinates | None:
    """The coarsest shape that both shapes (of equal element count) are merges of; None when their factors do not nest."""
    if any(is_constant(n, 0) for n in (*shape, *other)):
        return None
    out: list[Dim] = []
    left, right = [n for n in shape if not is_constant(n, 1)], [n for n in other if not is_constant(n, 1)]
    while left and right:
        a, b = left.pop(), right.pop()
        if a is b or is_constant(a - b, 0):
            out.append(a)
            continue
        for big, small, rest in ((a, b, left), (b, a, right)):
            quotient, remainder = divide_out(big, small)
            if is_constant(remainder, 0) and not is_constant(quotient, 0):
                out.append(small)
                rest.append(quotient)
                break
        else:
            return None
    return tuple(reversed(out)) if not left and not right else None


def split_axis(index: Dim, sizes: Mapping[str, Dim], whole: Dim) -> dict[str, Dim] | None:
    """The axes that ``index`` is made of, in terms of ``whole``, the axis that takes all its values in order.

    ``i*40 + j`` with j < 40 gives ``{i: whole // 40, j: whole % 40}``; None when the index is no such mix of digits.
    """
    if isinstance(index, int):
        return {} if index == 0 else None
    steps: dict[str, Dim] = {}
    for monomial, coefficient in index.terms:
        axes = [a for a in monomial if a.kind == "axis"]
        if len(axes) != 1 or axes[0].name not in sizes:
            return None
        (found,) = axes
        steps[found.name] = steps.get(found.name, 0) + product([coefficient, *(symbol_of(a) for a in monomial if a is not found)])
    digits = list(steps.items())
    out: dict[str, Dim] = {}
    running: Dim = 1
    while digits:
        position = next((i for i, (_, c) in enumerate(digits) if is_constant(c - running, 0)), None)
        if position is None:
            return None
        name, _ = digits.pop(position)
        part = floor_divide(whole, running)
        out[name] = modulo(part, sizes[name]) if digits else part
        running = running * sizes[name]
    return out


def leading_digit(index: Dim, sizes: Mapping[str, Dim], size: Dim) -> Dim | None:
    """The size of the axis that moves ``index`` (below ``size``) by its largest steps; None when it is no mix of several axes."""
    for name, count in sizes.items():
        step, rest = divide_out(size, count)
        place = axis(name, count)
        if is_constant(rest, 0) and isinstance(place, Expression) and not is_constant(step, 1):
            found = coefficient_of(index, place)
            if found is not None and is_constant(found - step, 0):
                return count
    return None
