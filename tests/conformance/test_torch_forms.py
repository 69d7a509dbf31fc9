"""Functions of layers as torch itself has them: the results are PyTorch's for the same arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

RNG = np.random.default_rng()


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("f")


X, W, V = draw(4, 6, 5), draw(6), np.abs(draw(6)) + 0.5
IMAGE, SIGNS = draw(2, 4, 6, 5), np.sign(draw(4, 6)).astype("f")
ROWS, OTHERS, CHANCES = draw(4, 6), draw(4, 6), RNG.uniform(0.1, 0.9, (4, 6)).astype("f")
TABLE, INDICES, OFFSETS = draw(7, 3), RNG.integers(0, 7, 9), np.array([0, 2, 2, 6])
STEPS, STATE = draw(5, 3, 4), draw(4, 3, 6)
CELL = [draw(3, 6), draw(24, 4), draw(24, 6), draw(24), draw(24)]

CALLS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "batch_norm": lambda t, a: t.batch_norm(a(X), a(W), None, a(W * 0), a(V), False, 0.1, 1e-5, True),
    "batch_norm in training": lambda t, a: t.batch_norm(a(X), a(W), a(V), a(W * 0), a(V), True, 0.1, 1e-5, False),
    "instance_norm": lambda t, a: t.instance_norm(a(X), a(W), a(V), None, None, True, 0.1, 1e-5, True),
    "max_pool1d": lambda t, a: t.max_pool1d(a(X), 2), "max_pool2d": lambda t, a: t.max_pool2d(a(IMAGE), (2, 3), 1, 1),
    "max_pool3d": lambda t, a: t.max_pool3d(a(IMAGE), 2, ceil_mode=True), "avg_pool1d": lambda t, a: t.avg_pool1d(a(X), 2, (), 1),
    "adaptive_max_pool1d": lambda t, a: t.adaptive_max_pool1d(a(X), 2),
    "convolution": lambda t, a: t.convolution(a(IMAGE), a(draw_fixed(6, 2, 3, 2)), None, [1, 2], [1, 0], [1, 1], False, [0, 0], 2),
    "convolution back": lambda t, a: t.convolution(a(IMAGE), a(draw_fixed(4, 3, 2, 2)), a(draw_fixed(6)), [2, 2], [0, 0], [1, 1], True,
                                                   [1, 0], 2),
    "conv_tbc": lambda t, a: t.conv_tbc(a(draw_fixed(5, 2, 3)), a(draw_fixed(3, 3, 4)), a(draw_fixed(4)), 1),
    "affine_grid_generator": lambda t, a: t.affine_grid_generator(a(draw_fixed(2, 2, 3)), [2, 3, 4, 5], True),
    "celu_": lambda t, a: t.celu_(a(ROWS), 2.0), "selu_": lambda t, a: t.selu_(a(ROWS)), "rrelu": lambda t, a: t.rrelu(a(ROWS)),
    "rrelu_": lambda t, a: t.rrelu_(a(ROWS), 0.1, 0.2, True), "alpha_dropout_": lambda t, a: t.alpha_dropout_(a(ROWS), 0.3, True),
    "feature_alpha_dropout": lambda t, a: t.feature_alpha_dropout(a(X), 0.3, True),
    "feature_dropout_": lambda t, a: t.feature_dropout_(a(X), 0.3, True),
    "native_dropout": lambda t, a: t.native_dropout(a(ROWS), 0.4, True),
    "norm_except_dim": lambda t, a: t.norm_except_dim(a(X), 2, 1), "norm_except_dim all": lambda t, a: t.norm_except_dim(a(X), 2, -1),
    "embedding_renorm_": lambda t, a: t.embedding_renorm_(a(TABLE), a(INDICES), 0.7, 2.0),
    "embedding_bag": lambda t, a: t.embedding_bag(a(TABLE), a(INDICES), a(OFFSETS))[0],
    "embedding_bag mean": lambda t, a: t.embedding_bag(a(TABLE), a(INDICES), a(OFFSETS), False, 1, False, None, False)[:3],
    "bce": lambda t, a: t.binary_cross_entropy_with_logits(a(ROWS), a(CHANCES), a(V), a(V), 2),
    "kl_div": lambda t, a: t.kl_div(a(ROWS), a(CHANCES), 0, log_target=True),
    "hinge": lambda t, a: t.hinge_embedding_loss(a(ROWS), a(SIGNS)),
    "margin_ranking_loss": lambda t, a: t.margin_ranking_loss(a(ROWS), a(OTHERS), a(SIGNS), 0.2, 0),
    "cosine_embedding_loss": lambda t, a: t.cosine_embedding_loss(a(ROWS), a(OTHERS), a(SIGNS[:, 0]), 0.1, 2),
    "triplet_margin_loss": lambda t, a: t.triplet_margin_loss(a(ROWS), a(OTHERS), a(CHANCES), 1.5, 2, 1e-6, True, 0),
    "poisson_nll_loss": lambda t, a: t.poisson_nll_loss(a(ROWS), a(CHANCES), True, True, 1e-8, 1),
    "ctc_loss": lambda t, a: t.ctc_loss(a(draw_fixed(9, 2, 5)).log_softmax(2), a(np.array([[1, 2, 3], [4, 4, 1]])), [9, 8], [3, 2]),
    "lstm_cell": lambda t, a: t.lstm_cell(a(STEPS[0]), (a(CELL[0]), a(CELL[0])), *map(a, CELL[1:])),
    "gru_cell": lambda t, a: t.gru_cell(a(STEPS[0]), a(CELL[0]), *[a(w[:18]) for w in CELL[1:]]),
    "rnn_tanh_cell": lambda t, a: t.rnn_tanh_cell(a(STEPS[0]), a(CELL[0]), a(CELL[1][:6]), a(CELL[2][:6])),
    "rnn_relu_cell": lambda t, a: t.rnn_relu_cell(a(STEPS[0]), a(CELL[0]), *[a(w[:6]) for w in CELL[1:]]),
    **{kind: lambda t, a, kind=kind: layers(t, a, kind, False) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{f"{kind} packed": lambda t, a, kind=kind: layers(t, a, kind, True) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "frobenius_norm": lambda t, a: t.frobenius_norm(a(X), (0, 2), True), "nuclear_norm": lambda t, a: t.nuclear_norm(a(X), (0, 2)),
}  # fmt: skip


def draw_fixed(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f")


def layers(library: Any, array: Callable[[Any], Any], kind: str, packed: bool) -> Any:
    gates = {"lstm": 24, "gru": 18}.get(kind, 6)
    weights = [array(draw_fixed(gates, width)) for width in (4, 6)] + [array(draw_fixed(gates))] * 2
    weights += [array(draw_fixed(gates, width) * 0.5) for width in (4, 6)] + [array(draw_fixed(gates))] * 2
    state = array(STATE[:2])
    hx = (state, state) if kind == "lstm" else state
    rest = (weights, True, 1, 0.0, False, True)
    function = getattr(library, kind)
    if not packed:
        return function(array(STEPS), hx, *rest, False)
    data = array(STEPS.reshape(15, 4)[:10])
    return function(data, library.tensor([3, 3, 2, 1, 1]), hx, *rest)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(name: str) -> None:
    found = []
    for library in (flambeau, torch):
        library.manual_seed(4)
        out = CALLS[name](library, lambda x, t=library: t.tensor(np.array(x)))
        found.append([value.numpy() for value in (out if isinstance(out, tuple | list) else (out,))])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("reduction", [3, -1])
def test_reductions_are_numbers(reduction: int) -> None:
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        flambeau.kl_div(flambeau.ones(2), flambeau.ones(2), reduction)


def test_second_derivatives_are_checked() -> None:
    x = flambeau.rand(3, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradgradcheck(lambda v: (v.sin() * v).sum(), (x,))
    assert math.isclose(flambeau.sym_sum([1, 2.5]), 3.5) and flambeau.sym_max(1, 2.0) == 2.0


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_gradients_of_convolutions(dimensions: int) -> None:
    x, weight = draw(2, 4, *[6] * dimensions), draw(6, 2, *[3] * dimensions)
    found = []
    for library in (flambeau, torch):
        functional = getattr(library.nn.functional, f"conv{dimensions}d")
        settings = {"stride": 2, "padding": 1, "groups": 2}
        out = functional(library.tensor(x), library.tensor(weight), **settings)
        by_input, by_weight = (getattr(library.nn.grad, f"conv{dimensions}d_{of}") for of in ("input", "weight"))
        both = by_input(x.shape, library.tensor(weight), out, **settings), by_weight(library.tensor(x), weight.shape, out, **settings)
        found.append([gradient.numpy() for gradient in both])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-4)


def test_changes_by_other_means_are_noticed() -> None:
    for library in (flambeau, torch):
        x = library.ones(2, requires_grad=True)
        y = x * 2
        z = y * y
        library.autograd.graph.increment_version(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
