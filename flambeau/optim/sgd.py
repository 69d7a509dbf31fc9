"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core.context import context, start_state
from flambeau.optim.optimizer import Optimizer, ParamsT, check_range, check_rate, check_settings, loss_of, with_gradients
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty_like
from flambeau.tensor.grad_mode import no_grad

__all__ = ["SGD"]


class SGD(Optimizer):
    """Steps against the gradient, optionally with momentum (Nesterov's with `nesterov`; Sutskever et al., 2013).

    ``v = momentum * v + (1 - dampening) * (g + weight_decay * p); p -= lr * v``. `foreach` and `fused` have no effect.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.ones(1))
    >>> p.grad = torch.ones(1)
    >>> torch.optim.SGD([p], lr=0.25).step()
    >>> p.item()
    0.75
    """

    _absent = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": None}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float | Tensor = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_rate(lr)
        check_range("momentum value", momentum)
        check_range("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_settings("SGD", differentiable=differentiable, foreach=foreach, fused=fused)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.groups():
                members = [p for p in with_gradients(group["params"]) if not self._updated_sparse(group, p)]
                if group["momentum"] == 0:
                    self._update(group, members, None)
                    continue
                new = self._without_buffer(members)
                if context.capture is not None:  # first steps are written differently
                    new = context.capture.guard(lambda members=members: self._without_buffer(members))
                start_state(lambda members=members: self._start(members))
                buffers = [self.state[p]["momentum_buffer"] for p in members]
                if not any(new):
                    self._update(group, members, buffers)
                    continue
                for first in (False, True):
                    part = [i for i, is_new in enumerate(new) if is_new is first]
                    self._update(group, [members[i] for i in part], [buffers[i] for i in part], first)
        return loss

    def _without_buffer(self, params: list[Any]) -> tuple[bool, ...]:
        return tuple([self.state[p].get("momentum_buffer") is None for p in params])

    def _start(self, params: list[Any]) -> None:
        for parameter in params:
            state = self.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = empty_like(parameter)

    def _updated_sparse(self, group: dict[str, Any], parameter: Any) -> bool:
        """Whether a parameter has a sparse gradient, which is then stepped against in its rows alone."""
        if not parameter._grad.is_sparse:
            return False
        if group["weight_decay"] != 0:
            raise RuntimeError("SGD: weight_decay option is not compatible with sparse gradients; set it to 0")
        gradient, state = -parameter._grad if group["maximize"] else parameter._grad, self.state[parameter]
        if group["momentum"] != 0:
            before = state.get("momentum_buffer")
            moved = gradient.clone() if before is None else before * group["momentum"] + gradient * (1 - group["dampening"])
            state["momentum_buffer"] = moved
            gradient = gradient + moved * group["momentum"] if group["nesterov"] else moved
        parameter.add_(gradient, alpha=-float(group["lr"]))
        return True

    def _update(self, group: dict[str, Any], params: list[Any], buffers: list[Any] | None, first: bool = False) -> None:
        if params:
            ops.sgd_step(
                params, [parameter._grad for parameter in params], buffers, group["lr"], group["weight_decay"], group["momentum"],
                group["dampening"], group["nesterov"], group["maximize"], first,
            )  # fmt: skip
