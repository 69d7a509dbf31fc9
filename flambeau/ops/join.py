"""Joining tensors: one after another along a dimension, or stacked along a new one."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Values, normalize_dim, op, result_type
from flambeau.ops.view import atleast_1d, atleast_2d, atleast_3d, unsqueeze


def in_result_type(tensors: Values, operator: str) -> list[Node]:
    """The tensors in the type that they promote to: what merely moves elements needs no wider type to compute in."""
    if not tensors:
        raise RuntimeError(f"{operator}: expected a non-empty list of Tensors")
    kind = result_type(tensors)
    return [p.converted(x, kind) for x in tensors]


def _is_legacy_empty(x: Node) -> bool:
    return x.rank == 1 and x.shape[0] == 0


def _cat_samples(m: SampleMaker) -> Calls:
    return [
        case([m.float(2, 3), m.float(4, 3)]), case([m.float(2, 3), m.float(2, 1), m.float(2, 0)], 1),
        case([m.float(0), m.float(2, 3)], -1), case([m.float(3), m.int(2)]), case([m.float(2, 2)]),
    ]  # fmt: skip


@op(samples=_cat_samples)
def cat(tensors: Values, dim: int = 0) -> Node:
    """The tensors one after another along ``dim``, in their promoted type; one-dimensional empty ones are left out."""
    parts = in_result_type(tensors, "cat")
    parts = [x for x in parts if not _is_legacy_empty(x)] or parts[:1]
    rank = parts[0].rank
    if not rank:
        raise RuntimeError("cat: zero-dimensional tensor (at position 0) cannot be concatenated; use stack()")
    axis = normalize_dim(dim, rank, "cat")
    for position, x in enumerate(parts):
        if x.rank != rank:
            raise RuntimeError(f"cat: Tensors must have same number of dimensions: got {rank} and {x.rank}")
        for i, (a, b) in enumerate(zip(x.shape, parts[0].shape, strict=True)):
            if i != axis and not a == b:
                raise RuntimeError(
                    f"cat: Sizes of tensors must match except in dimension {axis}. Expected size {b} but got size {a} for "
                    f"tensor number {position} in the list."
                )
    return p.cat(*parts, axis=axis)


def _stack_samples(m: SampleMaker) -> Calls:
    return [case([m.float(2, 3), m.float(2, 3)]), case([m.float(2, 3), m.int(2, 3)], -1), case([m.float(), m.float(), m.float()])]


@op(samples=_stack_samples)
def stack(tensors: Values, dim: int = 0) -> Node:
    """Tensors of one shape along a new dimension."""
    for i, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack: expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(x.shape)} at entry {i}"
            )
    return cat([unsqueeze(x, dim) for x in tensors], normalize_dim(dim, tensors[0].rank + 1, "stack") if tensors else 0)


@op(samples=lambda m: [case([m.float(2), m.float(3)]), case([m.float(2, 3), m.float(2, 1)]), case([m.float(), m.float()])])
def hstack(tensors: Values) -> Node:
    """Side by side: along dimension 1, or 0 for vectors."""
    parts = [atleast_1d(x) for x in tensors]
    return cat(parts, 0 if parts and parts[0].rank == 1 else 1)


@op(samples=lambda m: [case([m.float(3), m.float(3)]), case([m.float(2, 3), m.float(1, 3)])])
def vstack(tensors: Values) -> Node:
    """One below another: along dimension 0, vectors as rows."""
    return cat([atleast_2d(x) for x in tensors], 0)


@op(samples=lambda m: [case([m.float(3), m.float(3)]), case([m.float(2, 3), m.float(2, 3)])])
def dstack(tensors: Values) -> Node:
    """One behind another: along dimension 2."""
    return cat([atleast_3d(x) for x in tensors], 2)


@op(samples=lambda m: [case([m.float(3), m.float(3)]), case([m.float(3, 2), m.float(3)])])
def column_stack(tensors: Values) -> Node:
    """Side by side, vectors as columns."""
    return cat([x if x.rank > 1 else p.reshape(x, shape=(x.aval.numel, 1)) for x in tensors], 1)
