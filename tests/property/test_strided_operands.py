"""Pointwise operators, reductions, sorts, scans and products on random strides, and views of overlapping memory, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.pipeline_cases import Guarded
from tests.property.strided import FLOATS, KINDS, same, shapes, strided, values

Case = tuple[Callable[..., Any], Callable[..., Any]]


def _wide(x: Any) -> Any:
    """What sums of bools and whole numbers are counted in."""
    return x.astype(np.int64) if x.dtype.kind in "bi" else x


ANY: dict[str, Case] = {
    "add": (torch.add, np.add), "mul": (torch.mul, np.multiply), "maximum": (torch.maximum, np.maximum), "lt": (torch.lt, np.less),
    "eq": (torch.eq, np.equal), "where": (lambda a, b: torch.where(a != 0, a, b), lambda a, b: np.where(a != 0, a, b)),
    "logical_xor": (torch.logical_xor, np.logical_xor),
}  # fmt: skip
NUMBERS: dict[str, Case] = {
    **ANY, "sub": (torch.sub, np.subtract), "abs": (lambda a, b: a.abs() - b, lambda a, b: np.abs(a) - b),
    "clamp": (lambda a, b: torch.clamp(a, -1, 2) + b, lambda a, b: np.clip(a, -1, 2) + b),
    "floor_divide": (lambda a, b: torch.floor_divide(a, b.abs() + 1), lambda a, b: np.floor_divide(a, np.abs(b) + 1)),
    "remainder": (lambda a, b: torch.remainder(a, b.abs() + 1), lambda a, b: np.remainder(a, np.abs(b) + 1)),
    "square": (lambda a, b: a * a - b, lambda a, b: a * a - b), "sign": (lambda a, b: a.sign() * b, lambda a, b: np.sign(a) * b),
}  # fmt: skip


@st.composite
def broadcast(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to ``shape``."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in kept)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data(), shapes(), st.sampled_from(KINDS), st.booleans())
def test_pointwise(data: st.DataObject, shape: tuple[int, ...], kind: str, compiled: bool) -> None:
    cases = ANY if kind == "bool" else NUMBERS
    ours, theirs = cases[data.draw(st.sampled_from(sorted(cases)))]
    a = data.draw(strided(shape, (kind,)))
    b = data.draw(strided(data.draw(broadcast(shape)), (kind,)))
    function = torch.compile(ours) if compiled else ours
    same(function(a.tensor, b.tensor), theirs(a.view, b.view))
    same(function(b.tensor, a.tensor), theirs(b.view, a.view))
    a.check(), b.check()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data(), shapes(3), st.sampled_from(KINDS))
def test_sequences_in_place(data: st.DataObject, shape: tuple[int, ...], kind: str) -> None:
    """Operators in place on a strided tensor, with operands that are views of the same tensor or broadcast to it."""
    guard = data.draw(strided(shape, (kind,), repeats=False))
    tensor, array = guard.tensor, np.array(guard.view)
    for step in range(data.draw(st.integers(1, 5))):
        choice = data.draw(st.integers(0, 5))
        other = values(kind, data.draw(broadcast(shape)), step)
        if choice == 0:
            tensor.copy_(tensor.flip(tuple(range(tensor.dim()))))
            array = np.array(np.flip(array))
        elif choice == 1:
            tensor.masked_fill_(torch.tensor(other) != 0, 1)
            array[np.broadcast_to(other != 0, shape)] = 1
        elif choice == 2 and kind != "bool":
            tensor.sub_(torch.tensor(other))
            array -= other
        elif choice == 3 and tensor.dim() and shape[0] > 1:
            tensor[1:] = tensor[:-1].clone()
            array[1:] = array[:-1].copy()
        elif choice == 4 and tensor.dim() and shape[-1] > 1:
            tensor[..., 1:].copy_(tensor[..., :-1])  # reads what it writes: as if it had been copied before
            array[..., 1:] = array[..., :-1].copy()
        else:
            tensor.mul_(torch.tensor(other))
            array *= other
    same(tensor, array)
    guard.check()


def _mode(ours: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return torch.compile(ours) if compiled else ours


REDUCTIONS: dict[str, Case] = {
    "sum": (torch.sum, lambda x, axis, keepdims: _wide(x).sum(axis, keepdims=keepdims)),
    "amax": (torch.amax, lambda x, axis, keepdims: x.max(axis, keepdims=keepdims)),
    "amin": (torch.amin, lambda x, axis, keepdims: x.min(axis, keepdims=keepdims)),
    "all": (torch.all, lambda x, axis, keepdims: x.all(axis, keepdims=keepdims)),
    "count_nonzero": (lambda x, d, k: torch.count_nonzero(x, d), lambda x, axis, keepdims: np.asarray((x != 0).sum(axis))),
    "scaled": (lambda x, d, k: (x * 2).sum(d, k), lambda x, axis, keepdims: (x * 2).sum(axis, keepdims=keepdims)),
}  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data(), shapes(4, sizes=(1, 2, 3, 5, 8, 17, 65), least_axes=1), st.sampled_from(sorted(REDUCTIONS)), st.booleans(), st.booleans())
def test_reduction(data: st.DataObject, shape: tuple[int, ...], name: str, keepdim: bool, compiled: bool) -> None:
    """Exact: the numbers are whole or halves."""
    guard = data.draw(strided(shape))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    ours, theirs = REDUCTIONS[name]
    same(_mode(lambda x: ours(x, axes, keepdim), compiled)(guard.tensor), theirs(guard.view, axes, keepdim))
    guard.check()


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.data(), shapes(3, sizes=(1, 2, 3, 5, 16, 33, 100), least_axes=1), st.booleans(), st.booleans())
def test_sorts_and_scans(data: st.DataObject, shape: tuple[int, ...], descending: bool, compiled: bool) -> None:
    guard, axis = data.draw(strided(shape)), data.draw(st.integers(0, len(shape) - 1))

    def program(x: Any) -> Any:
        return (*torch.sort(x, dim=axis, descending=descending, stable=True), torch.cumsum(x, axis), torch.argmax(x.long(), axis))

    found = _mode(program, compiled)(guard.tensor)
    array = guard.view
    key = -_wide(array) if descending else array
    order = np.argsort(key, axis, kind="stable")
    wanted = np.take_along_axis(array, order, axis), order, _wide(array).cumsum(axis), array.astype(np.int64).argmax(axis)
    for tensor, expected in zip(found, wanted, strict=True):
        same(tensor, expected)
    guard.check()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data(), shapes(2, 12, (1, 2, 3)), st.sampled_from(FLOATS), st.booleans())
def test_products(data: st.DataObject, batch: tuple[int, ...], kind: str, compiled: bool) -> None:
    """Matrices and vectors in batches that broadcast, with an epilogue; exact, as the numbers are halves."""
    m, n, k = (data.draw(st.sampled_from((1, 2, 5, 16, 31, 70))) for _ in range(3))
    left = data.draw(strided((*data.draw(broadcast(batch)), m, k), (kind,)))
    vector = data.draw(st.integers(0, 4)) == 0
    right = data.draw(strided((k,) if vector else (*data.draw(broadcast(batch)), k, n), (kind,)))

    def program(a: Any, b: Any) -> Any:
        product = a @ b
        return product, (product + 1).clamp(-20, 20)

    found = _mode(program, compiled)(left.tensor, right.tensor)
    wanted = left.view @ right.view
    same(found[0], wanted)
    same(found[1], np.clip(wanted + 1, -20, 20))
    left.check(), right.check()


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(KINDS), st.booleans())
def test_overlapping_views(data: st.DataObject, kind: str, compiled: bool) -> None:
    """as_strided of a base, then of that view's transpose, read in several ways: elements may be in many places."""
    guard = Guarded(values(kind, (240,), data.draw(st.integers(0, 9))))
    shape = data.draw(shapes(3, 300, (1, 2, 3, 5, 8)))
    strides = tuple(data.draw(st.sampled_from((0, 1, 2, 3, 7))) for _ in shape)
    offset = data.draw(st.integers(0, 20))
    size = guard.view.itemsize
    wanted = np.lib.stride_tricks.as_strided(guard.view[offset:], shape, [s * size for s in strides])

    def program(base: Any) -> Any:
        view = base.as_strided(shape, strides, offset)
        turned = view.permute(tuple(range(len(shape)))[::-1])
        return view.clone(), view == turned.permute(tuple(range(len(shape)))[::-1]), turned.reshape(-1), view.sum()

    found = _mode(program, compiled)(guard.tensor)
    for tensor, expected in zip(found, (wanted, wanted == wanted, wanted.T.reshape(-1), _wide(wanted).sum()), strict=True):
        same(tensor, expected)
    guard.check()
