"""Adafactor: the running mean of squares kept as row and column sums."""

from __future__ import annotations

from typing import Any

from flambeau.optim.optimizer import ParamsT, PerParameterOptimizer, at_least, value_of
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.type_info import finfo

__all__ = ["Adafactor"]


class Adafactor(PerParameterOptimizer):
    """Steps relative to the parameters' size, by a factored second moment (Shazeer and Stern, 2018), without momentum.

    `eps` bounds the mean square (by its square; None: the type's eps) and the parameters' size; `d` clips the step's mean size.
    """

    _absent = {"foreach": None, "maximize": False}
    _decays_alone = True

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for right, name, value in (
            (lr >= 0, "Learning rate should be >= 0", lr), (beta2_decay <= 0, "beta2_decay should be <= 0", beta2_decay),
            (eps[0] is None or eps[0] >= 0, "epsilon1 should be >= 0", eps[0]), (eps[1] >= 0, "epsilon2 should be >= 0", eps[1]),
            (d >= 1, "Clipping threshold d should be >= 1", d), (weight_decay >= 0, "weight_decay should be >= 0", weight_decay),
        ):  # fmt: skip
            if not right:
                raise ValueError(f"{name} but is: {value}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        })  # fmt: skip

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters; give it their view_as_real")
        if parameter.dim() > 1:
            *outer, rows, columns = parameter.shape
            state["row_var"] = parameter.new_zeros((*outer, rows, 1))
            state["col_var"] = parameter.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = zeros_like(parameter)

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        lr, (least, least_size) = group["lr"], group["eps"]
        lr = value_of(lr) if isinstance(lr, Tensor) else lr
        least = finfo(parameter.dtype).eps if least is None else least
        share = count ** group["beta2_decay"]
        size = at_least(value_of(parameter.norm(2)) / parameter.numel() ** 0.5, least_size)
        rate = -size * at_least(-lr, -(count**-0.5))
        if group["weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        square = gradient * gradient
        if "variance" in state:
            estimate = state["variance"].lerp_(square, share)
        else:
            rows = state["row_var"].lerp_(square.mean(-1, keepdim=True), share)
            columns = state["col_var"].lerp_(square.mean(-2, keepdim=True), share)
            estimate = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=least)
        update = gradient * estimate.clamp(min=least * least).rsqrt()
        clip = at_least(value_of(update.norm(2)) / (update.numel() ** 0.5 * group["d"]), 1.0)
        parameter.sub_(update * (rate / clip))
