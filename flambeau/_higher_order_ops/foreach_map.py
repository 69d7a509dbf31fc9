"""foreach_map: a function of each tensor of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["foreach_map"]


def foreach_map(op: Callable[..., Any], *operands: Any, **kwargs: Any) -> list[Any]:
    """``op`` of the first of each list, of the second, and so on; operands that are no lists are the same for all.

    Gradients flow as through ``op``. RuntimeError without a list, or for lists of different lengths.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import foreach_map
    >>> foreach_map(torch.add, [torch.ones(1), torch.zeros(2)], 2.0)
    [tensor([3.]), tensor([2., 2.])]
    """
    lengths = {len(o) for o in (*operands, *kwargs.values()) if isinstance(o, (list, tuple))}
    if len(lengths) != 1:
        raise RuntimeError(f"foreach_map: needs lists of one length among its operands, got lengths {sorted(lengths)}")

    def at(operand: Any, place: int) -> Any:
        return operand[place] if isinstance(operand, (list, tuple)) else operand

    return [op(*[at(o, i) for o in operands], **{n: at(o, i) for n, o in kwargs.items()}) for i in range(lengths.pop())]
