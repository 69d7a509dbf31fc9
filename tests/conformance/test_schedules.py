"""Every schedule of learning rates gives PyTorch's rates, and goes on from PyTorch's state."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import flambeau
from flambeau.cli.api import torch_names

Maker = Callable[[Any, Any], Any]


def chained(s: Any, o: Any) -> Any:
    return s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)], o)


def sequential(s: Any, o: Any) -> Any:
    return s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10), s.ExponentialLR(o, 0.8)], [5, 12])


SCHEDULES: dict[str, Maker] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda n: 0.95**n, lambda n: 1 / (n + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.9 if n % 2 else 1.05), "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 2, 7], 0.3), "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 6),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 8), "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 9, 2.0), "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 7, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001), "ChainedScheduler": chained,
    "SequentialLR": sequential, "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, [0.2, 0.3], 3, 4, mode="triangular2"),
    "CyclicLR exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 3, mode="exp_range", gamma=0.95, base_momentum=0.7, max_momentum=0.95),
    "CyclicLR scale_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 2, scale_fn=lambda x: 0.5**x, scale_mode="iterations"),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.5, 0.8], 30, pct_start=0.4),
    "OneCycleLR three phases": lambda s, o: s.OneCycleLR(o, 0.5, epochs=5, steps_per_epoch=6, anneal_strategy="linear", three_phase=True),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=[1e-3, 1e-2], threshold=0.05),
    "ReduceLROnPlateau max": lambda s, o: s.ReduceLROnPlateau(o, "max", 0.3, 1, threshold_mode="abs", threshold=0.2),
}  # fmt: skip


def test_every_schedule_is_compared() -> None:
    names = {name.name for name in torch_names() if name.section == "torch.optim.lr_scheduler"}
    assert names - {"LRScheduler"} == {name.split()[0] for name in SCHEDULES}


class Run:
    """A schedule over two groups in one library."""

    def __init__(self, library: Any, make: Maker, tensor_rate: bool = False) -> None:
        groups = [{"params": [library.ones(2, requires_grad=True)]}, {"params": [library.ones(1, requires_grad=True)], "lr": 0.4}]
        rate = library.tensor(0.1) if tensor_rate else 0.1
        self.optimizer = library.optim.SGD(groups, lr=rate, momentum=0.9)
        self.schedule = make(library.optim.lr_scheduler, self.optimizer)

    def go(self, steps: int, first: int = 0) -> list[Any]:
        found = []
        for step in range(first, first + steps):
            self.optimizer.step()
            metric = (math.cos(step * 0.7) + 3 / (step + 1),) if type(self.schedule).__name__ == "ReduceLROnPlateau" else ()
            self.schedule.step(*metric)
            found.append([float(g[key]) for g in self.optimizer.param_groups for key in ("lr", "momentum")])
        return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_pytorchs(name: str) -> None:
    ours, theirs = (Run(library, SCHEDULES[name]) for library in (flambeau, torch))
    for a, b in zip(ours.go(28), theirs.go(28), strict=True):
        assert a == pytest.approx(b, rel=1e-12)
    assert [float(rate) for rate in ours.schedule.get_last_lr()] == pytest.approx([float(rate) for rate in theirs.schedule.get_last_lr()])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SCHEDULES if not name.startswith(("LambdaLR", "MultiplicativeLR"))])
def test_states_travel_both_ways(name: str) -> None:
    runs = [Run(library, SCHEDULES[name]) for library in (flambeau, torch)]
    for run in runs:
        run.go(8)
    states = [copy.deepcopy(run.schedule.state_dict()) for run in runs]
    assert set(states[0]) == set(states[1])
    crossed = [Run(library, SCHEDULES[name]) for library in (flambeau, torch)]
    for run, source, state in zip(crossed, reversed(runs), reversed(states), strict=True):
        run.schedule.load_state_dict(state)
        for own, other in zip(run.optimizer.param_groups, source.optimizer.param_groups, strict=True):
            own["lr"], own["momentum"] = float(other["lr"]), other["momentum"]
    wanted = runs[1].go(12, 8)
    for run in (*crossed, runs[0]):
        for a, b in zip(run.go(12, 8), wanted, strict=True):
            assert a == pytest.approx(b, rel=1e-9)


BAD: list[Maker] = [
    lambda s, o: s.StepLR(object(), 3), lambda s, o: s.LambdaLR(o, [lambda n: 1.0]), lambda s, o: s.ConstantLR(o, 2.0),
    lambda s, o: s.LinearLR(o, 0.0), lambda s, o: s.CosineAnnealingWarmRestarts(o, 0), lambda s, o: s.CyclicLR(o, 0.1, [0.2, 0.3, 0.4]),
    lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="other"), lambda s, o: s.OneCycleLR(o, 0.1), lambda s, o: s.OneCycleLR(o, 0.1, -3),
    lambda s, o: s.ReduceLROnPlateau(o, factor=1.5), lambda s, o: s.ReduceLROnPlateau(o, "other"),
    lambda s, o: s.SequentialLR(o, [], []), lambda s, o: s.SequentialLR(o, [s.ConstantLR(o)], [3, 4]),
    lambda s, o: s.StepLR(o, 3, last_epoch=4),
    lambda s, o: s.ChainedScheduler([]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_settings_raise_what_pytorch_raises(number: int) -> None:
    kinds = []
    for library in (flambeau, torch):
        with pytest.raises(Exception) as caught:
            Run(library, BAD[number])
        kinds.append(caught.type)
    assert kinds[0] is kinds[1], caught.value
