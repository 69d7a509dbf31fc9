"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, check_rate, check_settings
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full_like, zeros_like

__all__ = ["Rprop"]


class Rprop(PerParameterOptimizer):
    """Steps whose sizes grow by `etas` while a gradient keeps its sign, and shrink when it turns (Riedmiller and Braun, 1993)."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        check_settings("Rprop", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        rate = next(float(group["lr"]) for group in self.param_groups if any(p is parameter for p in group["params"]))
        state["prev"] = zeros_like(parameter)
        state["step_size"] = full_like(parameter, complex(rate, rate) if parameter.is_complex() else rate)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        shrinking, growing = group["etas"]
        turn = gradient * state["prev"]
        size = state["step_size"] * ops.where(turn > 0, growing, ops.where(turn < 0, shrinking, 1.0))
        state["step_size"].copy_(size.clamp(*group["step_sizes"]))
        # A gradient that turned counts as none, now and for the next comparison.
        kept = ops.where(turn < 0, 0.0, gradient)
        parameter.sub_(kept.sign() * state["step_size"])
        state["prev"].copy_(kept)
