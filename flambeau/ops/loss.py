"""Loss functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.activation import log_softmax, logsigmoid, softplus
from flambeau.ops.comparison import eq, lt
from flambeau.ops.declare import Value, broadcast_shapes, broadcast_to, default_float, op
from flambeau.ops.norm import pairwise_distance
from flambeau.ops.pointwise import abs, converted, log, logaddexp, matched, maximum, minimum, require_float, where
from flambeau.ops.reduce import mean, reduced, restored, size_number, sum

REDUCTIONS = ("none", "mean", "sum")


def _require_reduction(operator: str, reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    if reduction not in allowed:
        raise ValueError(f"{operator}: {reduction} is not a valid value for reduction; use one of {', '.join(allowed)}")


def _combined(operator: str, loss: Node, reduction: str, weight: Node | None = None) -> Node:
    """The losses as they are, their mean or their sum; a weight scales them, and the mean is then over the weights."""
    _require_reduction(operator, reduction)
    loss = loss if weight is None else loss * weight
    if reduction == "none":
        return loss
    if reduction == "sum":
        return sum(loss)
    return mean(loss) if weight is None else sum(loss) / sum(broadcast_to(weight, loss.shape))


def _loss(
    samples: s.Sampler, promoted: tuple[str, ...] = ("x", "target"), stepwise: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    return op("general", promote="arithmetic", promoted=promoted, samples=samples, stepwise=stepwise)


# -- classification by class index ----------------------------------------------------------------------
def _classes_last(x: Node) -> Node:
    """[C] as [1, C]; [N, C, d1, ...] as [N, d1, ..., C]."""
    if x.rank == 1:
        return p.reshape(x, shape=(1, *x.shape))
    return p.permute(x, axes=(0, *range(2, x.rank), 1)) if x.rank > 2 else x


def _classes_back(x: Node, rank: int) -> Node:
    """Undo ``_classes_last``."""
    if rank == 1:
        return p.reshape(x, shape=x.shape[1:])
    return p.permute(x, axes=(0, rank - 1, *range(1, rank - 1))) if rank > 2 else x


def _class_indices(operator: str, x: Node, target: Node) -> Node:
    """The target as int64 of the shape of x without its classes."""
    if not target.dtype.is_integer:
        raise RuntimeError(f"{operator}: expected class indices of dtype torch.int64, got {target.dtype}; convert with .long()")
    rows = (x.shape[0], *x.shape[2:]) if x.rank > 1 else ()
    if target.shape != rows:
        raise ValueError(f"{operator}: expected target of size {list(rows)} for input of size {list(x.shape)}, got {list(target.shape)}")
    target = p.reshape(target, shape=(1,)) if x.rank == 1 else target
    return converted(target, dtypes.int64)


def _weight_of_classes(operator: str, weight: Node | None, rows: Node) -> Node | None:
    """The class weights in the type of ``rows`` [*, C]; RuntimeError for any other shape."""
    if weight is None:
        return None
    classes = rows.shape[-1]
    if weight.shape != (classes,):
        raise RuntimeError(f"{operator}: weight tensor should be defined for all {classes} classes, got shape {list(weight.shape)}")
    return converted(weight, rows.dtype)


def _taken(rows: Node, index: Node) -> Node:
    """rows[..., index[...]]; an index out of range raises IndexError."""
    places = [p.iota(shape=index.shape, axis=a, dtype=dtypes.int64) for a in range(index.rank)]
    return p.take(rows, *places, index)


def _row_weights(index: Node, weight: Node | None, ignore_index: int, kind: Node) -> tuple[Node, Node]:
    """A class index that is good everywhere, and what each row counts: its class's weight, 0 where it is ignored."""
    counted = p.ne(index, p.number(ignore_index, index))
    safe = p.where(counted, index, p.number(0, index))
    if weight is None:
        return safe, p.cast(counted, to=kind.dtype)
    return safe, p.where(counted, p.take(weight, safe), p.constant(0, index.shape, kind.dtype))


