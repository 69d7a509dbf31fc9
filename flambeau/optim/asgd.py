"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, at_least, check_range, check_rate, check_settings
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full, ones, zeros_like

__all__ = ["ASGD"]


class ASGD(PerParameterOptimizer):
    """Steps of a rate that falls, and the mean of the parameters from step `t0` on, in the state's ``ax`` (Polyak and Juditsky, 1992)."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("weight_decay value", weight_decay)
        check_settings("ASGD", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        rate = next(float(group["lr"]) for group in self.param_groups if any(p is parameter for p in group["params"]))
        state["eta"] = full((), rate, device=parameter.device)
        state["mu"] = ones((), device=parameter.device)
        state["ax"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        eta, mean = state["eta"], state["ax"]
        parameter.mul_(1 - group["lambd"] * eta).sub_(gradient * eta)
        mean.add_((parameter - mean) * state["mu"])
        rate = group["lr"]
        eta.fill_(rate / (1 + group["lambd"] * rate * count) ** group["alpha"])
        state["mu"].fill_(1 / at_least(count - group["t0"], 1))
