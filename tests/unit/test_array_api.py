"""The array API's namespace: what differs from torch's functions. The public suite of the standard is run by hand, see docs/programs.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.array_api as xp
from flambeau.array_api.array import Array


def test_arrays_promote_by_types_alone() -> None:
    small, large = xp.asarray(3, dtype=xp.int16), xp.asarray([1, 2], dtype=xp.int8)
    assert isinstance(small + large, Array)
    assert (small + large).dtype is xp.int16 and (large * small).dtype is xp.int16 and xp.add(small, large).dtype is xp.int16
    assert (2 - xp.asarray([1], dtype=xp.uint8)).dtype is xp.uint8 and xp.result_type(xp.int8, 2.5) is xp.float32
    assert (torch.tensor(3, dtype=torch.int16) + torch.tensor([1], dtype=torch.int8)).dtype is torch.int8  # torch's own stays


def test_infinite_quotients_and_signed_remainders() -> None:
    inf = math.inf
    a, b = xp.asarray([inf, -inf, 5.0, -5.0, 7.0]), xp.asarray([2.0, 2.0, inf, inf, -2.0])
    assert (a // b).tolist() == [inf, -inf, 0.0, -0.0, -4.0] and math.copysign(1, float((a // b)[3])) == -1
    zero = xp.asarray(0.0) % xp.asarray(-3.0)
    assert math.copysign(1, float(zero)) == -1 and float(xp.remainder(a[4], b[4])) == -1.0


def test_negative_steps_and_masks_of_no_dimensions() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    x = xp.asarray(values)
    back = slice(None, None, -3)
    for key in ((slice(None, None, -1),), (0, slice(2, 0, -1)), (Ellipsis, slice(3, None, -2)), (None, slice(None), 1, back)):
        np.testing.assert_array_equal(x[key].numpy(), values[key])
    np.testing.assert_array_equal(x[::-1].numpy(), values[::-1])
    scalar = xp.asarray(2.0)
    assert scalar[xp.asarray(True)].tolist() == [2.0] and scalar[xp.asarray(False)].shape == (0,)
    scalar[xp.asarray(True)] = 5.0
    assert float(scalar) == 5.0


def test_sets_of_real_and_complex_numbers() -> None:
    x = xp.asarray([[3, 1], [1, 2]])
    found = xp.unique_all(x)
    assert found.values.tolist() == [1, 2, 3] and found.counts.tolist() == [2, 1, 1] and found.indices.tolist() == [1, 3, 0]
    assert found.values[found.inverse_indices].tolist() == x.tolist()
    z = xp.asarray([1 + 2j, 3, 1 + 2j, 0])
    assert sorted(map(repr, xp.unique_values(z).tolist())) == sorted(map(repr, {0j, 1 + 2j, 3 + 0j}))


def test_statistics_follow_numpy() -> None:
    values = np.random.default_rng().normal(size=(3, 4, 5))
    x = xp.asarray(values)
    for axis in (None, 1, (0, 2), ()):
        for ours, theirs in ((xp.sum, np.sum), (xp.mean, np.mean), (xp.max, np.max), (xp.prod, np.prod), (xp.var, np.var)):
            np.testing.assert_allclose(ours(x, axis=axis, keepdims=True).numpy(), theirs(values, axis=axis, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(xp.std(x, axis=1, correction=1).numpy(), values.std(1, ddof=1))
    np.testing.assert_allclose(xp.cumulative_sum(x, axis=1, include_initial=True)[:, 1:].numpy(), values.cumsum(1))
    np.testing.assert_allclose(xp.diff(x, n=2, axis=0).numpy(), np.diff(values, n=2, axis=0))


def test_the_namespace_is_found_and_described() -> None:
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="not supported"):
        x.__array_namespace__(api_version="1999.1")
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="integral")["int8"] is xp.int8 and info.default_dtypes()["real floating"] is xp.float32
    assert xp.isdtype(xp.float64, ("integral", "real floating")) and not xp.isdtype(xp.bool, "numeric")
    assert xp.finfo(xp.complex64).dtype is xp.float32 and xp.iinfo(xp.asarray(1, dtype=xp.int8)).max == 127
    with pytest.raises(ValueError, match="axis 1 has size 3"):
        xp.squeeze(x, 1)
    with pytest.raises(ValueError, match="streams"):
        x.to_device("cpu", stream=3)
