"""Order along a dimension against numpy, and derivatives against differences."""

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
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _order(x: Any, dim: int, descending: bool) -> Any:
    """A stable order by comparing every pair of elements."""
    x = np.moveaxis(x, dim, -1)
    a, b = x[..., :, None], x[..., None, :]
    earlier = np.arange(x.shape[-1])[:, None] > np.arange(x.shape[-1])
    before = (b > a if descending else b < a) | ((a == b) & earlier)
    place = before.sum(-1)
    order = np.empty(x.shape, np.int64)
    np.put_along_axis(order, place, np.broadcast_to(np.arange(x.shape[-1]), x.shape), -1)
    return np.moveaxis(order, -1, dim)


def _sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.array(0)
    order = _order(x, dim, descending)
    return np.take_along_axis(x, order, dim), order


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
    return [v if v.ndim == 0 else np.take(v, np.arange(k), dim) for v in _sort(x, dim, largest)]


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return [v if v.ndim == 0 else np.take(v, [k - 1] if keepdim else k - 1, dim) for v in _sort(x, dim)]


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.array(0)

    def one(line: Any) -> Any:
        values, counts = np.unique(line, return_counts=True)
        return np.nonzero(line == values[np.argmax(counts)])[0][-1]

    index = np.expand_dims(np.apply_along_axis(one, dim, x), dim)
    answer = np.take_along_axis(x, index, dim), index
    return answer if keepdim else [np.squeeze(v, dim) for v in answer]


ORACLES: dict[str, Callable[..., Any]] = {
    "sort": _sort,
    "argsort": lambda x, dim=-1, descending=False: _sort(x, dim, descending)[1],
    "msort": lambda x: np.sort(x, 0),
    "topk": _topk,
    "kthvalue": _kthvalue,
    "mode": _mode,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", [n for n in ORACLES if n not in ("argsort", "mode")])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("sorting")} == set(ORACLES)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.topk(x, 4), RuntimeError, "k out of range"),
        (lambda x: ops.kthvalue(x, 0), RuntimeError, "k out of range for dimension 1"),
        (lambda x: ops.sort(x, 2), IndexError, "Dimension out of range"),
    ],
)
def test_errors_are_as_torch(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(graph_input("x", Aval((2, 3), dtypes.float32)))
