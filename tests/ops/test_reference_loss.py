"""Losses against numpy, and their derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from tests.ops.operator_cases import check_against, check_gradient, operators_of, trace

OPERATORS = {o.name: o for o in operators_of("loss")}


def _combined(values: Any, reduction: str = "mean", count: float | None = None) -> Any:
    values = np.asarray(values)
    if reduction == "none":
        return values
    return values.sum() if reduction == "sum" else values.sum() / (values.size if count is None else count)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, target: Any, reduction: str = "mean", weight: Any = None, **kwargs: Any) -> Any:
        values = function(x, target, **kwargs)
        return _combined(values if weight is None else values * weight, reduction, None if weight is None else weight.sum())

    return oracle


def _log_softmax(rows: Any) -> Any:
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def _rows(x: Any) -> Any:
    return x[None] if x.ndim == 1 else np.moveaxis(x, 1, -1)


def _nll_rows(rows: Any, target: Any, weight: Any, ignore_index: int, smoothing: float = 0.0) -> tuple[Any, Any]:
    """One loss and one weight for each row, by a loop over rows."""
    weight = np.ones(rows.shape[-1]) if weight is None else weight
    losses, counts = np.zeros(rows.shape[:-1]), np.zeros(rows.shape[:-1])
    for place in np.ndindex(rows.shape[:-1]):
        label = np.reshape(target, rows.shape[:-1])[place]
        if label == ignore_index:
            continue
        counts[place] = weight[label]
        even = -(rows[place] * weight).sum() / rows.shape[-1]
        losses[place] = (1 - smoothing) * -rows[place][label] * weight[label] + smoothing * even
    return losses, counts


def _over_classes(x: Any, losses: Any, reduction: str, counts: Any) -> Any:
    out = _combined(losses, reduction, counts.sum())
    return out.reshape(()) if x.ndim == 1 else out


def _nll_loss(x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    losses, counts = _nll_rows(_rows(x), target, weight, ignore_index)
    return _over_classes(x, losses, reduction, counts)


def _cross_entropy(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:
    rows = _log_softmax(_rows(x))
    if target.dtype.kind == "i":
        losses, counts = _nll_rows(rows, target, weight, ignore_index, label_smoothing)
    else:
        wanted = _rows(target) * (1 - label_smoothing) + label_smoothing / rows.shape[-1]
        losses = -(rows * wanted * (1 if weight is None else weight)).sum(-1)
        counts = np.ones(losses.shape)
    return _over_classes(x, losses, reduction, counts)


def _smooth_l1(x: Any, target: Any, beta: float = 1.0) -> Any:
    distance = np.abs(x - target)
    return distance if beta == 0 else np.where(distance < beta, distance**2 / (2 * beta), distance - beta / 2)


def _huber(x: Any, target: Any, delta: float = 1.0) -> Any:
    distance = np.abs(x - target)
    return np.where(distance <= delta, distance**2 / 2, delta * (distance - delta / 2))


def _huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = 1.0) -> Any:
    return _combined(_huber(x, target, delta) * weight, reduction)


def _binary(x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = 1.0) -> Any:
    values = -(pos_weight * target * np.log(x) + (1 - target) * np.log(1 - x))
    return _combined(values * (1 if weight is None else weight), reduction)


def _binary_logits(x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = 1.0) -> Any:
    return _binary(1 / (1 + np.exp(-x)), target, weight, reduction, pos_weight)


def _kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    values = np.exp(target) * (target - x) if log_target else target * (np.log(target) - x)
    return values.sum() / len(x) if reduction == "batchmean" else _combined(values, reduction)


def _gaussian(x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    var = np.maximum(var[:, None] if var.ndim < x.ndim else var, eps)
    values = 0.5 * (np.log(var) + (x - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0)
    return _combined(values, reduction)


def _poisson(x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> Any:
    values = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    many = np.maximum(target, 1.0)
    stirling = np.where(target > 1, many * np.log(many) - many + 0.5 * np.log(2 * math.pi * many), 0)
    return _combined(values + (stirling if full else 0), reduction)


def _cosine_embedding(a: Any, b: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    cosine = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return _combined(np.where(target == 1, 1 - cosine, np.maximum(0, cosine - margin)), reduction)


def _triplet(
    a: Any, b: Any, c: Any, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
) -> Any:
    def distance(x: Any, y: Any) -> Any:
        return (np.abs(x - y + eps) ** p).sum(-1) ** (1 / p)

    far = np.minimum(distance(a, c), distance(b, c)) if swap else distance(a, c)
    return _combined(np.maximum(0, distance(a, b) - far + margin), reduction)


def _multi_margin(x: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean") -> Any:
    rows = np.atleast_2d(x)
    out = []
    for row, label in zip(rows, np.atleast_1d(target), strict=True):
        gaps = [max(0.0, margin - row[label] + v) ** p for i, v in enumerate(row) if i != label]
        out.append(sum(gaps) / len(row) * (1 if weight is None else weight[label]))
    result = _combined(np.array(out), reduction)
    return result.reshape(()) if x.ndim == 1 else result


def _multilabel(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    return _combined(_binary_logits(x, target, weight, "none").mean(-1), reduction)


def _multilabel_margin(x: Any, target: Any, reduction: str = "mean") -> Any:
    losses = []
    for row, labels in zip(np.atleast_2d(x), np.atleast_2d(target), strict=True):
        true = [int(t) for i, t in enumerate(labels) if (labels[: i + 1] >= 0).all()]
        other = [c for c in range(len(row)) if c not in true]
        losses.append(sum(max(0, 1 - row[t] + row[c]) for t in true for c in other) / len(row))
    return _combined(losses if x.ndim == 2 else losses[0], reduction)


def _ctc_step(paths: Any, emitted: Any, skips: Any, live: Any) -> Any:
    chances = np.exp(paths)
    moved = [np.pad(chances, ((0, 0), (k, 0)))[:, : paths.shape[1]] for k in (1, 2)]
    return np.where(live, np.log(chances + moved[0] + np.where(skips, moved[1], 0)) + emitted, paths)


ORACLES: dict[str, Callable[..., Any]] = {
    "nll_loss": _nll_loss, "cross_entropy": _cross_entropy,
    "mse_loss": _elementwise(lambda x, t: (x - t) ** 2), "l1_loss": _elementwise(lambda x, t: np.abs(x - t)),
    "smooth_l1_loss": _elementwise(_smooth_l1), "huber_loss": _huber_loss,
    "binary_cross_entropy": _binary, "binary_cross_entropy_with_logits": _binary_logits, "kl_div": _kl_div,
    "gaussian_nll_loss": _gaussian, "poisson_nll_loss": _poisson,
    "soft_margin_loss": _elementwise(lambda x, t: np.log1p(np.exp(-t * x))),
    "hinge_embedding_loss": _elementwise(lambda x, t, margin=1.0: np.where(t == 1, x, np.maximum(0, margin - x))),
    "margin_ranking_loss": lambda a, b, t, margin=0.0, reduction="mean": _combined(np.maximum(0, -t * (a - b) + margin), reduction),
    "cosine_embedding_loss": _cosine_embedding, "triplet_margin_loss": _triplet, "multi_margin_loss": _multi_margin,
    "multilabel_soft_margin_loss": _multilabel, "multilabel_margin_loss": _multilabel_margin, "ctc_step": _ctc_step,
}  # fmt: skip


# Weights that torch does not differentiate by either.
WITHOUT_DERIVATIVE = dict.fromkeys(("nll_loss", "cross_entropy", "binary_cross_entropy"), ("weight",))


def test_every_operator_has_an_oracle() -> None:
    assert set(ORACLES) == set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_value(name: str) -> None:
    check_against(OPERATORS[name], ORACLES[name])
    check_against(OPERATORS[name], ORACLES[name], dtypes.float32, seed=1)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_gradient(name: str) -> None:
    assert check_gradient(OPERATORS[name], constant=WITHOUT_DERIVATIVE.get(name, ())) > 0


def _input(label: str, kind: dtype, *shape: int) -> Any:
    return graph_input(label, Aval(shape, kind))


F32, F64, I64 = dtypes.float32, dtypes.float64, dtypes.int64


# -- what cross entropy is made of ----------------------------------------------------------------------
def test_cross_entropy_reads_the_logits_in_one_row_kernel() -> None:
    x, target = _input("x", F32, 8, 50), _input("t", I64, 8)
    nodes = Graph((x, target), (ops.cross_entropy(x, target),)).nodes()
    assert [n.op for n in nodes if n.op.name == "take"] == [p.take]
    assert not [n for n in nodes if n.op.name in ("scatter", "matmul", "permute", "cat")]
    gradient = ops.cross_entropy.derivative((_input("g", F32),), (), (x, target, None, -100, "mean", 0.0))  # type: ignore[misc]
    assert gradient[0].shape == x.shape
    assert "scatter" not in {n.op.name for n in Graph((), (gradient[0],)).nodes()}


def test_a_bad_class_index_reaches_the_check_of_take() -> None:
    x, target = np.zeros((2, 3)), np.array([0, 3])
    with pytest.raises(IndexError):
        trace(OPERATORS["cross_entropy"], ((x, target), {})).run()


def test_rows_that_are_all_ignored() -> None:
    x, target = np.ones((2, 3)), np.array([-100, -100])
    with np.errstate(invalid="ignore"):
        (mean,) = trace(OPERATORS["cross_entropy"], ((x, target), {})).run()
    (total,) = trace(OPERATORS["cross_entropy"], ((x, target), {"reduction": "sum"})).run()
    assert np.isnan(mean) and total == 0


def test_certain_probabilities_keep_finite_losses_and_slopes() -> None:
    x, target, g = _input("p", F64, 4), _input("q", F64, 4), _input("g1", F64)
    out = ops.binary_cross_entropy(x, target, None, "sum")
    slope, _, _ = ops.binary_cross_entropy.derivative((g,), (out,), (x, target, None, "sum"))  # type: ignore[misc]
    arrays = [np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0]), np.ones(())]
    value, slopes = run_reference(Graph((x, target, g), (out, slope)), arrays)
    assert value == 200.0
    np.testing.assert_allclose(slopes, [-1e12, 1e12, 0, 0])


def test_small_variances_are_raised_but_keep_their_slope() -> None:
    (value,) = trace(OPERATORS["gaussian_nll_loss"], ((np.ones(1), np.ones(1), np.zeros(1)), {"eps": 1e-2})).run()
    np.testing.assert_allclose(value, 0.5 * math.log(1e-2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: ops.mse_loss(x, x, "max"), ValueError, "mse_loss: max is not a valid value for reduction"),
        (lambda x, i: ops.cross_entropy(x, _input("s", F32, 2)), RuntimeError, "cross_entropy: expected prob"),
        (lambda x, i: ops.cross_entropy(x, _input("i3", I64, 3)), ValueError, "cross_entropy: expected target of size"),
        (lambda x, i: ops.cross_entropy(x, i, _input("w2", F32, 2)), RuntimeError, "cross_entropy: weight tensor .* all 3 classes"),
        (lambda x, i: ops.cross_entropy(x, i, label_smoothing=1.5), RuntimeError, "cross_entropy: label_smoothing"),
        (lambda x, i: ops.nll_loss(x, _input("f", F32, 2)), RuntimeError, "nll_loss: expected class indices"),
        (lambda x, i: ops.binary_cross_entropy(x, _input("b", F32, 2)), ValueError, "binary_cross_entropy: target size"),
        (lambda x, i: ops.huber_loss(x, x, delta=0.0), RuntimeError, "huber_loss: .* delta"),
        (lambda x, i: ops.mse_loss(x, x, "mean", _input("w3", F32, 3)), ValueError, "mse_loss: weight and input must have the same size"),
        (lambda x, i: ops.smooth_l1_loss(x, x, beta=-1.0), RuntimeError, "smooth_l1_loss: .* beta"),
        (lambda x, i: ops.multi_margin_loss(x, i, 3), ValueError, "multi_margin_loss: only p == 1"),
    ],
)
def test_errors_name_the_operator(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(_input("x", F32, 2, 3), _input("i", I64, 2))
