"""Random indices, read and written, joins and parts, on any strides, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.pipeline_cases import Guarded
from tests.property.strided import KINDS, same, shapes, strided, values


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index of a tensor of ``shape``, for numpy: numbers, slices, new axes, an ellipsis, arrays of positions and of bools.

    Arrays of positions broadcast with one another; torch puts the axes they give where numpy does.
    """
    out: list[Any] = []
    common = draw(st.sampled_from(((1,), (3,), (2, 1), (2, 3))))
    axis = 0
    while axis < len(shape):
        n, choice = shape[axis], draw(st.integers(0, 9))
        if choice == 0:
            out.append(None)
            continue
        if choice == 1 and not any(i is Ellipsis for i in out):
            out.append(Ellipsis)
            axis += draw(st.integers(1, len(shape) - axis))  # one of no axes parts arrays of positions in numpy, not in torch
            continue
        if choice == 2 and n:
            out.append(draw(st.integers(-n, n - 1)))
        elif choice <= 4 and n:
            positions = st.integers(-n, n - 1)
            lengths = draw(st.sampled_from((common, common[-1:], (1,))))
            out.append(np.array(draw(st.lists(positions, min_size=int(np.prod(lengths)), max_size=int(np.prod(lengths)))), np.int64))
            out[-1] = out[-1].reshape(lengths)
        elif choice == 5:
            out.append(np.random.default_rng(draw(st.integers(0, 9))).integers(0, 2, n).astype(bool))
        else:
            start, stop = draw(st.integers(-n - 1, n + 1)), draw(st.one_of(st.none(), st.integers(-n - 1, n + 1)))
            out.append(slice(start, stop, draw(st.sampled_from((None, 1, 2, 3)))))
        axis += 1
    if any(isinstance(i, np.ndarray) for i in out):  # beside these, numbers are arrays of positions to numpy, but not to torch
        out = [slice(i, i + 1) if isinstance(i, int) else i for i in out]
    return tuple(out)


def for_tensors(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(torch.tensor(i) if isinstance(i, np.ndarray) else i for i in index)


@st.composite
def indexed(draw: st.DrawFn, repeats: bool) -> tuple[Guarded, tuple[Any, ...], Any]:
    """An operand, an index that numpy takes too, and what numpy finds."""
    shape = draw(shapes())
    guard = draw(strided(shape, repeats=repeats))
    index = draw(indices(shape))
    try:
        return guard, index, guard.view[index].copy()
    except IndexError:  # arrays of bools and of positions that do not broadcast
        assume(False)
        raise


@settings(max_examples=400, deadline=None, derandomize=True)
@given(indexed(repeats=True), st.booleans())
def test_get(case: tuple[Guarded, tuple[Any, ...], Any], contiguous: bool) -> None:
    guard, index, wanted = case
    found = guard.tensor[for_tensors(index)]
    same(found.contiguous() if contiguous else found, wanted)
    guard.check()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(indexed(repeats=False), st.integers(0, 3), st.booleans())
def test_set(case: tuple[Guarded, tuple[Any, ...], Any], form: int, alias: bool) -> None:
    """What is written is a number, a tensor of the shape found, one that broadcasts, or a view of the same memory."""
    guard, index, found = case
    kind, value = str(guard.view.dtype), values(str(guard.view.dtype), found.shape, 5)
    if form == 0:
        value = np.asarray(values(kind, (), 3))
    elif form == 1 and found.ndim:
        value = value[:1] if found.shape[0] else value
    wanted = np.array(guard.view)
    positions = np.arange(wanted.size).reshape(wanted.shape)[index]
    assume(len(np.unique(positions)) == positions.size)  # otherwise the order of writes would count
    if alias and found.shape == guard.view.shape:
        source = guard.tensor.flip(0) if wanted.ndim else guard.tensor
        wanted[index] = wanted[::-1].copy() if wanted.ndim else wanted.copy()
    else:
        source = value.item() if form == 0 else torch.tensor(value)
        wanted[index] = value
    guard.tensor[for_tensors(index)] = source
    same(guard.tensor, wanted)
    guard.check()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data(), shapes(3, 400, least_axes=1), st.sampled_from(KINDS), st.booleans())
