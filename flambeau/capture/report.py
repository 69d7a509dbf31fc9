"""What was compiled, as text: graphs, kernels, guards, memory and the reasons for every compile, all as readable Python."""

from __future__ import annotations

import re
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from flambeau.capture.sizes import Pattern
from flambeau.capture.tree import Block, Check, Step
from flambeau.capture.values import ATOMS, Same
from flambeau.compilation.program import BoundProgram, Program
from flambeau.interp.eager import Nothing
from flambeau.ir.graph import as_python
from flambeau.ir.kernel import as_python as kernel_as_python
from flambeau.runtime.storage import TensorMeta

if TYPE_CHECKING:
    from flambeau.capture.compiled import CompiledFunction
    from flambeau.capture.segments import Runner
    from flambeau.compilation.cuda_program import BoundCudaProgram


class Explanation:
    """The report on a compiled function; print it, or take a part: ``graphs``, ``kernels``, ``guards``, ``memory``, ``history``."""

    def __init__(self, compiled: CompiledFunction) -> None:
        self.name = compiled.name
        self.history = list(compiled.history)
        self.eager_reason = compiled.eager_reason
        self.not_kept = compiled.not_kept
        tree = compiled.tree
        counts = tree.counts()
        self.segments, self.checks, self.captures = counts["segments"], counts["checks"], counts["captures"]
        self.program = compiled.residual.text if compiled.residual is not None else ""
        self._constants = {name: shown(value) for name, value in tree.constants.items() if not isinstance(value, (Block, Check, Step))}
        self.left, self.cuts = list(tree.left), compiled.cuts
        self.python = [] if compiled.native is None else list(compiled.native.expressions)
        programs = [_program(a) for a in compiled.artifacts]
        self.graphs = [as_python(p.graph) for p in programs]
        self.kernels = [_kernels(a) for a in compiled.artifacts]
        self.guards = [_guards_text(a) for a in compiled.artifacts]
        self.memory = [_memory_text(a) for a in compiled.artifacts]
        self.runs = [a.runs for a in compiled.artifacts]

    def __str__(self) -> str:
        lines = [f"# {self.name}: {len(self.graphs)} compiled segment{'s' if len(self.graphs) != 1 else ''}"]
        if self.eager_reason:
            lines.append(f"# runs eagerly: {self.eager_reason}")
        if self.not_kept:
            lines.append(f"# not kept for other processes, because of {self.not_kept}")
        lines += [f"# {note}" for note in self.history] + [f"# a graph ends: {reason}" for reason in self.cuts]
        if self.program:
            lines.append(f"\n# ---- what every call does ({self.segments} segments, {self.checks} checks) ----")
            waiting = dict(self._constants)
            lines += [self._explained(line, waiting) for line in self.program.splitlines()]
        if self.python:
            lines += ["# natively, but for these, which run as Python code:", *(f"#     {text}" for text in self.python)]
        for number, graph in enumerate(self.graphs):
            lines.append(f"\n# ---- segment {number}, run {self.runs[number]} times ----")
            lines += ["# guards", self.guards[number], "# graph", graph, "# kernels", self.kernels[number], "# memory", self.memory[number]]
        return "\n".join(lines)

    __repr__ = __str__

    @staticmethod
    def _explained(line: str, waiting: dict[str, str]) -> str:
        """A line of the program with what its constants are, where each is first met."""
        known = [f"{n} is {waiting.pop(n)}" for n in CONSTANT.findall(line) if n in waiting]
        return f"{line}  # {', '.join(known)}" if known else line


CONSTANT = re.compile(r"\bc\d+\b")


def shown(value: Any) -> str:
    """A constant of a program, short."""
    if isinstance(value, tuple):
        text = f"({', '.join(map(shown, value))})"
    elif isinstance(value, Same):
        return shown(value.value)
    elif isinstance(value, types.CodeType):
        text = f"the code of {value.co_name}"
    elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        text = value.__name__
    elif isinstance(value, partial):
        text = f"{shown(value.func)} of {shown(value.args)}"
    elif type(value) in ATOMS or isinstance(value, (TensorMeta, Pattern)):
        text = repr(value)
    else:
        meta = getattr(value, "meta", None)
        text = f"a {type(value).__name__}{'' if meta is None else f' {meta!r}'}"
    return text if len(text) <= 80 else text[:77] + "..."


def _bound(artifact: Runner) -> BoundProgram | BoundCudaProgram:
    bound = artifact.segment.plan.run.bound
    if isinstance(bound, Nothing):  # on the meta device
        raise NotImplementedError("explain: tensors on the meta device have no elements, so that nothing was compiled")
    assert bound is not None
    return bound


def _program(artifact: Runner) -> Program:
    return _bound(artifact).program


def _kernels(artifact: Runner) -> str:
    """The kernels, and what they are compiled from where that can be read: Triton for GPUs."""
    bound = _bound(artifact)
    text = kernels_text(bound.program)
    return text if isinstance(bound, BoundProgram) else "\n".join([text, *bound.sources()])


def kernels_text(program: Program) -> str:
    """Every call of a program in order: its wave, what it reads and writes, and the kernel."""
    lines: list[str] = []
    for number, call in enumerate(program.schedule.calls):
        lines.append(f"# call {number}, wave {call.wave}: {call.kind}, reads {list(call.reads)}, writes {list(call.writes)}")
        if call.operands is not None:
            o = call.operands
            lines.append(f"# product [{o.batch}, {o.rows}, {o.depth}] x [{o.batch}, {o.depth}, {o.columns}], then for each element:")
        if call.built is not None:
            lines.append(kernel_as_python(call.built.kernel, f"kernel_{number}"))
    return "\n".join(lines)


def _guards_text(runner: Runner) -> str:
    lines = [
        f"assert input {name} is {meta!r}, requires_grad={grad}" for name, (meta, grad) in zip(runner.names, runner.metas, strict=True)
    ]
    lines.append(f"assert the {len(runner.metas)} inputs lie in {runner.storages} different storages")
    return "\n".join(lines)


def _memory_text(artifact: Runner) -> str:
    bound = _bound(artifact)
    temporaries = [b for b in bound.program.schedule.buffers if b.role == "temporary"]
    waves = max((c.wave for c in bound.program.schedule.calls), default=-1) + 1
    kernels = len(bound.program.schedule.calls)
    return f"# {len(temporaries)} temporaries in one arena of {bound.arena_bytes} bytes; {kernels} kernels in {waves} waves"
