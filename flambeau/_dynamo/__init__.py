"""torch._dynamo: what programs tell ``compile`` about the sizes of their tensors, and names of it that programs use."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._dynamo import compiled_autograd as compiled_autograd
from flambeau._dynamo import config as config
from flambeau._dynamo import eval_frame as eval_frame
from flambeau._dynamo import exc as exc
from flambeau._dynamo import testing as testing
from flambeau._dynamo import utils as utils
from flambeau.compiler import allow_in_graph, assume_constant_result, compile, disable, is_compiling, reset, set_stance, substitute_in_graph
from flambeau.compiler.backends import list_backends, lookup_backend, register_backend
from flambeau.core.context import context
from flambeau.nn.compiled_module import OptimizedModule
from flambeau.tensor.base import TensorBase

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "explain", "export", "forbid_in_graph",
    "graph_break", "is_compiling", "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address",
    "maybe_mark_dynamic", "optimize", "optimize_assert", "register_backend", "reset", "run", "set_stance", "substitute_in_graph",
]  # fmt: skip


def optimize(
    backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False
) -> Callable[..., Any]:  # fmt: skip
    """The older form of ``compile``: a decorator.

    >>> import flambeau as torch
    >>> torch._dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    return functools.partial(compile, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend: Any = "inductor", **options: Any) -> Callable[..., Any]:
    """As `optimize`, for functions that have to be one graph."""
    return optimize(backend, nopython=True, **options)


class BreakReason(str):
    """Why a graph ends: a text, also as ``reason``, with the line of the program as ``user_stack``."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """The text."""
        return str(self)

    @property
    def user_stack(self) -> list[traceback.FrameSummary]:
        """The line, in a list as long as it is known."""
        found = re.search(r"\(([^():]+):(\d+)\)", self)
        return [traceback.FrameSummary(found[1], int(found[2]), "", lookup_line=False)] if found else []


class ExplainOutput:
    """What `explain` found: counts, the reasons of breaks, and the report of the compiled function, which printing shows."""

    def __init__(self, compiled: Any) -> None:
        report = compiled.explain()
        self.graphs, self.graph_count = report.graphs, len(report.graphs)
        self.break_reasons = list(map(BreakReason, report.cuts))
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(runner.operators for runner in compiled.artifacts)
        self.out_guards, self.report = report.guards, report

    def __str__(self) -> str:
        head = f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\nOp Count: {self.op_count}\n"
        reasons = "".join(f"  {i + 1}: {reason}\n" for i, reason in enumerate(self.break_reasons))
        return f"{head}Break Reasons:\n{reasons}\n{self.report}"


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls ``f`` compiled and tells what became graphs and what ended them.

    >>> import flambeau as torch
    >>> found = torch._dynamo.explain(lambda x: x * 2 if x.sum() > 0 else x)(torch.ones(2))
    >>> found.graph_count, found.graph_break_count
    (2, 1)
    """

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        compiled = compile(f)
        compiled(*args, **kwargs)
        return ExplainOutput(getattr(compiled, "_compiled", compiled))

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


def graph_break(msg: str = "") -> None:
    """End the graph here, inside a function that is compiled: what was recorded runs, and the function goes on in another graph."""
    if context.capture is not None:
        context.capture.end_segment(msg or "graph_break() was called")


def disallow_in_graph(fn: Any) -> Any:
    """Mark a function as one that is called for itself, outside graphs."""
    return [disallow_in_graph(f) for f in fn] if isinstance(fn, (list, tuple)) else disable(fn)


def forbid_in_graph(fn: Any) -> Any:
    """Mark a function that raises RuntimeError where a compiled function calls it."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(f) for f in fn]

    @functools.wraps(fn)
    def forbidden(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise RuntimeError(f"{fn.__qualname__} is marked by forbid_in_graph, and a compiled function calls it; call it outside")
        return fn(*args, **kwargs)

    return forbidden


def run(fn: Any = None) -> Any:
    """Decorate a function in which compiled functions run what they have compiled, and nothing new is compiled."""
    return set_stance("eager_on_recompile") if fn is None else set_stance("eager_on_recompile")(fn)


def export(*_: Any, **__: Any) -> Any:
    """Not supported: compile() keeps what it captures; save_cache_artifacts() carries it to other machines."""
    raise NotImplementedError("torch._dynamo.export: not supported; use torch.compile, and torch.compiler.save_cache_artifacts to carry it")


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Tell that a tensor always lies in the same memory; nothing relies on that."""


def mark_dynamic(
    t: Any, index: int | Sequence[int], *, hint_override: int | None = None, min: int | None = None, max: int | None = None,  # noqa: A002
    specialize_on: Any = None,
) -> None:  # fmt: skip
    """Let the sizes of ``t`` in the dimensions ``index`` be variables of what is compiled for it, from the first call on.

    Sizes of 0 and 1 are always compiled for themselves, and so is a size that the function fixes. ``hint_override``, ``min``, ``max``
    and ``specialize_on`` are not needed: what is compiled relies on nothing but what it checks.

    >>> import flambeau as torch
    >>> x = torch.ones(3, 2)
    >>> torch._dynamo.mark_dynamic(x, 0)
    >>> torch.compile(lambda x: x.sum(1))(x)
    tensor([2., 2., 2.])
    """
    _mark("mark_dynamic", t, index, "_dynamo_dynamic_indices")


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """As `mark_dynamic`, which never insists."""
    _mark("maybe_mark_dynamic", t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """Compile for each size of ``t`` in the dimensions ``index`` (all if None) that comes, whatever sizes come."""
    _mark("mark_static", t, range(t.dim()) if index is None else index, "_dynamo_static_indices")


def _mark(name: str, t: Any, index: int | Sequence[int], attribute: str) -> None:
    if not isinstance(t, TensorBase):
        raise TypeError(f"{name}: needs a tensor, got {type(t).__name__}")
    dims = [index] if isinstance(index, int) else list(index)
    rank = len(t.meta.shape)
    for dim in dims:
        if not -rank <= dim < rank:
            raise IndexError(f"{name}: there is no dimension {dim} in a tensor of {rank} dimensions; use one from {-rank} to {rank - 1}")
    setattr(t, attribute, {*getattr(t, attribute, ()), *(dim % rank for dim in dims)})
