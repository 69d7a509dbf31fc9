"""Parts of one memory that tensors show: which have no element in common, what spans several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from flambeau.core.symbolic import Dim, Expression
from flambeau.runtime.storage import TensorMeta, meta_of
from flambeau.tensor import dispatch

__all__ = ["are_apart", "is_inside", "loosely", "memories", "same_offset", "span_of"]


def span_of(tensors: Sequence[Any]) -> Any:
    """A tensor of one dimension over all the memory from the first element to the last of tensors that share it."""
    item = tensors[0].meta.dtype.itemsize
    start = min(t.address for t in tensors)
    end = max(t.address + item * t.meta.extent for t in tensors)
    meta = meta_of(((end - start) // item,), tensors[0].meta.dtype, None, tensors[0].meta.device)
    return dispatch.new_tensor(tensors[0].memory, start, meta)


def same_offset(a: Dim, b: Dim) -> bool:
    """Whether two offsets are the same for all sizes."""
    return a is b if type(a) is Expression or type(b) is Expression else a == b


def is_inside(tensor: Any, owner: Any) -> bool:
    """Whether a tensor lies between the first and the last element of another one."""
    end = tensor.address + tensor.meta.dtype.itemsize * tensor.meta.extent
    return owner.address <= tensor.address and end <= owner.address + owner.meta.dtype.itemsize * owner.meta.extent


def are_apart(a: Any, b: Any) -> bool:
    """Whether two tensors in one memory have no element in common, as far as that is easily told: one lies behind the other, or they are
    columns of the same rows, as the chunks of a last axis."""
    first, second = (a, b) if a.address <= b.address else (b, a)
    item, distance = first.meta.dtype.itemsize, second.address - first.address
    if not (first.meta.numel and second.meta.numel) or distance >= item * first.meta.extent:
        return True
    if second.meta.dtype.itemsize != item or distance % item:
        return False
    (one, width), (other, second_width) = _columns(first.meta), _columns(second.meta)
    row = math.gcd(one, other)
    begin = distance // item % row if row else 0
    return width <= begin and begin + second_width <= row


def _columns(meta: TensorMeta) -> tuple[int, int]:
    """The largest number of elements that all steps between rows are multiples of, and how many a row has."""
    axes = [(step, size) for step, size in zip(meta.strides, meta.shape, strict=True) if size > 1]
    return math.gcd(*[step for step, _ in axes if step != 1]), max([size for step, size in axes if step == 1], default=1)


def memories(*tensors: Any) -> tuple[tuple[int, int, bool], ...]:
    """For each tensor the first one in the same memory, how many bytes after that it begins, and whether all in this memory are apart."""
    found = [id(t.memory) for t in tensors]
    together: dict[int, list[Any]] = {}
    for memory, tensor in zip(found, tensors, strict=True):
        together.setdefault(memory, []).append(tensor)
    apart = {m: len(group) > 1 and all(are_apart(a, b) for a, b in combinations(group, 2)) for m, group in together.items()}
    firsts = [found.index(m) for m in found]
    return tuple([(k, t.address - tensors[k].address, apart[m]) for k, t, m in zip(firsts, tensors, found, strict=True)])


def loosely(found: tuple[tuple[int, int, bool], ...]) -> tuple[tuple[int, int, bool], ...]:
    """What `memories` gives without the distances of those that are apart."""
    return tuple([(first, 0 if apart else distance, apart) for first, distance, apart in found])