def _rows_combined(loss: Node, counts: Node, reduction: str, scalar: bool) -> Node:
    everywhere = tuple(range(loss.rank))
    if reduction == "none":
        return p.reshape(loss, shape=()) if scalar else loss
    total = reduced(loss, "sum", everywhere)
    return total if reduction == "sum" else p.div(total, reduced(counts, "sum", everywhere))


def _row_slopes(g: Node, counts: Node, reduction: str) -> Node:
    """The cotangent of each row's loss, from that of the combined loss."""
    everywhere = tuple(range(counts.rank))
    if reduction == "none":
        return p.reshape(g, shape=counts.shape)
    if reduction == "mean":
        total = reduced(counts, "sum", everywhere)
        g = p.where(p.eq(total, p.number(0, total)), p.number(0, g), p.div(g, total))  # nothing counts: as in torch, zeros
    return restored(g, everywhere, counts.shape)


def _hits(rows: Node, index: Node) -> Node:
    """Where column equals the row's class."""
    column = p.iota(shape=rows.shape, axis=rows.rank - 1, dtype=dtypes.int64)
    return p.eq(column, restored(index, (rows.rank - 1,), rows.shape))


@_loss(s.nll_loss, ("x",))
def nll_loss(
    x: Value, target: Value, weight: Value | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Node:
    """-x at the target class: x are log-probabilities [N, C, *] or [C], target class indices [N, *] or a scalar.

    ``weight`` [C] scales the classes; rows whose target is ``ignore_index`` count nothing; the mean is over the weights.
    """
    _require_reduction("nll_loss", reduction)
    rows, index = _classes_last(x), _class_indices("nll_loss", x, target)
    safe, counts = _row_weights(index, _weight_of_classes("nll_loss", weight, rows), ignore_index, rows)
    loss = p.neg(p.mul(_taken(rows, safe), counts))
    loss = p.where(p.eq(counts, p.number(0, counts)), p.number(0, counts), loss)
    return _rows_combined(loss, counts, reduction, x.rank == 1)


def _nll_loss_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, target, weight, ignore_index, reduction = arguments
    rows, index = _classes_last(x), _class_indices("nll_loss", x, target)
    safe, counts = _row_weights(index, _weight_of_classes("nll_loss", weight, rows), ignore_index, rows)
    slope = p.neg(p.mul(_row_slopes(g[0], counts, reduction), counts))
    spread = p.where(_hits(rows, safe), restored(slope, (rows.rank - 1,), rows.shape), p.number(0, rows))
    return _classes_back(spread, x.rank), None, None


nll_loss.derivative = _nll_loss_derivative


@_loss(s.cross_entropy, ("x",))
def cross_entropy(
    x: Value, target: Value, weight: Value | None = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Node:  # fmt: skip
    """-log(softmax(x)) at the target, over the classes of x [N, C, *] or [C].

    ``target``: class indices [N, *] (a scalar for [C]), or probabilities of the shape of x. ``weight`` [C] scales the
    classes, rows whose target is ``ignore_index`` count nothing, and the mean over indices is over the weights.
    ``label_smoothing`` in [0, 1] mixes in the uniform distribution. A class index out of range raises IndexError.
    """
    _require_reduction("cross_entropy", reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    require_float("cross_entropy", x)
    rows = log_softmax(_classes_last(x), -1)
    weight = _weight_of_classes("cross_entropy", weight, rows)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(x, rows, target, weight, reduction, label_smoothing)
    safe, counts = _row_weights(_class_indices("cross_entropy", x, target), weight, ignore_index, rows)
    loss = p.neg(p.mul(_taken(rows, safe), counts))
    zero = p.number(0, counts)
    if label_smoothing:
        weighted = rows if weight is None else p.mul(rows, matched(weight, rows))
        even = p.neg(reduced(weighted, "sum", (rows.rank - 1,)))
        even = p.where(p.ne(_class_indices("cross_entropy", x, target), p.number(ignore_index, safe)), even, zero)
        share = p.div(p.number(label_smoothing, even), size_number(rows.shape[-1], even))
        loss = p.add(p.mul(loss, p.number(1 - label_smoothing, loss)), p.mul(even, share))
    else:
        loss = p.where(p.eq(counts, zero), zero, loss)
    return _rows_combined(loss, counts, reduction, x.rank == 1)


def _smoothed(target: Node, rows: Node, smoothing: float) -> Node:
    if not smoothing:
        return target
    even = p.div(p.number(smoothing, target), size_number(rows.shape[-1], target))
    return p.add(p.mul(target, p.number(1 - smoothing, target)), even)


def _soft_cross_entropy(x: Node, rows: Node, target: Node, weight: Node | None, reduction: str, smoothing: float) -> Node:
    if target.shape != x.shape:
        raise RuntimeError(f"cross_entropy: expected probabilities of the shape of input {list(x.shape)}, got {list(target.shape)}")
    wanted = _smoothed(_classes_last(converted(target, rows.dtype)), rows, smoothing)
    parts = p.mul(rows, wanted)
    parts = parts if weight is None else p.mul(parts, matched(weight, parts))
    loss = p.neg(reduced(parts, "sum", (rows.rank - 1,)))
    return _rows_combined(loss, p.number(1, loss), reduction, x.rank == 1)


def _cross_entropy_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    """softmax(x) * (what the row's classes weigh in all) - (what each class weighs), times the row's slope."""
    x, target, weight, ignore_index, reduction, smoothing = arguments
    rows = log_softmax(_classes_last(x), -1)
    last = (rows.rank - 1,)
    weight = _weight_of_classes("cross_entropy", weight, rows)
    if target.dtype.is_floating_point:
        for_x, for_target, for_weight = _soft_cross_entropy_derivative(g[0], x, rows, target, weight, reduction, smoothing)
        return for_x, for_target, None if for_weight is None else converted(for_weight, arguments[2].dtype)
    index = _class_indices("cross_entropy", x, target)
    safe, counts = _row_weights(index, weight, ignore_index, rows)
    slope = _row_slopes(g[0], counts, reduction)
    hit = p.cast(_hits(rows, safe), to=rows.dtype)
    if not smoothing:
        difference = p.sub(p.exp(rows), hit)
        return _classes_back(p.mul(difference, restored(p.mul(slope, counts), last, rows.shape)), x.rank), None, None
    counted = p.cast(p.ne(index, p.number(ignore_index, index)), to=rows.dtype)
    each = p.mul(hit, restored(p.mul(counts, p.number(1 - smoothing, counts)), last, rows.shape))
    even = p.div(p.number(smoothing, rows), size_number(rows.shape[-1], rows))
    even = p.mul(even, restored(counted, last, rows.shape))
    each = p.add(each, even if weight is None else p.mul(even, matched(weight, rows)))
    total = restored(reduced(each, "sum", last), last, rows.shape)
    difference = p.sub(p.mul(p.exp(rows), total), each)
    return _classes_back(p.mul(difference, restored(slope, last, rows.shape)), x.rank), None, None


def _soft_cross_entropy_derivative(
    g: Node, x: Node, rows: Node, target: Node, weight: Node | None, reduction: str, smoothing: float
) -> tuple[Node | None, ...]:
    last = (rows.rank - 1,)
    wanted = _smoothed(_classes_last(converted(target, rows.dtype)), rows, smoothing)
    counts = p.constant(1, rows.shape[:-1], rows.dtype)
    slope = restored(_row_slopes(g, counts, reduction), last, rows.shape)
    for_weight = None
    if weight is not None:
        for_weight = p.neg(reduced(p.mul(p.mul(rows, wanted), slope), "sum", tuple(range(rows.rank - 1))))
        wanted = p.mul(wanted, matched(weight, wanted))
    total = restored(reduced(wanted, "sum", last), last, rows.shape)
    for_x = p.mul(p.sub(p.mul(p.exp(rows), total), wanted), slope)
    for_target = p.neg(p.mul(rows, slope))
    for_target = for_target if weight is None else p.mul(for_target, matched(weight, rows))
    for_target = p.mul(for_target, p.number(1 - smoothing, rows)) if smoothing else for_target
    return _classes_back(for_x, x.rank), converted(_classes_back(for_target, x.rank), target.dtype), for_weight


cross_entropy.derivative = _cross_entropy_derivative


# -- distances ------------------------------------------------------------------------------------------
def _full_weight(operator: str, weight: Node | None, x: Node) -> Node | None:
    if weight is not None and weight.shape != x.shape:
        raise ValueError(f"{operator}: weight and input must have the same size, got {list(weight.shape)} and {list(x.shape)}")
    return weight


@_loss(s.weighted_regression, ("x", "target", "weight"))
def mse_loss(x: Value, target: Value, reduction: str = "mean", weight: Value | None = None) -> Node:
    """(x - target) squared."""
    difference = x - target
    return _combined("mse_loss", p.mul(difference, difference), reduction, _full_weight("mse_loss", weight, x))


@_loss(s.weighted_regression, ("x", "target", "weight"))
def l1_loss(x: Value, target: Value, reduction: str = "mean", weight: Value | None = None) -> Node:
    """|x - target|."""
    return _combined("l1_loss", abs(x - target), reduction, _full_weight("l1_loss", weight, x))


@_loss(s.smooth_l1_loss)
def smooth_l1_loss(x: Value, target: Value, reduction: str = "mean", beta: float = 1.0) -> Node:
    """Half the square over ``beta`` where |x - target| < beta, else the distance less beta / 2."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: does not support negative values for beta, got {beta}")
    distance = p.abs_(x - target)
    if beta == 0:
        return _combined("smooth_l1_loss", distance, reduction)
    loss = where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)
    return _combined("smooth_l1_loss", loss, reduction)


@_loss(s.huber_loss, ("x", "target", "weight"))
def huber_loss(
    x: Value, target: Value, reduction: str = "mean", delta: float = 1.0, weight: Value | None = None
) -> Node:
    """Half the square where |x - target| <= delta, else delta * (distance - delta / 2)."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: does not support non-positive values for delta, got {delta}")
    distance = p.abs_(x - target)
    loss = where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return _weighted_elements("huber_loss", loss, _full_weight("huber_loss", weight, x), reduction)


# -- probabilities --------------------------------------------------------------------------------------
LEAST_LOG = -100.0


def _binary_operands(operator: str, x: Node, target: Node) -> None:
    if target.shape != x.shape:
        raise ValueError(f"{operator}: target size ({list(target.shape)}) must be the same as input size ({list(x.shape)})")
    require_float(operator, x)


@_loss(s.binary_cross_entropy, ("x", "target", "weight"))
def binary_cross_entropy(x: Value, target: Value, weight: Value | None = None, reduction: str = "mean") -> Node:
    """-(target * log(x) + (1 - target) * log(1 - x)) for probabilities x, with each log at least -100."""
    _binary_operands("binary_cross_entropy", x, target)
    one, least = p.number(1, x), p.number(LEAST_LOG, x)
    log_x, log_rest = p.maximum(p.log(x), least), p.maximum(p.log1p(p.neg(x)), least)
    loss = p.sub(p.mul(p.sub(target, one), log_rest), p.mul(target, log_x))
    return _weighted_elements("binary_cross_entropy", loss, weight, reduction)


def _weighted_elements(operator: str, loss: Node, weight: Node | None, reduction: str) -> Node:
    """Element weights scale the losses and not the count of the mean."""
    return _combined(operator, loss if weight is None else loss * weight, reduction)


def _binary_cross_entropy_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, target, weight, reduction = arguments
    one, least = p.number(1, x), p.number(LEAST_LOG, x)
    slope = g[0] if reduction == "none" else restored(g[0], tuple(range(x.rank)), x.shape)
    slope = p.div(slope, size_number(x.aval.numel, slope)) if reduction == "mean" else slope
    slope = slope if weight is None else p.mul(slope, broadcast_to(weight, x.shape))
    # At 0 and 1 the derivative is kept finite instead of following the kept logarithm.
    curvature = p.maximum(p.mul(p.sub(one, x), x), p.number(1e-12, x))
    for_x = p.div(p.mul(slope, p.sub(x, target)), curvature)
    log_x, log_rest = p.maximum(p.log(x), least), p.maximum(p.log1p(p.neg(x)), least)
    for_target = p.mul(slope, p.sub(log_rest, log_x))
    return for_x, for_target, None


binary_cross_entropy.derivative = _binary_cross_entropy_derivative


@_loss(s.binary_cross_entropy_with_logits, ("x", "target", "weight", "pos_weight"), stepwise=True)
def binary_cross_entropy_with_logits(
    x: Value, target: Value, weight: Value | None = None, reduction: str = "mean", pos_weight: Value | None = None
) -> Node:
    """binary_cross_entropy(sigmoid(x), target) without overflow; ``pos_weight`` scales the part of positive targets."""
    _binary_operands("binary_cross_entropy_with_logits", x, target)
    log_part = logsigmoid(x)
    log_part = log_part if pos_weight is None else log_part * ((broadcast_to(pos_weight, x.shape) - 1) * target + 1)
    loss = (1 - target) * x - log_part
    return _weighted_elements("binary_cross_entropy_with_logits", loss, weight, reduction)


@_loss(s.kl_div)
def kl_div(x: Value, target: Value, reduction: str = "mean", log_target: bool = False) -> Node:
    """target * (log(target) - x) for log-probabilities x; "batchmean" divides the sum by the first size."""
    _require_reduction("kl_div", reduction, (*REDUCTIONS, "batchmean"))
    if log_target:
        loss = p.exp(target) * (target - x)
    else:
        positive = p.lt(p.number(0, target), target)
        logarithm = p.log(p.where(positive, target, p.number(1, target)))
        loss = p.where(positive, p.mul(target, logarithm), p.number(0, target)) - target * x
    if reduction != "batchmean":
        return _combined("kl_div", loss, reduction)
    total = sum(loss)
    return p.div(total, size_number(x.shape[0], total)) if x.rank else total


@_loss(s.gaussian_nll_loss, ("x", "target", "var"))
def gaussian_nll_loss(
    x: Value, target: Value, var: Value, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Node:
    """-log of the normal density at ``target`` with mean x and variance ``var`` (at least ``eps``, without a derivative
    for that), without the constant unless ``full``."""
    if var.rank == x.rank - 1 and var.shape == x.shape[:-1]:
        var = p.reshape(var, shape=(*var.shape, 1))
    if var.shape != x.shape and var.shape != (*x.shape[:-1], 1):
        raise ValueError(f"gaussian_nll_loss: var is of incorrect size: {list(var.shape)} for input of size {list(x.shape)}")
    bounded = p.add(var, p.detach(p.sub(maximum(var, eps), var)))
    difference = x - target
    loss = 0.5 * (log(bounded) + difference * difference / bounded)
    return _combined("gaussian_nll_loss", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@_loss(s.poisson_nll_loss)
def poisson_nll_loss(
    x: Value, target: Value, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Node:
    """-log of the Poisson probability of ``target`` with rate exp(x) (x itself unless ``log_input``).

    ``full`` adds Stirling's approximation of log(target!) where target > 1.
    """
    x, target = (v if v.dtype.is_floating_point else p.cast(v, to=default_float()) for v in (x, target))
    loss = p.exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        many = target > 1
        safe = p.where(many, target, p.number(1, target))
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        loss = loss + where(many, stirling, 0.0)
    return _combined("poisson_nll_loss", loss, reduction)


# -- margins --------------------------------------------------------------------------------------------
def _positive_part(x: Node) -> Node:
    """max(x, 0), with derivative 1 at 0 as clamp's."""
    zero = p.number(0, x)
    return p.where(lt(x, zero), zero, x)


@_loss(s.sign_target)
def soft_margin_loss(x: Value, target: Value, reduction: str = "mean") -> Node:
    """log(1 + exp(-target * x)) for targets 1 and -1."""
    return _combined("soft_margin_loss", softplus(-target * x, 1.0, math.inf), reduction)


@_loss(s.hinge_embedding_loss, stepwise=True)
def hinge_embedding_loss(x: Value, target: Value, margin: float = 1.0, reduction: str = "mean") -> Node:
    """x where target is 1, max(0, margin - x) where it is -1."""
    shape = broadcast_shapes(x.shape, target.shape, operator="hinge_embedding_loss")
    x, target = broadcast_to(x, shape), broadcast_to(target, shape)
    one, zero = p.number(1, target), p.number(0, x)
    far = p.where(eq(target, one), zero, _positive_part(p.number(margin, x) - x))
    near = p.where(eq(target, -one), zero, x)
    return _combined("hinge_embedding_loss", far + near, reduction)


@_loss(s.margin_ranking_loss, ("x1", "x2", "target"))
def margin_ranking_loss(x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean") -> Node:
    """max(0, -target * (x1 - x2) + margin)."""
    return _combined("margin_ranking_loss", _positive_part(-target * (x1 - x2) + margin), reduction)


@_loss(s.cosine_embedding_loss, ("x1", "x2"))
def cosine_embedding_loss(x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean") -> Node:
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1; x1 and x2 are [N, D] or [D]."""
    if x1.rank not in (1, 2) or target.rank != x1.rank - 1:
        got = f"{list(x1.shape)} and {list(target.shape)}"
        raise RuntimeError(f"cosine_embedding_loss: needs inputs [D] and a scalar target, or inputs [N, D] and a target [N]; got {got}")
    last, tiny = (x1.rank - 1,), 1e-12
    x1, x2 = (p.cast(x, to=dtypes.int64) if x.dtype is dtypes.bool_ else x for x in (x1, x2))
    product_sum = reduced(x1 * x2, "sum", last)
    squares = (reduced(p.mul(x, x), "sum", last) + tiny for x in (x1, x2))
    first, second = squares
    cosine = product_sum / p.sqrt(p.mul(first, second))
    zero = p.number(0, cosine)
    near = p.where(eq(target, 1), 1 - cosine, zero)
    far = p.where(eq(target, -1), _positive_part(cosine - margin), zero)
    return _combined("cosine_embedding_loss", p.add(near, far), reduction)


@_loss(s.triplet_margin_loss, ("anchor", "positive", "negative"))
def triplet_margin_loss(
    anchor: Value, positive: Value, negative: Value, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Node:  # fmt: skip
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin); ``swap`` takes the nearer of anchor and positive."""
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return _combined("triplet_margin_loss", _positive_part(near - far + margin), reduction)


# -- several classes ------------------------------------------------------------------------------------
@_loss(s.multi_margin_loss, ("x", "weight"))
def multi_margin_loss(
    x: Value, target: Value, p: int = 1, margin: float = 1.0, weight: Value | None = None, reduction: str = "mean"
) -> Node:
    """The mean over the other classes of max(0, margin - x[target] + x) ** p, times the target's weight."""
    if p not in (1, 2) or (weight is not None and weight.rank != 1):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}; weight must be one-dimensional, got {weight}")
    _check_classes("multi_margin_loss", x, reduction)
    return _multi_margin(x, target, p, margin, weight, reduction)


def _check_classes(operator: str, x: Node, reduction: str) -> None:
    _require_reduction(operator, reduction)
    if x.rank > 2 or (x.rank and x.shape[-1] == 0):
        raise RuntimeError(f"{operator}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(x.shape)}")


def _multi_margin(x: Node, target: Node, power: int, margin: float, weight: Node | None, reduction: str) -> Node:
    x = p.reshape(x, shape=(1,)) if x.rank == 0 else x
    target = p.reshape(target, shape=()) if x.rank == 1 and target.aval.numel == 1 else target
    if target.shape != x.shape[:-1]:
        raise RuntimeError(f"multi_margin_loss: target tensor should be 1-D with size equal to the number of rows. Expected target size "
                           f"{list(x.shape[:-1])} but got {list(target.shape)}")  # fmt: skip
    rows, index = _classes_last(x), _class_indices("multi_margin_loss", x, target)
    last = (rows.rank - 1,)
    gap = _positive_part(margin - restored(_taken(rows, index), last, rows.shape) + rows)
    gap = gap if power == 1 else p.mul(gap, gap)
    weight = _weight_of_classes("multi_margin_loss", weight, rows)
    gap = gap if weight is None else p.mul(gap, restored(p.take(weight, index), last, rows.shape))
    others = p.where(_hits(rows, index), p.number(0, gap), gap)
    loss = reduced(others, "sum", last)
    loss = p.div(loss, size_number(rows.shape[-1], loss))
    return _combined("multi_margin_loss", p.reshape(loss, shape=()) if x.rank == 1 else loss, reduction)


@_loss(s.multilabel_soft_margin_loss, ("x", "target", "weight"))
def multilabel_soft_margin_loss(x: Value, target: Value, weight: Value | None = None, reduction: str = "mean") -> Node:
    """The mean over the classes (the last dimension) of the binary cross entropy of sigmoid(x)."""
    loss = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    loss = loss if weight is None else loss * weight
    return _combined("multilabel_soft_margin_loss", mean(loss, -1), reduction)


def _set_samples(m: s.SampleMaker) -> Iterator[s.Call]:
    target = np.array([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 1, 0, 3]])
    for reduction in ("mean", "sum", "none"):
        yield (m.float(3, 4), target), {"reduction": reduction}
    yield (m.float(4), target[0]), {}


@_loss(_set_samples, ("x",))
def multilabel_margin_loss(x: Value, target: Value, reduction: str = "mean") -> Node:
    """The sum of max(0, 1 - x[target] + x[other]) / C over the targets and the other classes; x and target [N, C] or [C].

    A row's targets end at the first negative one.
    """
    _check_classes("multilabel_margin_loss", x, reduction)
    if target.shape != x.shape and not (x.rank < 2 and x.aval.numel == target.aval.numel):
        raise RuntimeError(f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: {list(x.shape)}")
    rows = x if x.rank == 2 else p.reshape(x, shape=(1, x.aval.numel))
    places = p.reshape(converted(target, dtypes.int64), shape=rows.shape)
    ended = p.scan(p.cast(p.lt(places, p.number(0, places)), to=dtypes.int64), kind="sum", axis=1)
    counts = p.eq(ended, p.number(0, ended))
    safe, line = p.where(counts, places, p.number(0, places)), p.iota(shape=rows.shape, axis=0, dtype=dtypes.int64)
    hits = p.scatter(p.number(0, places), p.cast(counts, to=dtypes.int64), line, safe, mode="add")
    wide = (*rows.shape, rows.shape[1])
    of_target, of_other = (lambda v: restored(v, (2,), wide)), (lambda v: restored(v, (1,), wide))
    gap = _positive_part(1.0 - of_target(p.take(rows, line, safe)) + of_other(rows))
    pairs = p.bitwise_and(of_target(counts), of_other(p.eq(hits, p.number(0, hits))))
    loss = reduced(p.where(pairs, gap, p.number(0, gap)), "sum", (1, 2))
    loss = p.div(loss, size_number(rows.shape[1], loss))
    return _combined("multilabel_margin_loss", p.reshape(loss, shape=()) if x.rank < 2 else loss, reduction)


def _paths_samples(m: s.SampleMaker) -> Iterator[s.Call]:
    skips, live = np.array([[False, False, False, True, False], [False, False, False, False, False]]), np.array([[True], [False]])
    yield (m.float(2, 5), m.float(2, 5), skips, live), {}


@op("general", promote="arithmetic", promoted=("paths", "emitted"), samples=_paths_samples)
def ctc_step(paths: Value, emitted: Value, skips: Value, live: Value) -> Node:
    """One time step of ``ctc_loss``: logarithms of the chances of all paths so far that end at each label [N, L].

    A path stays at its label, comes from the one before or, where ``skips`` allows it, from the second one before; rows that
    are not ``live`` [N, 1] stay as they are.
    """
    nothing = p.number(-math.inf, paths)
    before = [_moved_right(paths, k) for k in (1, 2)]
    total = logaddexp(logaddexp(paths, before[0]), p.where(skips, before[1], nothing))
    return p.where(broadcast_to(live, paths.shape), p.add(total, emitted), paths)


def _moved_right(x: Node, by: int) -> Node:
    wide = p.pad(x, low=(0, by), high=(0, 0), interior=(0, 0), value=-math.inf)
    return p.slice_(wide, starts=(0, 0), sizes=x.shape, steps=(1, 1))
