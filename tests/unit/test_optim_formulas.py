"""Muon, Adafactor, ASGD and Rprop by their published formulas in numpy; averages of models; schedules of rates for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.optim import swa_utils

RNG = np.random.default_rng(7)
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


def adafactor(lr: float, decay: float = -0.8, eps: Any = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0) -> Step:
    """Shazeer and Stern (2018), algorithms 4 and 5, with the rate bounded by 1 / sqrt(t)."""
    kept: list[Any] = []
    count = 0
    least = np.finfo(np.float64).eps if eps[0] is None else eps[0]

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        new, old = count**decay, 1 - count**decay
        rate = max(eps[1], np.sqrt((p**2).mean())) * min(lr, 1 / math.sqrt(count))
        p = p * (1 - lr * weight_decay)
        squares = [(g * g).mean(-1, keepdims=True), (g * g).mean(-2, keepdims=True)] if p.ndim > 1 else [g * g]
        kept[:] = [old * k + new * s for k, s in zip(kept or [0.0, 0.0], squares, strict=False)]
        estimate = kept[0] * kept[1] / np.maximum(kept[0].mean(-2, keepdims=True), least) if p.ndim > 1 else kept[0]
        update = g / np.sqrt(np.maximum(estimate, least**2))
        return p - rate * update / max(1.0, np.sqrt((update**2).mean()) / d)

    return step


def rprop(lr: float, etas: tuple[float, float] = (0.5, 1.2), sizes: tuple[float, float] = (1e-6, 50.0)) -> Step:
    before: Any = 0.0
    size: Any = lr

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal before, size
        turn = np.sign(g * before)
        size = np.clip(size * np.where(turn > 0, etas[1], np.where(turn < 0, etas[0], 1.0)), *sizes)
        before = np.where(turn < 0, 0.0, g)
        return p - np.sign(before) * size

    return step


def asgd(lr: float, lambd: float, alpha: float, t0: float, weight_decay: float = 0.0) -> Step:
    count, eta = 0, lr

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal count, eta
        count += 1
        p = p * (1 - lambd * eta) - eta * (g + weight_decay * p)
        eta = lr / (1 + lambd * lr * count) ** alpha
        return p

    return step


FORMULAS: dict[str, tuple[Callable[[Any], Any], Callable[[], Step]]] = {
    "adafactor": (lambda p: optim.Adafactor(p, 0.05), lambda: adafactor(0.05)),
    "adafactor settings": (
        lambda p: optim.Adafactor(p, 0.5, -0.5, (1e-8, 0.1), 2.0, 0.1), lambda: adafactor(0.5, -0.5, (1e-8, 0.1), 2.0, 0.1),
    ),
    "rprop": (lambda p: optim.Rprop(p, 0.1), lambda: rprop(0.1)),
    "rprop settings": (lambda p: optim.Rprop(p, 0.1, (0.3, 1.5), (0.05, 0.2)), lambda: rprop(0.1, (0.3, 1.5), (0.05, 0.2))),
    "asgd": (lambda p: optim.ASGD(p, 0.1, 0.1, 0.5, 2, weight_decay=0.01), lambda: asgd(0.1, 0.1, 0.5, 2, 0.01)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_steps_follow_the_formula(name: str) -> None:
    make, formula = FORMULAS[name]
    values = [RNG.standard_normal(shape) for shape in ((4, 3), (5,), (2, 3, 2))]
    params = [nn.Parameter(torch.tensor(v)) for v in values]
    optimizer, steps = make(params), [formula() for _ in values]
    for _ in range(5):
        gradients = [RNG.standard_normal(v.shape) for v in values]
        for p, g in zip(params, gradients, strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
        values = [step(v, g) for step, v, g in zip(steps, values, gradients, strict=True)]
        for p, v in zip(params, values, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), v, rtol=2e-6, atol=1e-7)


def test_the_mean_of_parameters_starts_late() -> None:
    p = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer, seen = optim.ASGD([p], 0.5, lambd=0.0, t0=2), []
    for _ in range(6):
        p.grad = torch.tensor(RNG.standard_normal(2))
        optimizer.step()
        seen.append(p.detach().numpy().copy())
    # Up to step t0 + 2 the mean is the parameter itself.
    np.testing.assert_allclose(optimizer.state[p]["ax"].numpy(), np.mean(seen[3:], 0), rtol=1e-6)


@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_muon_steps_along_orthogonal_matrices(adjust: str | None, nesterov: bool, shape: tuple[int, int]) -> None:
    value = RNG.standard_normal(shape)
    p = nn.Parameter(torch.tensor(value))
    optimizer = optim.Muon([p], 0.1, 0.2, 0.9, nesterov, adjust_lr_fn=adjust)
    momentum = np.zeros(shape)
    scale = 0.2 * math.sqrt(max(shape)) if adjust == "match_rms_adamw" else math.sqrt(max(1, shape[0] / shape[1]))
    for _ in range(3):
        gradient, before = RNG.standard_normal(shape), p.detach().numpy().copy()
        p.grad = torch.tensor(gradient)
        optimizer.step()
        momentum = 0.9 * momentum + 0.1 * gradient
        left, sizes, right = np.linalg.svd(0.1 * gradient + 0.9 * momentum if nesterov else momentum, full_matrices=False)
        sizes = sizes / np.sqrt((sizes**2).sum())
        for _ in range(5):  # the polynomial acts on singular values
            sizes = 3.4445 * sizes - 4.775 * sizes**3 + 2.0315 * sizes**5
        update = (before * (1 - 0.1 * 0.2) - p.detach().numpy()) / (0.1 * scale)
        np.testing.assert_allclose(update, (left * sizes) @ right, atol=0.06)  # bfloat16
        assert ((np.linalg.svd(update)[1] > 0.5) & (np.linalg.svd(update)[1] < 1.3)).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: optim.Muon([p.flatten()]), ValueError, "leaf|2D parameters"), (lambda p: optim.Muon([p], -1.0), ValueError,
        "Learning rate"),
        (lambda p: optim.Muon([p], momentum=-1.0), ValueError, "momentum"), (lambda p: optim.Muon([p], weight_decay=-1.0), ValueError,
        "weight decay"),
        (lambda p: optim.Muon([p], adjust_lr_fn="x"), ValueError, "not supported"),
        (lambda p: optim.Muon([p], torch.ones(2)), ValueError, "1-element"), (lambda p: optim.Adafactor([p], torch.ones(2)), ValueError,
        "1-element"),
        (lambda p: optim.Muon([nn.Parameter(torch.ones(2))]), ValueError, "2D parameters"),
        (lambda p: optim.Muon([p], ns_steps=100).step(), ValueError, "less than 100"),
        (lambda p: optim.Muon([p], ns_coefficients=(1.0, 2.0)).step(), ValueError, "exactly 3"),
        (lambda p: optim.Muon([given(p.cfloat())]).step(), RuntimeError, "complex"),
        (lambda p: optim.Adafactor([given(p.cfloat())]).step(), RuntimeError, "complex"),
        (lambda p: optim.Adafactor([p], -1.0), ValueError, "Learning rate"), (lambda p: optim.Adafactor([p], d=0.5), ValueError,
        "threshold"),
        (lambda p: optim.Adafactor([p], beta2_decay=0.5), ValueError, "beta2_decay"),
        (lambda p: optim.Adafactor([p], eps=(-1, 1)), ValueError, "epsilon1"),
        (lambda p: optim.Adafactor([p], eps=(1, -1)), ValueError, "epsilon2"), (lambda p: optim.Rprop([p], etas=(1.5, 1.2)), ValueError,
        "eta"),
        (lambda p: optim.ASGD([p], weight_decay=-1), ValueError, "weight_decay"),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(given(torch.ones(2, 2)))


def given(value: Any) -> Any:
    parameter = nn.Parameter(value.detach())
    parameter.grad = torch.ones_like(value)
    return parameter


def test_complex_parameters_are_pairs() -> None:
    for kind in (optim.Rprop, optim.ASGD):
        z = nn.Parameter(torch.tensor([1 + 2j, -1j]))
        pair = nn.Parameter(torch.view_as_real(z.detach()).clone())
        one, two = kind([z], 0.1), kind([pair], 0.1)
        for _ in range(3):
            z.grad = torch.tensor(RNG.standard_normal(2) + 1j * RNG.standard_normal(2)).to(torch.complex64)
            pair.grad = torch.view_as_real(z.grad).clone()
            one.step()
            two.step()
        np.testing.assert_allclose(torch.view_as_real(z.detach()).numpy(), pair.detach().numpy(), rtol=1e-6)


# -- averages ---------------------------------------------------------------------------------------------
def models() -> tuple[Any, list[dict[str, np.ndarray]]]:
    """A model whose parameters and buffers change, and what they were at each time."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    history = []
    for _ in range(4):
        with torch.no_grad():
            for t in (*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())):
                t.copy_(torch.tensor(abs(RNG.standard_normal(tuple(t.shape)))))
        history.append({name: t.numpy().copy() for name, t in model.state_dict().items()})
    return model, history


