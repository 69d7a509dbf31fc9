"""Adagrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.optim.optimizer import Optimizer, ParamsT, buckets, check_range, check_rate, check_settings, loss_of, new_step, share_steps
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full_like
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Divides gradients by the root of the sum of their squares (Duchi, Hazan and Singer, 2011).

    `foreach` and `fused` have no effect.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("lr_decay value", lr_decay)
        check_range("weight_decay value", weight_decay)
        check_range("initial_accumulator_value value", initial_accumulator_value)
        check_range("epsilon value", eps)
        check_settings("Adagrad", differentiable=differentiable, foreach=foreach, fused=fused)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:
            steps: dict[Any, Any] = {}
            for parameter in group["params"]:
                if parameter.device not in steps:
                    steps[parameter.device] = new_step(parameter)
                self.state[parameter]["step"] = steps[parameter.device]
                self.state[parameter]["sum"] = full_like(parameter, group["initial_accumulator_value"])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        share_steps(self)

    def share_memory(self) -> None:
        """Move the state into memory that other processes see."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.groups():
                sparse = [p for p in group["params"] if p._grad is not None and p._grad.is_sparse]
                for parameter in sparse:
                    self._update_rows(group, parameter, self.state[parameter])
                group = {**group, "params": [p for p in group["params"] if p not in set(sparse)]} if sparse else group  # noqa: PLW2901
                for bucket in buckets(self, group, self._start):
                    ops.adagrad_step(
                        bucket.params, bucket.grads, bucket.of("sum"), bucket.step, group["lr"], group["lr_decay"],
                        group["weight_decay"], group["eps"], group["maximize"],
                    )  # fmt: skip
        return loss

    @staticmethod
    def _update_rows(group: dict[str, Any], parameter: Any, state: dict[str, Any]) -> None:
        """The step of a parameter with a sparse gradient: of the rows that the gradient has."""
        if group["weight_decay"] != 0:
            raise RuntimeError("Adagrad: weight_decay option is not compatible with sparse gradients; set it to 0")
        gradient = parameter._grad.coalesce()
        rows, values = tuple(gradient.indices().unbind(0)), -gradient.values() if group["maximize"] else gradient.values()
        state["step"] = state["step"] + 1  # no longer shared
        state["sum"].index_put_(rows, values * values, accumulate=True)
        rate = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        parameter.index_put_(rows, -rate * values / (state["sum"][rows].sqrt() + group["eps"]), accumulate=True)

    @staticmethod
    def _start(parameter: Tensor, state: dict[str, Any]) -> None:
        raise RuntimeError("Adagrad.step: a parameter has no state; add parameters before the first step or through a new optimizer.")
