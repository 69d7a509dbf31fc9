"""Muon: momentum made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.context import outside_capture
from flambeau.optim.optimizer import Optimizer, ParamsT, loss_of, with_gradients, with_tensor_rate
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.functions_linear import addmm
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Muon"]

_COEFFICIENTS = (3.4445, -4.775, 2.0315)


class Muon(Optimizer):
    """Steps along the nearest orthogonal matrix of the momentum, by Newton and Schulz' iteration in bfloat16 (Jordan, 2024).

    All parameters must be matrices. `adjust_lr_fn` scales the rate by sqrt(max(1, rows / columns)) ("original"), or by
    0.2 * sqrt(max(rows, columns)) ("match_rms_adamw").
    """

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS, eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported; use 'original' or 'match_rms_adamw'")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "ns_coefficients": ns_coefficients,
            "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for parameter in (p for group in self.param_groups for p in group["params"]):
            if parameter.dim() != 2:
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in [with_tensor_rate(self, group) for group in self.param_groups]:
                for parameter in with_gradients(group["params"]):
                    self._update(group, parameter, parameter.grad)
        return loss

    def _update(self, group: dict[str, Any], parameter: Tensor, gradient: Any) -> None:
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        state, lr = self.state[parameter], group["lr"]
        if "momentum_buffer" not in state:
            with outside_capture():
                state["momentum_buffer"] = zeros_like(gradient)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        update = gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        like_adam = group["adjust_lr_fn"] == "match_rms_adamw"
        scale = 0.2 * math.sqrt(max(rows, columns)) if like_adam else math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - lr * group["weight_decay"]).sub_(lr * scale * update)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """About U @ V.mT of a matrix U @ S @ V.mT: a quintic polynomial of it, again and again."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
