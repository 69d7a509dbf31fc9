"""New tensors: types inferred from data, ranges, random streams, sharing with numpy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (1, torch.int64), (1.5, torch.float32), (True, torch.bool), ([1, 2.0], torch.float32), ([True, 2], torch.int64),
        ([], torch.float32), (np.float64(2), torch.float64), (np.array([1.0]), torch.float64), (np.array([1], np.int16), torch.int16),
        ([np.float32(1), np.float32(2)], torch.float32),
    ],
)  # fmt: skip
def test_data_decides_the_type(data: object, kind: torch.dtype) -> None:
    made = torch.tensor(data)
    assert made.dtype is kind
    np.testing.assert_array_equal(made.numpy(), np.asarray(data))


def test_tensor_copies_and_from_numpy_shares() -> None:
    array = np.arange(4.0)
    copied, shared, viewed = torch.tensor(array), torch.from_numpy(array), torch.from_numpy(array[::2])
    array[2] = -1
    assert copied[2].item() == 2 and shared[2].item() == -1 and viewed[1].item() == -1
    viewed.mul_(3)
    np.testing.assert_array_equal(array, [0, 1, -3, 3])
    assert torch.as_tensor(shared) is shared
    assert torch.as_tensor(array).data_ptr() == shared.data_ptr()
    assert torch.as_tensor(array, dtype=torch.float32).data_ptr() != shared.data_ptr()


def test_numpy_results_share_memory_and_keep_it() -> None:
    array = torch.arange(6).view(2, 3).t().numpy()
    array[0, 1] = 9
    np.testing.assert_array_equal(array, [[0, 9], [1, 4], [2, 5]])
    assert array.strides == (8, 24)


@pytest.mark.parametrize(
    ("args", "kind"),
    [((5,), torch.int64), ((2, 11, 3), torch.int64), ((0.5, 2.0, 0.25), torch.float32), ((10, 2, -3), torch.int64),
     ((1.0, 1.0), torch.float32), ((0, 1, 0.1), torch.float32)],
)  # fmt: skip
def test_arange(args: tuple[float, ...], kind: torch.dtype) -> None:
    made = torch.arange(*args)
    assert made.dtype is kind
    np.testing.assert_allclose(made.numpy(), np.arange(*args), rtol=1e-6)


def test_filled_tensors() -> None:
    assert torch.zeros(2, 3).shape == (2, 3) and torch.zeros((2, 3)).shape == (2, 3) and torch.zeros(size=(4,)).shape == (4,)
    np.testing.assert_array_equal(torch.full((2,), 7).numpy(), [7, 7])
    assert torch.full((1,), True).dtype is torch.bool and torch.full((1,), 2.0).dtype is torch.float32
    np.testing.assert_array_equal(torch.eye(2, 3).numpy(), np.eye(2, 3))
    np.testing.assert_allclose(torch.linspace(-1, 1, 7).numpy(), np.linspace(-1, 1, 7), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(torch.tril_indices(3, 4, 1).numpy(), np.stack(np.tril_indices(3, 1, 4)))
    np.testing.assert_array_equal(torch.triu_indices(4, 3, -1).numpy(), np.stack(np.triu_indices(4, -1, 3)))


def test_like_keeps_the_order_of_dimensions() -> None:
    source = torch.ones(2, 3, 4, dtype=torch.float64).permute(2, 0, 1)
    made = torch.zeros_like(source)
    assert made.shape == source.shape and made.dtype is torch.float64 and made.stride() == source.stride()
    assert torch.full_like(source[:, :, :1], 3.0).sum().item() == 24
    assert torch.empty_like(torch.ones(2, 1).expand(2, 3)).is_contiguous()
    assert source.new_ones(2, 2).dtype is torch.float64 and source.new_zeros((2,), dtype=torch.int8).dtype is torch.int8


def test_default_type() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor(1.5).dtype is torch.float64 and torch.ones(1).dtype is torch.float64
        assert (torch.tensor([1]) * 1.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_default_type_changes_calls_that_were_made_before() -> None:
    whole = torch.tensor([1, 2, 3])

    def types() -> set[torch.dtype]:
        half, root, product = whole / 2, torch.sqrt(whole), whole * 1.5
        return {half.dtype, root.dtype, product.dtype, torch.full((2,), 1.0).dtype, torch.rand(2).dtype}

    try:
        for default in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(default)
            for _ in range(3):  # traced, planned, planned in native code
                assert types() == {default}
    finally:
        torch.set_default_dtype(torch.float32)


def test_seeds_give_pytorchs_streams() -> None:
    torch.manual_seed(0)
    np.testing.assert_allclose(torch.rand(3).numpy(), [0.4962566, 0.7682218, 0.0884774], rtol=1e-6)
    torch.manual_seed(0)
    np.testing.assert_array_equal(torch.randint(10, (5,)).numpy(), [4, 9, 3, 0, 3])
    torch.manual_seed(0)
    np.testing.assert_array_equal(torch.randperm(5).numpy(), [4, 0, 1, 3, 2])


def test_generators_are_independent() -> None:
    torch.manual_seed(1)
    expected = torch.randn(5)
    torch.manual_seed(1)
    other = torch.Generator().manual_seed(1)
    np.testing.assert_array_equal(torch.randn(5, generator=other).numpy(), expected.numpy())
    np.testing.assert_array_equal(torch.randn(5).numpy(), expected.numpy())
    state = other.get_state()
    again = torch.rand(4, generator=other)
    other.set_state(state)
    np.testing.assert_array_equal(torch.rand(4, generator=other).numpy(), again.numpy())
    saved = torch.get_rng_state()
    first = torch.empty(3).uniform_(-1, 1)
    torch.set_rng_state(saved)
    np.testing.assert_array_equal(torch.empty(3).uniform_(-1, 1).numpy(), first.numpy())


def test_pickle_and_deepcopy_keep_shared_memory() -> None:
    whole = torch.arange(6.0).view(2, 3).requires_grad_()
    for first, second in (pickle.loads(pickle.dumps((whole, whole.detach()[1]))), copy.deepcopy((whole, whole.detach()[1]))):
        assert first.requires_grad and not second.requires_grad
        np.testing.assert_array_equal(second.numpy(), [3, 4, 5])
        second.zero_()
        np.testing.assert_array_equal(first.detach().numpy(), [[0, 1, 2], [0, 0, 0]])
        assert first.data_ptr() != whole.data_ptr()
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    assert pickle.loads(pickle.dumps(half)).tolist() == [1.5, -2.0]


def test_dlpack_shares_with_numpy() -> None:
    x = torch.arange(6.0).view(2, 3)
    array = np.from_dlpack(x)
    array[1, 1] = 40
    assert x[1, 1].item() == 40
    back = torch.from_dlpack(array)
    assert back.data_ptr() == x.data_ptr() and back.shape == (2, 3)


def test_conversions() -> None:
    x = torch.tensor([1.7, -1.7, 0.0])
    np.testing.assert_array_equal(x.long().numpy(), [1, -1, 0])
    np.testing.assert_array_equal(x.bool().numpy(), [True, True, False])
    assert x.to(torch.float32) is x and x.to(torch.float32, copy=True) is not x and x.float() is x
    assert x.to("cpu") is x and x.to(torch.device("cpu"), torch.float64).dtype is torch.float64
    assert x.to(torch.ones(1, dtype=torch.float16)).dtype is torch.float16
    assert x.type() == "torch.FloatTensor" and x.type("torch.IntTensor").dtype is torch.int32
    assert x.type_as(x.double()).dtype is torch.float64
    assert int(x[0]) == 1 and float(x[1]) == pytest.approx(-1.7) and bool(x[2]) is False
    assert x.tolist() == pytest.approx([1.7, -1.7, 0.0])
    assert f"{x[0]:.1f}" == "1.7"


def test_bytes_seen_as_another_type() -> None:
    x = torch.tensor([[1.0, 2.0]])
    np.testing.assert_array_equal(x.view(torch.int32).numpy(), x.numpy().view(np.int32))
    np.testing.assert_array_equal(x.view(torch.uint8).numpy(), x.numpy().view(np.uint8))
    np.testing.assert_array_equal(x.view(torch.float64).numpy(), x.numpy().view(np.float64))


PYTHON_TYPES: Any = float, int, bool


@pytest.mark.parametrize(("python", "kind"), [(bool, torch.bool), (int, torch.int64), (float, torch.float64), (complex, torch.complex128)])
def test_types_of_python_stand_for_dtypes(python: Any, kind: torch.dtype) -> None:
    x = torch.arange(4.0)
    made = [
        torch.ones(2, dtype=python), torch.zeros(2, dtype=python), torch.empty(2, dtype=python), torch.full((2,), 1, dtype=python),
        torch.tensor([1, 0], dtype=python), torch.tensor(1, dtype=python), torch.as_tensor([1, 0], dtype=python),
        torch.eye(2, dtype=python),
        torch.as_tensor(x, dtype=python), torch.ones_like(x, dtype=python), torch.zeros_like(x, dtype=python),
        torch.full_like(x, 1, dtype=python), torch.empty_like(x, dtype=python), x.new_zeros(2, dtype=python), x.new_ones(2, dtype=python),
        x.new_full((2,), 1, dtype=python), x.new_tensor([1], dtype=python), x.to(python), x.to(dtype=python), x.sum(dtype=python),
        torch.sum(x, dtype=python), x.prod(0, dtype=python), torch.compile(lambda x: x.to(python))(x),
        torch.compile(lambda x: torch.ones(2, dtype=python).sum(dtype=python))(x),
    ]  # fmt: skip
    assert [m.dtype for m in made] == [kind] * len(made)


def test_float_stands_for_float64() -> None:
    x, wide, whole, truth = torch.arange(2.0), *PYTHON_TYPES
    made = [torch.rand(2, dtype=wide), torch.randn_like(x, dtype=wide), torch.softmax(x, 0, dtype=wide), x.cumsum(0, dtype=wide),
            torch.arange(3, dtype=wide), torch.linspace(0, 1, 3, dtype=wide), torch.nn.Linear(2, 2, dtype=wide).weight,
            torch.nn.Linear(2, 2).to(wide).bias, x.double().view(wide)]  # fmt: skip
    assert {m.dtype for m in made} == {torch.float64}
    assert torch.randint(0, 2, (3,), dtype=whole).dtype is torch.int64
    assert (torch.ones((2, 2), dtype=truth).fill_diagonal_(0)).tolist() == [[False, True], [True, False]]
