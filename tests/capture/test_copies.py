"""Copies and pickles of compiled functions and Modules: they have captured nothing, and are for the copied objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import flambeau as torch
from flambeau.core.events import counters

X = torch.ones(1, 2)
FACTOR = 2.0


@torch.compile
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def times(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def different(module: Any) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()


def test_copies_of_modules_are_modules_of_their_own() -> None:
    module = torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), fullgraph=True)
    before = module(X)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(copied(X), before) and list(copied.state_dict()) == list(module.state_dict())
        different(copied)
        captures = counters["captures"]
        assert torch.equal(copied(X), torch.zeros(1, 2)) and torch.equal(module(X), before)
        assert counters["captures"] == captures
    averaged = torch.optim.swa_utils.AveragedModel(module)
    averaged.update_parameters(module)
    assert torch.equal(averaged(X), before)


def test_compiled_in_place() -> None:
    module = torch.nn.Linear(2, 2)
    module.compile()
    before, copied = module(X), copy.deepcopy(module)
    different(copied)
    assert torch.equal(copied(X), torch.zeros(1, 2)) and torch.equal(module(X), before)


def test_copies_of_functions() -> None:
    assert copy.deepcopy(doubled) is doubled and copy.copy(doubled) is doubled and pickle.loads(pickle.dumps(doubled)) is doubled
    method = torch.compile(Scaled(3.0).times, dynamic=False)
    assert torch.equal(method(X), X * 3)
    copied = copy.deepcopy(method)
    copied.function.__self__.scale = 5.0
    assert torch.equal(copied(X), X * 5) and torch.equal(method(X), X * 3) and copied.dynamic is False
