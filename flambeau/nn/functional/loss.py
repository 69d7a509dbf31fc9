"""Losses. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are the old way to say it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.nn.functional.reduction import reduction_from_flags
from flambeau.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
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
        var = input.new_full((1,), float(var))
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
    """Not there: use `multilabel_soft_margin_loss`."""
    raise NotImplementedError("multilabel_margin_loss is not implemented; use multilabel_soft_margin_loss with 0/1 targets.")


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


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Not there yet."""
    raise NotImplementedError("ctc_loss is not implemented; compute the loss from log_softmax and a dynamic program over the labels.")
