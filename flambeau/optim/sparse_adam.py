"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.optim.optimizer import Optimizer, ParamsT, check_betas, check_rate, loss_of
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.grad_mode import no_grad

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam (Kingma and Ba, 2015) that moves, and remembers moments of, the rows that a sparse gradient has and no others.

    >>> import flambeau as torch
    >>> table = torch.nn.Embedding(5, 2, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(torch.tensor([3])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight != before).any(1)
    tensor([False, False, False,  True, False])
    """

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
        if any(p.is_sparse for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam requires dense parameter tensors; only their gradients are sparse")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives. RuntimeError for a dense gradient."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.groups():
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(group, parameter, self.state[parameter])
        return loss

    @staticmethod
    def _update(group: dict[str, Any], parameter: Any, state: dict[str, Any]) -> None:
        if not parameter.grad.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        if not state:
            state["step"], state["exp_avg"], state["exp_avg_sq"] = 0, zeros_like(parameter), zeros_like(parameter)
        state["step"] += 1
        (beta1, beta2), gradient = group["betas"], parameter.grad.coalesce()
        rows, values = tuple(gradient.indices().unbind(0)), -gradient.values() if group["maximize"] else gradient.values()
        if not values.shape[0]:
            return
        mean = state["exp_avg"][rows].lerp(values, 1 - beta1)
        square = state["exp_avg_sq"][rows].lerp(values * values, 1 - beta2)
        state["exp_avg"].index_put_(rows, mean)
        state["exp_avg_sq"].index_put_(rows, square)
        rate = float(group["lr"]) * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        parameter.index_put_(rows, -rate * mean / (square.sqrt() + group["eps"]), accumulate=True)
