"""Averages of models over training: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal

from flambeau.core import dtypes
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.nn.modules.module import Module
from flambeau.optim.lr_scheduler.base import LRScheduler, Rates, per_group
from flambeau.optim.optimizer import Optimizer
from flambeau.tensor import Tensor
from flambeau.tensor.creation import tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]

# (mean so far, value now, how many were averaged) -> the mean.
Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay * mean + (1 - decay) * value``. Raises ValueError unless ``0 <= decay <= 1``."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return no_grad()(lambda mean, value, count: decay * mean + (1 - decay) * value)


def get_swa_avg_fn() -> Average:
    """The plain mean of all values."""
    return no_grad()(lambda mean, value, count: mean + (value - mean) / (count + 1))


def _of_lists(average: Average) -> MultiAverage:
    def update(means: Sequence[Tensor], values: Sequence[Tensor], count: Any) -> None:
        for mean, value in zip(means, values, strict=True):
            mean.copy_(average(mean, value, count))

    return no_grad()(update)


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """`get_ema_avg_fn` for lists of parameters, in place."""
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """`get_swa_avg_fn` for lists of parameters, in place."""
    return _of_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are running means of the model's (Izmailov et al., 2018).

    Call `update_parameters` after steps of the optimizer. `avg_fn` or `multi_avg_fn` says how to average (default: the plain mean);
    `use_buffers` averages buffers too, which are copied otherwise.

    >>> import flambeau as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> torch.equal(averaged.module.weight, model.weight)
    True
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the means."""
        with no_grad():
            averaged, given = ([t.detach() for t in self._averaged_of(m)] for m in (self.module, model))
            pairs = [(mean, value.to(mean.device)) for mean, value in zip(averaged, given, strict=False)]
            if not int(self.n_averaged):
                for mean, value in pairs:
                    mean.copy_(value)
            elif pairs:
                average = self.multi_avg_fn or _of_lists(self.avg_fn or get_swa_avg_fn())
                average([mean for mean, _ in pairs], [value for _, value in pairs], self.n_averaged)
            if not self.use_buffers:
                for mine, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.detach().copy_(other.detach().to(mine.device))
            self.n_averaged += 1

    def _averaged_of(self, model: Module) -> Iterable[Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running numbers of batch normalization anew, by one pass over the data (tensors, or tuples that begin with one)."""
    layers = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not layers:
        return
    was_training = model.training
    model.train()
    with no_grad():
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # the plain mean of all batches
        for batch in loader:
            batch = batch[0] if isinstance(batch, list | tuple) else batch
            model(batch if device is None else batch.to(device))
    for layer, momentum in layers.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves the rate to `swa_lr` within `anneal_epochs` steps, along a line or a cosine, and keeps it there."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far the rate has moved after a number of steps."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self._strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> Rates:
        """Between the rate that the schedule began with, found from the rate of now, and the last one."""
        self._check_called_by_step()
        step = self._step_count - 1
        step = max(1, step) if self.anneal_epochs == 0 else step
        before, now = self._share(step - 1), self._share(step)
        rates: Rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
