"""Joining against numpy, and its derivatives against differences."""

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


def _cat(tensors: list[Any], dim: int = 0) -> Any:
    return np.concatenate([x for x in tensors if x.shape != (0,)], dim)


ORACLES: dict[str, Callable[..., Any]] = {
    "cat": _cat,
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "hstack": np.hstack,
    "vstack": np.vstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_join_is_tested() -> None:
    assert {o.name for o in operators_of("join")} == set(ORACLES)


def test_cat_promotes_like_arithmetic() -> None:
    half, integer = (graph_input("x", Aval((2,), d)) for d in (dtypes.float16, dtypes.int64))
    assert ops.cat([integer, half]).dtype is dtypes.float16


@pytest.mark.parametrize(
    ("shapes", "message"), [([(2, 3), (2, 4)], "Sizes of tensors must match"), ([(2, 3), (3,)], "same number"), ([()], "zero-dim")]
)
def test_cat_names_what_does_not_fit(shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ops.cat([graph_input("x", Aval(s, dtypes.float32)) for s in shapes])