def load(model: Any, values: dict[str, np.ndarray]) -> Any:
    model.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    return model


@pytest.mark.parametrize(
    "name", ["default", "swa", "swa lists", "ema", "ema lists", "own"]
)
@pytest.mark.parametrize("buffers", [False, True])
def test_averages_of_models(name: str, buffers: bool) -> None:
    model, history = models()
    options: dict[str, Any] = {
        "default": {}, "swa": {"avg_fn": swa_utils.get_swa_avg_fn()}, "swa lists": {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
        "ema": {"avg_fn": swa_utils.get_ema_avg_fn(0.7)}, "ema lists": {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.7)},
        "own": {"avg_fn": lambda mean, value, count: torch.maximum(mean, value)},
    }[name]  # fmt: skip
    averaged = swa_utils.AveragedModel(model, use_buffers=buffers, **options)
    for values in history:
        averaged.update_parameters(load(model, values))
    for key, found in averaged.module.state_dict().items():
        numbers = [values[key] for values in history]
        if key.endswith("num_batches_tracked") or (not buffers and "running" in key):
            wanted = numbers[-1]
        elif name == "own":
            wanted = np.max(numbers, 0)
        elif "ema" in name:
            wanted = numbers[0]
            for number in numbers[1:]:
                wanted = 0.7 * wanted + 0.3 * number
        else:
            wanted = np.mean(numbers, 0)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6, err_msg=key)
    assert int(averaged.n_averaged) == 4
    x = torch.ones(4, 2)
    assert torch.equal(averaged.eval()(x), averaged.module(x))


