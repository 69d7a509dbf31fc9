"""Functions of layers as ``torch`` itself has them, where these take other arguments than those of ``torch.nn.functional``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.nn.functional import activation, loss, normalization, pooling, vision
from flambeau.nn.functional import convolution as convolution_
from flambeau.nn.functional.dropout import alpha_dropout, dropout
from flambeau.nn.functional.dropout import feature_alpha_dropout as _feature_alpha_dropout
from flambeau.nn.functional.linear import _renormalize
from flambeau.nn.functional.linear import embedding_bag as _embedding_bag
from flambeau.tensor import Tensor

__all__ = [
    "adaptive_max_pool1d", "affine_grid_generator", "alpha_dropout_", "avg_pool1d", "batch_norm", "binary_cross_entropy_with_logits",
    "celu_", "conv_tbc", "convolution", "cosine_embedding_loss", "ctc_loss", "embedding_bag", "embedding_renorm_", "feature_alpha_dropout",
    "feature_alpha_dropout_", "feature_dropout_", "hinge_embedding_loss", "instance_norm", "kl_div", "margin_ranking_loss", "max_pool1d",
    "max_pool2d", "max_pool3d", "native_dropout", "norm_except_dim", "poisson_nll_loss", "rrelu", "rrelu_", "selu_", "triplet_margin_loss",
]  # fmt: skip

_REDUCTIONS = ("none", "mean", "sum")
_BAGS = ("sum", "mean", "max")


def _word(words: Sequence[str], number: int, name: str) -> str:
    if number not in range(len(words)):
        raise ValueError(f"{number} is not a valid value for {name}; give 0 for {words[0]}, 1 for {words[1]} or 2 for {words[2]}")
    return words[number]


# -- normalization and pooling ----------------------------------------------------------------------------
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.batch_norm` with its arguments in another order."""
    return normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.instance_norm` with its arguments in another order."""
    return normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Maxima of windows of (N, C, L) or (C, L); the stride is the window's size where it is empty."""
    return pooling.max_pool1d(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Maxima of windows of (N, C, H, W) or (C, H, W)."""
    return pooling.max_pool2d(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Maxima of windows of (N, C, D, H, W) or (C, D, H, W)."""
    return pooling.max_pool3d(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """Means of windows of (N, C, L) or (C, L)."""
    return pooling.avg_pool1d(input, kernel_size, _stride(stride), padding, ceil_mode, count_include_pad)


def _stride(stride: Any) -> Any:
    return None if isinstance(stride, tuple | list) and not stride else stride


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima of windows chosen so that the result is (N, C, output_size), and their positions."""
    return pooling.adaptive_max_pool1d_with_indices(input, output_size)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The p-norm over all dimensions but one, which stays; over all of them for ``dim`` -1."""
    others = [d for d in range(v.dim()) if d != dim]
    return v.norm(pow) if dim == -1 else v.norm(pow, others, keepdim=True)


# -- convolutions and grids -------------------------------------------------------------------------------
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of as many dimensions as ``weight`` has beside channels, or where ``transposed`` its derivative by the input."""
    rank = weight.dim() - 2
    if rank not in (1, 2, 3):
        raise RuntimeError(f"convolution: needs a weight of 3 to 5 dimensions, got shape {list(weight.shape)}")
    if transposed:
        backward = (convolution_.conv_transpose1d, convolution_.conv_transpose2d, convolution_.conv_transpose3d)[rank - 1]
        return backward(input, weight, bias, stride, padding, output_padding, groups, dilation)
    forward = (convolution_.conv1d, convolution_.conv2d, convolution_.conv3d)[rank - 1]
    return forward(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of (time, batch, channels); `weight` has shape (width, channels in, channels out)."""
    return convolution_.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`torch.nn.functional.affine_grid` with all its arguments."""
    return vision.affine_grid(theta, size, align_corners)


# -- activations and dropout ------------------------------------------------------------------------------
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    return activation.celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """``selu`` in place."""
    return activation.selu(input, True)


def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Tensor:
    """The input above 0; below it times a number between ``lower`` and ``upper``, drawn in training."""
    _own_generator("rrelu", generator)
    return activation.rrelu(input, lower, upper, training)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Tensor:
    """``rrelu`` in place."""
    _own_generator("rrelu_", generator)
    return activation.rrelu(input, lower, upper, training, True)


def _own_generator(operator: str, generator: Any) -> None:
    if generator is not None:
        raise NotImplementedError(f"{operator}: only the default generator is supported; leave generator out and call torch.manual_seed")


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``alpha_dropout`` in place."""
    return alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``alpha_dropout`` of whole channels."""
    return _feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``feature_alpha_dropout`` in place."""
    return _feature_alpha_dropout(input, p, train, True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels, in place."""
    return input.copy_(ops.feature_dropout(input, p, True)) if train and p else input


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``dropout``, and which elements it kept.

    >>> import flambeau as torch
    >>> torch.native_dropout(torch.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if train is False or not p:
        return input.clone(), input.new_ones(input.shape, dtype=ops.eq(input, input).dtype)
    scale = dropout(input.new_ones(input.shape), p, True)
    return input * scale, scale != 0


# -- rows of tables ---------------------------------------------------------------------------------------
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of ``input`` that ``indices`` name down to a norm of at most ``max_norm``, in place."""
    _renormalize(input, indices, max_norm, norm_type)
    return input


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Bags of rows (`mode` 0: sums, 1: means, 2: maxima), the bag of each index, the size of each bag, and where its maxima are."""
    if mode == 2:
        raise NotImplementedError("embedding_bag: positions of maxima are not computed; use torch.nn.functional.embedding_bag")
    bags = _embedding_bag(
        indices, weight, offsets, None, 2, scale_grad_by_freq, _word(_BAGS, mode, "mode"), sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )  # fmt: skip
    ends = offsets[1:] if include_last_offset else ops.cat([offsets[1:], offsets.new_full((1,), indices.numel())])
    starts = offsets[:-1] if include_last_offset else offsets
    sizes = ends - starts
    owners = sizes.new_tensor(range(sizes.numel())).repeat_interleave(sizes)
    return bags, owners, sizes, sizes.new_zeros(0)


# -- losses, whose reduction is a number here: 0 for none, 1 for the mean, 2 for the sum -------------------
# PyTorch's stubs say 1 for the default, and its functions act as for 0.
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """`torch.nn.functional.binary_cross_entropy_with_logits`; none is reduced by default."""
    return ops.binary_cross_entropy_with_logits(input, target, weight, _word(_REDUCTIONS, reduction, "reduction"), pos_weight)


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """target * (log(target) - input) for input of logarithms."""
    return ops.kl_div(input, target, _word(_REDUCTIONS, reduction, "reduction"), log_target)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    return ops.hinge_embedding_loss(input, target, margin, _word(_REDUCTIONS, reduction, "reduction"))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """max(0, margin - target * (input1 - input2))."""
    return ops.margin_ranking_loss(input1, input2, target, margin, _word(_REDUCTIONS, reduction, "reduction"))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    return ops.cosine_embedding_loss(input1, input2, target, margin, _word(_REDUCTIONS, reduction, "reduction"))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    reduction: int = 0,
) -> Tensor:  # fmt: skip
    """max(0, margin + distance to the positive - distance to the negative)."""
    reduced = _word(_REDUCTIONS, reduction, "reduction")
    return loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=reduced)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """-log of the chance of `target` under a Poisson distribution of rate exp(input), or `input` where not `log_input`."""
    return loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(_REDUCTIONS, reduction, "reduction"))


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.ctc_loss`."""
    reduced = _word(_REDUCTIONS, reduction, "reduction")
    return loss.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduced, zero_infinity)
