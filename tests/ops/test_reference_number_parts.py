"""Greatest common divisors and the parts of numbers against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, operators_of

ORACLES: dict[str, Any] = {"gcd": np.gcd, "lcm": np.lcm, "frexp": np.frexp}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


def test_parts_of_float32() -> None:
    values = np.array([1e-40, -3e-45, 2.0**-126, 0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1.0], np.float32)
    for ours, theirs in zip(torch.frexp(torch.tensor(values)), np.frexp(values), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    x = torch.tensor([3.0, -0.1, 0.5], requires_grad=True)
    (slope,) = torch.autograd.grad(torch.frexp(x).mantissa.sum(), x)
    assert slope.tolist() == [0.25, 8.0, 1.0]


def test_divisors_need_integers() -> None:
    x = graph_input("x", Aval((3,), dtypes.float32))
    for operator in (ops.gcd, ops.lcm):
        with pytest.raises(NotImplementedError, match="needs integer"):
            operator(x, x)


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("number_parts")} == set(ORACLES)
