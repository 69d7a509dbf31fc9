"""Normalization against numpy, and its derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.ir.graph import graph_input
from tests.ops.operator_cases import check_against, check_gradient, operators_of

OPERATORS = {o.name: o for o in operators_of("norm")}


def _standard(x: Any, axes: Any, eps: float) -> Any:
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def _channels(v: Any, x: Any, default: float) -> Any:
    return default if v is None else np.reshape(v, (1, -1, *(1,) * (x.ndim - 2)))


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    out = _standard(x, tuple(range(-len(shape), 0)), eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float = 0.0) -> Any:
    square = (x * x).mean(axis=tuple(range(-len(shape), 0)), keepdims=True)
    return x / np.sqrt(square + eps) * (1 if weight is None else weight)


def _group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    out = _standard(x.reshape(x.shape[0], groups, -1), (2,), eps).reshape(x.shape)
    return out * _channels(weight, x, 1) + _channels(bias, x, 0)


def _moved(running: Any, seen: Any, momentum: float) -> list[Any]:
    return [] if running is None else [(1 - momentum) * running + momentum * seen]


def _by_channel(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    out = (x - _channels(mean, x, 0)) / np.sqrt(_channels(var, x, 1) + eps)
    return out * _channels(weight, x, 1) + _channels(bias, x, 0)


def _channel_norm(x: Any, weight: Any, bias: Any, axes: Any, eps: float) -> Any:
    return _standard(x, axes, eps) * _channels(weight, x, 1) + _channels(bias, x, 0)


def _batch_norm(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5
) -> list[Any]:
    axes = (0, *range(2, x.ndim))
    if not training:
        return [mean, var, _by_channel(x, mean, var, weight, bias, eps)]
    seen, spread = x.mean(axis=axes), x.var(axis=axes)
    moved = _moved(mean, seen, momentum) + _moved(var, x.var(axis=axes, ddof=1), momentum)
    return [*moved, _by_channel(x, seen, spread, weight, bias, eps)]


def _instance_norm(
    x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> list[Any]:  # fmt: skip
    axes = tuple(range(2, x.ndim))
    if not use_input_stats:
        return [mean, var, _by_channel(x, mean, var, weight, bias, eps)]
    moved = _moved(mean, x.mean(axis=axes).mean(0), momentum) + _moved(var, x.var(axis=axes, ddof=1).mean(0), momentum)
    return [*moved, _standard(x, axes, eps) * _channels(weight, x, 1) + _channels(bias, x, 0)]


def _length(x: Any, p: float, dim: Any) -> Any:
    return (np.abs(x) ** p).sum(axis=dim, keepdims=True) ** (1 / p)


def _cosine(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    return (a * b / (_length(a, 2, dim) * _length(b, 2, dim))).sum(axis=dim)


ORACLES: dict[str, Callable[..., Any]] = {
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "group_norm": _group_norm, "channel_norm": _channel_norm, "batch_norm": _batch_norm,
    "instance_norm": _instance_norm, "cosine_similarity": _cosine,
    "normalize": lambda x, p=2.0, dim=1, eps=1e-12: x / np.maximum(_length(x, p, dim), eps),
    "pairwise_distance": lambda a, b, p=2.0, eps=1e-6, keepdim=False: _length(a - b + eps, p, -1)[..., slice(None) if keepdim else 0],
}  # fmt: skip


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm"])
def test_value_in_bfloat16(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name], dtypes.bfloat16, seed=2)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_gradient(name: str) -> None:
    assert check_gradient(OPERATORS[name]) > 0


def _input(label: str, kind: dtype, *shape: int) -> Any:
    return graph_input(label, Aval(shape, kind))


def _one_row() -> Any:
    return _input("one", dtypes.float32, 1, 3)


def test_types_follow_the_input() -> None:
    bf16, f32 = dtypes.bfloat16, dtypes.float32
    x, weight = _input("h", bf16, 4, 6), _input("w", f32, 6)
    assert ops.layer_norm(x, (6,), weight).dtype is bf16
    mean, var, out = ops.batch_norm(x, weight, weight, None, None, True)
    assert (mean.dtype, var.dtype, out.dtype) == (f32, f32, bf16)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.layer_norm(x, (4,)), RuntimeError, r"layer_norm: given normalized_shape=\[4\]"),
        (lambda x: ops.rms_norm(x, ()), RuntimeError, "rms_norm: given normalized_shape"),
        (lambda x: ops.group_norm(x, 2), RuntimeError, "group_norm: expected number of channels .* 3 and 2"),
        (lambda x: ops.batch_norm(x, None, None), RuntimeError, "batch_norm: expected running_mean"),
        (lambda x: ops.batch_norm(_one_row(), None, None, training=True), ValueError, "batch_norm: expected more than 1"),
        (lambda x: ops.cosine_similarity(x, x, 2), IndexError, "cosine_similarity: Dimension out of range"),
    ],
)
def test_errors_name_the_operator(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(_input("x", dtypes.float32, 2, 3))
