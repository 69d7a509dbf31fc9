"""Initial values: their distribution's formula, drawn from the known stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.core import dtypes
from flambeau.nn import init
from tests.unit.random_stream import Stream

RNG = np.random.default_rng()


def drawn(fill: Any, *shape: int) -> tuple[np.ndarray, Stream]:
    seed = int(RNG.integers(2**32))
    torch.manual_seed(seed)
    out = torch.empty(shape, requires_grad=True)
    assert fill(out) is out and out.requires_grad and out.grad_fn is None
    return out.detach().numpy(), Stream(seed)


@pytest.mark.parametrize(("fill", "bound"), [
    (lambda t: init.uniform_(t, -0.25, 0.25), 0.25), (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(6 / (4 * 6 + 5 * 6))),
    (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(6 / 30)),
    (lambda t: init.kaiming_uniform_(t, a=0.5, mode="fan_out"), math.sqrt(2 / 1.25) * math.sqrt(3 / 24)),
])  # fmt: skip
def test_uniform_values(fill: Any, bound: float) -> None:
    out, stream = drawn(fill, 4, 5, 6)
    np.testing.assert_allclose(out.ravel(), stream.uniform(120, dtypes.float32) * 2 * bound - bound, atol=1e-6)


@pytest.mark.parametrize(("fill", "mean", "deviation"), [
    (lambda t: init.normal_(t, 1.0, 0.5), 1.0, 0.5), (lambda t: init.xavier_normal_(t), 0.0, math.sqrt(2 / 54)),
    (lambda t: init.kaiming_normal_(t, nonlinearity="tanh"), 0.0, 5 / 3 / math.sqrt(30)),
])  # fmt: skip
def test_normal_values(fill: Any, mean: float, deviation: float) -> None:
    out, stream = drawn(fill, 4, 5, 6)
    np.testing.assert_allclose(out.ravel(), stream.normal(120, dtypes.float32) * deviation + mean, atol=5e-6)


def test_truncated_values_are_drawn_again_until_they_fit() -> None:
    out, stream = drawn(lambda t: init.trunc_normal_(t, 0.5, 1.0, -0.5, 1.0), 40, 5)
    expected = np.full(200, np.nan)
    while np.isnan(expected).any():
        candidates = stream.normal(200, dtypes.float32) + 0.5
        inside = (candidates >= -0.5) & (candidates <= 1.0)
        expected = np.where(np.isnan(expected) & inside, candidates, expected)
    np.testing.assert_allclose(out.ravel(), expected, atol=5e-6)


def test_truncated_values_far_from_the_mean() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        out, stream = drawn(lambda t: init.trunc_normal_(t, 0.0, 0.5, 1.5, 2.0), 10, 5)
    expected = np.full(50, np.nan)
    while np.isnan(expected).any():
        candidates = stream.uniform(50, dtypes.float32) * 0.5 + 1.5
        height = np.exp(-((candidates / 0.5) ** 2) / 2 + 4.5)
        accepted = stream.uniform(50, dtypes.float32) <= height
        expected = np.where(np.isnan(expected) & accepted, candidates, expected)
    np.testing.assert_allclose(out.ravel(), expected, atol=5e-6)


def test_constants() -> None:
    assert drawn(lambda t: init.constant_(t, 3.5), 2, 2)[0].tolist() == [[3.5] * 2] * 2
    assert drawn(init.ones_, 3)[0].tolist() == [1] * 3 and drawn(init.zeros_, 3)[0].tolist() == [0] * 3
    np.testing.assert_array_equal(drawn(init.eye_, 3, 4)[0], np.eye(3, 4))
    weight = drawn(lambda t: init.dirac_(t, groups=2), 4, 2, 3, 3)[0]
    x = RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)
    out = nn.functional.conv2d(torch.tensor(x), torch.tensor(weight), padding=1, groups=2)
    np.testing.assert_array_equal(out.numpy(), x)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 2, 3)])
def test_orthogonal_values(shape: tuple[int, ...]) -> None:
    out, stream = drawn(lambda t: init.orthogonal_(t, gain=2.0), *shape)
    flat = out.reshape(shape[0], -1).astype(np.float64)
    small = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)
    given = stream.normal(out.size, dtypes.float32).reshape(flat.shape)
    # Of a matrix with orthogonal columns, the triangular factor is what it was drawn from, with a positive diagonal.
    factor = flat.T @ given if flat.shape[0] >= flat.shape[1] else flat @ given.T
    assert (np.diagonal(factor) > 0).all() and np.abs(np.tril(factor, -1)).max() < 1e-4


def test_a_generator_of_one_s_own() -> None:
    before = torch.get_rng_state().tolist()
    out = init.uniform_(torch.empty(20), generator=torch.Generator().manual_seed(8)).numpy()
    np.testing.assert_array_equal(out, Stream(8).uniform(20, dtypes.float32).astype(np.float32))
    assert torch.get_rng_state().tolist() == before


@pytest.mark.parametrize(("nonlinearity", "param", "gain"), [
    ("linear", None, 1), ("conv2d", None, 1), ("sigmoid", None, 1), ("tanh", None, 5 / 3), ("relu", None, math.sqrt(2)),
    ("leaky_relu", 0.5, math.sqrt(2 / 1.25)), ("leaky_relu", None, math.sqrt(2 / 1.0001)), ("selu", None, 0.75),
])  # fmt: skip
def test_gains(nonlinearity: str, param: Any, gain: float) -> None:
    assert init.calculate_gain(nonlinearity, param) == pytest.approx(gain)


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda: init.calculate_gain("odd"), ValueError, "Unsupported nonlinearity odd"),
    (lambda: init.calculate_gain("leaky_relu", True), ValueError, "not a valid number"),
    (lambda: init.xavier_uniform_(torch.empty(3)), ValueError, "fewer than 2 dimensions"),
    (lambda: init.kaiming_normal_(torch.empty(3, 3), mode="fan"), ValueError, "Mode fan not supported"),
    (lambda: init.eye_(torch.empty(3)), ValueError, "Only tensors with 2 dimensions"),
    (lambda: init.dirac_(torch.empty(3, 3)), ValueError, "Only tensors with 3, 4, or 5"),
    (lambda: init.dirac_(torch.empty(3, 3, 3), 2), ValueError, "divisible by groups"),
    (lambda: init.orthogonal_(torch.empty(3)), ValueError, "2 or more dimensions"),
    (lambda: init.sparse_(torch.empty(3), 0.5), ValueError, "2 dimensions"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        action()


def test_old_names_warn() -> None:
    for name in ("uniform", "normal", "constant", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"):
        arguments = (2.0,) if name == "constant" else ()
        with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
            assert tuple(getattr(init, name)(torch.empty(2, 2), *arguments).shape) == (2, 2)
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(torch.empty(0, 2))
