"""Sums that become one join or one product, and joins that are computed in place, against numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch


def calls_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Counter[str]]:
    """What the function gives compiled, the same as eager, and the kinds of calls of its program."""
    expected = function(*arguments)
    compiled = torch.compile(function)
    compiled(*arguments)
    found = compiled(*arguments)
    assert compiled.eager_reason is None
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)
    (artifact,) = compiled.artifacts
    bound = artifact.segment.plan.run.bound
    assert bound is not None
    return found, Counter(call.kind for call in bound.program.schedule.calls)


def test_gradients_of_parts_are_joined() -> None:
    def function(x: Any) -> Any:
        parts = x.split([1, 2, 4], 1)
        return torch.autograd.grad([p * (i + 1) for i, p in enumerate(parts)], x, [torch.ones_like(p) for p in parts])[0]

    x = torch.randn(5, 7, 3, requires_grad=True)
    found, calls = calls_of(function, x)
    assert found[0, :, 0].tolist() == [1, 2, 2, 3, 3, 3, 3]
    assert calls == {"loop": 6}  # the ones, and each part in its place


@pytest.mark.parametrize("chosen", [(0, 2), (1,), (1, 2), (2, 0)])
def test_gradients_of_some_parts_leave_zeros(chosen: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        parts = x.chunk(3, 1)
        return torch.autograd.grad([parts[i] * (i + 1) for i in chosen], x, [torch.ones_like(parts[i]) for i in chosen])[0]

    found, _ = calls_of(function, torch.randn(4, 6, requires_grad=True))
    assert found[0].tolist() == [float(i // 2 + 1) if i // 2 in chosen else 0.0 for i in range(6)]


def test_parts_that_overlap_are_added() -> None:
    def function(x: Any) -> Any:
        parts = [x[:, i : i + 3] for i in range(4)]
        return torch.autograd.grad(parts, x, [torch.ones_like(p) for p in parts])[0]

    found, _ = calls_of(function, torch.randn(2, 6, requires_grad=True))
    assert found[0].tolist() == [1, 2, 3, 3, 2, 1]


def test_thin_products_of_a_sum_are_one() -> None:
    def function(*operands: Any) -> Any:
        total = operands[-1]
        for a, b in zip(operands[:5], operands[5:10], strict=True):
            total = total + (a @ b).t()
        return total * 2

    pairs = [(np.random.randn(24, k).astype(np.float32), np.random.randn(k, 40).astype(np.float32)) for k in (3, 1, 2, 4, 2)]
    base = np.random.randn(40, 24).astype(np.float32)
    found, calls = calls_of(function, *[torch.tensor(a) for a, _ in pairs], *[torch.tensor(b) for _, b in pairs], torch.tensor(base))
    assert calls["matmul"] == 1
    expected = 2 * (base.astype(np.float64) + sum(a.astype(np.float64) @ b for a, b in pairs).T)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_deep_products_of_a_sum_stay_apart() -> None:
    operands = [torch.randn(4, 64) for _ in range(3)] + [torch.randn(64, 4) for _ in range(3)]
    _, calls = calls_of(lambda a, b, c, d, e, f: a @ d + b @ e + c @ f, *operands)
    assert calls["matmul"] == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_many_parts_are_computed_where_they_belong(axis: int) -> None:
    def function(*parts: Any) -> Any:
        whole = torch.cat([p * 2 for p in parts], axis)
        return whole.sum(axis), whole @ torch.ones(whole.shape[1], 3), whole.t()

    parts = [torch.randn(6, 6) for _ in range(7)]
    found, _ = calls_of(function, *parts)
    np.testing.assert_allclose(found[2].numpy().T, np.concatenate([2 * p.numpy() for p in parts], axis))


def test_a_join_over_its_own_parts() -> None:
    def function(x: Any) -> Any:
        x.copy_(torch.cat([x[i : i + 1] for i in (5, 4, 3, 2, 1, 0)]))
        return x + 0

    x = torch.arange(12.0).reshape(6, 2)
    compiled = torch.compile(function)
    for _ in range(2):
        expected = x.flip(0)
        assert torch.equal(compiled(x), expected)
        assert torch.equal(x, expected)


def test_joins_of_other_layouts_and_of_nothing() -> None:
    parts = [torch.randn(3, 0, 2), torch.randn(2, 4, 3).permute(2, 1, 0), torch.randn(3, 1, 2)[:, :, ::2].expand(3, 5, 2)]
    expected = np.concatenate([p.numpy() for p in parts], 1)
    np.testing.assert_array_equal(torch.cat(parts, 1).numpy(), expected)
    out = torch.empty(2, 9, 3).permute(2, 1, 0)
    torch.cat(parts, 1, out=out)
    np.testing.assert_array_equal(out.numpy(), expected)
