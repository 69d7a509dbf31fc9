"""Calls of `autograd.Function` in a graph: ``backward`` is interpreted on trial, and becomes the derivative of what ``forward`` gave.

A trial does nothing that could not be done again: whatever would change an object from before, run the segment or call unknown code
ends it, and the call is a step of its own, in which the function runs as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from flambeau import prims as p
from flambeau.capture.machine import Interruption
from flambeau.core.context import context
from flambeau.derivative.differentiate import depends_on
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node, rebuild, toposort
from flambeau.ops.declare import Region, keep
from flambeau.prims.pointwise import number
from flambeau.runtime.storage import meta_of
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import edge_of, wants_gradient
from flambeau.tensor.function import Function, FunctionContext, TwiceEntry
from flambeau.tensor.tape import Saved

_serial = itertools.count()  # equal forwards may have different backwards
__all__ = ["Lasting", "call_function"]


class Lasting(Interruption):
    """A trial has come to something that lasts."""


class OwnDerivative:
    """The derivative of results: the nodes ``parts``, in which ``cotangents`` stand for theirs.

    ``kept`` is what the parts are computed from beside these; of that, ``inner`` are the results themselves.
    """

    def __init__(self, cotangents: list[Node], parts: list[Node | None], kept: list[Node], inner: list[Node]) -> None:
        self.cotangents = cotangents
        self.parts = parts
        self.kept = kept
        self.inner = inner

    def moved(self, replace: Any, known: dict[Node, Node]) -> OwnDerivative:
        """The same in a graph that is rebuilt."""
        inside = {n: known[n] for n in self.kept}
        cotangents = rebuild(self.cotangents, replace, inside)
        found = iter(rebuild([n for n in self.parts if n is not None], replace, inside))
        parts = [None if n is None else next(found) for n in self.parts]
        return OwnDerivative(cotangents, parts, [known[n] for n in self.kept], [known.get(n, n) for n in self.inner])

    def __call__(self, given: Sequence[Node | None], outputs: Sequence[Node | None], _: Any) -> list[Node | None]:
        known = {n: n for n in self.kept} | {n: o for n, o in zip(self.inner, outputs, strict=True) if n in self.kept and o is not None}
        known |= {c: number(0, c) if g is None else g for c, g in zip(self.cotangents, given, strict=True)}
        found = iter(rebuild([n for n in self.parts if n is not None], lambda node, sources: None, known))
        return [None if n is None else next(found) for n in self.parts]


def call_function(semantics: Any, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``cls.apply(*args, **kwargs)`` as part of the graph, in a list of one; None where it cannot be."""
    trace = semantics.trace
    wanted = tuple([isinstance(a, TensorBase) and wants_gradient(a) for a in args])
    ctx = trace.new(FunctionContext(cls, wanted))
    grad, recorder = context.grad_enabled, semantics.namer.writer.recorder
    if not grad or not any(wanted):
        found, outputs = _forward(semantics, cls, ctx, args, kwargs)
        return [_together(found, ctx.record(args, outputs, False))]

    def made() -> Any:
        found, outputs = _forward(semantics, cls, ctx, args, kwargs)
        return _together(found, _Results(semantics, recorder, cls, ctx, args, outputs).made())

    return attempted(semantics, made)


def attempted(semantics: Any, run: Callable[[], Any]) -> list[Any] | None:
    """What ``run()`` gives, in a list of one; None, with nothing done, where it comes to something that lasts."""
    trace, grad, recorder = semantics.trace, context.grad_enabled, semantics.namer.writer.recorder
    risks, serial, outer = len(recorder.risky), recorder.serial, trace.trial
    if outer is None:
        trace.trial, recorder.trial = trace.made - 1, recorder.serial
    try:
        return [run()]
    except Lasting:
        del recorder.risky[risks:]
        recorder.forget_since(serial)
        if outer is not None:
            raise
        return None
    finally:
        context.grad_enabled, trace.trial = grad, outer
        if outer is None:
            recorder.trial = None


def _forward(semantics: Any, cls: type[Function], ctx: FunctionContext, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Sequence[Any]]:
    with_setup = cls.setup_context is not Function.setup_context
    grad, context.grad_enabled = context.grad_enabled, False
    try:
        found = semantics.call(semantics.load_attribute(cls, "forward"), args if with_setup else (ctx, *args), kwargs)
        if with_setup:
            semantics.call(semantics.load_attribute(cls, "setup_context"), (ctx, args, found), {})
    finally:
        context.grad_enabled = grad
    return found, found if isinstance(found, tuple) else (found,)


