"""Attention, embedding and dropout against numpy, and their derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.derivative.differentiate import gradients
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, check_random, operators_of


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False
) -> Any:
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (np.repeat(x, times, axis=-3) for x in (key, value))
    scores = query @ np.swapaxes(key, -1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(weights / weights.sum(-1, keepdims=True))
    return weights @ value


def _bag(
    x: Any, weight: Any, offsets: Any = None, mode: str = "mean", per_sample_weights: Any = None, padding_idx: int | None = None
) -> Any:
    ends = None if offsets is None else [*offsets[1:], len(x)]
    bags = list(x) if offsets is None else [x[a:b] for a, b in zip(offsets, ends, strict=True)]
    scales = np.ones(x.shape) if per_sample_weights is None else per_sample_weights
    factors = list(scales) if offsets is None else [scales[a:b] for a, b in zip(offsets, ends, strict=True)]
    out = []
    for bag, factor in zip(bags, factors, strict=True):
        counts = bag == bag if padding_idx is None else bag != padding_idx % len(weight)
        rows = weight[bag[counts]] * factor[counts][:, None]
        empty = np.zeros(weight.shape[1])
        out.append(empty if not len(rows) else {"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0))
    return np.stack(out)


ORACLES: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": _attention,
    "embedding": lambda x, weight, padding_idx=None: weight[x],
    "embedding_bag": _bag,
}


def _dropout(draws: list[Any], x: Any, p: float = 0.5, training: bool = True) -> Any:
    if not training or p == 0.0:
        return x
    return x * 0.0 if p == 1.0 else x * ((draws[0] < 1 - p) / (1 - p))


def _alpha(draws: list[Any], x: Any, p: float = 0.5, training: bool = False) -> Any:
    if not training or p == 1.0:
        return x * float(p < 1.0)
    scale = 1 / math.sqrt((1.7580993408473766**2 * p + 1) * (1 - p))
    return np.where(draws[0] < 1 - p, x, -1.7580993408473766) * scale + 1.7580993408473766 * scale * p


RANDOM: dict[str, Callable[..., Any]] = {"dropout": _dropout, "feature_dropout": _dropout, "alpha_dropout": _alpha}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "embedding_bag"])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


@pytest.mark.parametrize("name", RANDOM)
def test_dropout_keeps_what_was_drawn(name: str) -> None:
    check_random(ALL[name], RANDOM[name])


def test_every_operator_is_tested() -> None:
    declared = {o.name for module in ("attention", "embedding", "dropout") for o in operators_of(module)}
    assert declared == set(ORACLES) | set(RANDOM)


def test_padding_row_gets_no_gradient() -> None:
    index, weight = graph_input("i", Aval((3,), dtypes.int64)), graph_input("w", Aval((4, 2), dtypes.float64))
    out = ops.embedding(index, weight, 1)
    ones = graph_input("g", out.aval)
    (part,) = gradients([out], [ones], [weight])
    assert part is not None
    (result,) = run_reference(Graph((index, weight, ones), (part,)), [np.array([1, 2, 1]), np.zeros((4, 2)), np.ones((3, 2))])
    np.testing.assert_array_equal(result, [[0, 0], [0, 0], [1, 1], [0, 0]])


def _input(*shape: int) -> Any:
    return graph_input("x", Aval(shape, dtypes.float32))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.dropout(_input(3), 1.5), ValueError, "between 0 and 1, but got 1.5"),
        (lambda: ops.embedding(_input(3), _input(4, 2)), IndexError, "int32/int64"),
        (
            lambda: ops.scaled_dot_product_attention(_input(3, 4), _input(3, 4), _input(3, 4), _input(3, 3), is_causal=True),
            RuntimeError,
            "should not be set when is_causal",
        ),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
