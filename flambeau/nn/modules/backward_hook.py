"""Full backward hooks of Modules: two identity operations, round a call, at which gradients can be seen and replaced."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.tensor import Tensor
from flambeau.tensor.function import Function
from flambeau.tensor.grad_mode import is_grad_enabled

__all__ = ["BackwardHook"]


class _Boundary(Function):
    """The identity on several tensors at once, so that one tape entry holds all their gradients."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return gradients


def _through_boundary(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """The values with their tensors passed through a boundary, which of them are tensors, and its tape entry (None: no gradients)."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
    if not is_grad_enabled() or not any(values[place].requires_grad for place in places):
        return values, places, None
    passed = _Boundary.apply(*(values[place] for place in places))
    out = list(values)
    for place, tensor in zip(places, passed, strict=True):
        out[place] = tensor
    entry = next(tensor.grad_fn for tensor in passed if tensor.grad_fn is not None)
    return tuple(out), places, entry


class _Slots:
    """Gradients of the tensors among some values, spread to all values with None between."""

    def __init__(self, places: Sequence[int], count: int) -> None:
        self.places = places
        self.count = count

    def spread(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        out: list[Any] = [None] * self.count
        for place, gradient in zip(self.places, gradients, strict=True):
            out[place] = gradient
        return tuple(out)

    def gathered(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[place] for place in self.places)

    def checked(self, result: Any, what: str) -> tuple[Any, ...]:
        out = result if isinstance(result, tuple) else (result,)
        if len(out) != self.count:
            raise RuntimeError(f"{what} hook has returned {len(out)} gradients; needs None or {self.count}, one for each value.")
        return out


# As PyTorch words it, since programs filter it by its text.
NO_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require gradients. See "
    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more details."
)


class BackwardHook:
    """One call of a Module: it takes the arguments and the outputs through boundaries and runs the hooks between."""

    def __init__(self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.has_inputs = False
        self.count = 0

    def setup_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments to call forward with."""
        out, places, entry = _through_boundary(args)
        self.count = len(args)
        if entry is not None:
            self.has_inputs = True
            slots = _Slots(places, len(args))
            entry.register_hook(lambda grad_inputs, _: self._run(slots, grad_inputs))
        return out

    def setup_output(self, output: Any) -> Any:
        """What the call returns."""
        values = output if isinstance(output, tuple) else (output,)
        out, places, entry = _through_boundary(values)
        if entry is not None:
            slots = _Slots(places, len(values))
            entry.register_prehook(lambda gradients: self._before(slots, gradients))
        return out if isinstance(output, tuple) else out[0]

    def _before(self, slots: _Slots, gradients: Sequence[Any]) -> tuple[Any, ...]:
        grad_outputs = slots.spread(gradients)
        for hook in self.pre_hooks:
            result = hook(self.module, grad_outputs)
            if result is not None:
                grad_outputs = slots.checked(result, "Backward pre")
        self.grad_outputs = grad_outputs
        if not self.has_inputs:
            warnings.warn(NO_INPUTS, stacklevel=2)
            for hook in self.hooks:
                result = hook(self.module, (None,) * self.count, grad_outputs)
                if result is not None and not all(gradient is None for gradient in result):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None or None for "
                                       "all gradients.")  # fmt: skip
            self.grad_outputs = None
        return slots.gathered(grad_outputs)

    def _run(self, slots: _Slots, gradients: Sequence[Any]) -> tuple[Any, ...] | None:
        if self.grad_outputs is None:
            return None
        grad_inputs = slots.spread(gradients)
        for hook in self.hooks:
            result = hook(self.module, grad_inputs, self.grad_outputs)
            if result is not None:
                grad_inputs = slots.checked(result, "Backward")
        self.grad_outputs = None
        return slots.gathered(grad_inputs)
