"""``x[...]`` and ``x[...] = v``: chains of views, then at most one step of advanced indexing."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import tensor
from flambeau.tensor.functions_index import nonzero
from flambeau.tensor.index_parsing import AdvancedIndex, IndexPlan, Select, Slice, parse_index


def _viewed(x: Any, plan: IndexPlan) -> Any:
    for step in plan.views:
        if isinstance(step, Select):
            x = ops.select(x, step.dim, step.index)
        elif isinstance(step, Slice):
            x = ops.slice_(x, step.dim, step.start, step.stop, step.step)
        else:
            x = ops.unsqueeze(x, step.dim)
    return x


def _mask(index: AdvancedIndex) -> Any:
    found = tensor(index.index, dtype=dtypes.bool_) if index.kind == "flags" else index.index
    return found if found.meta.dtype is dtypes.bool_ else ops.ne(found, 0)


def _index_tensors(x: Any, plan: IndexPlan) -> list[Any]:
    """One tensor of positions, or None, for each leading dimension."""
    found: list[Any] = [None] * max(i.axis + i.count for i in plan.advanced)
    for index in plan.advanced:
        if index.kind in ("mask", "flags"):
            places = nonzero(_mask(index), as_tuple=True)
            found[index.axis : index.axis + index.count] = places
        elif index.kind == "list":
            found[index.axis] = tensor(index.index, dtype=dtypes.int64)
        else:
            narrow = index.index.meta.dtype in (dtypes.int16, dtypes.int8)
            found[index.axis] = ops.to_dtype(index.index, dtypes.int64) if narrow else index.index
    return found


_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
_BOUNDS = frozenset((int, type(None)))
_WHOLE = slice(None)


def _basic_view(x: Any, index: Any) -> Any:
    """``x[index]`` for plain integers, slices, None and the ellipsis, the quick way; None for all that needs more care."""
    items = index if type(index) is tuple else (index,)
    kinds = set(map(type, items))
    if not kinds <= _BASIC:
        return None
    shape = x.meta.shape
    used = len(items)
    if type(None) in kinds:
        used -= items.count(None)
    if type(Ellipsis) in kinds:
        used -= 1
        if items.count(Ellipsis) > 1:
            return None
    if used > len(shape) or not items:
        return None
    viewed, dim, source = x, 0, 0
    for item in items:
        kind = type(item)
        if kind is int:
            size = shape[source]
            if not -size <= item < size:
                raise IndexError(f"index {item} is out of bounds for dimension {source} with size {size}")
            viewed = ops.select(viewed, dim, item)
            source += 1
        elif kind is slice:
            if item != _WHOLE:
                if type(item.start) not in _BOUNDS or type(item.stop) not in _BOUNDS or type(item.step) not in _BOUNDS:
                    return None
                viewed = ops.slice_(viewed, dim, item.start, item.stop, 1 if item.step is None else item.step)
            dim, source = dim + 1, source + 1
        elif item is None:
            viewed = ops.unsqueeze(viewed, dim)
            dim += 1
        else:
            dim, source = dim + len(shape) - used, source + len(shape) - used
    return None if viewed is x else viewed


def get_item(x: Any, index: Any) -> Any:
    """``x[index]``: a view unless tensors, lists or masks take part."""
    if isinstance(index, TensorBase):
        if index.meta.dtype is dtypes.int64 and index.meta.shape and x.meta.shape:
            return ops.index(x, [index])
    else:
        quick = _basic_view(x, index)
        if quick is not None:
            return quick
    plan = parse_index(_with_tensors(index), x.meta.shape)
    viewed = _viewed(x, plan)
    if plan.advanced:
        return ops.index(viewed, _index_tensors(viewed, plan))
    return ops.slice_(viewed, 0) if viewed is x and x.meta.shape else ops.view(x, ()) if viewed is x else viewed


def set_item(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value``: writes into the memory of x."""
    quick = None if isinstance(index, TensorBase) else _basic_view(x, index)
    if quick is not None and isinstance(value, (bool, int, float, TensorBase)):
        _copy_into(quick, value)
        return
    plan = parse_index(_with_tensors(index), x.meta.shape)
    target = _viewed(x, plan)
    if not isinstance(value, TensorBase) and not isinstance(value, (bool, int, float, complex)):
        value = tensor(value, dtype=x.meta.dtype)
    if not plan.advanced:
        _copy_into(target, value)
        return
    single = not isinstance(value, TensorBase) or not value.meta.shape
    if len(plan.advanced) == 1 and single and plan.advanced[0].kind in ("mask", "flags"):
        _fill_masked(target, plan.advanced[0], value)
        return
    if isinstance(value, TensorBase) and value.meta.dtype is not x.meta.dtype:
        if value.meta.shape:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {x.meta.dtype} for the destination and "
                f"{value.meta.dtype} "
                "for the source. Convert the source with .to(dtype)."
            )
        value = ops.to_dtype(value, x.meta.dtype)
    dispatch.call_into(ops.index_put, target, (target, _index_tensors(target, plan), value), {})


def _copy_into(target: Any, value: Any) -> None:
    """Write into a view; as in numpy, leading dimensions of size 1 of the value are dropped."""
    if isinstance(value, TensorBase):
        shape = value.meta.shape
        extra = len(shape) - len(target.meta.shape)
        if extra > 0 and all(n == 1 for n in shape[:extra]):
            value = ops.reshape(value, shape[extra:])
    dispatch.call_into(ops.assign, target, (target, value), {})


def _fill_masked(target: Any, index: AdvancedIndex, value: Any) -> None:
    mask = _mask(index)
    missing = len(target.meta.shape) - index.axis - index.count
    if missing:
        mask = ops.reshape(mask, (*mask.meta.shape, *(1,) * missing))
    dispatch.call_into(ops.masked_fill, target, (target, mask, value), {})


def _with_tensors(index: Any) -> Any:
    """numpy arrays among the indices as tensors."""
    if type(index).__module__ == "numpy" and getattr(index, "shape", ()):
        return tensor(index)
    if type(index) is tuple and any(type(i).__module__ == "numpy" for i in index):
        return tuple(tensor(i) if type(i).__module__ == "numpy" and i.shape else i for i in index)
    return index


class ItemMethods(TensorBase):
    """Indexing with brackets."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return get_item(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, value)

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Tensor does not support deleting items")
