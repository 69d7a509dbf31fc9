"""Losses. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are the old way to say it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core.dtypes import int64
from flambeau.nn.functional.padding import pad
from flambeau.nn.functional.reduction import reduction_from_flags
from flambeau.tensor import Tensor
from flambeau.tensor.autocasting import as_one
from flambeau.tensor.creation import arange, tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip

Flag = bool | None


def _warn_of_broadcasting(name: str, input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely lead to "
            f"incorrect results due to broadcasting in {name}. Please ensure they have the same size.", stacklevel=3,
        )  # fmt: skip


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Flag = None, ignore_index: int = -100,
    reduce: Flag = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log softmax(input)[target]: input (N, C, *) or (C), target of class numbers (N, *) or of chances like the input.

    Targets equal to `ignore_index` count nothing; the mean is over the weights of the targets that count. Raises IndexError for
    a class number out of range.

    >>> import flambeau as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """
    reduction = reduction_from_flags(size_average, reduce, reduction)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Flag = None, ignore_index: int = -100,
    reduce: Flag = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-input[target], for input of logarithms of chances (N, C, *) or (C)."""
    return ops.nll_loss(input, target, weight, ignore_index, reduction_from_flags(size_average, reduce, reduction))


def mse_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """(input - target)**2."""
    _warn_of_broadcasting("mse_loss", input, target)
    return ops.mse_loss(input, target, reduction_from_flags(size_average, reduce, reduction), weight)


def l1_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """|input - target|."""
    _warn_of_broadcasting("l1_loss", input, target)
    return ops.l1_loss(input, target, reduction_from_flags(size_average, reduce, reduction), weight)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Half the square over `beta` for differences below it, linear above."""
    _warn_of_broadcasting("smooth_l1_loss", input, target)
    return ops.smooth_l1_loss(input, target, reduction_from_flags(size_average, reduce, reduction), beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the square for differences up to `delta`, linear above."""
    _warn_of_broadcasting("huber_loss", input, target)
    return ops.huber_loss(input, target, reduction, delta, weight)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)) for input in [0, 1]; logarithms are kept above -100."""
    return ops.binary_cross_entropy(input, target, weight, reduction_from_flags(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Flag = None, reduce: Flag = None,
    reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of sigmoid(input), without overflow; `pos_weight` multiplies the terms of positive targets."""
    reduction = reduction_from_flags(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """target * (log(target) - input) for input of logarithms; "batchmean" divides the sum by the batch's size."""
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by "
                      "the batch size, and aligns with the KL div math definition.", stacklevel=2)  # fmt: skip
    return ops.kl_div(input, target, reduction_from_flags(size_average, reduce, reduction), log_target)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Flag = None, eps: float = 1e-8,
    reduce: Flag = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target * input, or for inputs that are no logarithms: input - target * log(input + eps)."""
    return ops.poisson_nll_loss(input, target, log_input, full, eps, reduction_from_flags(size_average, reduce, reduction))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)**2 / var) / 2, with var kept above `eps`. Raises ValueError for a negative var."""
    if not isinstance(var, Tensor):
        var = input.new_full(input.shape, float(var))
    if bool((var < 0).any()):
        raise ValueError("gaussian_nll_loss: var has negative entry/entries; pass variances, not logarithms")
    return ops.gaussian_nll_loss(input, target, var, full, eps, reduction)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    return ops.hinge_embedding_loss(input, target, margin, reduction_from_flags(size_average, reduce, reduction))


def soft_margin_loss(input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets 1 and -1."""
    return ops.soft_margin_loss(input, target, reduction_from_flags(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of the logistic loss of each; input and target (N, C)."""
    return ops.multilabel_soft_margin_loss(input, target, weight, reduction_from_flags(size_average, reduce, reduction))


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """The sum of max(0, 1 - input[target] + input[other]) / C over targets and other classes; both (N, C) or (C).

    `target` lists class numbers; a row's targets end at the first negative one.
    """
    return ops.multilabel_margin_loss(input, target, reduction_from_flags(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Flag = None, reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    return ops.cosine_embedding_loss(input1, input2, target, margin, reduction_from_flags(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Flag = None, reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -target * (input1 - input2) + margin)."""
    return ops.margin_ranking_loss(input1, input2, target, margin, reduction_from_flags(size_average, reduce, reduction))


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Flag = None,
    reduce: Flag = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over the wrong classes of max(0, margin - input[target] + input[class])**p."""
    return ops.multi_margin_loss(input, target, p, margin, weight, reduction_from_flags(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    size_average: Flag = None, reduce: Flag = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with the p-norm distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    reduction = reduction_from_flags(size_average, reduce, reduction)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with any distance (default: `pairwise_distance`)."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Callable[..., Any] = ops.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    loss = (margin + near - far).clamp(min=0)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy` of linear(input, linear_weight, linear_bias): input (N, F) or (F), linear_weight (C, *, F), target (N, *).

    `options` would choose how PyTorch splits the work; here they change nothing.
    """
    if input.dim() not in (1, 2) or linear_weight.dim() < 2:
        raise RuntimeError(f"linear_cross_entropy: expected input with dimensionality 1 or 2, got {input.dim()}, and "
                           f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")  # fmt: skip
    features, classes = input.size(-1), linear_weight.shape[:-1]
    if linear_weight.size(-1) != features:
        raise RuntimeError(f"linear_cross_entropy: expected equal input and linear_weight last dimensions (in_features), got {features} "
                           f"and {linear_weight.size(-1)}, respectively")  # fmt: skip
    if input.dim() == 1 and len(classes) > 1:
        raise RuntimeError(f"linear_cross_entropy: K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires "
                           f"batched input, (N, {features}), got unbatched input with shape {tuple(input.shape)}")  # fmt: skip
    if linear_bias is not None and linear_bias.shape != classes:
        raise RuntimeError(f"linear_cross_entropy: expected linear_bias shape {tuple(classes)}, got {tuple(linear_bias.shape)}")
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("linear_cross_entropy: ignore_index cannot be specified when target contains probabilities")
    logits = ops.tensordot(input, linear_weight, ((-1,), (-1,)))
    logits = logits if linear_bias is None else logits + linear_bias
    return ops.cross_entropy(logits, target, weight, -100 if ignore_index is None else ignore_index, reduction, label_smoothing)


@as_one
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the chance that (T, N, C) or (T, C) logarithms of chances spell the targets (N, S), or (sum of lengths), with blanks.

    As in PyTorch, the gradient is that of the scores that `log_probs` are the log_softmax of; "mean" divides each loss by the
    target's length first; `zero_infinity` makes losses of impossible targets, and their gradients, zero.
    """
    if log_probs.dim() == 2:
        time, size = (v.reshape(1) if isinstance(v, Tensor) else [v] if isinstance(v, int) else v for v in (input_lengths, target_lengths))
        loss = ctc_loss(log_probs.unsqueeze(1), targets.reshape(1, -1), time, size, blank, reduction, zero_infinity)
        return loss.squeeze(0) if reduction == "none" else loss
    steps, batch, classes = log_probs.shape
    times, sizes = (list(v.tolist() if isinstance(v, Tensor) else v) for v in (input_lengths, target_lengths))
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    if len(times) != batch or len(sizes) != batch or max(times, default=0) > steps or min(times, default=0) < 0:
        raise RuntimeError(f"ctc_loss: needs {batch} input_lengths of at most {steps} and as many target_lengths, got {times} and {sizes}")
    loss = _spelling_loss(log_probs, _labels(targets, sizes, blank), times, sizes, blank)
    if zero_infinity:
        loss = ops.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / tensor([max(size, 1) for size in sizes], dtype=loss.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss


def _labels(targets: Tensor, sizes: list[int], blank: int) -> Tensor:
    """Each target with blanks around and between its labels (N, 2 S + 1)."""
    most = max(sizes, default=0)
    if targets.dim() == 1:
        rows = [pad(row, (0, most - row.numel()), value=blank) for row in targets.split(sizes)]
        targets = ops.stack(rows) if rows else targets.reshape(0, most)
    labels = targets[:, :most].long()
    blanks = ops.full(labels.shape, blank, int64)
    return pad(ops.stack([blanks, labels], 2).reshape(labels.size(0), 2 * most), (0, 1), value=blank)


def _spelling_loss(log_probs: Tensor, labels: Tensor, times: list[int], sizes: list[int], blank: int) -> Tensor:
    """The forward algorithm over (T, N, C), in the space of logarithms: one loss for each row."""
    steps, batch, _ = log_probs.shape
    places = labels.size(1)
    emitted = log_probs.gather(2, labels.expand(steps, batch, places))
    ends, length = 2 * tensor(sizes, dtype=int64).reshape(-1, 1), tensor(times, dtype=int64).reshape(-1, 1)
    differs = pad(labels[:, 2:] != labels[:, :-2], (2, 0)) if places > 2 else ops.full(labels.shape, False)
    skips = differs & (labels != blank)
    place = arange(places)
    begin = (place <= 1) & (place <= ends)
    paths = ops.where(begin, emitted[0], -math.inf) if steps else ops.full(labels.shape, -math.inf, log_probs.dtype)
    for t in range(1, max(times, default=0)):
        paths = ops.ctc_step(paths, emitted[t], skips, length > t)
    last = paths.gather(1, ops.cat([ends, (ends - 1).clamp(min=0)], 1))
    second = ops.where(ends.squeeze(1) > 0, last[:, 1], -math.inf)
    loss = -ops.logaddexp(last[:, 0], second)
    # Its value is 0; its gradient makes that of the loss a gradient of the scores before log_softmax.
    chances = ops.where((arange(steps).reshape(-1, 1) < length.reshape(1, -1)).unsqueeze(2), log_probs.exp(), 0.0).sum((0, 2))
    return loss + ops.where(loss == math.inf, 0.0, chances - chances.detach())
