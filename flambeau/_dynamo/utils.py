"""torch._dynamo.utils: counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from flambeau.capture.compiled import living
from flambeau.core.context import context

__all__ = ["CompileProfiler", "counters", "is_compile_supported"]


class Counters(defaultdict[str, "Counter[str]"]):
    """Counts by kind; "frames" and "stats" are those of the compiled functions that exist."""

    def __init__(self) -> None:
        super().__init__(Counter)

    def __missing__(self, kind: str) -> Counter[str]:
        graphs = sum(len(c.artifacts) for c in living)
        if kind == "stats":
            return Counter(calls_captured=sum(r.operators for c in living for r in c.artifacts), unique_graphs=graphs)
        if kind == "frames":
            return Counter(total=len(living), ok=sum(c.eager_reason is None for c in living))
        if kind == "graph_break":
            return Counter(cut for c in living for cut in c.cuts)
        return super().__missing__(kind)


counters = Counters()


def is_compile_supported(device_type: Any) -> bool:
    """Whether ``compile`` makes code for a kind of device."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")


class CompileProfiler:
    """A back end that counts the graphs that it gets, and runs them as they are."""

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, graph: Any, example_inputs: Any, **_: Any) -> Any:
        self.frame_count += 1
        self.op_count += sum(n.op == "call_function" and bool(n.args) for n in graph.graph.nodes)  # constants are no operations
        return graph

    @property
    def compiling(self) -> bool:
        """Whether something is captured now."""
        return context.capture is not None
