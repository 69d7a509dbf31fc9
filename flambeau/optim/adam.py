"""Adam and AMSGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import (
    Bucket,
    Optimizer,
    ParamsT,
    buckets,
    check_betas,
    check_range,
    check_rate,
    check_settings,
    loss_of,
    share_steps,
)
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Adam"]


class Adam(Optimizer):
    """Steps by running means of gradients and of their squares, both corrected for their start at 0 (Kingma and Ba, 2015).

    `amsgrad` divides by the largest mean square so far (Reddi et al., 2018); `decoupled_weight_decay` makes it AdamW. `lr` may be a
    tensor of one element. `foreach`, `fused` and `capturable` have no effect: a step is one operation for each group.
    """

    _absent = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False, "fused": None,
               "decoupled_weight_decay": False}  # fmt: skip

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        check_settings(type(self).__name__, differentiable=differentiable, foreach=foreach, fused=fused)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        share_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.groups():

                def start(parameter: Tensor, state: dict[str, Any], amsgrad: bool = group["amsgrad"]) -> None:
                    state["exp_avg"] = zeros_like(parameter)
                    state["exp_avg_sq"] = zeros_like(parameter)
                    if amsgrad:
                        state["max_exp_avg_sq"] = zeros_like(parameter)

                for bucket in buckets(self, group, start):
                    self._update(group, bucket)
        return loss

    def _update(self, group: dict[str, Any], bucket: Bucket) -> None:
        beta1, beta2 = group["betas"]
        ops.adam_step(
            bucket.params, bucket.grads, bucket.of("exp_avg"), bucket.of("exp_avg_sq"),
            bucket.of("max_exp_avg_sq") if group["amsgrad"] else None, bucket.step, group["lr"], beta1, beta2, group["eps"],
            group["weight_decay"], group["decoupled_weight_decay"], group["amsgrad"], group["maximize"],
        )  # fmt: skip
