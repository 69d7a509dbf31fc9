"""vmap: a function of single tensors as one of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.tensor.base import TensorBase
from flambeau.tensor.batching import RANDOMNESS, batched, is_batched, unbatched, vmap_level
from flambeau.utils._pytree import TreeSpec, tree_flatten

__all__ = ["debug_unwrap", "run", "vmap"]

Dims = int | tuple[Any, ...] | None


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:  # fmt: skip
    """A function that maps ``func`` over dimension ``in_dims`` of its arguments and puts the results along ``out_dims``.

    ``func`` sees tensors without that dimension. It runs once; its operators run for all places of the batch at a time. ``in_dims`` and
    ``out_dims`` are a number for all tensors, or a structure like that of the arguments (results) with a number, or None for what is the
    same everywhere, in place of tensors. Random numbers raise unless ``randomness`` is "different" (for each place) or "same".
    ``chunk_size`` bounds how many places are computed at a time. ``func`` must return tensors. RuntimeError where it needs the value
    of a tensor (``.item()``, ``if x > 0``), ValueError for sizes and structures that do not fit.

    >>> import flambeau as torch
    >>> x, y = torch.arange(6.).view(2, 3), torch.ones(2, 3)
    >>> torch.vmap(torch.dot)(x, y)
    tensor([ 3., 12.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are {', '.join(RANDOMNESS)}. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return run(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return wrapped


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """What a tensor inside a ``vmap`` stands for, with the dimension of the batch first; for looking, not for computing with.

    >>> import flambeau as torch
    >>> shapes = []
    >>> _ = torch.vmap(lambda x: shapes.append(torch.func.debug_unwrap(x).shape) or x)(torch.ones(2, 3))
    >>> shapes
    [torch.Size([2, 3])]
    """
    while is_batched(tensor):
        tensor = tensor.value
        if not recurse:
            break
    return tensor


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def run(
    func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """What the function that `vmap` makes does."""
    leaves, spec, dims, size = _mapped(func, in_dims, args)
    step = size if chunk_size is None else min(chunk_size, size)
    parts: list[list[Any]] = []
    structure, places = None, []
    for start in range(0, size, step) if size else [0]:
        count = min(step, size - start)
        given = leaves if count == size else [
            x if d is None else ops.narrow(x, d, start, count) for x, d in zip(leaves, dims, strict=True)
        ]
        with vmap_level(count, randomness) as level:
            found = func(*spec.unflatten([x if d is None else batched(x, d, level) for x, d in zip(given, dims, strict=True)]), **kwargs)
            results, structure = tree_flatten(found)
            places = _dims_of(out_dims, structure, func, "out_dims", "outputs")
            parts.append([_collected(func, t, d, level, count) for t, d in zip(results, places, strict=True)])
    assert structure is not None
    joined = parts[0] if len(parts) == 1 else [
        column[0] if d is None else ops.cat(list(column), d) for column, d in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return structure.unflatten(joined)


def _mapped(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec, list[int | None], int]:
    """The leaves of the arguments, their structure, the dimension of each that is mapped over, and how many places it has."""
    name = _name(func)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no "
            "inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _dims_of(in_dims, spec, func, "in_dims", "inputs")
    found: list[int | None] = []
    sizes: list[int] = []
    for x, d in zip(leaves, dims, strict=True):
        found.append(None if d is None else _checked(name, x, d))
        if found[-1] is not None:
            sizes.append(int(x.meta.shape[found[-1]]))
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input has to be mapped over, but all dims are None")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return leaves, spec, found, sizes[0]


def _checked(name: str, x: Any, dim: Any) -> int:
    if not isinstance(dim, int):
        raise ValueError(f"vmap({name}, ...)(<inputs>): Got in_dim={dim} for an input but in_dim must be an integer dimension or None.")
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"vmap({name}, in_dims={dim}, ...)(<inputs>): Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim"
        )
    rank = len(x.meta.shape)
    if not -rank <= dim < rank:
        raise ValueError(
            f"vmap({name}, in_dims={dim}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def _dims_of(dims: Any, spec: TreeSpec, func: Any, what: str, of: str) -> list[Any]:
    """One dimension, or None, for each leaf of a structure: ``dims`` may stop above the leaves."""
    found: list[Any] = []

    def walk(part: Any, below: TreeSpec) -> bool:
        if part is None or isinstance(part, int):
            found.extend([part] * below.num_leaves)
            return True
        leaves, own = tree_flatten(part, lambda v: v is not part)
        alike = own.type is below.type or (own.type in (list, tuple) and below.type in (list, tuple))
        return alike and own.context == below.context and len(leaves) == len(below.children_specs) and all(
            map(walk, leaves, below.children_specs)
        )

    if not walk(dims, spec) and not (isinstance(dims, tuple) and len(dims) == 1 and spec.is_leaf() and walk(dims[0], spec)):
        raise ValueError(
            f"vmap({_name(func)}, {what}={dims}, ...)(<inputs>): {what} is not compatible with the structure of `{of}`: {spec}; give a "
            "number for all of them, or one for each"
        )
    return found


def _collected(func: Any, result: Any, dim: Any, level: int, size: int) -> Any:
    name = _name(func)
    if not isinstance(result, TensorBase):
        if dim is None:
            return result
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(result)}. Did you mean to set out_dims= to None for "
            "output?"
        )
    if dim is None:
        if is_batched(result) and result.level == level:  # type: ignore[attr-defined]
            if result.many:  # type: ignore[attr-defined]
                raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            return result.value  # type: ignore[attr-defined]
        return result
    return unbatched(result, dim, level, size)
