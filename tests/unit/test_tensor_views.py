"""Views share memory, in-place changes go through them, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

# A view of a [4, 6] tensor, and numpy's.
VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "transpose": (lambda x: x.transpose(0, 1), lambda a: a.T),
    "permute": (lambda x: x.permute(1, 0), lambda a: a.T),
    "view": (lambda x: x.view(2, 2, 6), lambda a: a.reshape(2, 2, 6)),
    "reshape": (lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    "select": (lambda x: x.select(1, -2), lambda a: a[:, -2]),
    "narrow": (lambda x: x.narrow(0, 1, 2), lambda a: a[1:3]),
    "slice": (lambda x: x[1:, ::2], lambda a: a[1:, ::2]),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "diagonal": (lambda x: x.diagonal(1), lambda a: np.diagonal(a, 1)),
    "unfold": (lambda x: x.unfold(1, 2, 2), lambda a: a.reshape(4, 3, 2)),
    "split": (lambda x: x.split(2, 1)[1], lambda a: a[:, 2:4]),
    "chunk": (lambda x: x.chunk(3, 0)[1], lambda a: a[2:4]),
    "unbind": (lambda x: x.unbind(1)[3], lambda a: a[:, 3]),
    "as_strided": (lambda x: x.as_strided((2, 3), (6, 2), 1), lambda a: a[:2, 1::2]),
    "movedim": (lambda x: x.view(2, 2, 6).movedim(2, 0), lambda a: np.moveaxis(a.reshape(2, 2, 6), 2, 0)),
    "chained": (lambda x: x.t()[1:5].view(2, 2, 4)[:, 1], lambda a: a.T[1:5].reshape(2, 2, 4)[:, 1]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_alias(name: str) -> None:
    ours, theirs = VIEWS[name]
    array = np.random.rand(4, 6)
    x = torch.tensor(array)
    view = ours(x)
    np.testing.assert_array_equal(view.numpy(), theirs(array))
    x.mul_(2)
    np.testing.assert_array_equal(view.numpy(), theirs(array * 2))
    view.fill_(-1.0)
    assert (theirs(x.numpy()) == -1).all()
    assert x._version == view._version == 2


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "unfold"])
def test_writing_through_a_view_is_differentiable(name: str) -> None:
    ours, theirs = VIEWS[name]
    x = torch.tensor(np.random.rand(4, 6), requires_grad=True)
    values = torch.tensor(np.random.rand(*theirs(np.zeros((4, 6))).shape), requires_grad=True)
    weights = np.random.rand(4, 6)
    base = x * 3
    ours(base).copy_(values * 5)
    (base * torch.tensor(weights)).sum().backward()
    expected = weights * 3
    kept = np.ones((4, 6))
    shown = np.zeros((4, 6))
    if theirs(shown).base is not None:  # numpy gave a view, which can be written to
        view = theirs(kept)
        view.flags.writeable = True
        view[...] = 0
        np.testing.assert_allclose(x.grad.numpy(), expected * kept)
    np.testing.assert_allclose(values.grad.numpy(), theirs(weights) * 5)


def test_views_of_a_changed_base_get_its_history() -> None:
    x = torch.tensor(np.random.rand(3, 4), requires_grad=True)
    base = x * 1.0
    row = base[1]
    base.mul_(base)
    (row * 2).sum().backward()
    expected = np.zeros((3, 4))
    expected[1] = 4 * x.detach().numpy()[1]
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_sizes_may_be_named() -> None:
    x = torch.arange(6.0)
    assert x.reshape(shape=(2, 3)).permute(dims=(1, 0)).shape == x.view(size=(3, 2)).shape == (3, 2)
    assert x.expand(size=(2, 6)).shape == x.repeat(repeats=(2, 1)).shape == (2, 6)
    assert x.flip(dims=(0,)).tolist() == x.tolist()[::-1]
    assert x.tile(dims=(2,)).tolist() == torch.tile(x, dims=(2,)).tolist() == x.tolist() * 2
    assert x.view(dtype=torch.int32).tolist() == x.view(torch.int32).tolist()
    assert x.clone().resize_(size=(3,)).tolist() == [0.0, 1.0, 2.0]


def test_reshape_copies_only_where_it_must() -> None:
    x = torch.arange(24).view(2, 3, 4)
    assert x.reshape(6, 4).data_ptr() == x.data_ptr()
    assert x.transpose(0, 1).reshape(-1).data_ptr() != x.data_ptr()
    assert x.transpose(1, 2).flatten(1).stride() == (12, 1)
    with pytest.raises(RuntimeError, match=r"view.*\.reshape"):
        x.transpose(0, 1).view(-1)


def test_expand_repeats_without_memory() -> None:
    x = torch.arange(3).view(3, 1)
    wide = x.expand(-1, 4)
    assert wide.stride() == (1, 0) and wide.shape == (3, 4)
    np.testing.assert_array_equal(wide.numpy(), np.repeat([[0], [1], [2]], 4, 1))
    with pytest.raises(RuntimeError, match="single memory location"):
        wide.add_(1)


def test_strides_of_results_follow_the_operands() -> None:
    x = torch.rand(2, 3, 4).permute(2, 0, 1)
    assert (x + 1).stride() == x.stride()
    assert (x + torch.rand(4, 2, 3)).stride() == x.stride()
    assert x.clone().stride() == x.stride() and x.contiguous().is_contiguous() and x[:, :, ::2].clone().is_contiguous()
    np.testing.assert_array_equal(x.clone().numpy(), x.numpy())


def test_methods_that_change_the_shape_in_place() -> None:
    x = torch.arange(6).view(1, 2, 3)
    assert x.squeeze_(0) is x and x.shape == (2, 3)
    assert x.t_().shape == (3, 2) and x.unsqueeze_(1).shape == (3, 1, 2) and x.transpose_(0, 2).shape == (2, 1, 3)
    np.testing.assert_array_equal(x.numpy(), np.arange(6).reshape(2, 1, 3))


def test_overlapping_operands_are_read_first() -> None:
    x = torch.arange(6.0)
    x[1:] += x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 1, 3, 5, 7, 9])
    y = torch.arange(4.0).view(2, 2)
    y.add_(y.t())
    np.testing.assert_array_equal(y.numpy(), [[0, 3], [3, 6]])
    z = torch.arange(5)
    z[:4].copy_(z[1:].clone())
    np.testing.assert_array_equal(z.numpy(), [1, 2, 3, 4, 4])


def test_resize_and_set() -> None:
    x = torch.arange(4)
    x.resize_(2, 3)
    np.testing.assert_array_equal(x.numpy().reshape(-1)[:4], [0, 1, 2, 3])
    y = torch.zeros(0, dtype=torch.int64)
    y.set_(x)
    assert y.data_ptr() == x.data_ptr() and y.shape == (2, 3)
    assert y.untyped_storage() == x.untyped_storage() and len(x.untyped_storage()) == 48


def test_channels_last() -> None:
    x = torch.rand(2, 3, 4, 5, requires_grad=True)
    y = x.contiguous(memory_format=torch.channels_last)
    assert y.stride() == (60, 1, 15, 3) and y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    assert y.contiguous(memory_format=torch.channels_last) is y and (y * 2).stride() == y.stride()
    assert y.clone(memory_format=torch.contiguous_format).is_contiguous() and y.clone().stride() == y.stride()
    assert torch.empty_like(x, memory_format=torch.channels_last).stride() == y.stride()
    assert x.to(torch.float64, memory_format=torch.channels_last).stride() == y.stride()
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
