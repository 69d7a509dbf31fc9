"""Adadelta."""

from __future__ import annotations

from typing import Any

from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, check_range, check_rate, check_settings
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like

__all__ = ["Adadelta"]


class Adadelta(PerParameterOptimizer):
    """Steps by the ratio of running mean squares of steps and of gradients (Zeiler, 2012)."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_range("epsilon value", eps)
        check_range("weight_decay value", weight_decay)
        check_settings("Adadelta", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
            "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        state["square_avg"] = zeros_like(parameter)
        state["acc_delta"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        rho, eps = group["rho"], group["eps"]
        squares = state["square_avg"].mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        change = (state["acc_delta"] + eps).sqrt() / (squares + eps).sqrt() * gradient
        state["acc_delta"].mul_(rho).addcmul_(change, change, value=1 - rho)
        parameter.sub_(group["lr"] * change)
