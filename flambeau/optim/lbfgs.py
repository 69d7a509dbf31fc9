"""Limited-memory BFGS, a quasi-Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import Optimizer, ParamsT, check_rate, real_view
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.grad_mode import enable_grad, no_grad

__all__ = ["LBFGS"]

# A point on the line: the step's length, the loss, the gradient, and its product with the direction.
Point = tuple[Any, float, Tensor, Any]


class LBFGS(Optimizer):
    """Minimizes along directions of an inverse Hessian from the last `history_size` steps (Nocedal and Wright, 2006, chapters 3 and 7).

    ``step(closure)`` makes up to `max_iter` iterations and `max_eval` calls of the closure, which computes the loss and its gradients.
    `line_search_fn` is None for steps of length `lr`, or "strong_wolfe". There is one group of parameters.
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_rate(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """All gradients as one vector; zeros where there is none."""
        found = [zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return ops.cat([real_view(gradient).reshape(-1) for gradient in found])

    def _move(self, length: Any, direction: Tensor) -> None:
        place = 0
        for parameter in map(real_view, self._params):
            parameter.add_(direction[place : place + parameter.numel()].view_as(parameter) * length)
            place += parameter.numel()

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Iterate; returns the loss at the start."""
        with no_grad():
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, calls, gradient = float(first), 1, self._gradient()
        state["func_evals"] += 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        change = group["tolerance_change"]
        for number in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            lr = float(group["lr"])
            length: Any = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state["n_iter"] == 1 else lr
            before = loss
            state |= {"d": direction, "t": length, "prev_flat_grad": gradient.clone(), "prev_loss": loss}
            slope = gradient.dot(direction)
            if slope > -change:
                break
            last = number == group["max_iter"]
            start = (0, loss, gradient, slope)
            loss, gradient, length, used = self._search(closure, start, length, direction, group["max_eval"] - calls, last)
            state["t"] = length
            calls += used
            state["func_evals"] += used
            if last or calls >= group["max_eval"] or gradient.abs().max() <= group["tolerance_grad"]:
                break
            if (direction * length).abs().max() <= change or abs(loss - before) < change:
                break
        return first

    def _direction(self, state: dict[str, Any], gradient: Tensor, most: int) -> Tensor:
        """The negative gradient times the inverse Hessian's approximation, which learns from the last step first."""
        if state["n_iter"] == 1:
            state |= {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1}
            return gradient.neg()
        turned, moved = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        product = turned.dot(moved)
        histories = (state["old_dirs"], state["old_stps"], state["ro"])
        if product > 1e-10:
            for history, value in zip(histories, (turned, moved, 1.0 / product), strict=True):
                history.append(value)
                del history[:-most]
            state["H_diag"] = product / turned.dot(turned)
        # The two loops of Nocedal and Wright, algorithm 7.4.
        shares: list[Any] = []
        direction = gradient.neg()
        for turn, move, weight in zip(*map(reversed, histories), strict=True):
            shares.append(move.dot(direction) * weight)
            direction = direction - turn * shares[-1]
        direction = direction * state["H_diag"]
        for turn, move, weight in zip(*histories, strict=True):
            direction = direction + move * (shares.pop() - turn.dot(direction) * weight)
        return direction

    def _search(
        self, closure: Callable[[], Any], start: Point, length: Any, direction: Tensor, calls: int, last: bool
    ) -> tuple[float, Tensor, Any, int]:
        """Move along the direction: the loss and gradient there, the length of the step and how often the closure was called."""
        group = self.param_groups[0]
        if group["line_search_fn"] is None:
            self._move(length, direction)
            if last:  # nobody looks at the loss of the last iteration
                return start[1], start[2], length, 0
            return float(closure()), self._gradient(), length, 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        kept = [parameter.clone() for parameter in self._params]

        def evaluate(at: Any) -> Point:
            self._move(at, direction)
            loss, gradient = float(closure()), self._gradient()
            for parameter, value in zip(self._params, kept, strict=True):
                parameter.copy_(value)
            return at, loss, gradient, gradient.dot(direction)

        (length, loss, gradient, _), used = _strong_wolfe(evaluate, start, length, direction, group["tolerance_change"], calls)
        self._move(length, direction)
        return loss, gradient, length, used


def _strong_wolfe(
    evaluate: Callable[[Any], Point], start: Point, length: Any, direction: Tensor, change: float, most: int
) -> tuple[Point, int]:
    """A step that lowers the loss and the slope enough (Nocedal and Wright, algorithms 3.5 and 3.6), and how often `evaluate` ran."""
    _, loss, _, slope = start

    def too_high(point: Point) -> Any:
        return point[1] > loss + 1e-4 * point[0] * slope

    def flat(point: Point) -> Any:
        return abs(point[3]) <= -0.9 * slope

    before, point = start, evaluate(length)
    tries = 0
    bracket = None
    while tries < most:
        if too_high(point) or (tries > 1 and point[1] >= before[1]) or point[3] >= 0:
            # A loss that rises past the point where it is flat is no end yet.
            if flat(point) and not (too_high(point) or (tries > 1 and point[1] >= before[1])):
                return point, tries + 1
            bracket = [before, point]
            break
        if flat(point):
            return point, tries + 1
        limits = (point[0] + 0.01 * (point[0] - before[0]), point[0] * 10)
        before, point = point, evaluate(_lowest(before, point, limits))
        tries += 1
    ends = bracket or [start, point]
    return _zoom(evaluate, ends, (too_high, flat), float(direction.abs().max()), change, tries, most)


def _zoom(
    evaluate: Callable[[Any], Point], ends: list[Point], tests: Any, size: float, change: float, tries: int, most: int
) -> tuple[Point, int]:
    """Narrow the bracket down to a point that satisfies the conditions, or to nothing."""
    too_high, flat = tests
    stuck = False
    low, high = sorted(ends, key=lambda point: point[1]) if ends[0][1] != ends[1][1] else ends
    while tries < most and abs(high[0] - low[0]) * size >= change:
        at, stuck = _inside(low, high, stuck)
        point = evaluate(at)
        tries += 1
        if too_high(point) or point[1] >= low[1]:
            low, high = (low, point) if low[1] <= point[1] else (point, low)
            continue
        if flat(point):
            return point, tries + 1
        high, low = (low if point[3] * (high[0] - low[0]) >= 0 else high), point
    return low, tries + 1


def _inside(low: Point, high: Point, stuck: bool) -> tuple[Any, bool]:
    """Where to look in the bracket, and whether that was close to an end: the second time it is moved away from it."""
    least, largest = min(low[0], high[0]), max(low[0], high[0])
    at = _lowest(low, high, (least, largest))
    margin = 0.1 * (largest - least)
    if min(largest - at, at - least) >= margin:
        return at, False
    if not (stuck or at >= largest or at <= least):
        return at, True
    return (largest - margin if abs(at - largest) < abs(at - least) else least + margin), False


def _lowest(one: Point, other: Point, limits: tuple[Any, Any]) -> Any:
    """Where the cubic through two points with these slopes is lowest, within the limits; their middle where it has no minimum."""
    (x1, f1, _, g1), (x2, f2, _, g2) = (one, other) if one[0] <= other[0] else (other, one)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return sum(limits) / 2.0
    root = square.sqrt()
    at = x2 - (x2 - x1) * ((g2 + root - d1) / (g2 - g1 + 2 * root))
    return min(max(at, limits[0]), limits[1])
