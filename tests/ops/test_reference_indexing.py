"""Reading and writing at positions against numpy, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new, "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def _scattered(x: Any, dim: int, index: Any, src: Any, mode: str, include_self: bool = True) -> Any:
    """One element after another, as the documentation of scatter says."""
    out, count = x.copy(), np.full(x.shape, int(include_self))
    src = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    for place in np.ndindex(index.shape):
        to = list(place)
        to[dim] = index[place]
        target = tuple(to)
        out[target] = src[place] if count[target] == 0 else COMBINE[mode](out[target], src[place])
        count[target] += 1
    if mode == "mean":
        count = np.maximum(count, 1)
        return out // count if out.dtype.kind == "i" else out / count
    return out


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Any:
    out = np.moveaxis(x.copy(), dim, 0)
    np.add.at(out, index, alpha * np.moveaxis(source, dim, 0))
    return np.moveaxis(out, 0, dim)


def _index_set(x: Any, dim: int, index: Any, source: Any) -> Any:
    out = np.moveaxis(x.copy(), dim, 0)
    out[index] = np.moveaxis(source, dim, 0) if np.ndim(source) else source
    return np.moveaxis(out, 0, dim)


def _gather(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return x
    grid = list(np.indices(index.shape))
    grid[dim] = index
    return x[tuple(grid)]


def _along(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return x.reshape(-1)[indices.reshape(-1)]
    shape = np.broadcast_shapes(np.take(x, [0], dim).shape, np.take(indices, [0], dim).shape)
    wide = [np.broadcast_to(v, [v.shape[dim] if i == dim else n for i, n in enumerate(shape)]) for v in (x, indices)]
    return np.take_along_axis(wide[0], wide[1], dim)


def _slots(indices: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def _index_put(x: Any, indices: list[Any], values: Any, accumulate: bool = False) -> Any:
    out = x.copy()
    if accumulate:
        np.add.at(out, _slots(indices), values)
    else:
        out[_slots(indices)] = values
    return out


def _put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    return _index_put(x.reshape(-1), [index], source, accumulate).reshape(x.shape)


def _compact(values: Any, mask: Any, count: int) -> Any:
    return values[mask][:count]


def _nonzero_static(x: Any, size: int, fill_value: int = -1) -> Any:
    found = np.argwhere(x)[:size]
    out = np.full((size, x.ndim), fill_value)
    out[: len(found)] = found
    return out


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    out, mask = x.copy(), np.broadcast_to(mask, x.shape)
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def _search(line: Any, values: Any, right: bool = False, side: str | None = None, **_: Any) -> Any:
    side = "right" if right or side == "right" else "left"
    if np.ndim(line) == 1:
        return np.searchsorted(line, values, side)
    return np.stack([np.searchsorted(a, b, side) for a, b in zip(line, values, strict=True)])


def _index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    whole = np.broadcast_to(index.reshape([-1 if i == dim else 1 for i in range(x.ndim)]), source.shape)
    return _scattered(x, dim, whole, source, reduce, include_self)


SCATTER_MODES = {None: "set", "add": "sum", "multiply": "prod"}
ORACLES: dict[str, Callable[..., Any]] = {
    "index_select": lambda x, dim, index: np.take(x, index, dim),
    "index_add": _index_add,
    "index_copy": _index_set,
    "index_fill": _index_set,
    "gather": _gather,
    "take": lambda x, index: x.reshape(-1)[index],
    "take_along_dim": _along,
    "index": lambda x, indices: x[_slots(indices)],
    "index_put": _index_put,
    "put": _put,
    "scatter": lambda x, dim, index, src, reduce=None: _scattered(x, dim, index, src, SCATTER_MODES[reduce]),
    "scatter_add": lambda x, dim, index, src: _scattered(x, dim, index, src, "sum"),
    "scatter_reduce": _scattered,
    "index_reduce": _index_reduce,
    "mask_positions": lambda mask: (np.cumsum(mask), mask.sum()),
    "compact": _compact,
    "nonzero_static": _nonzero_static,
    "masked_scatter": _masked_scatter,
    "one_hot": lambda x, n: np.eye(n, dtype=np.int64)[x],
    "searchsorted": _search,
    "bucketize": lambda x, edges, right=False: np.searchsorted(edges, x, "right" if right else "left"),
    "bincount": lambda x, weights, length: np.bincount(x, weights, length),
}
NO_FLOATS = {"mask_positions", "nonzero_static", "one_hot", "searchsorted", "bucketize"}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", [n for n in ORACLES if n not in NO_FLOATS])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("indexing")} == set(ORACLES)


def _input(*shape: int, kind: dtype = dtypes.float32) -> Any:
    return graph_input("x", Aval(shape, kind))


X, LINE = _input(2, 3), _input(2, kind=dtypes.int64)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.gather(X, 0, LINE), RuntimeError, "same number of dimensions"),
        (lambda: ops.gather(X, 0, X), IndexError, "int32/int64"),
        (lambda: ops.gather(X, 0, _input(1, 5, kind=dtypes.int64)), RuntimeError, "Size does not match"),
        (lambda: ops.index(X, [LINE, LINE, LINE]), IndexError, "too many indices"),
        (lambda: ops.index(X, [LINE, _input(5, kind=dtypes.int64)]), IndexError, "could not be broadcast together"),
        (lambda: ops.index_put(X, [LINE], _input(2)), RuntimeError, "cannot be broadcast to indexing result"),
        (lambda: ops.index_put(X, [LINE], _input(3, kind=dtypes.float64)), RuntimeError, "dtypes match"),
        (lambda: ops.scatter_reduce(X, 0, _input(1, 3, kind=dtypes.int64), X, "median"), RuntimeError, "one of sum"),
        (lambda: ops.index_select(X, 0, _input(1, 1, kind=dtypes.int64)), IndexError, "vector"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
