"""Random reductions and broadcasts over every layout against numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.pipeline_cases import LAYOUTS

SIZES = st.sampled_from([1, 2, 3, 5, 8, 17, 40])
Dims = tuple[int, ...]


def _logsumexp(x: Any, axis: Dims, keepdims: bool) -> Any:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (torch.sum, np.sum), "mean": (torch.mean, np.mean), "amax": (torch.amax, np.max), "amin": (torch.amin, np.min),
    "logsumexp": (torch.logsumexp, _logsumexp),
    "var": (lambda x, d, k: torch.var(x, d, correction=0, keepdim=k), np.var),
    "norm": (lambda x, d, k: torch.norm(x, 2, d, k), lambda x, axis, keepdims: np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))),
    "any": (lambda x, d, k: torch.any(x > 1.9, d, k), lambda x, axis, keepdims: np.any(x > 1.9, axis=axis, keepdims=keepdims)),
    "count": (lambda x, d, k: (x > 0).sum(d, k), lambda x, axis, keepdims: np.sum(x > 0, axis=axis, keepdims=keepdims)),
}  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(REDUCTIONS)), st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 15), st.booleans(),
    st.sampled_from(sorted(LAYOUTS)), st.integers(0, 9),
)  # fmt: skip
def test_reduction(name: str, shape: list[int], chosen: int, keepdim: bool, layout: str, seed: int) -> None:
    dims = tuple(i for i in range(len(shape)) if chosen >> i & 1) or (0,)
    guard = LAYOUTS[layout](np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32))
    ours, theirs = REDUCTIONS[name]
    found, wanted = ours(guard.tensor, dims, keepdim), np.asarray(theirs(guard.view.astype(np.float64), axis=dims, keepdims=keepdim))
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)
    guard.check()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=2, max_size=3), st.integers(0, 2), st.sampled_from(sorted(LAYOUTS)), st.booleans(), st.integers(0, 9))
def test_normalized_rows(shape: list[int], axis: int, layout: str, compiled: bool, seed: int) -> None:
    """A reduction whose result is broadcast back, eager and fused in one compiled function."""
    axis %= len(shape)

    def program(x: Any, w: Any) -> Any:
        centered = x - x.mean(axis, keepdim=True)
        return torch.softmax(centered * w, axis), (centered * centered).sum(axis) + w.sum()

    random = np.random.default_rng(seed)
    values = [random.uniform(-2, 2, shape), random.uniform(0, 1, shape[-1:])]
    guards = [LAYOUTS[layout](value.astype(np.float32)) for value in values]
    x, w = (g.view.astype(np.float64) for g in guards)
    found = (torch.compile(program) if compiled else program)(*[g.tensor for g in guards])
    centered = x - x.mean(axis, keepdims=True)
    powers = np.exp(centered * w)
    np.testing.assert_allclose(found[0].numpy(), powers / powers.sum(axis, keepdims=True), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(found[1].numpy(), (centered * centered).sum(axis) + w.sum(), rtol=2e-5, atol=2e-5)
    for guard in guards:
        guard.check()


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 40, 41, 48, 49, 63, 65, 80, 81, 100, 129])
def test_every_element_of_a_row_counts(length: int) -> None:
    """Rows of a known length stay in registers: as many as there are vectors, of which the last is not whole."""

    def program(x: Any) -> Any:
        return torch.amax(x, 1), torch.argmin(-x, 1), torch.any(x > 0.5, 1), torch.all(x < 0.5, 1), torch.sum(x, 1), torch.amin(-x, 1)

    rows = np.eye(length, dtype=np.float32)
    found = torch.compile(program)(torch.tensor(rows))
    positions = np.arange(length)
    for result, wanted in zip(found, (rows.max(1), positions, rows.max(1) > 0, rows.max(1) < 0, rows.sum(1), -rows.max(1)), strict=True):
        np.testing.assert_array_equal(result.numpy(), wanted)
