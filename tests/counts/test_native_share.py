"""The share of eager calls that run natively, by operator and in training steps of ordinary models; every other has a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.ops.declare import ALL
from flambeau.runtime.native.launch import REASONS
from tests.ops.operator_cases import samples_of

pytestmark = pytest.mark.skipif(not config.native, reason="native code is off")

# What native code leaves to Python, by operator: calls whose gradients are known to be zero.
PYTHON_ALONE = {"bernoulli": "plan", "vector_norm": "plan"}


def taken(value: Any) -> Any:
    """A sample's arrays as tensors."""
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.tensor(np.array(value))
    return type(value)(map(taken, value)) if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") else value


def refusals(run: Callable[[], Any]) -> Counter[str]:
    before = {reason: counters[f"python_for_{reason}"] for reason in REASONS}
    run()
    return Counter({reason: counters[f"python_for_{reason}"] - before[reason] for reason in REASONS})


def test_operators_run_natively_from_the_third_call_on() -> None:
    calls, left = 0, Counter[tuple[str, str]]()
    for operator in ALL.values():
        for args, kwargs in samples_of(operator)[:3] if operator.samples is not None else ():
            given, named = taken(args), {name: taken(value) for name, value in kwargs.items()}
            try:
                for _ in range(2):
                    operator(*given, **named)
            except (NotImplementedError, RuntimeError):
                continue  # samples of errors, and of what only a graph can do
            calls += 1
            found = refusals(lambda call=operator, given=given, named=named: call(*given, **named))
            left.update({(operator.name, reason): count for reason, count in found.items() if count})
    assert calls > 800
    assert all(PYTHON_ALONE.get(name) == reason for name, reason in left), left
    assert left.total() <= 0.01 * calls


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.norm(self.conv(x))).mean((2, 3))


def models() -> dict[str, tuple[nn.Module, Callable[[Any], Any]]]:
    x, images, words = torch.randn(32, 16), torch.randn(2, 3, 8, 8), torch.randint(0, 20, (2, 5))
    labels = torch.randint(0, 3, (32,))
    mlp = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
    lstm = nn.ModuleList([nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True)])
    return {
        "mlp": (mlp, lambda m: F.cross_entropy(m(x), labels)),
        "lstm": (lstm, lambda m: m[1](m[0](words))[0].square().mean()),
        "convolution": (Residual(), lambda m: m(images).square().sum()),
    }


@pytest.mark.parametrize("name", ["mlp", "lstm", "convolution"])
@pytest.mark.parametrize("make", [torch.optim.AdamW, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.RMSprop])
def test_training_steps_run_natively(name: str, make: Callable[[Any], Any]) -> None:
    model, loss_of = models()[name]
    optimizer = make(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(4):
        step()
    before = counters.snapshot()
    assert not refusals(step).total()
    after = counters.snapshot()
    assert (after["eager_calls"], after["eager_backwards"]) == (before["eager_calls"], before["eager_backwards"])
    assert after["native_calls"] - before["native_calls"] >= 8


def test_autocast_leaves_the_operators_that_it_casts_to_python() -> None:
    x, weight = torch.randn(4, 4), torch.randn(4, 4)

    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(10):
                ((x * 1.5 + 2.0).relu() @ weight).softmax(-1)

    run()
    assert refusals(run) == {"modes": 10, **{reason: 0 for reason in REASONS if reason != "modes"}}