def _together(found: Any, results: list[Any]) -> Any:
    if not isinstance(found, tuple):
        return results[0]
    return type(found)(*results) if hasattr(found, "_fields") else tuple(results)


class _Results:
    """What one call gives."""

    def __init__(self, semantics: Any, recorder: Any, cls: Any, ctx: Any, args: tuple[Any, ...], outputs: Sequence[Any]) -> None:
        self.semantics, self.recorder, self.cls, self.ctx, self.args, self.outputs = semantics, recorder, cls, ctx, args, outputs
        constant = {id(t) for t in ctx._without_gradient}
        self.places = [
            i for i, o in enumerate(outputs) if isinstance(o, TensorBase) and o.meta.dtype.is_inexact and id(o) not in constant
        ]
        self.operands = [a for a, w in zip(args, ctx.needs_input_grad, strict=True) if w]

    def made(self) -> list[Any]:
        recorder, outputs = self.recorder, [self.outputs[i] for i in self.places]
        if not outputs:
            return self.ctx.record(self.args, self.outputs, False)
        plain = not any(t.meta.dtype.is_complex for t in (*outputs, *self.operands)) and len({id(o) for o in outputs}) == len(outputs)
        if self.ctx._dirty or not plain or (len(outputs) > 1 and not self.ctx.materialize_grads):
            raise Lasting
        inner, nodes = [recorder.read(t) for t in outputs], [recorder.read(t) for t in self.operands]
        cotangents, parts = self._backward(outputs)
        order = toposort([n for n in parts if n is not None])
        depends = depends_on(order, cotangents)
        ends = {s for n in order if n in depends for s in n.sources} | {n for n in parts if n is not None}
        kept = [n for n in order if n in ends and n not in depends]
        below = toposort(kept, lambda n: () if n in nodes or n.op is p.detach else n.sources)
        if len({*nodes}) < len(nodes) or any(n.op is INPUT and recorder.active(n) for n in below if n not in nodes):
            raise Lasting  # the second derivative would go by ways that are not the function's
        inner = [p.copy(n, index=recorder.fresh()) if n in nodes else n for n in inner]
        sources = (*nodes, *[n for n in kept if n not in nodes])
        results = [Node(p.own, (n, *sources), index=next(_serial)) for n in inner]
        keep(Region(OwnDerivative(cotangents, parts, kept, inner), (), tuple(nodes), tuple(results)))
        metas = [o.meta if o.view_of is None else meta_of(o.meta.shape, o.meta.dtype, None, o.meta.device) for o in outputs]
        edges = [(n, edge_of(t)) for n, t in zip(nodes, self.operands, strict=True)]
        made = list(self.outputs)
        for i, tensor in zip(self.places, recorder.results(self.cls.__name__, edges, list(zip(results, metas, strict=True))), strict=True):
            made[i] = tensor
        return made

    def _backward(self, outputs: list[Any]) -> tuple[list[Node], list[Node | None]]:
        """Nodes that stand for the gradients of outputs, and what ``backward`` makes of them: those of the operands."""
        recorder, ctx, serial, risks = self.recorder, self.ctx, self.recorder.serial, len(self.recorder.risky)
        backward = self.semantics.load_attribute(self.cls, "vjp" if self.cls.backward is Function.backward else "backward")
        ctx.function = SimpleNamespace(__name__=self.cls.__name__, backward=self.semantics.entered(backward))  # type: ignore[assignment]
        ctx.edges = [edge_of(a) if w else None for a, w in zip(self.args, ctx.needs_input_grad, strict=True)]
        ctx.metas = [o.meta if isinstance(o, TensorBase) else None for o in self.outputs]
        ctx._input_metas = [a.meta if isinstance(a, TensorBase) else None for a in self.args]
        ctx._saved, ctx._to_save = [None if t is None else Saved(t) for t in ctx._to_save], ()
        given = [recorder.stand_in(o.meta) for o in outputs]
        nodes = [recorder.read(t) for t in given]
        places = dict(zip(self.places, given, strict=True))
        try:
            gradients = ctx.apply([places.get(i) for i in range(len(self.outputs))])
        except Exception:
            raise Lasting from None  # it is raised when backward runs
        parts = [self._part(g, nodes) for g, e in zip(gradients, ctx.edges, strict=True) if e is not None]
        del recorder.risky[risks:]
        recorder.forget_since(serial)
        return nodes, parts

    def _part(self, gradient: Any, cotangents: list[Node]) -> Node | None:
        if gradient is None:
            return None
        node = self.recorder.read(gradient)
        once = isinstance(gradient.entry, TwiceEntry)
        return Node(p.own, (node, *cotangents), index=next(_serial)) if once else node
