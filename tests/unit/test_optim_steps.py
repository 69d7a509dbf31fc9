"""Optimizer steps against their formulas in float64 numpy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn, optim

RNG = np.random.default_rng()
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


# Each formula is a function of settings that gives a step: (parameter, gradient) -> parameter, with state of its own.
def sgd(lr: float, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False) -> Step:
    kept: list[np.ndarray] = []

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = g + weight_decay * p
        if momentum:
            kept[:] = [momentum * kept[0] + (1 - dampening) * g if kept else g]
            g = g + momentum * kept[0] if nesterov else kept[0]
        return p - lr * g

    return step


def adam(
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False,
    decoupled: bool = False,
) -> Step:  # fmt: skip
    mean: Any = 0.0
    square: Any = 0.0
    largest: Any = 0.0
    count = 0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal mean, square, largest, count
        count += 1
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        largest = np.maximum(largest, square)
        scale = np.sqrt((largest if amsgrad else square) / (1 - betas[1] ** count)) + eps
        return p - lr * mean / (1 - betas[0] ** count) / scale

    return step


def rmsprop(
    lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False
) -> Step:
    square: Any = 0.0
    mean: Any = 0.0
    velocity: Any = 0.0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal square, mean, velocity
        g = g + weight_decay * p
        square = alpha * square + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        velocity = momentum * velocity + g / (np.sqrt(square - (mean**2 if centered else 0)) + eps)
        return p - lr * velocity

    return step


def adagrad(lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0, initial: float = 0, eps: float = 1e-10) -> Step:
    total: Any = initial
    count = 0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal total, count
        g = g + weight_decay * p
        total = total + g * g
        count += 1
        return p - lr / (1 + (count - 1) * lr_decay) * g / (np.sqrt(total) + eps)

    return step


def adadelta(lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0) -> Step:
    square: Any = 0.0
    moved: Any = 0.0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal square, moved
        g = g + weight_decay * p
        square = rho * square + (1 - rho) * g * g
        change = np.sqrt(moved + eps) / np.sqrt(square + eps) * g
        moved = rho * moved + (1 - rho) * change * change
        return p - lr * change

    return step


def adamax(lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Step:
    mean: Any = 0.0
    largest: Any = 0.0
    count = 0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal mean, largest, count
        count += 1
        mean = betas[0] * mean + (1 - betas[0]) * g
        largest = np.maximum(betas[1] * largest, np.abs(g) + eps)
        return p - lr / (1 - betas[0] ** count) * mean / largest

    return step


def nadam(lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 4e-3) -> Step:
    mean: Any = 0.0
    square: Any = 0.0
    product, count = 1.0, 0

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal mean, square, product, count
        count += 1
        now, later = (betas[0] * (1 - 0.5 * 0.96 ** (n * decay)) for n in (count, count + 1))
        product *= now
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        guess = later * mean / (1 - product * later) + (1 - now) * g / (1 - product)
        return p - lr * guess / (np.sqrt(square / (1 - betas[1] ** count)) + eps)

    return step


def radam(lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Step:
    mean: Any = 0.0
    square: Any = 0.0
    count = 0
    final = 2 / (1 - betas[1]) - 1

    def step(p: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal mean, square, count
        count += 1
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        corrected = mean / (1 - betas[0] ** count)
        length = final - 2 * count * betas[1] ** count / (1 - betas[1] ** count)
        if length <= 5:
            return p - lr * corrected
        ratio = np.sqrt((length - 4) * (length - 2) * final / ((final - 4) * (final - 2) * length))
        return p - lr * corrected * ratio * np.sqrt(1 - betas[1] ** count) / (np.sqrt(square) + eps)

    return step


CASES: dict[str, tuple[Callable[..., optim.Optimizer], Callable[[], Step]]] = {
    "sgd": (lambda p: optim.SGD(p, 0.1), lambda: sgd(0.1)),
    "momentum": (lambda p: optim.SGD(p, 0.1, 0.9, 0.1, 0.01), lambda: sgd(0.1, 0.9, 0.1, 0.01)),
    "nesterov": (lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True), lambda: sgd(0.1, 0.9, nesterov=True)),
    "adam": (lambda p: optim.Adam(p, 0.1, weight_decay=0.1), lambda: adam(0.1, weight_decay=0.1)),
    "amsgrad": (lambda p: optim.Adam(p, 0.1, (0.5, 0.6), amsgrad=True), lambda: adam(0.1, (0.5, 0.6), amsgrad=True)),
    "adamw": (lambda p: optim.AdamW(p, 0.1), lambda: adam(0.1, weight_decay=0.01, decoupled=True)),
    "tensor rate": (lambda p: optim.AdamW(p, torch.tensor(0.1)), lambda: adam(0.1, weight_decay=0.01, decoupled=True)),
    "rmsprop": (lambda p: optim.RMSprop(p, 0.1, weight_decay=0.1), lambda: rmsprop(0.1, weight_decay=0.1)),
    "centered": (lambda p: optim.RMSprop(p, 0.1, momentum=0.5, centered=True), lambda: rmsprop(0.1, momentum=0.5, centered=True)),
    "adagrad": (lambda p: optim.Adagrad(p, 0.1, 0.1, 0.1, 0.1), lambda: adagrad(0.1, 0.1, 0.1, 0.1)),
    "adadelta": (lambda p: optim.Adadelta(p, 0.5, weight_decay=0.1), lambda: adadelta(0.5, weight_decay=0.1)),
    "adamax": (lambda p: optim.Adamax(p, 0.1), lambda: adamax(0.1)),
    "nadam": (lambda p: optim.NAdam(p, 0.1), lambda: nadam(0.1)),
    "radam": (lambda p: optim.RAdam(p, 0.1), lambda: radam(0.1)),
}


def gradients() -> Iterator[list[np.ndarray]]:
    while True:
        yield [RNG.standard_normal(shape) for shape in ((4, 3), (5,))]


class Run:
    """Parameters under an optimizer, and what the formula makes of them."""

    def __init__(self, name: str) -> None:
        self.make, formula = CASES[name]
        self.expected = [RNG.standard_normal(shape) for shape in ((4, 3), (5,))]
        self.params = [nn.Parameter(torch.tensor(value.astype(np.float32))) for value in self.expected]
        self.optimizer = self.make(self.params)
        self.formulas = [formula(), formula()]

    def step(self, given: list[np.ndarray | None]) -> None:
        for i, gradient in enumerate(given):
            self.params[i].grad = None if gradient is None else torch.tensor(gradient.astype(np.float32))
            if gradient is not None:
                self.expected[i] = self.formulas[i](self.expected[i], gradient)
        self.optimizer.step()

    def check(self) -> None:
        for parameter, value in zip(self.params, self.expected, strict=True):
            np.testing.assert_allclose(parameter.detach().numpy(), value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_steps_follow_the_formula(name: str) -> None:
    run = Run(name)
    for _, given in zip(range(7), gradients(), strict=False):
        run.step(list(given))
    run.check()


@pytest.mark.parametrize("name", CASES)
def test_parameters_without_gradients_stand_still(name: str) -> None:
    run = Run(name)
    for number, given in zip(range(7), gradients(), strict=False):
        run.step([given[0], None if number in (0, 3, 4) else given[1]])
    run.check()


@pytest.mark.parametrize("name", CASES)
def test_a_run_goes_on_from_its_saved_state(name: str) -> None:
    run = Run(name)
    for number, given in zip(range(6), gradients(), strict=False):
        run.step([given[0], None if number == 1 else given[1]])
        if number == 2:
            state = pickle.loads(pickle.dumps(run.optimizer.state_dict()))
            run.optimizer = run.make(run.params)
            run.optimizer.load_state_dict(state)
        if number == 4:
            copied: Any = copy.deepcopy((run.optimizer, run.params))
            run.optimizer, run.params = copied
    run.check()


@pytest.mark.parametrize("make", [
    lambda p, m: optim.SGD(p, 0.1, momentum=0.9, maximize=m), lambda p, m: optim.AdamW(p, 0.1, maximize=m),
    lambda p, m: optim.RMSprop(p, 0.1, maximize=m), lambda p, m: optim.Adagrad(p, 0.1, maximize=m),
    lambda p, m: optim.NAdam(p, 0.1, maximize=m),
])  # fmt: skip
def test_maximizing_is_minimizing_the_negative(make: Any) -> None:
    start = RNG.standard_normal(5).astype(np.float32)
    up, down = (nn.Parameter(torch.tensor(start)) for _ in range(2))
    climber, walker = make([up], True), make([down], False)
    for _ in range(3):
        gradient = RNG.standard_normal(5).astype(np.float32)
        up.grad, down.grad = torch.tensor(gradient), torch.tensor(-gradient)
        climber.step()
        walker.step()
    np.testing.assert_array_equal(up.detach().numpy(), down.detach().numpy())


def test_groups_have_settings_of_their_own() -> None:
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 1.0})
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.ones(1)
    optimizer.step()
    assert [group["params"][0].item() for group in optimizer.param_groups] == [0.75, 0.5, 0.0]


def test_half_precision_parameters() -> None:
    start, gradient = RNG.standard_normal(6), RNG.standard_normal(6)
    parameter = nn.Parameter(torch.tensor(start, dtype=torch.bfloat16))
    parameter.grad = torch.tensor(gradient, dtype=torch.bfloat16)
    optim.SGD([parameter], 0.5).step()
    rounded = torch.tensor(start, dtype=torch.bfloat16).float().numpy() - 0.5 * torch.tensor(gradient, dtype=torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(parameter.detach().float().numpy(), torch.tensor(rounded, dtype=torch.bfloat16).float().numpy())


def test_one_operation_steps_a_group() -> None:
    from flambeau.core.events import counters

    params = [nn.Parameter(torch.ones(3)) for _ in range(5)]
    optimizer = optim.AdamW(params)
    for _ in range(3):
        for parameter in params:
            parameter.grad = torch.ones(3)
        before = counters["eager_calls"] + counters["native_calls"]
        optimizer.step()
    assert counters["eager_calls"] + counters["native_calls"] - before == 1
    steps = {id(optimizer.state[parameter]["step"]) for parameter in params}
    assert len(steps) == 1 and float(optimizer.state[params[0]]["step"]) == 3
