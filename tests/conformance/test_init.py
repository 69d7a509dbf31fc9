"""Initializers give PyTorch's numbers from the same seed, and clipping and flattening its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.cli.api import torch_names

LIBRARIES = (flambeau, torch)
INITIALIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform_": lambda i, t: i.uniform_(t, -1.0, 2.0), "normal_": lambda i, t: i.normal_(t, 1.0, 3.0),
    "trunc_normal_": lambda i, t: i.trunc_normal_(t, 0.5, 2.0, -1.0, 1.5), "constant_": lambda i, t: i.constant_(t, 0.3),
    "ones_": lambda i, t: i.ones_(t), "zeros_": lambda i, t: i.zeros_(t), "eye_": lambda i, t: i.eye_(t.view(8, 9)),
    "dirac_": lambda i, t: i.dirac_(t.view(4, 2, 9), 2), "xavier_uniform_": lambda i, t: i.xavier_uniform_(t, 1.5),
    "xavier_normal_": lambda i, t: i.xavier_normal_(t.view(4, 2, 9)),
    "kaiming_uniform_": lambda i, t: i.kaiming_uniform_(t, 0.2, "fan_out"),
    "kaiming_normal_": lambda i, t: i.kaiming_normal_(t, nonlinearity="relu"), "orthogonal_": lambda i, t: i.orthogonal_(t, 2.0),
    "orthogonal_ wide": lambda i, t: i.orthogonal_(t.view(4, 18)), "sparse_": lambda i, t: i.sparse_(t, 0.4, 0.1),
}  # fmt: skip


def test_every_initializer_is_compared() -> None:
    names = {name.name for name in torch_names() if name.section == "torch.nn.init" and name.name.endswith("_")}
    assert names == {name.split()[0] for name in INITIALIZERS}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_values_are_pytorchs(name: str) -> None:
    found = []
    for library in LIBRARIES:
        library.manual_seed(21)
        found.append(INITIALIZERS[name](library.nn.init, library.empty(12, 6)).numpy())
        found[-1] = np.append(found[-1], library.rand(1).numpy())  # as many numbers were drawn
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains(kind: str) -> None:
    assert flambeau.nn.init.calculate_gain(kind) == torch.nn.init.calculate_gain(kind)


OLD = ["constant", "dirac", "eye", "kaiming_normal", "normal", "orthogonal", "sparse", "uniform", "xavier_uniform"]


@pytest.mark.parametrize("old", OLD)
def test_old_names_warn(old: str) -> None:
    arguments = {"constant": (1.0,), "sparse": (0.5,)}.get(old, ())
    for library in LIBRARIES:
        with pytest.warns(FutureWarning, match=old):
            getattr(library.nn.init, old)(library.ones(4, 4, 3) if old == "dirac" else library.ones(4, 4), *arguments)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_clipping(norm_type: float) -> None:
    gradients = [np.random.default_rng(k).normal(size=(3, k + 1)) for k in range(3)]
    found = []
    for library in LIBRARIES:
        params = [library.zeros(*g.shape, dtype=library.float64, requires_grad=True) for g in gradients]
        for p, g in zip(params, gradients, strict=True):
            p.grad = library.tensor(g)
        utils = library.nn.utils
        norms = [utils.clip_grad_norm_(params, 0.7, norm_type).item(), utils.get_total_norm([p.grad for p in params], norm_type).item()]
        utils.clip_grad_value_(params, 0.1)
        vector = utils.parameters_to_vector([p.grad for p in params])
        utils.vector_to_parameters(vector * 2, params)
        found.append([np.array(norms), vector.numpy(), *(p.detach().numpy() for p in params)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