def test_cat_and_stack(data: st.DataObject, shape: tuple[int, ...], kind: str, compiled: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    lengths = data.draw(st.lists(st.sampled_from((0, 1, 2, 5)), min_size=1, max_size=5))
    guards = [data.draw(strided((*shape[:axis], n, *shape[axis + 1 :]), (kind,))) for n in lengths]
    alike = [data.draw(strided(shape, (kind,))) for _ in range(3)]

    def join(parts: list[Any], equal: list[Any]) -> Any:
        return torch.cat(parts, axis), torch.stack(equal, axis), torch.cat([equal[0], equal[0], equal[1]], axis)

    found = (torch.compile(join) if compiled else join)([g.tensor for g in guards], [g.tensor for g in alike])
    same(found[0], np.concatenate([g.view for g in guards], axis))
    same(found[1], np.stack([g.view for g in alike], axis))
    same(found[2], np.concatenate([alike[0].view, alike[0].view, alike[1].view], axis))
    for guard in (*guards, *alike):
        guard.check()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data(), shapes(3, least_axes=1), st.integers(1, 6), st.booleans())
def test_parts_put_together(data: st.DataObject, shape: tuple[int, ...], size: int, compiled: bool) -> None:
    """Parts are views; joined again in reverse, and after a write through one of them, they show the same memory."""
    guard, axis = data.draw(strided(shape, repeats=False)), data.draw(st.integers(0, len(shape) - 1))
    cuts = range(0, max(shape[axis], 1), size)
    pieces = [np.take(guard.view, range(c, min(c + size, shape[axis])), axis) for c in cuts]

    def program(x: Any) -> Any:
        parts = x.split(size, axis)
        joined = torch.cat(parts[::-1], axis)
        parts[-1].copy_(~parts[-1] if x.dtype is torch.bool else parts[-1] * 2)
        return joined, x.clone(), x.chunk(3, axis)[-1].clone()

    found = (torch.compile(program) if compiled else program)(guard.tensor)
    same(found[0], np.concatenate(pieces[::-1], axis))
    changed = np.concatenate([*pieces[:-1], ~pieces[-1] if guard.view.dtype == bool else pieces[-1] * 2], axis)
    same(found[1], changed)
    third = -(-shape[axis] // 3) or 1
    last = range((max(-(-shape[axis] // third), 1) - 1) * third, shape[axis])
    same(found[2], np.take(changed, last, axis))
    guard.check()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data(), shapes(3, 600, least_axes=1), st.booleans())
def test_positions_along_an_axis(data: st.DataObject, shape: tuple[int, ...], compiled: bool) -> None:
    """gather, index_select, take_along_dim and their writing forms."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    assume(shape[axis] > 0)
    guard = data.draw(strided(shape))
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    count = data.draw(st.integers(0, 6))
    spread = random.integers(0, shape[axis], (*shape[:axis], count, *shape[axis + 1 :]))
    chosen = random.permutation(shape[axis])[:count]
    source = values(str(guard.view.dtype), (*shape[:axis], len(chosen), *shape[axis + 1 :]), 8)

    def program(x: Any, spread: Any, chosen: Any, source: Any) -> Any:
        return torch.gather(x, axis, spread), x.index_select(axis, chosen), x.index_copy(axis, chosen, source)

    operands = guard.tensor, torch.tensor(spread), torch.tensor(chosen), torch.tensor(source)
    found = (torch.compile(program) if compiled else program)(*operands)
    copied = guard.view.copy()
    copied[(slice(None),) * axis + (chosen,)] = source
    for tensor, wanted in zip(found, (np.take_along_axis(guard.view, spread, axis), guard.view.take(chosen, axis), copied), strict=True):
        same(tensor, wanted)
    guard.check()
