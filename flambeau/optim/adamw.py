"""Adam with weight decay apart from the gradient."""

from __future__ import annotations

from typing import Any

from flambeau.optim.adam import Adam
from flambeau.optim.optimizer import ParamsT
from flambeau.tensor import Tensor

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam that shrinks parameters by ``lr * weight_decay`` instead of adding a penalty's gradient (Loshchilov and Hutter, 2019)."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # States saved before the setting had a name are AdamW's all the same.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
