"""What a pass changed in a graph, as a difference of their printed forms."""

from __future__ import annotations

import difflib

from flambeau.core import events
from flambeau.ir.graph import Graph, as_python

__all__ = ["report_pass"]

# Comparing texts takes time that grows with the square of their length.
MOST_LINES = 2_000


def report_pass(name: str, before: Graph, after: Graph) -> Graph:
    """Emit the event ``pass_diff`` if anybody would see it and something changed; returns ``after``."""
    if after is not before and events.enabled("pass_diff"):
        old, new = as_python(before).splitlines(), as_python(after).splitlines()
        if old != new:
            events.emit("pass_diff", name=name, lines_before=len(old), lines_after=len(new), difference=_difference(old, new))
    return after


def _difference(old: list[str], new: list[str]) -> str:
    if max(len(old), len(new)) > MOST_LINES:
        return f"(not shown: more than {MOST_LINES} lines)\n"
    return "\n".join(difflib.unified_diff(old, new, "before", "after", n=1, lineterm="")) + "\n"
