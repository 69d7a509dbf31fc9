"""Optimizers, averages of models and their schedule go as PyTorch's do, and states travel both ways."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("ASGD", {}), ("ASGD", {"t0": 3, "weight_decay": 0.1, "lambd": 0.01}), ("ASGD", {"maximize": True}),
    ("Rprop", {}), ("Rprop", {"etas": (0.4, 1.5), "step_sizes": (1e-3, 0.05), "maximize": True}),
    ("Adafactor", {}), ("Adafactor", {"weight_decay": 0.1, "d": 2.0, "eps": (1e-6, 1e-2), "beta2_decay": -0.5}),
    ("Adamax", {"weight_decay": 0.1}), ("RAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}), ("NAdam", {}),
    ("Adadelta", {}), ("Adagrad", {"lr_decay": 0.1}), ("RMSprop", {"centered": True, "momentum": 0.5}), ("AdamW", {"amsgrad": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("Adam", {"maximize": True}),
    ("LBFGS", {"max_iter": 5}), ("LBFGS", {"lr": 0.3, "history_size": 2}), ("LBFGS", {"line_search_fn": "strong_wolfe"}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_eval": 7, "history_size": 3}),
]  # fmt: skip
RNG = np.random.default_rng()
SHAPES = ((3, 4), (5,), (), (2, 3, 2))


class Run:
    """A sum of functions with curvature, minimized in one of the two libraries."""

    def __init__(self, library: Any, name: str, settings: dict[str, Any], start: list[Any], target: list[Any]) -> None:
        self.library = library
        self.params = [library.tensor(value, requires_grad=True) for value in start]
        self.target = [library.tensor(value) for value in target]
        self.optimizer = getattr(library.optim, name)(self.params, **settings)

    def loss(self) -> Any:
        self.optimizer.zero_grad()
        parts = [((p - t) ** 2).sum() + (p * 0.7).cos().sum() for p, t in zip(self.params, self.target, strict=True)]
        loss = sum(parts[1:], parts[0])
        loss.backward()
        return loss

    def go(self, steps: int) -> list[np.ndarray]:
        for _ in range(steps):
            self.optimizer.step(self.loss)
        return [p.detach().numpy() for p in self.params]

    def state(self) -> bytes:
        file = io.BytesIO()
        self.library.save(self.optimizer.state_dict(), file)
        return file.getvalue()

    def load(self, state: bytes, params: list[np.ndarray]) -> None:
        self.optimizer.load_state_dict(self.library.load(io.BytesIO(state)))
        with self.library.no_grad():
            for own, value in zip(self.params, params, strict=True):
                own.copy_(self.library.tensor(value))


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_steps_and_states_are_pytorchs(name: str, settings: dict[str, Any]) -> None:
    start, target = ([np.asarray(RNG.normal(size=shape)) for shape in SHAPES] for _ in range(2))
    ours, theirs = (Run(library, name, settings, start, target) for library in (flambeau, torch))
    for a, b in zip(ours.go(6), theirs.go(6), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)  # step counts and rates are float32 in both
    assert repr(ours.optimizer) == repr(theirs.optimizer)
    ours_after, theirs_after = ours.state(), theirs.state()
    crossed_ours, crossed_theirs = (Run(library, name, settings, start, target) for library in (flambeau, torch))
    crossed_ours.load(theirs_after, [p.detach().numpy() for p in theirs.params])
    crossed_theirs.load(ours_after, [p.detach().numpy() for p in ours.params])
    for runs in ((crossed_ours, theirs), (crossed_theirs, ours)):
        for a, b in zip(*(run.go(3) for run in runs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}, {"ns_steps": 3, "weight_decay": 0.0}]
)
def test_muon_steps_as_pytorchs_does(settings: dict[str, Any]) -> None:
    found = []
    start = RNG.normal(size=(6, 4)).astype("f"), RNG.normal(size=(4, 6)).astype("f")
    gradients = [[RNG.normal(size=w.shape).astype("f") for w in start] for _ in range(3)]
    for library in (flambeau, torch):
        params = [library.tensor(w, requires_grad=True) for w in start]
        optimizer = library.optim.Muon(params, lr=0.02, **settings)
        for step in gradients:
            for p, g in zip(params, step, strict=True):
                p.grad = library.tensor(g)
            optimizer.step()
        found.append([p.detach().numpy() for p in params])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)  # the iteration is made in bfloat16


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ASGD", {"lr": -1.0}), ("Rprop", {"etas": (1.5, 2.0)}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"beta2_decay": 0.1}),
        ("Adafactor", {"eps": (-1.0, 0.0)}), ("Muon", {}), ("LBFGS", {"lr": -1.0}),
    ],
)  # fmt: skip
def test_bad_settings_raise_as_pytorchs_do(name: str, settings: dict[str, Any]) -> None:
    messages = []
    for library in (flambeau, torch):
        with pytest.raises(ValueError) as caught:
            getattr(library.optim, name)([library.ones(3, requires_grad=True)], **settings)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_sparse_adam_refuses_dense_gradients() -> None:
    for library in (flambeau, torch):
        p = library.ones(3, requires_grad=True)
        optimizer = library.optim.SparseAdam([p])
        p.sum().backward()
        with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
            optimizer.step()


def averaged(library: Any, kind: str, use_buffers: bool) -> dict[str, list[Any]]:
    library.manual_seed(3)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4), library.nn.Linear(4, 1))
    utils = library.optim.swa_utils
    chosen = {
        "swa": {}, "avg": {"avg_fn": utils.get_ema_avg_fn(0.9)}, "multi": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.8)},
        "multi_swa": {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
    }[kind]  # fmt: skip
    mean = utils.AveragedModel(model, use_buffers=use_buffers, **chosen)
    optimizer = library.optim.SGD(model.parameters(), lr=0.1)
    data = [(library.randn(8, 3), 0) for _ in range(4)]
    for x, _ in data:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        mean.update_parameters(model)
    utils.update_bn(data, mean)
    assert mean.module[1].momentum == 0.1 and mean.training
    return {name: value.tolist() for name, value in mean.state_dict().items()}


# PyTorch's mean of lists cannot take the integer buffer that counts batches.
@pytest.mark.parametrize(
    ("kind", "use_buffers"), [("swa", False), ("avg", False), ("avg", True), ("multi", False), ("multi", True), ("multi_swa", False)]
)
def test_averages_of_models_are_pytorchs(kind: str, use_buffers: bool) -> None:
    ours, theirs = (averaged(library, kind, use_buffers) for library in (flambeau, torch))
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"anneal_strategy": "linear", "anneal_epochs": 3}, {"anneal_epochs": 0}])
def test_the_rate_anneals_as_pytorchs(settings: dict[str, Any]) -> None:
    found = []
    for library in (flambeau, torch):
        optimizer = library.optim.SGD([{"params": [library.ones(1, requires_grad=True)]}, {"params": [library.ones(1)], "lr": 0.5}], lr=0.1)
        schedule = library.optim.swa_utils.SWALR(optimizer, swa_lr=[0.05, 0.01], **settings)
        rates = []
        for _ in range(12):
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        found.append(rates)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
