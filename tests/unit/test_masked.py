"""torch.masked: reductions that leave elements out against numpy, and against the same on what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

RNG = np.random.default_rng(13)
ARRAY = RNG.standard_normal((3, 4, 5))
MASK = RNG.random((3, 4, 5)) > 0.4
MASK[..., 0] = True
HIDDEN = np.ma.array(ARRAY, mask=~MASK)
DIMS = [None, 0, 1, -1, (0, 2), (-1, 1)]


def axis_of(dim: Any) -> Any:
    return dim if dim is None or isinstance(dim, int) else tuple(d % 3 for d in dim)


def norm(order: float) -> Callable[..., Any]:
    def of(x: Any, axis: Any) -> Any:
        size = np.ma.abs(x)
        if abs(order) == np.inf:
            return size.max(axis) if order > 0 else size.min(axis)
        return (size**order).sum(axis) ** (1 / order)

    return of


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (torch.masked.sum, lambda x, a: x.sum(a)), "mean": (torch.masked.mean, lambda x, a: x.mean(a)),
    "amax": (torch.masked.amax, lambda x, a: x.max(a)), "amin": (torch.masked.amin, lambda x, a: x.min(a)),
    "prod": (torch.masked.prod, lambda x, a: np.prod(np.where(MASK, ARRAY, 1.0), a)),
    "var": (torch.masked.var, lambda x, a: x.var(a, ddof=1)), "std": (torch.masked.std, lambda x, a: x.std(a, ddof=1)),
    "var biased": (lambda *a, **k: torch.masked.var(*a, unbiased=False, **k), lambda x, a: x.var(a)),
    "std corrected": (lambda *a, **k: torch.masked.std(*a, correction=0, **k), lambda x, a: x.std(a)),
    "logsumexp": (torch.masked.logsumexp, lambda x, a: np.ma.log(np.ma.exp(x).sum(a))),
    **{f"norm {o}": (lambda x, dim, o=o, **k: torch.masked.norm(x, o, dim, **k), norm(o)) for o in (1.0, 2.0, 3.0, np.inf, -np.inf)},
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name: str, dim: Any, keepdim: bool) -> None:
    ours, theirs = REDUCTIONS[name]
    found = ours(torch.tensor(ARRAY), dim, keepdim=keepdim, mask=torch.tensor(MASK))
    wanted = np.asarray(np.ma.getdata(theirs(HIDDEN, axis_of(dim))))
    if keepdim:
        axes = range(3) if dim is None else np.atleast_1d(np.array(axis_of(dim))) % 3
        wanted = wanted.reshape([1 if i in axes else n for i, n in enumerate(ARRAY.shape)])
    assert tuple(found.shape) == wanted.shape
    few = np.ma.count(HIDDEN, axis_of(dim)).reshape(wanted.shape) < 2
    np.testing.assert_allclose(np.where(few, 0, found.numpy()), np.where(few, 0, wanted), rtol=1e-9)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_along_one_dimension(dim: int) -> None:
    x, mask, filled = torch.tensor(ARRAY), torch.tensor(MASK), HIDDEN.filled
    np.testing.assert_allclose(torch.masked.cumsum(x, dim, mask=mask).numpy(), filled(0).cumsum(dim))
    np.testing.assert_allclose(torch.masked.cumprod(x, dim, mask=mask).numpy(), filled(1).cumprod(dim))
    assert torch.masked.argmax(x, dim, mask=mask).tolist() == filled(-np.inf).argmax(dim).tolist()
    assert torch.masked.argmin(x, dim, mask=mask).tolist() == filled(np.inf).argmin(dim).tolist()
    powers = np.where(MASK, np.exp(ARRAY), 0)
    with np.errstate(all="ignore"):
        shares = powers / powers.sum(dim, keepdims=True)
        inverse = np.where(MASK, np.exp(-ARRAY), 0)
        np.testing.assert_allclose(torch.masked.softmax(x, dim, mask=mask).numpy(), shares)
        np.testing.assert_allclose(torch.masked.log_softmax(x, dim, mask=mask).numpy(), np.log(shares))
        np.testing.assert_allclose(torch.masked.softmin(x, dim, mask=mask).numpy(), inverse / inverse.sum(dim, keepdims=True))
    size = np.sqrt((filled(0) ** 2).sum(dim, keepdims=True))
    np.testing.assert_allclose(torch.masked.normalize(x, 2.0, dim, mask=mask).numpy(), filled(0) / np.maximum(size, 1e-12))

    def lower_middle(values: Any) -> Any:
        left = np.sort(values[np.isfinite(values)])
        return left[(len(left) - 1) // 2] if len(left) else np.nan

    middle = np.apply_along_axis(lower_middle, dim, filled(np.nan))
    np.testing.assert_allclose(torch.masked.median(x, dim, mask=mask).numpy(), middle)
    assert torch.masked.median(x, dim, keepdim=True, mask=mask).dim() == 3


def test_without_a_mask_and_with_one_that_broadcasts() -> None:
    x, row = torch.tensor(ARRAY), torch.tensor([True, False, True, False, True])
    for name in ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "prod"):
        assert torch.allclose(getattr(torch.masked, name)(x, 2), REDUCTIONS[name][0](x, 2, mask=torch.ones(3, 4, 5, dtype=torch.bool)))
        assert torch.allclose(getattr(torch.masked, name)(x, 2, mask=row), getattr(torch.masked, name)(x[..., row], 2))
    both = torch.masked.logaddexp(x[0], x[1], input_mask=torch.tensor(MASK[0]), other_mask=torch.tensor(MASK[1]))
    with np.errstate(all="ignore"):
        wanted = np.logaddexp(np.where(MASK[0], ARRAY[0], -np.inf), np.where(MASK[1], ARRAY[1], -np.inf))
    np.testing.assert_allclose(both.numpy(), wanted)


def test_nothing_left_and_other_types() -> None:
    x, none = torch.tensor([1.0, 2.0]), torch.zeros(2, dtype=torch.bool)
    assert torch.masked.sum(x, mask=none).item() == 0 and torch.masked.prod(x, mask=none).item() == 1
    assert torch.masked.amax(x, mask=none).item() == -np.inf and torch.masked.amin(x, mask=none).item() == np.inf
    for name in ("mean", "var", "std"):
        assert np.isnan(getattr(torch.masked, name)(x, mask=none).item())
    assert np.isnan(torch.masked.median(x, mask=none).item()) and torch.masked.softmax(x, 0, mask=none).isnan().all()
    whole, mask = torch.tensor([3, 1, 2]), torch.tensor([False, True, True])
    assert torch.masked.amax(whole, mask=mask).item() == 2 and torch.masked.amin(whole, mask=~mask).item() == 3
    assert torch.masked.amax(torch.tensor([True, False]), mask=torch.tensor([False, True])).item() is False
    assert torch.masked.sum(whole, mask=mask, dtype=torch.float32).dtype is torch.float32
    assert torch.masked.mean(whole, mask=mask).item() == 1.5
    assert torch.masked.var(whole, mask=mask).item() == 0.5
    z = x.clone().requires_grad_()
    torch.masked.mean(z, mask=torch.tensor([True, False])).backward()
    assert z.grad.tolist() == [1, 0]
    for bad, error in ((torch.ones(2), "must be of bools"), (torch.ones(3, dtype=torch.bool), "expand")):
        with pytest.raises(RuntimeError, match=error):
            torch.masked.sum(x, mask=bad)
    with pytest.raises(ValueError, match="floating point"):
        torch.masked.median(whole)
