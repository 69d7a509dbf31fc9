"""What compiled functions give out in another order of memory is read in that order by what else is computed from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

Results = tuple[Any, ...]


def product(x: Any) -> Results:
    y = torch.nn.functional.silu(x.permute(0, 2, 1))
    return y, y.reshape(-1, x.shape[1]) @ torch.arange(3.0 * x.shape[1]).view(-1, 3)


def rows(x: Any) -> Results:
    y = x.permute(0, 2, 1) * 2
    return y, y.sort(-1)[0], y.reshape(-1).sort()[0], y.cumsum(1), y.topk(2, 1)[0]


def factors(x: Any) -> Results:
    y = x.transpose(1, 2) * 2
    return y, torch.linalg.qr(y)[1].abs(), torch.linalg.svdvals(y)


def parts(x: Any) -> Results:
    y = x.transpose(1, 2) * 2
    return y, y.as_strided((3,), (2,), 1), y.as_strided((2, 2), (1, 5), 0) + 1


@pytest.mark.parametrize("function", [product, rows, factors, parts])
def test_compiled_equals_eager(function: Callable[[Any], Results]) -> None:
    x = torch.randn(2, 12, 5)
    for wanted, found in zip(function(x), torch.compile(function)(x), strict=True):
        assert found.stride() == wanted.stride()
        assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_parts_of_a_pending_tensor_are_parts_of_its_memory() -> None:
    y, z, _ = torch.compile(parts)(torch.randn(2, 12, 5))
    z.fill_(7)
    assert (y == 7).sum().item() == 3
