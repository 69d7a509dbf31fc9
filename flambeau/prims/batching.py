"""Batching rules: what a primitive is when some of its operands have one more axis, the first, along which each place is a call of its own.

There is one rule for each primitive. ``rule(node, sources, marks, size)`` gives the node for the batched call: ``node`` is the call
without a batch, ``sources`` are its operands, of which those marked have the batch axis, of ``size``. The result has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core import dtypes
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.prims import structure as s
from flambeau.prims.declare import ALL, Prim
from flambeau.prims.indexing import scatter, take
from flambeau.prims.random import random
from flambeau.prims.reduction import argsort, matmul

BatchingRule = Callable[[Node, Sequence[Node], Sequence[bool], Dim], Node]


def spread(x: Node, size: Dim) -> Node:
    """The same value at every place of a new first axis."""
    if x.op is s.full:
        return s.full(**{**x.attributes, "shape": (size, *x.shape)})
    return s.expand(s.reshape(x, shape=(1, *x.shape)), shape=(size, *x.shape))


def _everywhere(sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> list[Node]:
    return [x if batched else spread(x, size) for x, batched in zip(sources, marks, strict=True)]


def _with(change: Callable[[Node, Dim], dict[str, Any]]) -> BatchingRule:
    """The same primitive with every operand batched and other attributes."""

    def rule(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
        return node.op(*_everywhere(sources, marks, size), **{**node.attributes, **change(node, size)})

    return rule


def _further(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _as_strided(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    (x,), at = sources, node.attributes
    flat = s.reshape(x, shape=(product(x.shape),))
    return s.as_strided(flat, shape=(size, *at["shape"]), strides=(x.shape[1], *at["strides"]), offset=at["offset"])


def _matmul(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    """Rows of all calls times one matrix are one product."""
    a, b = sources
    if marks[0] and not marks[1] and b.rank == 2:
        rows = s.reshape(a, shape=(size * a.shape[1], a.shape[2]))
        return s.reshape(matmul(rows, b), shape=(*a.shape[:2], b.shape[1]))
    return matmul(*_everywhere(sources, marks, size))


def _first_to(x: Node, place: int) -> Node:
    """x with its first axis at ``place``."""
    return s.permute(x, axes=(*range(1, place + 1), 0, *range(place + 1, x.rank)))


def _to_first(x: Node, place: int) -> Node:
    return s.permute(x, axes=(place, *range(place), *range(place + 1, x.rank)))


def _batched_indices(indices: Sequence[Node], marks: Sequence[bool], size: Dim) -> list[Node]:
    """An index for the batch axis, and the others."""
    given = _everywhere(indices, marks, size)
    return [s.iota(shape=given[0].shape, axis=0, dtype=dtypes.int64), *given]


def _take(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    x, *indices = sources
    if not marks[0]:
        return take(x, *_everywhere(indices, marks[1:], size))
    if any(marks[1:]):
        return take(x, *_batched_indices(indices, marks[1:], size))
    return _to_first(take(_first_to(x, len(indices)), *indices), indices[0].rank)


def _scatter(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    x, values, *indices = sources
    mode = node.attributes["mode"]
    x, values = _everywhere((x, values), marks[:2], size)
    if any(marks[2:]):
        return scatter(x, values, *_batched_indices(indices, marks[2:], size), mode=mode)
    place, at = len(indices), indices[0].rank
    return _to_first(scatter(_first_to(x, place), _first_to(values, at), *indices, mode=mode), place)


def _random(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    """Other numbers for each call. Permutations are the orders of random numbers, since the stream knows only single ones."""
    at = node.attributes
    if at["kind"] != "permutation":
        return random(**{**at, "shape": (size, *node.shape)})
    keys = random(kind="uniform53", shape=(size, *node.shape), dtype=dtypes.float64, serial=at["serial"])
    return p.converted(argsort(keys, axis=1, descending=False), at["dtype"])


def _no_operand(node: Node, sources: Sequence[Node], marks: Sequence[bool], size: Dim) -> Node:
    return spread(node, size)


_unchanged = _with(lambda node, size: {})
_next_axis = _with(lambda node, size: {"axis": node.attributes["axis"] + 1})
_longer_shape = _with(lambda node, size: {"shape": (size, *node.shape)})

# Of primitives that are no pointwise functions, and that do not take all axes but the last ones for a batch anyway.
_RULES: dict[str, BatchingRule] = {
    "expand": _longer_shape,
    "reshape": _longer_shape,
    "permute": _with(lambda node, size: {"axes": (0, *_further(node.attributes["axes"]))}),
    "slice": _with(lambda node, size: {k: (v, *node.attributes[k]) for k, v in (("starts", 0), ("sizes", size), ("steps", 1))}),
    "pad": _with(lambda node, size: {k: (0, *node.attributes[k]) for k in ("low", "high", "interior")}),
    "as_strided": _as_strided,
    "reduce": _with(lambda node, size: {"axes": _further(node.attributes["axes"])}),
    "matmul": _matmul,
    "take": _take,
    "scatter": _scatter,
    "random": _random,
    **dict.fromkeys(("cat", "join", "window", "argreduce", "scan", "argsort"), _next_axis),
    **dict.fromkeys(("fourier", "fourier_real", "fourier_hermitian"), _next_axis),
    **dict.fromkeys(("part", "as_real", "as_complex", "whole", "diagonal"), _unchanged),
    **dict.fromkeys(("full", "iota"), _no_operand),
}
_FAMILIES: dict[str, BatchingRule] = dict.fromkeys(("pointwise", "complex", "factor"), _unchanged)


def batching_rule(prim: Prim) -> BatchingRule:
    """The rule of a primitive; KeyError for one that has none."""
    return _RULES[prim.name] if prim.name in _RULES else _FAMILIES[prim.family]


def without_rule() -> list[str]:
    """The primitives that have no batching rule."""
    return [name for name, prim in ALL.items() if name not in _RULES and prim.family not in _FAMILIES]
