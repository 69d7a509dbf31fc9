"""Every operator inside a compiled function gives what it gives eagerly, and its gradients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as functional
from flambeau.capture.compiled import CompiledFunction
from flambeau.core import dtypes
from flambeau.ops.declare import ALL
from flambeau.runtime.generator import default_generator
from tests.ops.operator_cases import samples_of
from tests.ops.pipeline_cases import Differentiated, Run, convert, describe, leaves, map_arrays
from tests.ops.test_pipeline_gradient import CONSTANT, DIFFERENTIABLE


def _run(run: Run, function: Callable[..., Any] | None = None) -> list[Any]:
    """Results and then the operands, which may have been written to, after a call with a fixed random stream."""
    default_generator.manual_seed(5)
    found = [t.array().copy() for t in leaves((function or run.operator)(*run.tensors[0], **run.tensors[1]))]
    run.check_guards()
    return found + [g.view.copy() for g in run.guards]


# Here reductions run over axes that merge for known sizes only: the same numbers are added in another order.
OTHER_ORDER = {"adaptive_avg_pool2d", "instance_norm"}


def _same_bits(found: list[Any], wanted: list[Any], what: str, exact: bool) -> None:
    assert len(found) == len(wanted), what
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, what
        if not exact:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=what)
            continue
        np.testing.assert_array_equal(*(np.ascontiguousarray(v).view(np.uint8) for v in (a, b)), err_msg=what)


@pytest.mark.parametrize("name", sorted(ALL))
def test_compiled(name: str) -> None:
    """The first call, which traces, and the second, which replays on other numbers."""
    operator = ALL[name]
    for number in range(min(2, len(samples_of(operator)))):
        function = CompiledFunction(lambda *args, **kwargs: operator(*args, **kwargs), fullgraph=True)
        for seed in (0, 1):
            call = map_arrays(operator, samples_of(operator, seed)[number], lambda _, array: convert(array, dtypes.float32))
            wanted = _run(Run(operator, call))
            _same_bits(_run(Run(operator, call), function), wanted, f"{name}{describe(call)}, call {seed}", name not in OTHER_ORDER)
        assert function.tree.captures == 1, function.history


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_compiled_gradient(name: str) -> None:
    operator = ALL[name]
    call = samples_of(operator)[0]
    case = Differentiated(operator, call, constant=CONSTANT.get(name, ()))
    if not case.leaves:
        return
    wanted = case.gradients()
    function = CompiledFunction(lambda *args, **kwargs: operator(*args, **kwargs), fullgraph=True)
    for _ in range(2):
        for a, b in zip(case.gradients(function), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)


# -- programs -------------------------------------------------------------------------------------------
def _add_in_place(x: Any, y: Any) -> Any:
    z = x * 2
    z.add_(y).mul_(x)
    return z


def _view_then_in_place(x: Any, y: Any) -> Any:
    z = x * y
    row = z[1]
    row.mul_(3)
    z[:, 2:].sub_(1)
    return z, row


def _in_place_then_view(x: Any, y: Any) -> Any:
    z = x.clone()
    before = z.t()
    z.exp_()
    return before, z.reshape(-1)


def _transposed_write(x: Any, y: Any) -> Any:
    z = x.clone()
    z.t()[1:3].copy_(y.t()[:2])
    z.diagonal().add_(1)
    return z


def _split_in_place(x: Any, y: Any) -> Any:
    z = x + y
    first, second = z.split(2)
    first.mul_(second)
    return z, second * first


def _detached(x: Any, y: Any) -> Any:
    z = x * y
    return z, z.detach() * 2, (z.detach() * x).sum()


def _without_grad(x: Any, y: Any) -> Any:
    with torch.no_grad():
        scale = (x * x).mean()
        copied = x * 1
    return x * scale + y, scale, copied


def _returned_views(x: Any, y: Any) -> Any:
    return x.t(), y[1:], x.view(-1)[::2]


def _returned_inputs(x: Any, y: Any) -> Any:
    return y, x, x + y, x


def _behind_the_tape(x: Any, y: Any) -> Any:
    held = x * 1
    held.data.mul_(3)
    return held * y


def _chain_of_views(x: Any, y: Any) -> Any:
    z = (x + 0).view(2, -1).t()[1:]
    z.unsqueeze(0).mul_(2)
    return z.expand(3, *z.shape).sum(0), z


def _overlapping_views(x: Any, y: Any) -> Any:
    z = x * y
    z.mul_(2)
    wide = z[0].expand(3, 4)
    return wide, z.unfold(1, 3, 1), wide.sum(0)


def _reduces(x: Any, y: Any) -> Any:
    z = torch.softmax(x, 1) @ y.t()
    return (z - z.mean(1, keepdim=True)).var(1), functional.layer_norm(z, (4,))


def _nothing_to_differentiate(x: Any, y: Any) -> Any:
    return x.argmax(1), (x > y), torch.zeros(3), y.detach().sum()


def _self_assignment(x: Any, y: Any) -> Any:
    z = x.clone()
    z[1:] = z[:-1]
    z[0, 0] = 7
    z[z > 1] = 0.5
    return z


def _inner_gradient(x: Any, y: Any) -> Any:
    z = (x * x * y).sum()
    (g,) = torch.autograd.grad(z, x, create_graph=True)
    return g.pow(2).sum(), g


def _overwritten_operand(x: Any, y: Any) -> Any:
    old = x * 2
    x.mul_(y.detach()).add_(y)
    return x.sum() + old


def _replaced_operand(x: Any, y: Any) -> Any:
    x.copy_(torch.ones(4, 4))
    y[1:].zero_()
    return x * 2, y * 3


def _parts_of_operand(x: Any, y: Any) -> Any:
    row = x[1]
    row.mul_(2)
    return row * y[0], x


def _batch_norm(x: Any, y: Any) -> Any:
    mean, variance = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    return functional.batch_norm(x, mean, variance, y[0], y[1], training=True), mean, variance


def _step_by_hand(x: Any, y: Any) -> Any:
    w = x.detach().clone().requires_grad_()
    loss = (w * y.detach()).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return w.detach(), loss.detach()


def _inner_backward(x: Any, y: Any) -> Any:
    w = (x.detach() * 2).requires_grad_()
    same = w.clone()
    with torch.no_grad():
        constant = w * 3
    (w * same * constant * w.detach() + y.detach() * w.detach()).sum().backward()
    return w.grad, w.detach()


PROGRAMS = [
    _overlapping_views,
    _add_in_place,
    _view_then_in_place,
    _in_place_then_view,
    _transposed_write,
    _split_in_place,
    _detached,
    _without_grad,
    _returned_views,
    _returned_inputs,
    _behind_the_tape,
    _chain_of_views,
    _reduces,
    _nothing_to_differentiate,
    _self_assignment,
    _inner_gradient,
    _batch_norm,
    _step_by_hand,
    _inner_backward,
]
# These write to their operands, which must not be leaves then.
WRITERS = [_overwritten_operand, _replaced_operand, _parts_of_operand]  # fmt: skip


class Outcome:
    """Everything that can be seen of a program's call: results, what of them can be differentiated, operands and gradients."""

    def __init__(self, program: Callable[..., Any], seed: int, mode: str) -> None:
        random = np.random.default_rng(seed)
        arrays = [random.uniform(-1.5, 1.5, (4, 4)) for _ in range(2)]
        operands = [torch.tensor(a, requires_grad=mode != "plain") for a in arrays]
        given = [o * 1 for o in operands] if "inner" in mode else list(operands)
        if "same" in mode:
            given[1] = given[0]
        self.results = list(leaves(program(*given)))
        self.values = [r.detach().numpy().copy() for r in self.results]
        self.strides = [r.stride() for r in self.results]
        self.flags = [r.requires_grad for r in self.results]
        self.shared = [(i, j) for i, a in enumerate(self.results) for j, b in enumerate(self.results) if i < j and a.memory is b.memory]
        self.from_operands = [any(r.memory is g.memory for g in given) for r in self.results]
        loss = sum((r * (i + 1)).sum() for i, r in enumerate(self.results) if r.requires_grad)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        self.operands = [g.detach().numpy().copy() for g in given]
        self.gradients = [None if o.grad is None else o.grad.numpy().copy() for o in operands]

    def check(self, wanted: Outcome) -> None:
        for name in ("strides", "flags", "shared", "from_operands"):
            assert getattr(self, name) == getattr(wanted, name), name
        for name in ("values", "operands", "gradients"):
            for a, b in zip(getattr(self, name), getattr(wanted, name), strict=True):
                # A gradient that is missing is as good as zeros.
                a, b = (np.zeros((4, 4)) if v is None else v for v in (a, b))
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)


CASES = [(p, m) for p in PROGRAMS for m in ("plain", "leaves", "inner", "same") if p is not _inner_gradient or m != "plain"]
CASES += [(p, m) for p in WRITERS for m in ("plain", "inner")]


@pytest.mark.parametrize(("program", "mode"), CASES, ids=[f"{p.__name__[1:]}-{m}" for p, m in CASES])
def test_program(program: Callable[..., Any], mode: str) -> None:
    function = CompiledFunction(program, fullgraph=True)
    for seed in (1, 2, 3):
        Outcome(function, seed, mode).check(Outcome(program, seed, mode))
    assert function.tree.captures == 1, function.history
