"""Adam with a rectified variance of its adaptive rate."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, check_betas, check_range, check_rate, check_settings
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like

__all__ = ["RAdam"]


class RAdam(PerParameterOptimizer):
    """Adam that starts with plain momentum until enough squares have been seen (Liu et al., 2020)."""

    _absent = {**PerParameterOptimizer._absent, "decoupled_weight_decay": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        check_settings("RAdam", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        average = state["exp_avg"].lerp_(gradient, 1 - beta1) / (1 - beta1**count)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        rest = 1 - beta2**count
        # The length of the simple moving average that the running mean stands for, in the end and now.
        final = 2 / (1 - beta2) - 1
        length = final - 2 * count * beta2**count / rest
        known = isinstance(length, float)
        if not known or length > 5.0:
            rectified = ((length - 4) * (length - 2) * final / ((final - 4) * (final - 2) * length)) ** 0.5
            straight, average = average, average * rectified * (rest**0.5 / (square.sqrt() + group["eps"]))
            average = average if known else ops.where(length > 5.0, average, straight)
        parameter.sub_(group["lr"] * average)
