"""Jacobians and Hessians: many products with the derivative at a time, by vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import ops
from flambeau.core.dtypes import int64
from flambeau.func.derivatives import Linear, Recorded
from flambeau.tensor.batching import RANDOMNESS, map_batch

__all__ = ["hessian", "jacfwd", "jacrev"]


def _unit_vectors(tensors: Sequence[Any], start: int, stop: int) -> list[Any]:
    """For each tensor, the parts that belong to it of unit vectors ``start`` to ``stop`` of all their elements: [count, *shape]."""
    found: list[Any] = []
    first = 0
    for t in tensors:
        place = ops.arange(start - first, 1, stop - start, int64)
        line = ops.arange(0, 1, t.meta.numel, int64)
        hit = ops.eq(ops.unsqueeze(place, 1), line)
        found.append(ops.to_dtype(hit, t.meta.dtype).to(t.meta.device).reshape(stop - start, *t.meta.shape))
        first += t.meta.numel
    return found


def _in_chunks(function: Callable[..., Any], basis_of: Sequence[Any], chunk_size: int | None, randomness: str) -> list[Any]:
    """The results of a function of all unit vectors of tensors, stacked: [total, *shape] each."""
    total = sum(t.meta.numel for t in basis_of)
    step = total if chunk_size is None else chunk_size
    parts = [
        map_batch(function, min(step, total - start), randomness, *_unit_vectors(basis_of, start, min(start + step, total)))
        for start in (range(0, total, step) if total else [0])
    ]
    return parts[0] if len(parts) == 1 else [ops.cat(list(column), 0) for column in zip(*parts, strict=True)]


def _by_input(recorded: Recorded, argnums: Any, values: list[list[Any]]) -> Any:
    """From one value for each output and input to the structure of the outputs, of those of the inputs."""
    trees = []
    for row in values:
        tree = recorded.structure.unflatten(row)
        trees.append(tuple(tree) if isinstance(argnums, tuple) else tree[0])
    return recorded.spec.unflatten(trees)


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the Jacobian of ``func`` by its argument ``argnums``: [*output shape, *input shape], backward.

    Of several outputs or arguments there is one for each pair, in the structure of the outputs and then of the arguments. ``chunk_size``
    bounds how many rows are computed at a time. With ``has_aux`` ``func`` returns (output, aux), and the result is (Jacobian, aux).

    >>> import flambeau as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return backward_jacobian(func, argnums, has_aux, chunk_size, args, kwargs)

    return wrapped


def backward_jacobian(func: Any, argnums: Any, has_aux: bool, chunk_size: int | None, args: Any, kwargs: Any) -> Any:
    """What the function that `jacrev` makes does."""
    recorded = Recorded(func, args, kwargs, argnums, has_aux)
    recorded.tensors("jacrev")
    rows = _in_chunks(lambda *cotangents: recorded.pulled_back(cotangents), recorded.outputs, chunk_size, "error")
    sizes = [o.meta.numel for o in recorded.outputs]
    values: list[list[Any]] = []
    for k, output in enumerate(recorded.outputs):
        start = sum(sizes[:k])
        values.append([
            ops.reshape(ops.narrow(row, 0, start, sizes[k]), (*output.meta.shape, *x.meta.shape))
            for row, x in zip(rows, recorded.inputs, strict=True)
        ])  # fmt: skip
    found = _by_input(recorded, argnums, values)
    return (found, recorded.aux) if has_aux else found


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """As `jacrev`, forward: cheaper where there are more outputs than inputs.

    >>> import flambeau as torch
    >>> torch.func.jacfwd(lambda x: x[0] * x)(torch.tensor([2., 3.]))
    tensor([[4., 0.],
            [3., 2.]])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are {', '.join(RANDOMNESS)}. Got {randomness}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return forward_jacobian(func, argnums, has_aux, randomness, args, kwargs)

    return wrapped


def forward_jacobian(func: Any, argnums: Any, has_aux: bool, randomness: str, args: Any, kwargs: Any) -> Any:
    """What the function that `jacfwd` makes does."""
    recorded = Recorded(func, args, kwargs, argnums, has_aux)
    recorded.tensors("jacfwd")
    linear = Linear(recorded)
    columns = _in_chunks(lambda *tangents: linear.tangents(tangents), recorded.inputs, None, randomness)
    sizes = [x.meta.numel for x in recorded.inputs]
    values: list[list[Any]] = []
    for output, column in zip(recorded.outputs, columns, strict=True):
        row: list[Any] = []
        for k, x in enumerate(recorded.inputs):
            part = ops.movedim(ops.narrow(column, 0, sum(sizes[:k]), sizes[k]), 0, -1)
            row.append(ops.reshape(part, (*output.meta.shape, *x.meta.shape)))
        values.append(row)
    found = _by_input(recorded, argnums, values)
    return (found, recorded.aux) if has_aux else found


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of ``func``: [*output shape, *input shape, *input shape].

    >>> import flambeau as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
