"""while_loop: a function again and again while another holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._higher_order_ops.cond import check_value
from flambeau.tensor.base import TensorBase
from flambeau.utils._pytree import tree_map, tree_structure

__all__ = ["while_loop"]


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any, additional_inputs: Any = ()) -> Any:
    """``carried = body_fn(*carried, *additional)`` while ``cond_fn(*carried, *additional)``; the values carried last.

    ``body_fn`` gives as many values, in the same containers, as ``carried_inputs`` has, else RuntimeError. Without a single turn the
    results are copies.

    >>> import flambeau as torch
    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop: Expect carried_inputs to be a tuple of tensors, but got {type(carried_inputs).__name__}.")
    carried, turns = tuple(carried_inputs), 0
    while _holds(cond_fn(*carried, *additional_inputs)):
        made = body_fn(*carried, *additional_inputs)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if tree_structure(made) != tree_structure(carried):
            raise RuntimeError(f"while_loop: body_fn gave {len(made)} values of another structure than the {len(carried)} carried ones")
        carried, turns = made, turns + 1
    return carried if turns else tree_map(_copied, carried)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


def _holds(value: Any) -> bool:
    check_value("while_loop", "the result of cond_fn", value)
    return bool(value)
