"""Schedules of learning rates against their closed forms."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.optim import lr_scheduler as schedules


def optimizer(*rates: float, momentum: float = 0.9) -> optim.SGD:
    return optim.SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates or (1.0,)], lr=1.0, momentum=momentum)


def cosine(n: float, period: float, low: float = 0.0) -> float:
    return low + (1 - low) * (1 + math.cos(math.pi * n / period)) / 2


def restarts(n: int) -> float:
    period, start = 3, 0
    while n >= start + period:
        start, period = start + period, period * 2
    return cosine(n - start, period, 0.01)


def one_cycle(n: int) -> float:
    peak = 0.3 * 40 - 1
    if n <= peak:
        return 0.5 + (0.02 - 0.5) / 2 * (math.cos(math.pi * n / peak) + 1)
    return 2e-6 + (0.5 - 2e-6) / 2 * (math.cos(math.pi * (n - peak) / (39 - peak)) + 1)


def triangle(n: int, up: int, down: int) -> float:
    place = n % (up + down)
    return place / up if place <= up else (up + down - place) / down


def warm(n: int) -> float:
    if n < 5:
        return 0.1 + 0.9 * n / 5
    return cosine(n - 5, 10) if n < 15 else 0.9 ** (n - 15)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "lambda": (lambda o: schedules.LambdaLR(o, lambda n: 0.9**n), lambda n: 0.9**n),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda n: 0.9), lambda n: 0.9**n),
    "step": (lambda o: schedules.StepLR(o, 3, 0.5), lambda n: 0.5 ** (n // 3)),
    "milestones": (lambda o: schedules.MultiStepLR(o, [2, 2, 5], 0.5), lambda n: 0.5 ** (2 * (n >= 2) + (n >= 5))),
    "constant": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda n: 0.25 if n < 4 else 1.0),
    "linear": (lambda o: schedules.LinearLR(o, 0.2, 0.8, 7), lambda n: 0.2 + 0.6 * min(n, 7) / 7),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), lambda n: 0.9**n),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 10, 2.0), lambda n: (1 - min(n, 10) / 10) ** 2),
    "cosine": (lambda o: schedules.CosineAnnealingLR(o, 5, 0.01), lambda n: cosine(n, 5, 0.01)),
    "restarts": (lambda o: schedules.CosineAnnealingWarmRestarts(o, 3, 2, 0.01), restarts),
    "one cycle": (lambda o: schedules.OneCycleLR(o, 0.5, total_steps=40), one_cycle),
    "triangles": (lambda o: schedules.CyclicLR(o, 0.1, 0.5, 4, 6), lambda n: 0.1 + 0.4 * triangle(n, 4, 6)),
    "halving": (lambda o: schedules.CyclicLR(o, 0.1, 0.5, 4, mode="triangular2"), lambda n: 0.1 + 0.4 * triangle(n, 4, 4) / 2 ** (n // 8)),
    "decaying": (lambda o: schedules.CyclicLR(o, 0.1, 0.5, 4, mode="exp_range", gamma=0.9),
                 lambda n: 0.1 + 0.4 * triangle(n, 4, 4) * 0.9**n),
    "one's own": (lambda o: schedules.CyclicLR(o, 0.1, 0.5, 4, scale_fn=lambda x: 1 / x),
                  lambda n: 0.1 + 0.4 * triangle(n, 4, 4) / (n // 8 + 1)),
    "sequence": (lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, 1.0, 5), schedules.CosineAnnealingLR(o, 10), schedules.ExponentialLR(o, 0.9)], [5, 15]), warm),
    "chain": (lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]),
              lambda n: 0.9**n * (0.5 if n < 3 else 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_rates_follow_the_closed_form(name: str, as_tensor: bool) -> None:
    make, formula = CASES[name]
    given = optimizer()
    if as_tensor:
        given.param_groups[0]["lr"] = torch.tensor(1.0, dtype=torch.float64)
    rate = given.param_groups[0]["lr"]
    schedule = make(given)
    for step in range(25):
        found = given.param_groups[0]["lr"]
        assert float(found) == pytest.approx(formula(step), rel=1e-9, abs=1e-9), step
        assert float(schedule.get_last_lr()[0]) == pytest.approx(float(found))
        assert not as_tensor or found is rate
        given.step()
        schedule.step()


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_goes_on_from_its_saved_state(name: str) -> None:
    make, formula = CASES[name]
    first, second = optimizer(), optimizer()
    schedule, other = make(first), make(second)
    for _ in range(7):
        first.step()
        schedule.step()
    other.load_state_dict(pickle.loads(pickle.dumps(schedule.state_dict())))
    second.load_state_dict(first.state_dict())
    for step in range(7, 20):
        assert second.param_groups[0]["lr"] == pytest.approx(formula(step), rel=1e-9, abs=1e-9), step
        second.step()
        other.step()


def test_groups_keep_their_proportions() -> None:
    given = optimizer(1.0, 0.5)
    schedule = schedules.LambdaLR(given, [lambda n: 0.5**n, lambda n: 1.0])
    given.step()
    schedule.step()
    assert [group["lr"] for group in given.param_groups] == [0.5, 0.5] and schedule.base_lrs == [1.0, 0.5]


def test_momentum_cycles_against_the_rate() -> None:
    given = optimizer()
    schedule = schedules.CyclicLR(given, 0.1, 0.5, 2, base_momentum=0.6, max_momentum=0.8)
    seen = []
    for _ in range(3):
        seen.append(given.param_groups[0]["momentum"])
        given.step()
        schedule.step()
    assert seen == pytest.approx([0.8, 0.7, 0.6])
    adam = optim.Adam([nn.Parameter(torch.ones(1))])
    schedules.OneCycleLR(adam, 0.1, epochs=2, steps_per_epoch=5, three_phase=True)
    assert adam.param_groups[0]["betas"] == (0.95, 0.999)


def test_a_plateau_lowers_the_rate() -> None:
    given = optimizer()
    schedule = schedules.ReduceLROnPlateau(given, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for measure in (1.0, 0.9, torch.tensor(0.9), 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9):
        schedule.step(measure)
        rates.append(given.param_groups[0]["lr"])
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2]
    best = schedules.ReduceLROnPlateau(optimizer(), mode="max", threshold_mode="abs", threshold=0.5, patience=0)
    for measure in (1.0, 1.4, 2.0):
        best.step(measure)
    assert best.best == 2.0 and best.get_last_lr() == pytest.approx([0.1])


def test_restarts_jump_to_an_epoch() -> None:
    given = optimizer()
    schedule = schedules.CosineAnnealingWarmRestarts(given, 3, 2, 0.01)
    for epoch in (0.5, 2.5, 4.0, 10.0):
        schedule.step(epoch)
        start, period = (0, 3) if epoch < 3 else (3, 6) if epoch < 9 else (9, 12)
        assert given.param_groups[0]["lr"] == pytest.approx(cosine(epoch - start, period, 0.01))


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda o: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
    (lambda o: schedules.StepLR(o, 1, last_epoch=3), KeyError, "param 'initial_lr' is not specified in param_groups"),
    (lambda o: schedules.LambdaLR(o, [lambda n: 1.0] * 2), ValueError, "Expected 1 lr_lambdas, but got 2"),
    (lambda o: schedules.LambdaLR(o, 3), TypeError, "lr_lambda should be a function, but got int"),
    (lambda o: schedules.ConstantLR(o, 2.0), ValueError, "expected to be between 0 and 1"),
    (lambda o: schedules.LinearLR(o, 0.0), ValueError, "greater than 0 and less or equal to 1"),
    (lambda o: schedules.CosineAnnealingWarmRestarts(o, 0), ValueError, "Expected positive integer T_0"),
    (lambda o: schedules.OneCycleLR(o, 0.1), ValueError, "You must define either total_steps OR"),
    (lambda o: schedules.OneCycleLR(o, [0.1, 0.2], total_steps=3), ValueError, "max_lr must have the same length"),
    (lambda o: schedules.OneCycleLR(optim.Adagrad([nn.Parameter(torch.ones(1))]), 0.1, total_steps=3), ValueError, "must support momentum"),
    (lambda o: schedules.CyclicLR(o, 0.1, 0.2, mode="odd"), ValueError, "mode is invalid"),
    (lambda o: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [1]), ValueError, "one more than the number of milestone points"),
    (lambda o: schedules.SequentialLR(o, [schedules.StepLR(optimizer(), 1)], []), ValueError, "belong to the same optimizer"),
    (lambda o: schedules.ChainedScheduler([]), ValueError, "at least one scheduler"),
    (lambda o: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)]), ValueError, "does not support `ReduceLROnPlateau`"),
    (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
    (lambda o: schedules.ReduceLROnPlateau(o, mode="odd"), ValueError, "mode odd is unknown"),
    (lambda o: schedules.LRScheduler(o), NotImplementedError, "must define get_lr"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        action(optimizer())


def test_warnings_of_a_wrong_use() -> None:
    given = optimizer()
    schedule = schedules.StepLR(given, 2)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        schedule.step(4)
    assert given.param_groups[0]["lr"] == pytest.approx(0.01)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        schedule.get_lr()


def test_steps_past_the_end_of_one_cycle() -> None:
    given = optimizer()
    schedule = schedules.OneCycleLR(given, 0.1, total_steps=2)
    given.step()
    schedule.step()
    schedule.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        schedule.step()


def test_own_schedules_may_use_the_old_name() -> None:
    class Halving(schedules._LRScheduler):
        def get_lr(self) -> list[float]:
            return [base / 2**self.last_epoch for base in self.base_lrs]

    given = optimizer()
    schedule = Halving(given)
    given.step()
    schedule.step()
    assert given.param_groups[0]["lr"] == 0.5
