"""New tensors against numpy, and random operators against their formulas on what was drawn."""

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
from tests.ops.operator_cases import check_against, check_gradient, check_random, operators_of


def _kind(dtype: dtype | None) -> Any:
    return np.float32 if dtype is None else dtype.numpy


def _arange(start: Any, step: Any, count: int, dtype: dtype = dtypes.int64) -> Any:
    return (start + step * np.arange(count)).astype(dtype.numpy)


def _full(size: Any, fill_value: Any, dtype: dtype | None = None) -> Any:
    return np.full(size, fill_value, _kind(dtype))


ORACLES: dict[str, Callable[..., Any]] = {
    "zeros": lambda size, dtype=None: np.zeros(size, _kind(dtype)),
    "ones": lambda size, dtype=None: np.ones(size, _kind(dtype)),
    "full": _full,
    "arange": _arange,
    "linspace": lambda start, end, steps, dtype=None: np.linspace(start, end, steps),
    "logspace": lambda start, end, steps, base=10.0, dtype=None: np.logspace(start, end, steps, base=base),
    "eye": lambda n, m=None, dtype=None: np.eye(n, m, dtype=_kind(dtype)),
    "tril": np.tril,
    "triu": np.triu,
    "tril_indices": lambda row, col, offset, count: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset, count: np.stack(np.triu_indices(row, offset, col)),
}


def _exponential(u: Any) -> Any:
    return -np.log1p(-u)


def _multinomial(draws: list[Any], x: Any, num_samples: int, replacement: bool = False) -> Any:
    if not replacement or num_samples == 1:
        return np.argsort(-(x / _exponential(draws[0])), axis=-1)[..., :num_samples]
    share = np.cumsum(x, -1) / x.sum(-1, keepdims=True)
    return (share[..., None, :] < draws[0][..., None]).sum(-1)


RANDOM: dict[str, Callable[..., Any]] = {
    "rand": lambda d, size, dtype=None: d,
    "randn": lambda d, size, dtype=None: d,
    "randint": lambda d, low, high, size, dtype=None: low + d[0] % (high - low),
    "randperm": lambda d, n: d,
    "uniform_": lambda d, x, from_=0.0, to=1.0: d[0] * (to - from_) + from_,
    "normal_": lambda d, x, mean=0.0, std=1.0: d[0] * std + mean,
    "normal": lambda d, mean, std: d[0] * std + mean,
    "exponential_": lambda d, x, lambd=1.0: _exponential(d[0]) / lambd,
    "cauchy_": lambda d, x, median=0.0, sigma=1.0: median + sigma * np.tan(np.pi * (d[0] - 0.5)),
    "geometric_": lambda d, x, p_: np.ceil(np.log(d[0]) / np.log1p(-p_)).astype(x.dtype),
    "bernoulli_": lambda d, x, p_=0.5: (d[0] < p_).astype(x.dtype),
    "bernoulli": lambda d, x: (d[0] < x).astype(x.dtype),
    "random_": lambda d, x, from_, to: (from_ + d[0] % (to - from_)).astype(x.dtype),
    "multinomial": _multinomial,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_what_was_drawn(name: str) -> None:
    check_random(ALL[name], RANDOM[name])


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("create")} == set(ORACLES) | set(RANDOM)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.multinomial(x, 4), "cannot sample"),
        (lambda x: ops.bernoulli_(x, 1.5), r"p to be in \[0, 1\]"),
        (lambda x: ops.tril(ops.arange.inline((0, 1, 3, dtypes.int64))), "at least 2 dimensions"),
    ],
)
def test_errors_are_as_torch(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(graph_input("x", Aval((3,), dtypes.float32)))
