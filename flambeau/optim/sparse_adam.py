"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.optim.optimizer import Optimizer, ParamsT, check_betas, check_rate, loss_of, with_gradients
from flambeau.tensor import Tensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that moves only the rows that sparse gradients have; RuntimeError for dense ones, which Adam is for."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        check_rate(lr)
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [[i, k] for i, group in enumerate(self.param_groups) for k, p in enumerate(group["params"]) if p.is_complex()]
        if places:
            raise ValueError(f"Complex params at indices {places}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """RuntimeError where a gradient is dense; NotImplementedError where it is sparse."""
        loss = loss_of(closure)
        for parameter in (p for group in self.param_groups for p in with_gradients(group["params"])):
            if not getattr(parameter.grad, "is_sparse", False):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            raise NotImplementedError("SparseAdam.step: sparse gradients are not supported; use dense ones with Adam")
        return loss
