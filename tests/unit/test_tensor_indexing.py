"""``x[...]`` and ``x[...] = v`` against numpy, on written and on random expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch

SHAPE = (4, 3, 5)


def both(index: Any) -> tuple[Any, Any]:
    """The index for flambeau and for numpy: arrays become tensors."""
    if isinstance(index, tuple):
        parts = [both(i) for i in index]
        return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
    return (torch.tensor(index), index) if isinstance(index, np.ndarray) else (index, index)


INDICES: list[Any] = [
    0, -1, slice(1, 3), slice(None, None, 2), slice(-3, None), Ellipsis, None, (), (1, 2), (1, 2, 3), (Ellipsis, 0), (slice(None), -1),
    (0, Ellipsis, 1), (None, 1, None), (slice(1, 1),), (slice(None), None, slice(0, 2)), [0, 2], (slice(None), [0, 2]),
    ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]), (slice(None), [0, 1], [1, 2]), (1, [0, 2]), ([0], Ellipsis, [1, 2]),
    np.array([3, -1, 0]), (np.array([[0], [1]]), np.array([1, 2])), (Ellipsis, np.array([4, 4])), (None, np.array([1, 2]), slice(1, None)),
    np.arange(60).reshape(SHAPE) % 3 == 0, (slice(None), np.array([True, False, True])), np.array([True, False, True, True]),
    (np.arange(12).reshape(4, 3) % 2 == 0, slice(1, 3)), (np.array([True, False, True, True]), Ellipsis, 0), True, False,
    ([True, False, True, False],), (slice(None), [True, False, False]), np.array(2),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=lambda i: str(i)[:40])
def test_reading(index: Any) -> None:
    array = np.random.rand(*SHAPE)
    ours, theirs = both(index)
    found = torch.tensor(array)[ours]
    expected = array[theirs]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("index", INDICES, ids=lambda i: str(i)[:40])
def test_writing(index: Any) -> None:
    array = np.random.rand(*SHAPE)
    x = torch.tensor(array)
    ours, theirs = both(index)
    x[ours] = 7.0
    array[theirs] = 7.0
    np.testing.assert_array_equal(x.numpy(), array)
    values = np.asarray(np.random.rand(*array[theirs].shape))
    places = np.arange(array.size).reshape(SHAPE)[theirs]
    if len(np.unique(places)) == places.size:  # else the order decides
        x[ours] = torch.tensor(values)
        array[theirs] = values
        np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize("index", INDICES, ids=lambda i: str(i)[:40])
def test_gradients(index: Any) -> None:
    x = torch.tensor(np.random.rand(*SHAPE), requires_grad=True)
    ours, theirs = both(index)
    part = x[ours]
    weights = np.random.rand(*part.shape)
    (part * torch.tensor(weights)).sum().backward()
    expected = np.zeros(SHAPE)
    np.add.at(expected, theirs, weights)
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-12)


bounds = st.integers(-3, 3) | st.none()
basic = st.one_of(st.integers(-2, 1), st.none(), st.builds(slice, bounds, bounds, st.integers(1, 3) | st.none()))
vectors = st.lists(st.integers(-2, 1), min_size=2, max_size=2).map(np.array)


@given(st.lists(basic | vectors, max_size=3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_random_expressions(parts: list[Any], with_ellipsis: bool) -> None:
    array = np.random.rand(2, 3, 4)
    index = (*parts[:1], Ellipsis, *parts[1:]) if with_ellipsis else tuple(parts)
    # numpy puts integers among index vectors to the advanced ones, torch to the views: the orders of dimensions differ then.
    if any(isinstance(i, np.ndarray) for i in index):
        index = tuple(slice(i, i + 1) if isinstance(i, int) and i >= 0 else i for i in index if not (isinstance(i, int) and i < 0))
    ours, theirs = both(index)
    found, expected = torch.tensor(array)[ours], array[theirs]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)
    x = torch.tensor(array)
    x[ours] = -1.0
    array[theirs] = -1.0
    np.testing.assert_array_equal(x.numpy(), array)


def test_basic_indices_are_views() -> None:
    x = torch.zeros(3, 4)
    x[1][2] = 5
    x[:, 0] += 1
    x[..., None][2, 3, 0] = 8
    np.testing.assert_array_equal(x.numpy(), [[1, 0, 0, 0], [1, 0, 5, 0], [1, 0, 0, 8]])
    assert x[()].data_ptr() == x.data_ptr() and x[1].storage_offset() == 4
    assert x[[0, 1]].data_ptr() != x.data_ptr()


def test_a_tensor_without_dimensions_selects() -> None:
    x = torch.arange(12).view(2, 2, 3)
    found = x[torch.tensor(1), :, torch.tensor([0, 2])]
    assert found.tolist() == [[6, 8], [9, 11]]
    assert x[torch.tensor(0)].data_ptr() == x.data_ptr()


def test_a_list_of_lists_counts_as_a_tuple() -> None:
    x = torch.arange(12).view(3, 4)
    assert x[[[0, 1], [2, 3]]].tolist() == [2, 7]


def test_writing_broadcasts_and_converts() -> None:
    x = torch.zeros(2, 3)
    x[0] = torch.tensor([1, 2, 3])
    x[:, 1] = torch.ones(1, 1, 2) * 9
    x[1] = [7, 8, 9]
    np.testing.assert_array_equal(x.numpy(), [[1, 9, 3], [7, 8, 9]])
    y = torch.zeros(3, dtype=torch.int64)
    y[1] = 2.7
    assert y.tolist() == [0, 2, 0]


def test_writing_is_differentiable() -> None:
    x = torch.tensor(np.random.rand(4, 3), requires_grad=True)
    v = torch.tensor(np.random.rand(2, 3), requires_grad=True)
    y = x * 2
    y[torch.tensor([3, 0])] = v * 3
    y[y > 10] = 0.0
    (y * y).sum().backward()
    rows = np.array([[0], [1], [1], [0]])
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy() * rows)
    np.testing.assert_allclose(v.grad.numpy(), 18 * v.detach().numpy())


def test_sizes_that_depend_on_values() -> None:
    array = np.random.randint(0, 3, (4, 5))
    x = torch.tensor(array)
    np.testing.assert_array_equal(torch.nonzero(x).numpy(), np.argwhere(array))
    for ours, theirs in zip(torch.where(x > 1), np.where(array > 1), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    np.testing.assert_array_equal(torch.masked_select(x, x > 0).numpy(), array[array > 0])
    np.testing.assert_array_equal(torch.bincount(x.view(-1), minlength=5).numpy(), np.bincount(array.ravel(), minlength=5))
    found = torch.unique(x, return_inverse=True, return_counts=True)
    for ours, theirs in zip(found, np.unique(array, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(ours.numpy().ravel(), theirs.ravel())
    rows = torch.unique(x % 2, dim=0)
    np.testing.assert_array_equal(rows.numpy(), np.unique(array % 2, axis=0))
    values, inverse, counts = torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 2, 1]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 1, 1, 2], [2, 3, 1])
    assert torch.unique(torch.tensor([])).shape == (0,)
    np.testing.assert_array_equal(torch.isin(x, torch.tensor([0, 2])).numpy(), np.isin(array, [0, 2]))
    np.testing.assert_array_equal(torch.repeat_interleave(torch.tensor([5, 6, 7]), torch.tensor([2, 0, 3])).numpy(), [5, 5, 7, 7, 7])
    counted = torch.histc(torch.tensor([0.0, 1.0, 2.0, 2.9, 4.0]), bins=4, min=0, max=4)
    assert counted.tolist() == [1, 1, 2, 1]


def test_masked_select_is_differentiable() -> None:
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (x[x > 0] ** 2).sum().backward()
    assert x.grad.tolist() == [2, 0, 6]


def test_masks_of_single_numbers():
    x = torch.tensor(5.0)
    assert x[torch.tensor(True)].tolist() == [5.0] and x[torch.tensor(False)].shape == (0,)
    assert torch.tensor(True)[torch.tensor(True)].shape == (1,)
    x[torch.tensor(False)] = 4.0
    assert x == 5.0
    x[torch.tensor(True)] = 3.0
    assert x == 3.0
    with pytest.raises(IndexError, match="0-dim tensor"):
        x[torch.tensor(0)]
