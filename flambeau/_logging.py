"""torch._logging: what the compiler tells while a program runs."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any

from flambeau.core import events

__all__ = ["set_logs"]

# What each artifact is here: kinds of events.
ARTIFACTS = {
    "recompiles": ("recompile",), "recompiles_verbose": ("recompile",), "graph_breaks": ("graph_break", "runs_eagerly"),
    "graph": ("graph",), "graph_code": ("graph",), "graph_code_verbose": ("graph",), "aot_graphs": ("graph",),
    "output_code": ("kernel_text",), "kernel_code": ("kernel_text",),
}  # fmt: skip
# What is accepted, and tells nothing here: `explain` of a compiled function has guards, schedules and memory.
SILENT = frozenset(
    "aot aot_joint_graph autograd autotuning benchmarking bytecode c10d caching compiled_autograd compiled_autograd_verbose "
    "compute_dependencies cudagraph_static_inputs cudagraphs ddp ddp_graphs distributed dtensor dynamic dynamo export fsdp fusion "
    "graph_region_expansion graph_sizes guards hierarchical_compile incremental inductor inductor_metrics ir_post_fusion ir_pre_fusion "
    "modules onnx onnx_diagnostics overlap perf_hints post_grad_graphs pre_grad_graphs schedule side_effects sym_node trace_bytecode "
    "trace_call trace_source".split()
)
_ended: list[Callable[[], None]] = []


def set_logs(*, all: int | None = None, **artifacts: Any) -> None:  # noqa: A002 - torch's own name
    """Print what the compiler does to the standard error stream, in place of what an earlier call asked for; nothing without arguments.

    ``recompiles`` and ``graph_breaks`` tell each with its reason and line, ``graph_code`` the graphs, ``output_code`` the kernels. Levels
    of components (``dynamo=logging.DEBUG`` and the like) are accepted; with `logging.DEBUG` for ``all`` or ``dynamo``, recompiles and
    breaks are told. ValueError for an unknown name.

    >>> import flambeau as torch
    >>> torch._logging.set_logs(recompiles=True, graph_breaks=True)
    >>> torch._logging.set_logs()
    """
    unknown = sorted(artifacts.keys() - ARTIFACTS.keys() - SILENT)
    if unknown:
        raise ValueError(f"set_logs: got the unknown names {unknown}; known are {sorted({*ARTIFACTS, *SILENT})}")
    while _ended:
        _ended.pop()()
    wanted = [kind for name, on in artifacts.items() if on for kind in ARTIFACTS.get(name, ())]
    if any(level is not None and level <= logging.DEBUG for level in (all, artifacts.get("dynamo"))):
        wanted += ["recompile", "graph_break", "runs_eagerly"]
    if wanted:
        _ended.append(events.subscribe(_tell, *wanted))


def _tell(kind: str, fields: events.Event) -> None:
    name = fields.get("function") or fields.get("name") or ""
    print(f"[__{kind}] {name}: {inspect.cleandoc(str(fields.get('note') or fields.get('text') or ''))}", file=sys.stderr)
