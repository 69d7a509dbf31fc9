"""The layout interpreter: follows view primitives on strides instead of data, so that views in eager mode run no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node
from flambeau.runtime.storage import contiguous_strides

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ViewOf:
    """A strided view of input ``position``; the offset is in elements of the view from the input's own first element."""

    position: int
    shape: Ints
    strides: Ints
    offset: int


def view_strides(shape: Ints, strides: Ints, new_shape: Ints) -> Ints | None:
    """Strides that show the same elements in ``new_shape``, or None when only a copy can.

    Runs of axes that are contiguous among themselves may be split and merged freely.
    """
    if 0 in shape:
        return contiguous_strides(new_shape) if shape != new_shape else strides
    kept = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    out: list[int] = []
    at = len(kept) - 1
    block, stride = 1, 1  # elements left in the current run, stride of its next axis
    for size in reversed(new_shape):
        if size == 1:
            out.append(stride if at < 0 and block == 1 else stride)
            continue
        while block % size:
            if block != 1 or at < 0:
                return None
            block, stride = kept[at]
            at -= 1
            while at >= 0 and kept[at][1] == stride * block:
                block *= kept[at][0]
                at -= 1
        out.append(stride)
        stride *= size
        block //= size
    return tuple(reversed(out)) if block == 1 and at < 0 else None


def view_of(node: Node, inputs: Sequence[Node], layouts: Sequence[tuple[Ints, Ints]]) -> ViewOf | None:
    """``node`` as a view of one of ``inputs``, or None when it computes something or strides cannot express it.

    ``layouts`` gives each input's shape and strides.
    """
    chain: list[Node] = []
    while node not in inputs:
        if node.op is INPUT or node.op.family != "view" or len(node.sources) != 1 or node.op.name == "pad":
            return None
        chain.append(node)
        node = node.sources[0]
    position = inputs.index(node)
    shape, strides = layouts[position]
    offset = 0
    for step in reversed(chain):
        found = _step(step, shape, strides) if step.dtype is step.sources[0].dtype else _other_elements(step, strides, offset)
        if found is None:
            return None
        strides, moved = found
        shape = cast(Ints, step.shape)
        offset = offset + moved if step.dtype is step.sources[0].dtype else moved
    return ViewOf(position, shape, strides, offset)


def _step(node: Node, shape: Ints, strides: Ints) -> tuple[Ints, int] | None:
    attributes = node.attributes
    match node.op.name:
        case "expand":
            return tuple(s if n == m else 0 for n, m, s in zip(shape, node.shape, strides, strict=True)), 0
        case "permute":
            return tuple(strides[a] for a in attributes["axes"]), 0
        case "slice":
            if any(step < 0 for step in attributes["steps"]):
                return None
            moved = sum(start * s for start, s in zip(attributes["starts"], strides, strict=True))
            return tuple(s * step for s, step in zip(strides, attributes["steps"], strict=True)), moved
        case "window":
            axis, step = attributes["axis"], attributes["step"]
            return (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis] * attributes["dilation"]), 0
        case "as_strided" if strides == (1,) or shape == (1,):
            return tuple(attributes["strides"]), attributes["offset"]
        case "diagonal":
            return (*strides[:-2], strides[-2] + strides[-1]), 0
        case "reshape":
            found = view_strides(shape, strides, node.shape)  # type: ignore[arg-type]
            return None if found is None else (found, 0)
    return None


def _other_elements(node: Node, strides: Ints, offset: int) -> tuple[Ints, int] | None:
    """Strides and offset between complex numbers and their parts, which are half as large."""
    doubled = tuple(2 * s for s in strides)
    match node.op.name:
        case "part":
            return doubled, 2 * offset + node.attributes["index"]
        case "as_real":
            return (*doubled, 1), 2 * offset
        case "as_complex" if strides[-1] == 1 and not any(s % 2 for s in (*strides[:-1], offset)):
            return tuple(s // 2 for s in strides[:-1]), offset // 2
    return None


def views_of(graph: Graph, layouts: Sequence[tuple[Ints, Ints]]) -> list[ViewOf] | None:
    """Every output as a view of an input, or None when some output is not."""
    out: list[ViewOf] = []
    for node in graph.outputs:
        found = view_of(node, graph.inputs, layouts)
        if found is None:
            return None
        out.append(found)
    return out
