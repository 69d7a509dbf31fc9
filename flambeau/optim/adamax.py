"""Adam with the largest gradient in the place of the mean square."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, check_betas, check_range, check_rate, check_settings
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like

__all__ = ["Adamax"]


class Adamax(PerParameterOptimizer):
    """Adam by the infinity norm (Kingma and Ba, 2015, section 7.1)."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        check_settings("Adamax", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        state["exp_avg"] = zeros_like(parameter)
        state["exp_inf"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        average = state["exp_avg"].lerp_(gradient, 1 - beta1)
        largest = state["exp_inf"].copy_(ops.maximum(state["exp_inf"] * beta2, gradient.abs() + group["eps"]))
        parameter.sub_(group["lr"] / (1 - beta1**count) * (average / largest))
