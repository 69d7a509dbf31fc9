"""Plans of calls: what runs, what the tape needs, and how results are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.interp.eager import Result, RunPlan, plan_function, unbound_plan
from flambeau.interp.folding import Folding
from flambeau.interp.functions import Derivative, GraphFunction
from flambeau.runtime.storage import TensorMeta

__all__ = ["CONSTANT", "CallPlan", "ConstantDerivative", "make_plan"]


class ConstantDerivative:
    """Stands for the derivative of an operator whose results do not change with its operands."""

    saved: tuple[Any, ...] = ()


CONSTANT = ConstantDerivative()


@dataclass(slots=True, eq=False)
class CallPlan:
    """A run plan with what wrapping and the tape need. ``foldings`` and ``sizes`` serve the backward plans too."""

    run: RunPlan
    structure: Any
    count: int
    sizes: dict[str, int]
    foldings: list[Folding | None]
    derivative: Derivative | ConstantDerivative | None
    wanted: tuple[bool, ...]
    metas: tuple[TensorMeta, ...]
    results: list[Result]
    backward: dict[Any, CallPlan]
    # Of which kind the operator is: ``view``, ``reshape`` or any other.
    kind: str = "general"
    # Which results take part in autograd.
    recorded: tuple[int, ...] = ()
    # Where its native form is: -1 not made yet, 0 there is none.
    address: int = -1
    native_form: Any = None
    # What native code reads to record its calls, and to go backward through them.
    recording: Any = None


def make_plan(
    function: GraphFunction, structure: Any, metas: tuple[TensorMeta, ...], sizes: dict[str, int], foldings: list[Folding | None],
    results: list[Result], wanted: tuple[bool, ...], into: tuple[int | None, ...] = (), views: str = "never",
    recorded: Sequence[bool] | None = None, bound: bool = True,
) -> CallPlan:  # fmt: skip
    """Plan a function; when gradients are wanted, its forward part that also gives the values to save.

    Gradients are wanted of the outputs marked in ``recorded``; of all with fractions when it is not given. What is not ``bound`` has
    no program: it is run in its batched form.
    """
    count = len(function.graph.outputs)
    derivative: Derivative | ConstantDerivative | None = None
    present = tuple(o.dtype.is_inexact for o in function.graph.outputs)
    if recorded is not None:
        present = tuple(a and b for a, b in zip(present, recorded, strict=True))
    tracked = tuple(k for k, here in enumerate(present) if here)
    if any(wanted):
        derivative = function.derivative(wanted, present, sizes, overwritten=frozenset(k for k in into if k is not None))
        if derivative is None and structure is not None and any(present):
            derivative = CONSTANT
            tracked = tuple(k for k, o in enumerate(function.graph.outputs) if o.dtype.is_inexact)
    if isinstance(derivative, Derivative) and derivative.split.extra:
        function = derivative.forward
        results = [*results, *[(None, None)] * len(derivative.split.extra)]
        into = (*(into or (None,) * count), *(None,) * len(derivative.split.extra))
    if bound:
        run = plan_function(function, metas, sizes, foldings, results, into, views)
    else:
        run = unbound_plan(function, metas, sizes, results, into)
    return CallPlan(run, structure, count, sizes, foldings, derivative, wanted, metas, results, {}, recorded=tracked)