def test_refused_averages() -> None:
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match="Invalid decay value"):
            make(1.5)
    with pytest.raises(AssertionError, match="Only one of"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn())


def test_running_numbers_are_computed_anew() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=0.3)).eval()
    batches = [torch.tensor(RNG.standard_normal((5, 2)).astype(np.float32)) for _ in range(3)]
    model[1].running_mean.fill_(9)
    swa_utils.update_bn([(b, 0) for b in batches], model)
    hidden = [model[0](b).detach().numpy() for b in batches]
    np.testing.assert_allclose(model[1].running_mean.numpy(), np.mean([h.mean(0) for h in hidden], 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model[1].running_var.numpy(), np.mean([h.var(0, ddof=1) for h in hidden], 0), rtol=1e-4)
    assert model[1].momentum == 0.3 and not model.training
    swa_utils.update_bn(batches, nn.Linear(2, 2))


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [4, 1, 0])
def test_rates_move_to_that_of_averaging(strategy: Any, epochs: int) -> None:
    optimizer = optim.SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": 1.0}, {"params": [nn.Parameter(torch.ones(1))], "lr": 0.2}])
    schedule = swa_utils.SWALR(optimizer, [0.1, 0.5], epochs, strategy)
    for step in range(1, 8):
        optimizer.step()
        schedule.step()
        share = min(1.0, step / max(1, epochs))
        share = share if strategy == "linear" else (1 - math.cos(math.pi * share)) / 2
        wanted = [(1 - share) * start + share * end for start, end in ((1.0, 0.1), (0.2, 0.5))]
        assert [g["lr"] for g in optimizer.param_groups] == pytest.approx(wanted)
    for bad in ({"anneal_strategy": "x"}, {"anneal_epochs": -1}, {"anneal_epochs": 1.5}):
        with pytest.raises(ValueError, match="anneal"):
            swa_utils.SWALR(optimizer, 0.1, **bad)
