"""Operators of complex numbers against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau.core import dtypes
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, operators_of


def _sign(z: Any) -> Any:
    size = np.abs(z)
    return np.where(size == 0, 0, z / np.where(size == 0, 1, size))


ORACLES: dict[str, Any] = {
    "real": np.real, "imag": np.imag, "conj": np.conj, "angle": np.angle, "sgn": _sign, "complex": lambda a, b: a + 1j * b,
    "polar": lambda a, b: a * np.exp(1j * b), "view_as_real": lambda z: np.stack([z.real, z.imag], -1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])
    check_against(ALL[name], ORACLES[name], dtypes.float32)


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("complex")} == set(ORACLES)
