"""Compiled steps of every optimizer: one capture for all steps, and right after their state or settings were changed by hand."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}], "Adam": [{"amsgrad": True}], "AdamW": [{}],
    "Adagrad": [{"lr_decay": 0.1}], "RMSprop": [{"momentum": 0.9, "centered": True}], "Adadelta": [{"weight_decay": 0.1}],
    "NAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}], "Adamax": [{}], "ASGD": [{"t0": 3}], "Rprop": [{}],
    "Adafactor": [{"weight_decay": 0.1}], "Muon": [{}],
}  # fmt: skip


class Run:
    """A small network and its training step, plainly or compiled."""

    def __init__(self, name: str, settings: dict[str, Any], compiled: bool) -> None:
        torch.manual_seed(0)
        bias = name != "Muon"
        self.net = nn.Sequential(nn.Linear(3, 4, bias=bias), nn.Tanh(), nn.Linear(4, 2, bias=bias))
        self.optimizer = optimizer = getattr(torch.optim, name)(self.net.parameters(), lr=0.05, **settings)
        self.x = torch.linspace(-1, 1, 12).reshape(4, 3)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            self.net(x).square().mean().backward()
            optimizer.step()

        self.step: Any = torch.compile(step) if compiled else step

    def made(self, calls: int, act: Callable[[Any], None] | None = None, after: int = 0) -> list[float]:
        """What is learnt and held after these calls, an act, and calls after it."""
        for number in range(calls + after):
            if number == calls and act is not None:
                act(self.optimizer)
            self.step(self.x)
        held = [v for state in self.optimizer.state.values() for v in state.values()]
        return [n for t in (*self.net.parameters(), *held) for n in t.detach().double().flatten().tolist()]


@pytest.mark.parametrize(("name", "settings"), [(n, s) for n, every in OPTIMIZERS.items() for s in every])
def test_one_capture_for_all_steps_of_a_schedule(name: str, settings: dict[str, Any]) -> None:
    runs = [Run(name, settings, compiled) for compiled in (False, True)]
    for _ in range(6):
        found = [run.made(2) for run in runs]
        for run in runs:
            run.optimizer.param_groups[0]["lr"] *= 0.5
    assert found[1] == pytest.approx(found[0], rel=1e-4, abs=1e-6)
    first_steps = 2 if settings.get("momentum") and name == "SGD" else 1  # momentum begins in another way than it goes on
    assert runs[1].step.explain().captures == first_steps


def replace(optimizer: Any) -> None:
    for state in optimizer.state.values():
        for key, value in state.items():
            if value.dim():
                state[key] = torch.zeros_like(value)


def exchange(optimizer: Any) -> None:
    parameter = optimizer.param_groups[0]["params"][1]
    optimizer.state[parameter] = {key: value.clone() * 0.5 for key, value in optimizer.state[parameter].items()}


def renew(optimizer: Any) -> None:
    optimizer.state = defaultdict(dict)


CHANGES = {
    "cleared": lambda o: o.state.clear(), "renewed": renew, "replaced": replace, "exchanged": exchange,
    "removed": lambda o: o.state.pop(o.param_groups[0]["params"][0]), "loaded": lambda o: o.load_state_dict(copy.deepcopy(o.state_dict())),
    "in place": lambda o: [v.zero_() for s in o.state.values() for v in s.values() if v.dim()],
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("name", "settings"), [("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {}), ("NAdam", {})])
def test_state_changed_by_hand(name: str, settings: dict[str, Any], change: str) -> None:
    plain, compiled = (Run(name, settings, c).made(3, CHANGES[change], 3) for c in (False, True))
    assert compiled == pytest.approx(plain, rel=1e-4, abs=1e-6)


def test_states_count_what_is_replaced_and_survive_copies() -> None:
    run = Run("Adam", {}, False)
    run.made(1)
    state = run.optimizer.state
    assert state.changes == [0]
    assert repr(state).startswith("defaultdict(<class 'dict'>, {")
    twin = copy.deepcopy(run.optimizer).state
    before = twin.changes[0]
    next(iter(twin.values()))["exp_avg"] = torch.zeros(1)
    assert (state.changes, twin.changes) == ([0], [before + 1])
    assert all(type(held) is dict for held in run.optimizer.state_dict()["state"].values())


def test_lbfgs_is_captured_once_and_its_closure_compiled() -> None:
    def run(compiled: bool) -> tuple[list[float], Any]:
        torch.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4, line_search_fn="strong_wolfe")

        def step(x: Any) -> Any:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = (net(x) - 1).square().mean()
                loss.backward()
                return loss

            return optimizer.step(closure)

        call: Any = torch.compile(step) if compiled else step
        return [call(torch.linspace(-1, 1, 12).reshape(4, 3)).item() for _ in range(5)], call

    (plain, _), (found, call) = run(False), run(True)
    assert found == pytest.approx(plain, rel=1e-4)
    assert call.explain().captures == 1
    inner = call.tree.calling_back.compiled
    assert inner.explain().captures == 1
    assert len(inner.artifacts) == 1
