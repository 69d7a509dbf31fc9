"""Optimizer steps and clipping against numpy loops over the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, operators_of, trace

OPERATORS = {o.name: o for o in operators_of("optimizer_steps")}
Arrays = list[Any]


def _descent(grads: Arrays, params: Arrays, weight_decay: float, maximize: bool) -> Arrays:
    return [(-g if maximize else g) + weight_decay * x for g, x in zip(grads, params, strict=True)]


def _sgd(
    params: Arrays, grads: Arrays, buffers: Arrays | None, lr: float, weight_decay: float = 0, momentum: float = 0, dampening: float = 0,
    nesterov: bool = False, maximize: bool = False, first: bool = False,
) -> Any:  # fmt: skip
    steps = _descent(grads, params, weight_decay, maximize)
    if buffers is None:
        return [x - lr * d for x, d in zip(params, steps, strict=True)]
    new = [d if first else momentum * b + (1 - dampening) * d for b, d in zip(buffers, steps, strict=True)]
    steps = [d + momentum * b for d, b in zip(steps, new, strict=True)] if nesterov else new
    return [x - lr * d for x, d in zip(params, steps, strict=True)], new


def _adam(
    params: Arrays, grads: Arrays, means: Arrays, squares: Arrays, largest: Arrays | None, step: Any, lr: float, beta1: float, beta2: float,
    eps: float, weight_decay: float = 0, decoupled: bool = False, amsgrad: bool = False, maximize: bool = False,
) -> Any:  # fmt: skip
    t = float(step) + 1
    steps = _descent(grads, params, 0 if decoupled else weight_decay, maximize)
    shrunk = [x * (1 - lr * weight_decay) for x in params] if decoupled else params
    means = [beta1 * m + (1 - beta1) * d for m, d in zip(means, steps, strict=True)]
    squares = [beta2 * v + (1 - beta2) * d * d for v, d in zip(squares, steps, strict=True)]
    largest = [np.maximum(a, b) for a, b in zip(largest, squares, strict=True)] if largest else None
    new = []
    for x, m, v in zip(shrunk, means, largest or squares, strict=True):
        corrected, spread = m / (1 - beta1**t), v / (1 - beta2**t)
        new.append(x - lr * corrected / (np.sqrt(spread) + eps))
    return [np.asarray(t, np.float32), new, means, squares, largest or []]


def _rmsprop(
    params: Arrays, grads: Arrays, squares: Arrays, centers: Arrays | None, buffers: Arrays | None, lr: float, alpha: float, eps: float,
    weight_decay: float = 0, momentum: float = 0, maximize: bool = False,
) -> Any:  # fmt: skip
    steps = _descent(grads, params, weight_decay, maximize)
    squares = [alpha * v + (1 - alpha) * d * d for v, d in zip(squares, steps, strict=True)]
    centers = [alpha * c + (1 - alpha) * d for c, d in zip(centers, steps, strict=True)] if centers else []
    spreads = [v - c * c for v, c in zip(squares, centers, strict=True)] if centers else squares
    changes = [d / (np.sqrt(v) + eps) for d, v in zip(steps, spreads, strict=True)]
    buffers = [momentum * b + c for b, c in zip(buffers, changes, strict=True)] if buffers else []
    return [[x - lr * c for x, c in zip(params, buffers or changes, strict=True)], squares, centers, buffers]


def _adagrad(
    params: Arrays, grads: Arrays, sums: Arrays, step: Any, lr: float, lr_decay: float = 0, weight_decay: float = 0, eps: float = 1e-10,
    maximize: bool = False,
) -> Any:  # fmt: skip
    steps = _descent(grads, params, weight_decay, maximize)
    rate = lr / (1 + float(step) * lr_decay)
    sums = [s + d * d for s, d in zip(sums, steps, strict=True)]
    new = [x - rate * d / (np.sqrt(s) + eps) for x, d, s in zip(params, steps, sums, strict=True)]
    return [np.asarray(step + 1, np.float32), new, sums]


def _clipped(grads: Arrays, max_norm: float, norm_type: float = 2.0) -> Any:
    everything = np.concatenate([g.reshape(-1) for g in grads])
    total = np.linalg.norm(everything, norm_type)
    return [g * min(1.0, max_norm / (total + 1e-6)) for g in grads], total


ORACLES: dict[str, Callable[..., Any]] = {
    "sgd_step": _sgd, "adam_step": _adam, "rmsprop_step": _rmsprop, "adagrad_step": _adagrad, "clip_grad_norm_": _clipped,
}  # fmt: skip


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


def test_results_follow_the_mutated_lists() -> None:
    """The first results stand in the order of ``mutates``; a list that was not given has None in its place."""
    for name, operator in OPERATORS.items():
        assert operator.samples is not None
        for call in operator.samples(ops.samples.SampleMaker(0)):
            given = dict(zip(operator.names, operator.bind(*call), strict=True))
            results = trace(operator, call).structure
            for parameter, result in zip(operator.mutates, results, strict=False):
                value = given[parameter]
                if isinstance(value, list):
                    assert [r.rank for r in result] == [np.ndim(v) for v in value], (name, parameter)
                else:
                    assert (result is None) == (value is None), (name, parameter)


def test_stored_types_stay() -> None:
    f32, bf16 = dtypes.float32, dtypes.bfloat16
    param, grad, mean = (graph_input(n, Aval((4,), k)) for n, k in (("p", bf16), ("g", bf16), ("m", f32)))
    step = graph_input("step", Aval((), f32))
    new_step, params, means, squares, largest = ops.adam_step([param], [grad], [mean], [mean], None, step, 1e-3, 0.9, 0.999, 1e-8)
    assert (new_step.dtype, params[0].dtype, means[0].dtype, squares[0].dtype, largest) == (f32, bf16, f32, f32, None)


def test_bias_corrections_are_computed_in_float64() -> None:
    """In float32, 1 - 0.999 ** 1 would be off by more than 1e-5 of itself."""
    start = np.zeros(3, np.float32)
    call = (([start], [np.ones(3, np.float32)], [start], [start], None, np.asarray(0, np.float32), 1.0, 0.9, 0.999, 0.0), {})
    results = trace(ALL["adam_step"], call).run()
    np.testing.assert_allclose(results[1], -1.0, rtol=3e-7)


def test_lists_of_different_lengths() -> None:
    one = [graph_input("a", Aval((2,), dtypes.float32))]
    with pytest.raises(RuntimeError, match="sgd_step: got 1 parameters and a list of 2"):
        ops.sgd_step(one, one * 2, None, 0.1)
