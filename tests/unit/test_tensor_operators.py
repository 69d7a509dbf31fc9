"""Python's operators, in-place forms, promotion, keyword names and ``out=``."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.eq, operator.ne,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BINARY)
def test_binary_operators(function: Callable[[Any, Any], Any]) -> None:
    a, b = np.random.rand(3, 4) + 0.5, np.random.rand(4) + 0.5
    x, y = torch.tensor(a), torch.tensor(b)
    np.testing.assert_allclose(function(x, y).numpy(), function(a, b))
    np.testing.assert_allclose(function(x, 1.5).numpy(), function(a, 1.5))
    np.testing.assert_allclose(function(2.5, x).numpy(), function(2.5, a))
    np.testing.assert_allclose(function(x, np.float64(2)).numpy(), function(a, 2.0))


@pytest.mark.parametrize("function", BITS)
def test_bit_operators(function: Callable[[Any, Any], Any]) -> None:
    a, b = np.random.randint(0, 100, (5,)), np.random.randint(0, 7, (5,))
    np.testing.assert_array_equal(function(torch.tensor(a), torch.tensor(b)).numpy(), function(a, b))
    np.testing.assert_array_equal(function(torch.tensor(a), 3).numpy(), function(a, 3))
    np.testing.assert_array_equal(function(3, torch.tensor(b)).numpy(), function(3, b))


IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow]


@pytest.mark.parametrize("function", IN_PLACE)
def test_in_place_operators_keep_the_object(function: Callable[[Any, Any], Any]) -> None:
    a, b = np.random.rand(3, 4) + 0.5, np.random.rand(4) + 0.5
    x = torch.tensor(a)
    kept, address = x, x.data_ptr()
    x = function(x, torch.tensor(b))
    assert x is kept and x.data_ptr() == address and x._version == 1
    np.testing.assert_allclose(x.numpy(), function(a.copy(), b))


def test_unary_operators() -> None:
    a = np.random.randn(5)
    x = torch.tensor(a)
    np.testing.assert_array_equal((-x).numpy(), -a)
    np.testing.assert_array_equal(abs(x).numpy(), np.abs(a))
    np.testing.assert_array_equal((+x).numpy(), a)
    np.testing.assert_array_equal((~torch.tensor([True, False])).numpy(), [False, True])
    np.testing.assert_array_equal((~torch.tensor([1, -1])).numpy(), [-2, 0])


@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0, 0.5, 1, 2, 2.0, 3, 4, 5, 2.5])
def test_powers(exponent: float) -> None:
    a = np.random.rand(6) + 0.5
    np.testing.assert_allclose((torch.tensor(a) ** exponent).numpy(), a**exponent)
    np.testing.assert_allclose((abs(exponent) ** torch.tensor(a)).numpy(), np.float64(abs(exponent)) ** a)
    if exponent >= 0:
        whole = torch.tensor([1, 2, 3]) ** exponent
        assert whole.dtype is (torch.int64 if isinstance(exponent, int) else torch.float32)
        np.testing.assert_allclose(whole.numpy(), np.array([1, 2, 3]) ** exponent, rtol=1e-6)


# Where torch's rules differ from numpy's: a 16-bit float stays with integers, and the two 16-bit floats meet in float32.
TYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def _expected(a: str, b: str) -> str:
    floats = ("float16", "bfloat16", "float32", "float64")
    if a in floats and b in floats:
        return "float32" if {a, b} == {"float16", "bfloat16"} else max(a, b, key=floats.index)
    if a in floats or b in floats:
        return a if a in floats else b
    return np.promote_types(a, b).name


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(TYPES, 2)))
def test_promotion_of_two_types(a: str, b: str) -> None:
    kinds = [getattr(torch, n) for n in (a, b)]
    expected = getattr(torch, _expected(a, b))
    assert torch.promote_types(*kinds) is torch.promote_types(*reversed(kinds)) is expected
    assert torch.mul(*(torch.ones(2, dtype=k) for k in kinds)).dtype is expected
    assert torch.result_type(*(torch.ones(2, dtype=k) for k in kinds)) is expected


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (torch.ones(2, dtype=torch.int8), 5, torch.int8), (torch.ones(2, dtype=torch.int8), 5.0, torch.float32),
        (torch.ones(2, dtype=torch.bool), 5, torch.int64), (torch.ones(2, dtype=torch.float16), 5.0, torch.float16),
        (torch.ones(2, dtype=torch.float32), torch.tensor(1.0, dtype=torch.float64), torch.float32),
        (torch.ones(2, dtype=torch.int32), torch.tensor(1.0, dtype=torch.float64), torch.float64),
        (torch.tensor(1, dtype=torch.int8), torch.tensor(1, dtype=torch.int64), torch.int64),
        (torch.ones(2, dtype=torch.int32), torch.tensor(1, dtype=torch.int64), torch.int32),
        (torch.tensor(1, dtype=torch.int32), 2.5, torch.float32), (torch.ones(2, dtype=torch.uint8), True, torch.uint8),
    ],
)  # fmt: skip
def test_numbers_and_0d_tensors_decide_by_category_only(x: Any, y: Any, expected: torch.dtype) -> None:
    assert (x + y).dtype is expected and torch.result_type(x, y) is expected and (y + x).dtype is expected


def test_integers_divide_to_floats() -> None:
    assert (torch.tensor([3]) / 2).dtype is torch.float32
    assert torch.div(torch.tensor([-7, 7]), 2, rounding_mode="floor").tolist() == [-4, 3]
    assert torch.div(torch.tensor([-7, 7]), 2, rounding_mode="trunc").tolist() == [-3, 3]


def test_casting_rules() -> None:
    assert torch.can_cast(torch.int64, torch.float32) and not torch.can_cast(torch.float32, torch.int64)
    assert torch.can_cast(torch.int64, torch.int8) and not torch.can_cast(torch.int8, torch.bool)


def test_keyword_names() -> None:
    x = torch.tensor([[1.0, 5.0], [4.0, 2.0]])
    assert torch.add(input=x, other=x, alpha=2).tolist() == [[3, 15], [12, 6]]
    assert torch.sum(input=x, dim=1).tolist() == x.sum(axis=1).tolist() == [6, 6]
    assert torch.sum(x, axis=0, keepdims=True).shape == (1, 2)
    assert torch.cat(tensors=[x, x], axis=1).shape == (2, 4)
    assert torch.max(x, dim=1, keepdim=True).values.tolist() == [[5], [4]]
    values, indices = x.min(0)
    assert values.tolist() == [1, 2] and indices.tolist() == [0, 1]
    assert torch.max(x, other=torch.full((2,), 3.0)).tolist() == x.maximum(torch.tensor(3.0)).tolist() == [[3, 5], [4, 3]]
    assert x.std(0, unbiased=False).tolist() == pytest.approx([1.5, 1.5])
    assert torch.var(x, False).item() == pytest.approx(np.var(x.numpy()))


def test_out() -> None:
    x, y = torch.rand(3), torch.rand(3)
    target = torch.empty(3)
    assert torch.add(x, y, out=target) is target
    np.testing.assert_array_equal(target.numpy(), x.numpy() + y.numpy())
    assert torch.exp(x, out=torch.empty(0)).shape == (3,)
    torch.mul(x, x, out=x)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    found = torch.topk(target, 2, out=(values, indices))
    assert found.values is values and indices.shape == (2,)
    wide = torch.empty(3, dtype=torch.float64)
    torch.sub(x, y, out=wide)
    np.testing.assert_array_equal(wide.numpy(), (x.numpy() - y.numpy()).astype(np.float64))
    with pytest.warns(UserWarning, match="resized"):
        torch.neg(x, out=torch.empty(2))


def test_comparison_with_anything() -> None:
    x = torch.ones(2)
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    assert x in [x] and hash(x) == id(x)
    assert 1.0 in x and 2.0 not in x


def test_other_operands_are_asked() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "asked"

        def __rmatmul__(self, x: Any) -> str:
            return "asked too"

    assert torch.ones(1) + Other() == "asked" and torch.ones(1) @ Other() == "asked too"
    assert isinstance(np.float64(2) * torch.ones(2), torch.Tensor)


def test_iteration_and_length() -> None:
    x = torch.arange(6).view(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]] and len(x) == 3
    first, *_ = x
    first.zero_()
    assert x[0].tolist() == [0, 0]
    assert [row.tolist() for row in reversed(x)] == [[4, 5], [2, 3], [0, 0]]


def test_printing_shows_what_autograd_knows() -> None:
    x = torch.tensor([1.0, 2.5], requires_grad=True)
    assert repr(x) == "tensor([1.0000, 2.5000], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 5.], grad_fn=<MulBackward0>)"
    assert repr(torch.tensor([1, 2], dtype=torch.int32)) == "tensor([1, 2], dtype=torch.int32)"
