"""torch._dynamo._trace_wrapped_higher_order_op: what libraries import from there."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext):
    """Inside, tensors without dimensions index in `vmap` as others do. They always do here: nothing to set."""
