"""Chooses a kernel's loops: their order, which neighbours merge into one, and along which the lanes run."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.core.symbolic import Dim, Expression, atoms_of, axis, is_constant, is_nonnegative
from flambeau.schedule.views import coefficient_of

Axes = list[tuple[str, Dim]]


def order_axes(axes: Axes, accesses: Sequence[Dim]) -> Axes:
    """Largest stride first, as the first access that uses most of the axes lays them out; then last the axis along which
    most accesses are contiguous."""
    axes = _by_stride(axes, accesses)
    if len(axes) < 2:
        return axes
    counts = [_contiguous_accesses(name, size, accesses) for name, size in axes]
    best = max(range(len(axes)), key=lambda i: (counts[i], i))
    if counts[best] > counts[-1]:
        axes = [*axes[:best], *axes[best + 1 :], axes[best]]
    return axes


def _contiguous_accesses(name: str, size: Dim, accesses: Sequence[Dim]) -> int:
    """How many accesses run along neighbours, or take every other element as the parts of complex numbers do."""
    count = 0
    for index in dict.fromkeys(accesses):
        factor = coefficient_of(index, axis(name, size))
        count += factor is not None and (is_constant(factor, 1) or is_constant(factor, 2))
    return count


def _by_stride(axes: Axes, accesses: Sequence[Dim]) -> Axes:
    best: Sequence[Dim] = ()
    for index in accesses:
        if len(_strides(axes, index)) > len(best):
            best = _strides(axes, index)
            if len(best) == len(axes):
                break
    if len(best) < len(axes):
        return axes
    strides = dict(zip((name for name, _ in axes), best, strict=True))
    out: Axes = []
    for name, size in axes:
        at = len(out)
        while at and _larger(strides[name], strides[out[at - 1][0]]):
            at -= 1
        out.insert(at, (name, size))
    return out


def _strides(axes: Axes, index: Dim) -> list[Dim]:
    out: list[Dim] = []
    for name, size in axes:
        factor = coefficient_of(index, axis(name, size))
        if factor is not None and not is_constant(factor, 0):
            out.append(factor)
    return out


def _larger(a: Dim, b: Dim) -> bool:
    return a is not b and not is_constant(a - b, 0) and is_nonnegative(a - b)


def merge_axes(axes: Axes, indices: Sequence[Dim], stem: str) -> tuple[Axes, dict[str, Dim]]:
    """Merge neighbours that every index walks as one; returns the new axes and the old ones in terms of them."""
    if any(is_constant(size, 0) for _, size in axes):
        return list(axes), {}  # nothing is walked
    current = [(name, size, [name]) for name, size in axes]
    at = len(current) - 2
    while at >= 0:
        (a, a_size, a_names), (_, b_size, b_names) = current[at], current[at + 1]
        if all(_walks_as_one(index, axes, a_names[-1], b_names, b_size) for index in indices):
            current[at : at + 2] = [(a, a_size * b_size, a_names + b_names)]
        at -= 1
    sizes = dict(axes)
    merged: Axes = []
    replaced: dict[str, Dim] = {}
    for number, (_, size, names) in enumerate(current):
        name = f"{stem}{number}"
        merged.append((name, size))
        whole = axis(name, size)
        running: Dim = 1
        for old in reversed(names):
            part = whole // running if not is_constant(running, 1) else whole
            replaced[old] = part if old == names[0] else part % sizes[old]
            running = running * sizes[old]
    return merged, replaced


def _walks_as_one(index: Dim, axes: Axes, a: str, b_names: list[str], b_size: Dim) -> bool:
    names = {x.name for x in atoms_of(index)} if isinstance(index, Expression) else set()
    if a not in names and b_names[0] not in names:
        return not any(b in names for b in b_names)
    sizes = dict(axes)
    outer = coefficient_of(index, axis(a, sizes[a]))
    innermost = coefficient_of(index, axis(b_names[-1], sizes[b_names[-1]]))
    if outer is None or innermost is None:
        return False
    return is_constant(outer - innermost * b_size, 0)


def prefer_rows(inner: str, outer: str, sizes: dict[str, Dim], accesses: Sequence[Dim]) -> bool:
    """Whether lanes along the inner axis meet more contiguous accesses than lanes along the outer one."""
    return _contiguous_accesses(inner, sizes[inner], accesses) >= _contiguous_accesses(outer, sizes[outer], accesses)
