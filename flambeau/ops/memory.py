"""The operator behind copy_ and fill_."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops.declare import Value, op
from flambeau.ops.samples import unary


@op("pointwise", samples=lambda make: [((args[0], make.float(*args[0].shape)), {}) for args, _ in unary(make)])
def assign(x: Value, source: Value) -> Node:
    """``source`` in the shape and type of ``x``: what ``x.copy_(source)`` writes."""
    return p.copy(source) if source.dtype is x.dtype else p.cast(source, to=x.dtype)

