"""What ``x[...]`` means: view steps, then at most one step of advanced indexing.

Integers, slices, None and the ellipsis are views, applied one after another; tensors, masks and lists are advanced
indices and act on the tensor that the views leave. A 0-d integer tensor selects as an integer does.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.core.symbolic import Dim, Expression

INTEGER_TYPES = ("int64", "int32", "int16", "int8")
LEGACY_TUPLE_LENGTH = 32  # a shorter list that holds more than numbers is read as a tuple


@dataclass(frozen=True, slots=True)
class Select:
    """Keep one place of dimension ``dim`` and drop the dimension. ``index`` is a number >= 0 or a 0-d integer tensor."""

    dim: int
    index: Any


@dataclass(frozen=True, slots=True)
class Slice:
    """``start:stop:step`` on dimension ``dim``, with bounds as given (None or negative too)."""

    dim: int
    start: Dim | None
    stop: Dim | None
    step: int


@dataclass(frozen=True, slots=True)
class Unsqueeze:
    """Insert a dimension of size 1 at ``dim``."""

    dim: int


ViewStep = Select | Slice | Unsqueeze


@dataclass(frozen=True, slots=True)
class AdvancedIndex:
    """An index for ``count`` dimensions from ``axis`` on, of the tensor that the view steps leave.

    ``kind`` says what ``index`` is: ``integer`` (a tensor of positions, for one dimension), ``mask`` (a bool or uint8
    tensor of ``count`` dimensions; of none: one element, for one dimension), ``list`` (nested sequences of integers) or
    ``flags`` (nested sequences of bools, ``count`` deep).
    """

    axis: int
    count: int
    index: Any
    kind: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The steps of one index expression."""

    views: tuple[ViewStep, ...]
    advanced: tuple[AdvancedIndex, ...]

    @property
    def result_axis(self) -> int:
        """Where the dimensions of the broadcast indices go: in place of the indexed ones, or first if those lie apart."""
        covered = [a for index in self.advanced for a in range(index.axis, index.axis + index.count)]
        adjacent = covered == list(range(covered[0], covered[0] + len(covered))) if covered else True
        return covered[0] if covered and adjacent else 0


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor or an array, by what it offers."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _type_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _is_mask(value: Any) -> bool:
    return _type_name(value) in ("bool", "uint8")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, Expression)) or (hasattr(value, "__index__") and not (is_tensor(value) and value.shape))


