"""Scaling of a loss, so that gradients in float16 neither vanish nor overflow; Micikevicius et al., Mixed precision training (2018)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.runtime.cuda import driver
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full
from flambeau.tensor.functions_foreach import _foreach_mul_
from flambeau.tensor.grad_mode import no_grad

__all__ = ["GradScaler"]

_READY, _UNSCALED, _STEPPED = range(3)


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it before a step, leaves out steps with infinite or NaN gradients, and adjusts it.

    After ``growth_interval`` good steps in a row the scale grows by ``growth_factor``; a bad one makes it smaller by
    ``backoff_factor``. Not ``enabled``, it does nothing.

    >>> import flambeau as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([w], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not driver.is_present():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled and not growth_factor > 1.0:
            raise AssertionError(f"The growth factor must be > 1.0, got {growth_factor}")
        if self._enabled and not backoff_factor < 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale: Any = None
        self._growth_tracker = 0
        # By the id of each optimizer how far it is in this step, and the sum of flags whether gradients were bad.
        self._states: dict[int, tuple[int, Any]] = {}

    def _current(self, device: Any = None) -> Any:
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device or self._device)
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._current(outputs.device).to(device=outputs.device)
        if isinstance(outputs, Iterable):
            return type(outputs)(self.scale(o) for o in outputs)  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _state(self, optimizer: Any) -> tuple[int, Any]:
        return self._states.get(id(optimizer), (_READY, None))

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale: before they are clipped, say. Once for each step."""
        if not self._enabled:
            return
        stage, _ = self._state(optimizer)
        if stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._states[id(optimizer)] = _UNSCALED, self._unscale(optimizer)

    def _unscale(self, optimizer: Any) -> Any:
        """Divide, and return whether something was not finite, as a number; None without gradients."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is dtypes.float16 for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        if not gradients:
            return None
        with no_grad():
            bad = ops.stack([ops.logical_not(ops.all(ops.isfinite(g))) for g in gradients]).any()
            _foreach_mul_(gradients, self._current(gradients[0].device).double().reciprocal().float())
            return bad.to(dtypes.float32)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale gradients unless that is done, and do ``optimizer.step`` if they are finite; returns what it returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage, _ = self._state(optimizer)
        if stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == _READY:
            self.unscale_(optimizer)
        bad = self._state(optimizer)[1]
        if bad is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if bad.item() else optimizer.step(*args, **kwargs)
        self._states[id(optimizer)] = _STEPPED, bad
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adjust the scale by what the steps since the last update have met, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._current().fill_(new_scale)
        else:
            found = [bad for _, bad in self._states.values() if bad is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adjust(any(bad.item() for bad in found))
        self._states.clear()

    def _adjust(self, bad: bool) -> None:
        self._growth_tracker = 0 if bad else self._growth_tracker + 1
        if bad:
            self._current().mul_(self._backoff_factor)
        elif self._growth_tracker == self._growth_interval:
            self._growth_tracker = 0
            grown = self.get_scale() * self._growth_factor
            if grown <= 3.4028234663852886e38:  # where the scale itself would overflow it stays
                self._current().mul_(self._growth_factor)

    def get_scale(self) -> float:
        """The scale as a number; 1 when not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What a bad step multiplies the scale by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what a bad step multiplies the scale by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings and the count of good steps; empty when not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; RuntimeError for an empty one, which a scaler that was not enabled gives."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
