"""Forty operators and situations of nasty structure, eager and compiled, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional
R = np.random.default_rng(7)
A = R.standard_normal((5, 6)).astype("f4")
V = R.standard_normal(12).astype("f4")


def t(array: Any) -> Any:
    return torch.tensor(np.ascontiguousarray(array))


def written(x: Any, place: Callable[[Any], Any], value: Any) -> Any:
    """A copy of ``x`` after a write through a view of it."""
    y = x.clone()
    place(y).copy_(value)
    return y


def accumulated(shape: tuple[int, ...], index: Any, values: Any) -> Any:
    out = np.zeros(shape, values.dtype)
    np.add.at(out, index, values)
    return out


def scattered(mode: str) -> Any:
    out = A.copy()
    for i in range(5):
        for j, k in enumerate((0, 2, 2)):
            value = A[i, j] * 2
            old = out[i, k]
            out[i, k] = {"sum": old + value, "prod": old * value, "amax": max(old, value), "amin": min(old, value)}[mode]
    return out


INDEX = np.array([[0, 2, 2]] * 5)
ROWS = np.array([3, 0, 3, 1])
MASK = A > 0
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "as_strided": (lambda v: v.as_strided((4, 3), (2, 1), 1), (V,), np.lib.stride_tricks.as_strided(V[1:], (4, 3), (8, 4))),
    "overlapping windows": (lambda v: v.unfold(0, 4, 2).sum(1), (V,), np.array([V[i : i + 4].sum() for i in range(0, 9, 2)])),
    "index_put": (lambda a, r: a.clone().index_put_((r[1:],), a[:3] * 2), (A, ROWS), None),
    "index_put accumulate": (
        lambda a, r: torch.zeros(5, 6).index_put_((r,), a[:4], accumulate=True), (A, ROWS), accumulated((5, 6), (ROWS,), A[:4]),
    ),
    "split then in-place": (lambda a: written(a, lambda y: y.split(2, 1)[1], a[:, :2] * 3), (A,), None),
    "chunk of chunk": (lambda a: torch.cat(a.chunk(3, 1)[2].chunk(2, 0)), (A,), A[:, 4:]),
    "scatter_reduce sum": (lambda a, i: a.scatter_reduce(1, i, a[:, :3] * 2, "sum"), (A, INDEX), scattered("sum")),
    "scatter_reduce prod": (lambda a, i: a.scatter_reduce(1, i, a[:, :3] * 2, "prod"), (A, INDEX), scattered("prod")),
    "scatter_reduce amax": (lambda a, i: a.scatter_reduce(1, i, a[:, :3] * 2, "amax"), (A, INDEX), scattered("amax")),
    "scatter_add duplicates": (
        lambda a, r: torch.zeros(5).scatter_add(0, r, a[0, :4]), (A, ROWS), accumulated((5,), ROWS, A[0, :4]),
    ),
    "gather, negative dimension": (lambda a, i: a.gather(-1, i), (A, INDEX), np.take_along_axis(A, INDEX, -1)),
    "take_along_dim broadcast": (lambda a: torch.take_along_dim(a, a.argsort(0), 0), (A,), np.sort(A, 0)),
    "cumsum of a transpose": (lambda a: a.t().cumsum(0), (A,), A.T.cumsum(0)),
    "cumprod": (lambda a: a.cumprod(1), (A,), A.cumprod(1)),
    "sort with NaN": (lambda a: a.sort(1)[0], (np.where(A > 1, np.nan, A),), np.sort(np.where(A > 1, np.nan, A), 1)),
    "stable argsort": (lambda a: a.sign().argsort(1, stable=True), (A,), np.argsort(np.sign(A), 1, kind="stable")),
    "topk": (lambda a: a.topk(3, 0)[0], (A,), -np.sort(-A, 0)[:3]),
    "argmax takes the first": (lambda a: (a > 0).to(torch.int64).argmax(1), (A,), MASK.argmax(1)),
    "flip": (lambda a: a.flip(0, 1), (A,), A[::-1, ::-1]),
    "roll": (lambda a: a.roll((1, -2), (0, 1)), (A,), np.roll(A, (1, -2), (0, 1))),
    "tril with offset": (lambda a: a.tril(-1) + a.triu(2), (A,), np.tril(A, -1) + np.triu(A, 2)),
    "repeat_interleave": (lambda a: a.repeat_interleave(3, 1), (A,), A.repeat(3, 1)),
    "tile of a slice": (lambda a: a[1::2, ::3].tile(2, 2), (A,), np.tile(A[1::2, ::3], (2, 2))),
    "diagonal written": (lambda a: written(a, lambda y: y.diagonal(1), a[:, 0]), (A,), None),
    "strided slice written": (lambda a: written(a, lambda y: y[::2, 1::2], a[::2, ::2] * 5), (A,), None),
    "transposed view written": (lambda a: written(a, lambda y: y.t()[2], a[:, 0] + 1), (A,), None),
    "masked_fill broadcast": (lambda a, m: a.masked_fill(m[:1], -1.0), (A, MASK), np.where(MASK[:1], np.float32(-1), A)),
    "where broadcast": (lambda a, m: torch.where(m[:, :1], a, a[0]), (A, MASK), np.where(MASK[:, :1], A, A[0])),
    "mixed indices": (lambda a, r: a[r[:, None], torch.tensor([0, 5])], (A, ROWS), A[ROWS[:, None], [0, 5]]),
    "separated indices": (
        lambda a, r: a.reshape(5, 3, 2)[r, :, torch.tensor([0, 1, 1, 0])], (A, ROWS), A.reshape(5, 3, 2)[ROWS, :, [0, 1, 1, 0]],
    ),
    "cat with an empty part": (lambda a: torch.cat([a[:0], a, a[4:]]), (A,), np.concatenate([A, A[4:]])),
    "reductions of nothing": (lambda a: a[:0].sum(0) + a[:, :0].prod(1).sum(), (A,), np.full(6, 5, "f4")),
    "product over nothing": (lambda a: a[:, :0] @ a[:0], (A,), np.zeros((5, 6), "f4")),
    "0-d everything": (lambda a: (a[1, 2].exp() + 2).sum().reshape(1)[0], (A,), np.exp(A[1, 2]) + 2),
    "grouped convolution": (
        lambda a: F.conv1d(a.reshape(1, 5, 6)[:, :4], torch.ones(2, 2, 3), groups=2), (A,),
        np.stack([sum(A[2 * g : 2 * g + 2, i : i + 4].sum(0) for i in range(3)) for g in range(2)])[None],
    ),
    "max_pool with padding": (
        lambda a: F.max_pool1d(a, 3, 2, padding=1), (A,),
        np.stack([np.pad(A, ((0, 0), (1, 1)), constant_values=-np.inf)[:, i : i + 3].max(1) for i in (0, 2, 4)], 1),
    ),
    "reflect padding": (lambda a: F.pad(a, (2, 1), mode="reflect"), (A,), np.pad(A, ((0, 0), (2, 1)), "reflect")),
    "integer arithmetic wraps": (
        lambda r: (r.to(torch.int8) * 100 - 7) // 3, (ROWS,), ((ROWS.astype("i1") * np.int8(100) - np.int8(7)) // np.int8(3)),
    ),
    "bool arithmetic": (lambda m: (m & ~m.roll(1, 0)) | (m ^ True), (MASK,), (MASK & ~np.roll(MASK, 1, 0)) | ~MASK),
    "promotion of a mix": (
        lambda a, r: a[:4, 0].to(torch.float16) * 2 + r + True, (A, ROWS), (A[:4, 0].astype("f2") * 2 + ROWS + 1).astype("f2"),
    ),
    "a million elements": (lambda: torch.arange(1_000_000).to(torch.float64).sum(), (), np.float64(499999500000.0)),
    "float16 overflows": (lambda a: (a.to(torch.float16) * 60000 * 2)[0], (A,), None),
}


def reference(name: str, arguments: tuple[Any, ...]) -> Any:
    """The expected values that need more than an expression."""
    out = A.copy()
    match name:
        case "index_put":
            out[ROWS[1:]] = A[:3] * 2
        case "split then in-place":
            out[:, 2:4] = A[:, :2] * 3
        case "diagonal written":
            out[np.arange(5), np.arange(1, 6)] = A[:, 0]
        case "strided slice written":
            out[::2, 1::2] = A[::2, ::2] * 5
        case "transposed view written":
            out[:, 2] = A[:, 0] + 1
        case "float16 overflows":
            with np.errstate(over="ignore"):
                return (A.astype("f2").astype("f4") * 60000).astype("f2").astype("f4")[0] * 2
    return out


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name: str, mode: str) -> None:
    function, arguments, expected = CASES[name]
    if expected is None:
        expected = reference(name, arguments)
    run = torch.compile(function) if mode == "compiled" else function
    for _ in range(2):
        found = run(*[t(a) for a in arguments])
        loose = {"rtol": 2e-3, "atol": 2e-3} if found.dtype is torch.float16 else {"rtol": 2e-6, "atol": 2e-6}
        actual = found.array()
        assert actual.shape == np.shape(expected)
        if found.dtype is torch.float16:
            with np.errstate(over="ignore"):
                expected = np.asarray(expected).astype("f2")
        np.testing.assert_allclose(actual.astype("f8"), np.asarray(expected).astype("f8"), **loose)


def test_there_are_forty() -> None:
    assert len(CASES) >= 40


def test_values_that_decide_sizes() -> None:
    x = t(A)
    np.testing.assert_array_equal(x.gt(0).nonzero().array(), np.argwhere(MASK))
    np.testing.assert_array_equal(x[x > 0].array(), A[MASK])
    y = x.clone()
    y[y > 0] = -1.0
    np.testing.assert_array_equal(y.array(), np.where(MASK, np.float32(-1), A))


def test_writes_that_have_no_single_place() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.zeros(1).expand(3).add_(1)
    with pytest.raises(IndexError, match="out of bounds"):
        F.embedding(torch.tensor([2, 9]), torch.zeros(4, 3))
