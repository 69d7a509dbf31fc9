"""The tape of a capture: entries of recorded calls, whose derivatives are taken from the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.core.symbolic import Dim, Expression
from flambeau.derivative.batching import at_sizes
from flambeau.derivative.differentiate import gradients
from flambeau.interp.functions import GraphFunction
from flambeau.ir import origins
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node
from flambeau.runtime.storage import TensorMeta, meta_of
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import edge_of, wants_gradient
from flambeau.tensor.tape import SECOND_BACKWARD, Entry

Edge = tuple[Any, int] | None


class CaptureEntry(Entry):
    """The tape entry of a recorded call: its derivative is taken from the nodes. It keeps nodes alive, no tensors."""

    __slots__ = ("operands", "outputs", "recorder", "title")

    def __init__(self, recorder: Any, title: str, operands: list[tuple[Node, Edge]], outputs: list[tuple[Node, TensorMeta]]) -> None:
        super().__init__([edge for _, edge in operands if edge is not None], [m for _, m in outputs])
        self.recorder = recorder
        self.title = title
        self.operands: list[tuple[Node, Edge]] | None = operands
        self.outputs = [n for n, _ in outputs]

    @property
    def name(self) -> str:  # type: ignore[override]
        return "".join(w[:1].upper() + w[1:] for w in self.title.split("_")) + "Backward0"

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        if self.operands is None:
            raise RuntimeError(SECOND_BACKWARD)
        recorder = self.recorder
        if dispatch.level_of([c for c in cotangents if c is not None]):
            return self._apply_batched(self.operands, cotangents)
        met = {n for n, _ in self.operands}
        given = [(recorder._apart(recorder.read(c), met), gradient_edge(c)) for c in cotangents if c is not None]
        nodes = iter([n for n, _ in given])
        weights = [None if c is None else next(nodes) for c in cotangents]
        # Stopping at every operand, also at those that the tape does not lead to.
        all_parts = gradients(self.outputs, weights, [n for n, _ in self.operands])
        parts = [g for g, (_, edge) in zip(all_parts, self.operands, strict=True) if edge is not None]
        lines = [o.line for o in origins.origins_of(self.outputs)] if origins.wanted() else []
        recorder._note(self.title + "_backward", [g for g in parts if g is not None], *lines[:1])
        device = self.metas[0].device
        found = [(g, meta_of(sizes_of(g.shape), g.dtype, None, device)) for g in parts if g is not None]
        made = iter(recorder.results(self.title + "_backward", [*self.operands, *given], found))
        return [None if g is None else next(made) for g in parts]

    def _apply_batched(self, operands: list[tuple[Node, Edge]], cotangents: list[TensorBase | None]) -> list[TensorBase | None]:
        """`apply` where ``vmap`` runs it: a function of the operands and the cotangents."""
        given = [c for c in cotangents if c is not None]
        known = {n: graph_input(f"operand{k}", n.aval) for k, (n, _) in enumerate(operands)}
        met = enumerate(zip(cotangents, self.outputs, strict=True))
        weights = [None if c is None else graph_input(f"cotangent{k}", o.aval) for k, (c, o) in met]
        parts = gradients(self.outputs, weights, list(known))
        inputs = (*known.values(), *(w for w in weights if w is not None))
        outputs = at_sizes([g for g in parts if g is not None], {**known, **{w: w for w in weights if w is not None}}, {})
        function = GraphFunction(self.title + "_backward", Graph(inputs, tuple(outputs)), len(inputs))
        tensors = [self._standing_for(n, edge) for n, edge in operands]
        made = iter(dispatch.run_batched_function(function, self.recorder.sizes.hints, [*tensors, *given]))
        found = [None if g is None else next(made) for g in parts]
        return [g for g, (_, edge) in zip(found, operands, strict=True) if edge is not None]

    def _standing_for(self, node: Node, edge: Edge) -> Any:
        """A tensor whose value is that of an operand, with the operand's place on the tape."""
        if edge is not None and isinstance(edge[0], TensorBase):
            return edge[0]  # nothing that requires gradients is overwritten
        tensor = self.recorder.pending(node, meta_of(sizes_of(node.shape), node.dtype, None, self.metas[0].device))
        if edge is not None and context.grad_enabled:
            tensor.entry, tensor.output, tensor._requires_grad = *edge, True
        return tensor

    def release(self) -> None:
        self.operands = None

    @property
    def released(self) -> bool:
        """Whether backward has been through it for the last time."""
        return self.operands is None


def gradient_edge(tensor: Any) -> Edge:
    """Where a gradient of the tensor goes, None when it takes no part in autograd."""
    return edge_of(tensor) if tensor.meta.dtype.is_inexact and wants_gradient(tensor) else None


def sizes_of(shape: Sequence[Dim]) -> tuple[Any, ...]:
    return tuple([n if type(n) is Expression else int(n) for n in shape])
