"""Sample calls written out one by one, for operators whose arguments are more than shapes of operands."""

from __future__ import annotations

from typing import Any

from flambeau.ops.samples import Call as Call
from flambeau.ops.samples import SampleMaker as SampleMaker

Calls = list[Call]


def case(*args: Any, **kwargs: Any) -> Call:
    """One call: its arguments."""
    return args, kwargs
