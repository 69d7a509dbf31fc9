"""RMSprop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import Optimizer, ParamsT, buckets, check_range, check_rate, check_settings, loss_of, share_steps
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.grad_mode import no_grad

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Divides gradients by the root of the running mean of their squares (Hinton, lecture 6e, 2012).

    `centered` subtracts the square of the running mean first (Graves, 2013). `foreach` and `capturable` have no effect.
    """

    _absent = {"momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("epsilon value", eps)
        check_range("momentum value", momentum)
        check_range("weight_decay value", weight_decay)
        check_range("alpha value", alpha)
        check_settings("RMSprop", differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
            "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        share_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.groups():
                keys = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])

                def start(parameter: Tensor, state: dict[str, Any], keys: list[str] = keys) -> None:
                    for key in keys:
                        state[key] = zeros_like(parameter)

                for bucket in buckets(self, group, start):
                    bucket.step.add_(1)
                    ops.rmsprop_step(
                        bucket.params, bucket.grads, bucket.of("square_avg"), bucket.of("grad_avg") if group["centered"] else None,
                        bucket.of("momentum_buffer") if group["momentum"] > 0 else None, group["lr"], group["alpha"], group["eps"],
                        group["weight_decay"], group["momentum"], group["maximize"],
                    )  # fmt: skip
        return loss
