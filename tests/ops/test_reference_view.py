"""Views against numpy, and their derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of, samples_of, trace


def _expanded(x: Any, size: tuple[int, ...]) -> Any:
    old = (1,) * (len(size) - x.ndim) + x.shape
    return np.broadcast_to(x, [o if s == -1 else s for o, s in zip(old, size, strict=True)])


def _sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def _narrowed(x: Any, dim: int, start: int, length: int) -> Any:
    first = start % x.shape[dim] if start < 0 else start
    return _sliced(x, dim, first, first + length)


def _windows(x: Any, dimension: int, size: int, step: int) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    rolled = np.lib.stride_tricks.sliding_window_view(x, size, axis=dimension)
    return _sliced(rolled, dimension % x.ndim, None, None, step)


def _strided(x: Any, size: Any, stride: Any, storage_offset: int = 0) -> Any:
    flat = np.ascontiguousarray(x).reshape(-1)[storage_offset:]
    return np.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride])


def _split(x: Any, split_size: int, dim: int = 0) -> Any:
    starts = range(0, max(x.shape[dim], 1), split_size)
    return [_sliced(x, dim, a, a + split_size) for a in starts]


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    n = x.shape[dim]
    return _split(x, -(-n // chunks), dim) if n else [x] * chunks


def _unflattened(x: Any, dim: int, sizes: tuple[int, ...]) -> Any:
    shape = list(x.shape)
    shape[dim : dim + 1 or None] = sizes
    return x.reshape(shape)


def _flattened(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    end = end_dim % x.ndim
    return x.reshape((*x.shape[:start_dim], -1, *x.shape[end + 1 :]))


ORACLES: dict[str, Callable[..., Any]] = {
    "transpose": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "t": lambda x: x.T,
    "permute": lambda x, dims: x.transpose(dims),
    "movedim": np.moveaxis,
    "unsqueeze": np.expand_dims,
    "squeeze": lambda x, dim=None: np.squeeze(x, dim) if x.ndim and (dim is None or np.ndim(dim) or x.shape[dim] == 1) else x,
    "expand": _expanded,
    "atleast_1d": np.atleast_1d,
    "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d,
    "select": lambda x, dim, index: np.take(x, index, dim),
    "narrow": _narrowed,
    "slice_": _sliced,
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "unfold": _windows,
    "as_strided": _strided,
    "split": _split,
    "split_with_sizes": lambda x, sizes, dim=0: np.split(x, np.cumsum(sizes)[:-1], dim),
    "chunk": _chunk,
    "tensor_split": lambda x, parts, dim=0: np.array_split(x, parts if isinstance(parts, int) else list(parts), dim),
    "unbind": lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
    "view": lambda x, size: x.reshape(size),
    "unflatten": _unflattened,
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": _flattened,
    "ravel": np.ravel,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_view_is_tested() -> None:
    assert {o.name for o in operators_of("view")} == set(ORACLES)


def test_views_use_view_primitives_only() -> None:
    for operator in operators_of("view"):
        for call in samples_of(operator):
            graph = trace(operator, call).graph
            used = {n.op.name for n in graph.nodes() if n.sources}
            assert used <= {"reshape", "permute", "slice", "expand", "as_strided", "window", "diagonal"}, operator.name


X = graph_input("x", Aval((2, 3), dtypes.float32))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.transpose(X, 0, 2), IndexError, "Dimension out of range"),
        (lambda: ops.permute(X, (0,)), RuntimeError, "number of dimensions"),
        (lambda: ops.permute(X, (0, 0)), RuntimeError, "duplicate dims"),
        (lambda: ops.view(X, (4, 2)), RuntimeError, "invalid for input of size 6"),
        (lambda: ops.view(X, (-1, -1)), RuntimeError, "only one dimension can be inferred"),
        (lambda: ops.reshape(X, (-1, 4)), RuntimeError, "invalid for input of size 6"),
        (lambda: ops.expand(X, (2, 4)), RuntimeError, "must match the existing size"),
        (lambda: ops.expand(X, (3,)), RuntimeError, "must be greater or equal"),
        (lambda: ops.select(X, 1, 3), IndexError, "index 3 out of range"),
        (lambda: ops.narrow(X, 0, 1, 2), RuntimeError, "exceeds dimension size"),
        (lambda: ops.slice_(X, 0, 0, 1, 0), ValueError, "greater than zero"),
        (lambda: ops.unfold(X, 0, 3, 1), RuntimeError, "maximum size"),
        (lambda: ops.as_strided(X, (3, 3), (3, 1)), RuntimeError, "out of bounds"),
        (lambda: ops.split_with_sizes(X, (1, 2), 0), RuntimeError, "sum exactly"),
        (lambda: ops.diagonal(X, 0, 1, -1), RuntimeError, "identical"),
    ],
)  # fmt: skip
def test_errors_are_as_torch(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
