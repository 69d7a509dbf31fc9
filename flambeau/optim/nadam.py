"""Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, check_betas, check_range, check_rate, check_settings, value_of
from flambeau.tensor import Tensor
from flambeau.tensor.creation import ones, zeros_like

__all__ = ["NAdam"]


class NAdam(PerParameterOptimizer):
    """Adam with Nesterov momentum that grows with the steps (Dozat, 2016)."""

    _absent = {**PerParameterOptimizer._absent, "decoupled_weight_decay": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        check_range("momentum_decay value", momentum_decay)
        check_settings("NAdam", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        state["mu_product"] = ones(())
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        rate = group["lr"]
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            parameter.mul_(1 - rate * group["weight_decay"])
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (count, count + 1))
        product = value_of(state["mu_product"].mul_(now))
        average = state["exp_avg"].lerp_(gradient, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = (square / (1 - beta2**count)).sqrt().add_(group["eps"])
        parameter.sub_(rate * (1 - now) / (1 - product) * (gradient / scale))
        parameter.sub_(rate * following / (1 - product * following) * (average / scale))
