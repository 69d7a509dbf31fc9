"""Index expressions against numpy, which carries the plans out; and torch's errors for bad ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.core.symbolic import SizeScope, symbol
from flambeau.tensor.index_parsing import AdvancedIndex, IndexPlan, Select, Slice, Unsqueeze, parse_index


def _viewed(x: Any, plan: IndexPlan) -> Any:
    """The view steps as numpy views of x."""
    for step in plan.views:
        before = (slice(None),) * step.dim
        if isinstance(step, Unsqueeze):
            x = x[(*before, None)]
        elif isinstance(step, Select):
            x = x[(*before, int(step.index), ...)]  # the ellipsis keeps it an array
        else:
            x = x[(*before, slice(step.start, step.stop, step.step))]
    return x


def _advanced(plan: IndexPlan, rank: int) -> tuple[Any, ...]:
    """The advanced step as a numpy index without integers, so that numpy's rule for separated indices is torch's."""
    index: list[Any] = [slice(None)] * rank
    taken: set[int] = set()
    for part in plan.advanced:
        flags = np.asarray(part.index)
        flags = flags.reshape(1) if flags.dtype == bool and not flags.shape else flags
        columns = np.nonzero(flags) if flags.dtype == bool else (flags.astype(np.int64),)
        assert len(columns) == part.count
        for i, column in enumerate(columns):
            assert part.axis + i not in taken
            taken.add(part.axis + i)
            index[part.axis + i] = column
    return tuple(index)


def _run(x: Any, index: Any) -> Any:
    plan = parse_index(index, x.shape)
    view = _viewed(x, plan)
    return view[_advanced(plan, view.ndim)] if plan.advanced else view


def _expected(x: Any, items: tuple[Any, ...]) -> Any:
    """numpy's answer, with integers applied before everything else, as torch does."""
    first: list[Any] = []
    for item in items:
        if isinstance(item, int) and not isinstance(item, bool):
            first.append(item)
        elif item is Ellipsis:
            first.append(item)
        elif item is not None and not isinstance(item, bool):
            first += [slice(None)] * (item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1)
    return x[tuple(first)][tuple(i for i in items if isinstance(i, bool) or not isinstance(i, int))]


@st.composite
def expressions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and an index expression that fits it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    lengths = draw(st.sampled_from([(2,), (3,), (2, 2)]))
    items: list[Any] = []
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        size = shape[axis]
        kind = draw(st.sampled_from(["integer", "slice", "tensor", "mask", "none", "all"]))
        if kind == "none":
            items.append(None)
            continue
        if kind == "integer":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 1, size + 1)
            items.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
        elif kind == "tensor":
            count = int(np.prod(lengths))
            places = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            items.append(np.asarray(places).reshape(lengths))
        elif kind == "mask" and lengths == (2,) and size >= 2:
            flags = np.zeros(size, bool)
            flags[:2] = True
            items.append(flags)
        else:
            items.append(slice(None))
        axis += 1
    if draw(st.booleans()):
        # A complete expression may begin with one; numpy, unlike torch, sees an empty one between two indices.
        items.insert(0 if axis == len(shape) and draw(st.booleans()) else len(items), Ellipsis)
    return shape, tuple(items)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_reading_equals_numpy(expression: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, items = expression
    x = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(_run(x, items), _expected(x, items))


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_writing_equals_numpy(expression: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, items = expression
    places = _expected(np.arange(np.prod(shape)).reshape(shape), items)
    wanted = np.zeros(np.prod(shape))
    wanted[places.reshape(-1)] = 1 + places.reshape(-1)
    x = np.zeros(shape)
    plan = parse_index(items, shape)
    view = _viewed(x, plan)
    view[_advanced(plan, view.ndim) if plan.advanced else ...] = 1 + places
    np.testing.assert_array_equal(x.reshape(-1), wanted)


X = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (True, (1, 2, 3, 4)), (False, (0, 2, 3, 4)), ((True, 0), (1, 3, 4)), ((), (2, 3, 4)), ([], (0, 3, 4)), ([0, 1], (2, 3, 4)),
        ([[0, 1], [1, 2]], (2, 4)), (([0, 1],), (2, 3, 4)), ([True, False], (1, 3, 4)), ([slice(None), 0], (2, 4)),
        (np.int64(1), (3, 4)), (np.array(1), (3, 4)), ((np.array(1), slice(None), [0, 1]), (3, 2)), ((0, ..., [0, 1]), (3, 2)),
        ((slice(None), [0, 1], None, [0, 1]), (2, 2, 1)), ((True, slice(None), [0, 1]), (2, 2, 4)),
        ((np.ones((2, 3), bool), 1), (6,)), ((..., None), (2, 3, 4, 1)), (np.array([0, 1], np.uint8).astype(bool), (1, 3, 4)),
    ],
)  # fmt: skip
def test_shapes_are_as_torch(index: Any, shape: tuple[int, ...]) -> None:
    assert _run(X, index).shape == shape


@pytest.mark.parametrize(
    ("x", "index", "error", "message"),
    [
        (X, (0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (X, 5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (X, (0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        (np.array(1.0), 0, IndexError, "invalid index of a 0-dim tensor"),
        (X, slice(None, None, -1), ValueError, "step must be greater than zero"),
        (X, slice(0, 1.5), TypeError, "slice indices must be integers"),
        (X, "a", IndexError, "only integers, slices"),
        (X, ["a"], TypeError, "invalid data type 'str'"),
        (X, [0, 1.5], IndexError, "must be long, int, byte or bool"),
        (X, 1.5, IndexError, "only integers, slices"),
        (X, np.array([0.5]), IndexError, "must be long, int, byte or bool"),
        (X, np.ones(3, bool), IndexError, r"The shape of the mask \[3\] at index 0 does not match .* \[2, 3, 4\] at index 0"),
    ],
)
def test_errors_are_as_torch(x: Any, index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_index(index, x.shape)


def test_symbolic_sizes_stay_symbolic() -> None:
    n = symbol("n")
    with SizeScope({"n": 7}):
        plan = parse_index((-1, slice(0, n - 1)), (n, n))
    assert plan == IndexPlan((Select(0, n - 1), Slice(0, 0, n - 1, 1)), ())


def test_separated_indices_go_first() -> None:
    places = np.array([0, 1])
    plan = parse_index((slice(None), places, slice(None), places), (2, 3, 4, 5))
    assert plan.result_axis == 0
    assert plan.advanced == (AdvancedIndex(1, 1, places, "integer"), AdvancedIndex(3, 1, places, "integer"))
    assert parse_index((slice(None), places, places), (2, 3, 4, 5)).result_axis == 1
