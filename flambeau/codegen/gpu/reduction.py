"""How reductions are written: of a block at once, or step by step over the blocks of a row."""

from __future__ import annotations

from flambeau.codegen.cpu.reduction import identity
from flambeau.codegen.gpu.pointwise import triton_type
from flambeau.codegen.gpu.writer import literal
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.kernel import ARGREDUCE
from flambeau.ir.node import Node

NO_POSITION = (1 << 63) - 1


def reduce_block(node: Node, value: str, position: str) -> str:
    """The reduction of a block along its rows, elements outside of the row left out."""
    element = node.sources[0].dtype
    start = f"tl.where(in_r, {value}, {start_of(node)})"
    if node.op is not ARGREDUCE:
        return fold(node, start)
    places = f"tl.where(in_r, {position}, {NO_POSITION})"
    pair = f"(tl.broadcast_to({typed(start, element)}, [X, R]), tl.broadcast_to({places}, [X, R]))"
    return f"tl.reduce({pair}, 1, first_{node.attributes['kind']}, keep_dims=True)[1]"


def typed(text: str, element: dtype) -> str:
    """A choice between a tensor and a number, in the tensor's type."""
    return f"{text}.to({triton_type(element)})"


def start_of(node: Node) -> str:
    element = node.sources[0].dtype
    if element.itemsize == 2 and element.is_floating_point or element.is_complex:
        raise NotImplementedError(f"reduction {node.attributes['kind']} of {element} on the GPU: cast its operand to {element.compute}")
    return literal(identity(node.attributes["kind"], element), element)


def fold(node: Node, value: str) -> str:
    """All elements of each row combined."""
    kind, element = node.attributes["kind"], node.sources[0].dtype
    if element is dtypes.bool_:
        extreme = "max" if kind in ("sum", "max", "any") else "min"
        return f"tl.{extreme}({value}.to(tl.int32), 1, keep_dims=True) != 0"
    if kind == "sum" and element.itemsize >= 4:
        return f"tl.sum({value}, 1, keep_dims=True)"
    by = {"sum": "add", "prod": "multiply"}.get(kind)
    if by is None:
        by = {"max": "maximum", "min": "minimum"}[kind] if element.is_floating_point else {"max": "larger", "min": "smaller"}[kind]
    return f"tl.reduce({typed(value, element)}, 1, {by}, keep_dims=True)"


def combine(kind: str, element: dtype, a: str, b: str) -> str:
    """One step of a reduction."""
    if element is dtypes.bool_:
        return f"{a} | {b}" if kind in ("sum", "max", "any") else f"{a} & {b}"
    if kind in ("sum", "prod"):
        return f"{a} {'+' if kind == 'sum' else '*'} {b}"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if element.is_floating_point else ""
    return f"tl.{kind}imum({a}, {b}{nan})"


class Accumulation:
    """A reduction over the blocks of a row, element by element; ``name`` stands for it, finished after the loop."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name
        self.element = node.sources[0].dtype
        self.kind: str = node.attributes["kind"]
        self.position: Dim | None = node.attributes["position"] if node.op is ARGREDUCE else None

    def start(self) -> list[str]:
        lines = [f"{self.name} = tl.full([X, R], {start_of(self.node)}, {triton_type(self.element)})"]
        if self.position is not None:
            lines.append(f"{self.name}_at = tl.full([X, R], {NO_POSITION}, tl.int64)")
        return lines

    def step(self, value: str, position: str) -> list[str]:
        operand = f"tl.where(in_r, {value}, {start_of(self.node)}).to({triton_type(self.element)})"
        if self.position is None:
            return [f"{self.name} = {combine(self.kind, self.element, self.name, operand)}"]
        places = f"tl.where(in_r, {position}, {NO_POSITION})"
        return [f"{self.name}, {self.name}_at = first_{self.kind}({self.name}, {self.name}_at, {operand}, {places})"]

    def finish(self) -> list[str]:
        if self.position is None:
            return [f"{self.name} = {fold(self.node, self.name)}"]
        pair = f"({self.name}, {self.name}_at)"
        return [f"{self.name} = tl.reduce({pair}, 1, first_{self.kind}, keep_dims=True)[1]"]
