"""Random chains of views with writes through them show what numpy's views of the same memory show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.pipeline_cases import Guarded

# What is done to a tensor, and the numpy array that has been through the same; None where the step does not apply.
View = tuple[Callable[[Any], Any], Any] | None
Step = tuple[int, int, int, int]
SHAPES = [(6,), (4, 6), (2, 3, 4), (3, 1, 5), (8, 8)]


def _transpose(n: Any, a: int, b: int) -> View:
    i, j = a % n.ndim, b % n.ndim
    return lambda t: t.transpose(i, j), n.swapaxes(i, j)


def _slice(n: Any, a: int, b: int) -> View:
    axis = a % n.ndim
    index = (slice(None),) * axis + (slice(b % max(n.shape[axis], 1), None, 1 + b % 3),)
    return lambda t: t[index], n[index]


def _select(n: Any, a: int, b: int) -> View:
    axis = a % n.ndim
    if not n.shape[axis]:
        return None
    index = (slice(None),) * axis + (b % n.shape[axis],)
    return lambda t: t[index], n[(*index, ...)]


def _unsqueeze(n: Any, a: int, b: int) -> View:
    axis = a % (n.ndim + 1)
    return (lambda t: t.unsqueeze(axis), np.expand_dims(n, axis)) if n.ndim < 5 else None


def _flatten(n: Any, a: int, b: int) -> View:
    """Two neighbouring axes as one, where that needs no copy."""
    i = a % n.ndim
    if i + 1 >= n.ndim or not n.size:
        return None
    shape = (*n.shape[:i], n.shape[i] * n.shape[i + 1], *n.shape[i + 2 :])
    flat = n.reshape(shape)
    return (lambda t: t.view(shape), flat) if np.shares_memory(flat, n) else None


def _diagonal(n: Any, a: int, b: int) -> View:
    if n.ndim < 2:
        return None
    view = np.diagonal(n, b % 2, 0, 1)
    view.flags.writeable = True
    return lambda t: t.diagonal(b % 2, 0, 1), view


VIEWS = [_transpose, _slice, _select, _unsqueeze, _flatten, _diagonal]


def _set(n: Any, value: Any) -> None:
    n[...] = value


def _write(n: Any, other: Any, number: int, kind: int) -> Callable[[Any, Any], Any] | None:
    """Change ``n``; returns what does the same to a tensor and the tensor that corresponds to ``other``."""
    if kind == 0:
        _set(n, n * (number + 0.5))
        return lambda t, _: t.mul_(number + 0.5)
    if kind == 1:
        _set(n, number)
        return lambda t, _: t.fill_(float(number))
    if kind == 2:
        _set(n, number - 1.5)
        return lambda t, _: _set(t, number - 1.5)
    try:
        np.broadcast_to(other, n.shape)
    except ValueError:
        return None
    if kind % 2:
        _set(n, other.copy())
        return lambda t, o: t.copy_(o)
    _set(n, n + other.copy())
    return lambda t, o: t.add_(o)


class Chain:
    """Steps on a base of ``shape``: ``arrays`` are all its views in the end; calling it does the same to a tensor."""

    def __init__(self, shape: tuple[int, ...], steps: Sequence[Step]) -> None:
        self.base = np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)
        self.arrays = [self.base.copy()]
        self.steps: list[tuple[int, int, Callable[..., Any]]] = []  # a write has the index of its other operand, a view -1
        for kind, which, a, b in steps:
            source = which % len(self.arrays)
            array = self.arrays[source]
            if kind < 2 * len(VIEWS):
                made = VIEWS[kind // 2](array, a, b) if array.ndim else None
                if made is not None:
                    self.arrays.append(made[1])
                    self.steps.append((source, -1, made[0]))
                continue
            other = a % len(self.arrays)
            written = _write(array, self.arrays[other], a, b % 6)
            if written is not None:
                self.steps.append((source, other, written))

    def __call__(self, tensor: Any) -> list[Any]:
        tensors = [tensor]
        for source, other, function in self.steps:
            if other < 0:
                tensors.append(function(tensors[source]))
            else:
                function(tensors[source], tensors[other])
        return tensors

    def check(self, tensors: Sequence[Any]) -> None:
        for tensor, array in zip(tensors, self.arrays, strict=True):
            assert tuple(tensor.shape) == array.shape
            strides = [(s, t // 8) for s, t, n in zip(tensor.stride(), array.strides, array.shape, strict=True) if n > 1 and array.size]
            assert all(s == t for s, t in strides), (tensor.stride(), array.strides)
            np.testing.assert_array_equal(tensor.numpy(), array)


chains = st.builds(
    Chain, st.sampled_from(SHAPES),
    st.lists(
        st.tuples(st.integers(0, 2 * len(VIEWS) + 7), st.integers(0, 30), st.integers(0, 7), st.integers(0, 7)), min_size=3, max_size=14
    ),
)  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(chains)
def test_eager(chain: Chain) -> None:
    guard = Guarded(chain.base)
    chain.check(chain(guard.tensor))
    guard.check()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(chains)
def test_compiled(chain: Chain) -> None:
    """Inside a compiled function, on memory made there and on an argument's."""

    def program(x: Any) -> Any:
        return chain(x * 1), chain(x)

    compiled = torch.compile(program, fullgraph=True)
    for _ in range(2):
        guard = Guarded(chain.base)
        for tensors in compiled(guard.tensor):
            chain.check(tensors)
        guard.check()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(chains)
def test_gradients(chain: Chain) -> None:
    """What arrives at the base when every view is weighed, with the writes in between, eager against compiled."""

    def program(x: Any) -> Any:
        return sum((v * (i + 1)).sum() for i, v in enumerate(chain(x * 1)))

    found = []
    for function in (program, torch.compile(program, fullgraph=True)):
        x = torch.tensor(chain.base, requires_grad=True)
        function(x).backward()
        found.append(np.zeros(x.shape) if x.grad is None else x.grad.numpy())
    scale = max(1.0, float(np.abs(found[0]).max()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12 * scale)
