"""What all schedules of learning rates share."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.optim.optimizer import Optimizer
from flambeau.tensor import Tensor

__all__ = ["EPOCH_DEPRECATION_WARNING", "LRScheduler", "Rates", "current", "per_group", "set_value"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use `scheduler.step()` to "
    "step the scheduler."
)
Rates = list[Any]


def current(optimizer: Optimizer, key: str = "lr") -> Rates:
    """A setting of each group; tensors are copied, so that nobody changes a rate through the result."""
    return [group[key].clone() if isinstance(group[key], Tensor) else group[key] for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Change a setting; a tensor keeps its identity, since compiled programs may hold it."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> Rates:
    """One value for each group. Raises ValueError for a list of another length."""
    if isinstance(value, list | tuple):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
                             f"param_groups has {len(optimizer.param_groups)}.")  # fmt: skip
        return list(value)
    return [value] * len(optimizer.param_groups)


class LRScheduler:
    """Subclass it with ``get_lr``, which gives the rate of each group for step number ``self.last_epoch``.

    Call `step` after the optimizer's. `last_epoch` is -1 for a new schedule; a later one takes up where an earlier one stopped.
    Raises TypeError without an optimizer.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with last_epoch >= 0; load the "
                    "optimizer's state first, or leave last_epoch out for a new run"
                )
        self.base_lrs: Rates = current(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> Rates:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> Rates:
        """Override: the rates for step ``self.last_epoch``."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Go on by one step, or (the old way) to step number `epoch`."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the "
                "opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the "
                "first value of the learning rate schedule.", UserWarning, stacklevel=2,
            )  # fmt: skip
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._get_lr_called_within_step = True
        try:
            closed_form: Callable[[], Rates] | None = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if epoch is None or closed_form is None else closed_form()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(rates)

    def _set_rates(self, rates: Iterable[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr: Rates = current(self.optimizer)

    def _check_called_by_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=3)

    def _scaled(self, factor: float) -> Rates:
        """The rates of now times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


def state_of_function(function: Any) -> dict[str, Any] | None:
    """What of a schedule's function can be saved: the attributes of a callable object, nothing of a plain function."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()
