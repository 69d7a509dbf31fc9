"""Native entries of compiled graphs: the checks, the search for operands and the run of a whole graph in one native call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.runtime.native import graphs, heap_types, layouts, library
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor.native_plan import Block, NativePlan, pack, performable
from flambeau.tensor.plans import CallPlan

__all__ = ["Check", "Source", "graph_entry"]

# ("argument", number), ("held", tensor) or ("gradient", tensor).
Source = tuple[str, Any]
# ("item", list, index, value), ("value", dict, key, value) or ("cell", cell, value): what must still be that very object.
Check = tuple[Any, ...]


def graph_entry(
    plan: CallPlan, arguments: Sequence[tuple[TensorMeta, bool]], sources: Sequence[Source], *, mode: int, storages: int,
    checks: Sequence[Check] = (), reads: Sequence[Callable[[], Any]] = (), returned: int | None = None,
) -> Callable[[Sequence[Any]], Any] | None:  # fmt: skip
    """A native callable that performs ``plan``; None where native code is off or only Python can run the plan.

    Called with a list of tensors, it gives the first ``returned`` results of the plan as a tuple, or NotImplemented, with nothing
    done, unless all of this holds: each argument has its metadata (the very object) and takes part in autograd or not as
    ``arguments`` says; the operands, found by ``sources``, have the metadata that the plan was made for, are computed, and have
    ``storages`` different storages among them; the modes of the thread are ``mode`` (`core.context.Context.bits`); and the
    objects in ``checks`` are still in their places. ``reads`` give the numbers of the call.

    >>> import flambeau as torch
    >>> from flambeau.tensor.dispatch import plan_call, take_apart
    >>> x = torch.ones(2)
    >>> plan = plan_call(take_apart(torch.ops.exp, (x,), {}), ())
    >>> entry = graph_entry(plan, [(x.meta, False)], [("argument", 0)], mode=0, storages=1)
    >>> x.exp() if entry is None else entry([x])[0]  # None when native code is off
    tensor([2.7183, 2.7183])
    """
    native = library.load()
    if native is None or not performable(plan):
        return None
    made = NativePlan(plan.run.function.name, plan, tuple(range(plan.count if returned is None else returned)), {})
    wanted = Block([w for meta, marked in arguments for w in pack(layouts.Argument, {"meta": id(meta), "marked": marked})], list(arguments))
    checked = Block([w for check in checks for w in _check(check)], list(checks))
    places = zip(sources, plan.metas, strict=True)
    found = Block([w for source, meta in places for w in _source(source, meta)], list(sources))
    readers = Block(list(map(id, reads)), list(reads))
    graph = Block(pack(layouts.Graph, {
        "plan": made.block.address, "mode": mode, "argument_count": len(arguments), "arguments": wanted.address,
        "check_count": len(checks), "checks": checked.address, "source_count": len(sources), "sources": found.address,
        "storages": storages, "read_count": len(reads), "reads": readers.address,
    }), made, wanted, checked, found, readers)  # fmt: skip
    return native.function("graph_call", heap_types.METH_ONE, graph.address, graph)


def _source(source: Source, meta: TensorMeta) -> list[int]:
    kind, value = source
    if kind == "argument":
        return pack(layouts.Source, {"argument": value, "meta": id(meta)})
    return pack(layouts.Source, {"argument": -1, "tensor": id(value), "gradient": kind == "gradient", "meta": id(meta)})


def _check(check: Check) -> list[int]:
    kind, container, *key, value = check
    fields = {"container": id(container), "value": id(value)}
    if kind == "item":
        fields |= {"kind": graphs.ITEM, "key": key[0]}
    elif kind == "value":
        fields |= {"kind": graphs.VALUE, "key": id(key[0])}
    else:
        fields["kind"] = graphs.CELL
    return pack(layouts.Check, fields)