def _as_number(value: Any, what: str) -> Dim:
    """An int or a size; TypeError or IndexError for anything else."""
    if isinstance(value, (int, Expression)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be integers or None or have an __index__ method, got {type(value).__name__}") from None


def _as_items(index: Any) -> tuple[Any, ...]:
    """The parts of an index expression; a list that holds slices, tensors or sequences is read as a tuple."""
    if isinstance(index, tuple):
        return index
    if not _is_sequence(index) or len(index) >= LEGACY_TUPLE_LENGTH:
        return (index,)
    mixed = any(i is None or i is Ellipsis or isinstance(i, slice) or is_tensor(i) or _is_sequence(i) for i in index)
    return tuple(index) if mixed else (index,)


def _flags_depth(value: Any) -> int:
    """How deep bools are nested in a list; 0 when it holds anything else."""
    if isinstance(value, bool):
        return 0
    if not _is_sequence(value) or not value:
        return -1
    depths = {_flags_depth(v) for v in value}
    return depths.pop() + 1 if len(depths) == 1 and -1 not in depths else -1


def _flags_shape(value: Any) -> tuple[int, ...]:
    return (len(value), *_flags_shape(value[0])) if _is_sequence(value) else ()


def _check_list(value: Any) -> None:
    """TypeError or IndexError unless every leaf is an integer or an integer tensor."""
    for item in value:
        if _is_sequence(item):
            _check_list(item)
        elif isinstance(item, (str, bytes)) or item is None:
            raise TypeError(f"new(): invalid data type {type(item).__name__!r} in a list of indices; use integers")
        elif isinstance(item, float) or (is_tensor(item) and _type_name(item) not in INTEGER_TYPES):
            raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors (got {item!r} in a list)")


def _dimensions_used(item: Any) -> int:
    """How many dimensions of the tensor an item of the expression speaks of."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if is_tensor(item):
        return len(item.shape) if _is_mask(item) else 1
    if _is_sequence(item):
        return max(_flags_depth(item), 1)
    return 1


class _Parser:
    """Walks the items from left to right; ``dim`` is where it stands in the tensor as viewed so far."""

    def __init__(self, shape: tuple[Dim, ...]) -> None:
        self.shape = shape  # of the tensor that is indexed
        self.viewed = list(shape)  # of the tensor as viewed so far, slices not counted
        self.source = 0
        self.dim = 0
        self.views: list[ViewStep] = []
        self.advanced: list[AdvancedIndex] = []

    def skip(self, count: int) -> None:
        self.source += count
        self.dim += count

    def item(self, item: Any) -> None:
        if item is None:
            self.unsqueeze()
        elif isinstance(item, bool) or (is_tensor(item) and _type_name(item) == "bool" and not item.shape):
            self.flag(item)
        elif isinstance(item, slice):
            self.slice(item)
        elif is_tensor(item):
            self.tensor(item)
        elif _is_number(item):
            self.select(_as_number(item, "indices"))
        elif _is_sequence(item):
            self.sequence(item)
        else:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(item).__name__})"
            )

    def unsqueeze(self) -> None:
        self.views.append(Unsqueeze(self.dim))
        self.viewed.insert(self.dim, 1)
        self.dim += 1

    def flag(self, value: Any) -> None:
        """True and False: a new dimension of size 1 or 0, which takes part as an index tensor."""
        self.unsqueeze()
        if isinstance(value, bool):
            self.advanced.append(AdvancedIndex(self.dim - 1, 1, [0] if value else [], "list"))
        else:
            self.advanced.append(AdvancedIndex(self.dim - 1, 1, value, "mask"))

    def slice(self, item: slice) -> None:
        start, stop = (None if v is None else _as_number(v, "slice indices") for v in (item.start, item.stop))
        step = 1 if item.step is None else int(_as_number(item.step, "slice indices"))
        if step <= 0:
            raise ValueError(f"step must be greater than zero, got {step}; use flip() to reverse a dimension")
        if start is not None or stop is not None or step != 1:
            self.views.append(Slice(self.dim, start, stop, step))
        self.skip(1)

    def select(self, index: Dim) -> None:
        size = self.shape[self.source]
        if index < -size or index >= size:
            raise IndexError(f"index {index} is out of bounds for dimension {self.source} with size {size}")
        self.drop(index + size if index < 0 else index)

    def drop(self, index: Any) -> None:
        self.views.append(Select(self.dim, index))
        del self.viewed[self.dim]
        self.source += 1

    def tensor(self, item: Any) -> None:
        if _is_mask(item):
            self.mask(item, tuple(item.shape), "mask")
        elif _type_name(item) not in INTEGER_TYPES:
            raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {_type_name(item)}")
        elif not item.shape and not getattr(item, "many", False):  # Inside vmap each place of a batch has its own number.
            self.drop(item)
        else:
            self.advance(1, item, "integer")

    def sequence(self, item: Any) -> None:
        if _flags_depth(item) > 0:
            self.mask(item, _flags_shape(item), "flags")
        else:
            _check_list(item)
            self.advance(1, item, "list")

    def mask(self, item: Any, shape: tuple[Dim, ...], kind: str) -> None:
        for i, size in enumerate(shape):
            if not self.viewed[self.dim + i] == size:
                raise IndexError(
                    f"The shape of the mask {list(shape)} at index {i} does not match the shape of the indexed tensor "
                    f"{self.viewed} at index {self.dim + i}"
                )
        self.advance(len(shape), item, kind)

    def advance(self, count: int, item: Any, kind: str) -> None:
        self.advanced.append(AdvancedIndex(self.dim, count, item, kind))
        self.skip(count)


def parse_index(index: Any, shape: Sequence[Dim]) -> IndexPlan:
    """The plan of ``x[index]`` for a tensor of ``shape``; IndexError, TypeError or ValueError as torch's.

    Views come in the order in which they are to be applied, each in terms of the tensor that the former ones leave.
    Positions inside index tensors are not checked here.
    """
    items = _as_items(index)
    used = sum(_dimensions_used(i) for i in items)
    rank = len(shape)
    masks = len(items) == 1 and (isinstance(items[0], bool) or is_tensor(items[0]) and _is_mask(items[0]))
    if not rank and len(items) == 1 and _is_number(items[0]) and not masks:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim "
            "tensor to a number"
        )
    if used > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank} (got {used})")
    parser = _Parser(tuple(shape))
    left = rank - used  # for the first ellipsis; as in torch, those after it stand for nothing
    for item in items:
        if item is Ellipsis:
            parser.skip(left)
            left = 0
        else:
            parser.item(item)
    return IndexPlan(tuple(parser.views), tuple(parser.advanced))
