"""Random pointwise programs: compiled they give the very bits that they give eagerly, and touch no memory but their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.pipeline_cases import LAYOUTS, Guarded

UNARY: list[Callable[[Any], Any]] = [
    torch.exp, torch.tanh, torch.sigmoid, torch.sin, torch.neg, torch.abs, torch.square, torch.relu, torch.erf, torch.floor, torch.sign,
    lambda x: torch.sqrt(x.abs()), lambda x: torch.log(x.abs() + 0.5), lambda x: torch.clamp(x, -0.7, 0.9), lambda x: x * 0.3 + 1,
    lambda x: x.double().cos().float(), lambda x: (x > 0).float() - x, lambda x: x.half().float(), lambda x: x.bfloat16() + x,
]  # fmt: skip
BINARY: list[Callable[[Any, Any], Any]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.atan2, lambda a, b: a / (b.abs() + 0.5),
    lambda a, b: torch.where(a > b, a, b * 2), lambda a, b: a.lerp(b, 0.25), lambda a, b: torch.hypot(a, b),
    lambda a, b: a - a.detach() * b,
]  # fmt: skip
SHAPES = [(7,), (33,), (4, 5), (3, 1, 6), (2, 3, 17), (1,), (), (0, 3), (130,)]


@dataclass(frozen=True)
class Plan:
    """A program: its operands' shapes and layouts, then steps (function, operands), each on earlier values."""

    operands: tuple[tuple[tuple[int, ...], str], ...]
    steps: tuple[tuple[int, int, int], ...]

    def __call__(self, *tensors: Any) -> Any:
        values = list(tensors)
        for function, a, b in self.steps:
            x, y = values[a % len(values)], values[b % len(values)]
            values.append(UNARY[function](x) if function < len(UNARY) else BINARY[function - len(UNARY)](x, y))
        return tuple(values[len(tensors) :][-3:])


def _smaller(shape: tuple[int, ...], which: int) -> tuple[int, ...]:
    """A shape that broadcasts to ``shape``."""
    if which == 0:
        return shape
    if which == 1:
        return shape[1:]
    return tuple(1 if i % 2 == which % 2 else n for i, n in enumerate(shape))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    shape = draw(st.sampled_from(SHAPES))
    operands = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(sorted(LAYOUTS))), min_size=1, max_size=3))
    step = st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 20), st.integers(0, 20))
    steps = draw(st.lists(step, min_size=1, max_size=9))
    return Plan(((shape, "contiguous"), *((_smaller(shape, w), layout) for w, layout in operands)), tuple(steps))


def _operands(plan: Plan, seed: int) -> list[Guarded]:
    random = np.random.default_rng(seed)
    return [LAYOUTS[layout](random.uniform(-2, 2, shape).astype(np.float32)) for shape, layout in plan.operands]


def _bits(tensors: Any) -> list[tuple[Any, bytes]]:
    return [(t.shape, t.detach().float().contiguous().array().tobytes()) for t in tensors]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(plans())
def test_compiled_bits(plan: Plan) -> None:
    compiled = torch.compile(plan.__call__, fullgraph=True)
    for seed in (1, 2):
        guards = _operands(plan, seed)
        tensors = [g.tensor for g in guards]
        wanted = _bits(plan(*tensors))
        assert _bits(compiled(*tensors)) == wanted
        target = Guarded(np.zeros(wanted[-1][0], np.float32))
        target.tensor.copy_(compiled(*tensors)[-1])
        for guard in (*guards, target):
            guard.check()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(plans())
def test_compiled_gradients(plan: Plan) -> None:
    """Gradients of all three results in one: the same sums, in the order that fusion chose."""
    compiled = torch.compile(plan.__call__, fullgraph=True)
    found = []
    for function in (plan, compiled, compiled):
        tensors = [g.tensor.requires_grad_() for g in _operands(plan, 5)]
        results = [r.double().sum() for r in function(*tensors) if r.requires_grad]
        if not results:
            return
        sum(results[1:], results[0]).backward()
        found.append([np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in tensors])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1.0, float(np.abs(a).max(initial=0.0))))
