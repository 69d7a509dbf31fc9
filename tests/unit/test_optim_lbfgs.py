"""LBFGS against explicit matrices, the conditions of its line search, and minima that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.optim.lbfgs import _strong_wolfe

RNG = np.random.default_rng(5)


def rosenbrock(x: Any) -> Any:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def closure_of(optimizer: Any, loss: Callable[[], Any], seen: list[float] | None = None) -> Callable[[], Any]:
    def closure() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if seen is not None:
            seen.append(value.item())
        return value

    return closure


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_rosenbrocks_valley(search: str | None) -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], lr=1 if search else 0.3, max_iter=100, max_eval=400, line_search_fn=search)
    seen: list[float] = []
    closure = closure_of(optimizer, lambda: rosenbrock(x), seen)
    first = optimizer.step(closure)
    for _ in range(1 if search else 4):
        optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), [1, 1], atol=1e-4)
    state = optimizer.state[x]
    assert first.item() == pytest.approx(24.2) and seen[0] == first.item() and state["func_evals"] == len(seen)
    if search:
        assert state["n_iter"] < 60  # some 35 iterations, as in the textbooks


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_quadratic_forms(search: str | None) -> None:
    root = RNG.standard_normal((5, 5))
    matrix, goal = root @ root.T + np.eye(5), RNG.standard_normal(5)
    a, b = torch.tensor(matrix), torch.tensor(goal)
    parts = [torch.zeros(2, dtype=torch.float64, requires_grad=True), torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)]
    unused = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([*parts, unused], max_iter=60, line_search_fn=search)

    def loss() -> Any:
        x = torch.cat([p.flatten() for p in parts])
        return 0.5 * x @ a @ x - b @ x

    optimizer.step(closure_of(optimizer, loss))
    found = torch.cat([p.detach().flatten() for p in parts])
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(matrix, goal), atol=1e-5)
    assert unused.tolist() == [1, 1]


def test_directions_are_those_of_explicit_matrices() -> None:
    x = torch.tensor([-1.2, 1.0, 0.7], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=1, max_eval=50, history_size=3, line_search_fn="strong_wolfe")
    closure = closure_of(optimizer, lambda: rosenbrock(x[:2]) + rosenbrock(x[1:]))
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    places, slopes = [], []
    for _ in range(7):
        places.append(x.detach().numpy().copy())
        closure()
        slopes.append(x.grad.numpy().copy())
        optimizer.step(closure)
        direction = optimizer.state[x]["d"].numpy()
        if len(places) > 1:
            pairs.append((places[-1] - places[-2], slopes[-1] - slopes[-2]))
            pairs = [pair for pair in pairs if pair[0] @ pair[1] > 1e-10][-3:]
        step, turn = pairs[-1] if pairs else (np.ones(3), np.ones(3))
        inverse = np.eye(3) * (step @ turn) / (turn @ turn)
        for s, y in pairs:  # the update of Broyden, Fletcher, Goldfarb and Shanno
            left = np.eye(3) - np.outer(s, y) / (s @ y)
            inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
        np.testing.assert_allclose(direction, -inverse @ slopes[-1], rtol=1e-6, atol=1e-8)
    assert len(optimizer.state[x]["old_dirs"]) == 3


LINES: dict[str, Callable[[Any], Any]] = {
    "parabola": lambda t: (t - 3) ** 2, "far": lambda t: (t - 300) ** 2, "near": lambda t: 500 * (t - 0.001) ** 2,
    "wavy": lambda t: -t.sin() + t / 3,
    "steep": lambda t: (t - 1) ** 4 - t, "flat then steep": lambda t: -t + t.exp() / 40, "falling": lambda t: -t / (t * t + 2) + t**4 / 1e4,
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("first", [0.1, 1.0, 10.0])
def test_steps_satisfy_the_strong_wolfe_conditions(name: str, first: float) -> None:
    def evaluate(at: Any) -> Any:
        t = torch.as_tensor(float(at), dtype=torch.float64).requires_grad_()
        value = LINES[name](t)
        value.backward()
        return at, value.item(), t.grad.reshape(1), t.grad

    start = evaluate(0.0)
    assert start[3] < 0
    (length, loss, _, slope), used = _strong_wolfe(evaluate, start, first, torch.ones(1, dtype=torch.float64), 1e-9, 25)
    assert loss <= start[1] + 1e-4 * length * start[3] and abs(slope) <= -0.9 * start[3] and used <= 27


def test_limits_and_refusals() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    for settings, iterations, calls in (
        ({"max_iter": 3}, 2, 3), ({"max_iter": 3, "max_eval": 9}, 3, 3), ({"max_iter": 20, "max_eval": 2}, 1, 2),
        ({"tolerance_grad": 1e9}, 0, 1),
    ):  # fmt: skip
        with torch.no_grad():
            x.copy_(torch.tensor([-1.2, 1.0]))
        optimizer, seen = torch.optim.LBFGS([x], lr=0.1, **settings), []
        optimizer.step(closure_of(optimizer, lambda: rosenbrock(x), seen))
        assert optimizer.state[x]["n_iter"] == iterations and len(seen) == calls, settings
    with pytest.raises(ValueError, match="per-parameter options"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [torch.ones(1, requires_grad=True)]}])
    optimizer = torch.optim.LBFGS([x], line_search_fn="other")
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))


def test_runs_go_on_from_a_saved_state() -> None:
    ends = []
    for saved in (False, True):
        x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], max_iter=4, line_search_fn="strong_wolfe")
        optimizer.step(closure_of(optimizer, lambda x=x: rosenbrock(x)))
        if saved:
            state = optimizer.state_dict()
            x = x.detach().clone().requires_grad_()
            optimizer = torch.optim.LBFGS([x], max_iter=4, line_search_fn="strong_wolfe")
            optimizer.load_state_dict(state)
        optimizer.step(closure_of(optimizer, lambda x=x, o=optimizer: rosenbrock(x)))
        ends.append(x.tolist())
    assert ends[0] == ends[1]


def test_complex_parameters() -> None:
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    goal = torch.tensor([1 + 2j, -3j])
    optimizer = torch.optim.LBFGS([z], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(optimizer, lambda: (z - goal).abs().square().sum()))
    np.testing.assert_allclose(z.detach().numpy(), goal.numpy(), atol=1e-6)
