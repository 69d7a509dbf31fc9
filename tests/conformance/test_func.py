"""Programs with torch.func, and with sparse and nested tensors, give what they give in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad  # noqa: F401

import flambeau
from tests import func_programs, layout_programs

PROGRAMS = func_programs.PROGRAMS | layout_programs.PROGRAMS


def _maker(module: Any) -> Any:
    random = np.random.default_rng(5)
    return lambda *shape: module.tensor(random.standard_normal(shape).astype(np.float32))


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [a for key in sorted(value) for a in _arrays(value[key])]
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in _arrays(v)]
    if isinstance(value, (str, int, bool)):
        return [np.array(value)]
    if value.is_nested:
        value = value.contiguous().values()
    return [(value.to_dense() if str(value.layout) != "torch.strided" else value).detach().numpy()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_pytorch(name: str) -> None:
    found, wanted = (_arrays(PROGRAMS[name](module, _maker(module))) for module in (flambeau, torch))
    assert len(found) == len(wanted) > 0
    for position, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.dtype.kind == b.dtype.kind and a.shape == b.shape, position
        if a.dtype.kind == "U":
            assert str(a) == str(b)
            continue
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"result {position}")
