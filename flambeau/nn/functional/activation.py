"""Activation functions."""

from __future__ import annotations

import warnings

from flambeau import ops
from flambeau.core.dtypes import dtype as dtype_type
from flambeau.core.dtypes import float64
from flambeau.ops.declare import Operator
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty, empty_like, ones_like, zeros_like
from flambeau.tensor.dispatch import call_into

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu",
    "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "threshold_",
]  # fmt: skip


def _run(operator: Operator, inplace: bool, input: Tensor, *args: Tensor | float) -> Tensor:
    """The operator's result, written over the input if that is asked for."""
    return call_into(operator, input, (input, *args), {}) if inplace else operator(input, *args)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0).

    >>> import flambeau as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _run(ops.relu, inplace, input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return relu(input, True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above `threshold`, else `value`."""
    return _run(ops.threshold, inplace, input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _run(ops.threshold, True, input, threshold, value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """input kept in [min_val, max_val]. Raises ValueError when min_val > max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _run(ops.hardtanh, inplace, input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input kept in [0, 6]."""
    return _run(ops.relu6, inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return _run(ops.elu, inplace, input, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalizing elu with fixed constants."""
    return _run(ops.selu, inplace, input)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input / alpha) - 1)."""
    return _run(ops.celu, inplace, input, alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    return _run(ops.leaky_relu, inplace, input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else weight * input; `weight` has one element or one for each channel (dimension 1)."""
    return ops.prelu(input, weight)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """`leaky_relu` with a slope drawn from [lower, upper] for each negative element in training, with their mean otherwise."""
    if lower > upper:
        raise RuntimeError(f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    negative = input.detach() <= 0
    # As in PyTorch, each of these takes one number of the generator, and the others none.
    drawn = empty(int(negative.sum()), dtype=float64, device=input.device).uniform_(lower, upper)
    slope = ones_like(input.detach()).masked_scatter(negative, drawn.to(input.dtype))
    out = ops.where(input > 0, input, input * slope)
    return input.copy_(out) if inplace else out


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of input; by tanh of a cubic for ``approximate="tanh"``."""
    return ops.gelu(input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input)."""
    return _run(ops.silu, inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input))."""
    return _run(ops.mish, inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input)."""
    return _run(ops.hardswish, inplace, input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(input + 3) / 6 kept in [0, 1]."""
    return _run(ops.hardsigmoid, inplace, input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """tanh(input)."""
    return ops.tanh(input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input))."""
    return ops.logsigmoid(input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""
    return ops.softplus(input, beta, threshold)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input moved toward 0 by `lambd`, 0 between. Raises RuntimeError for a negative `lambd`."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}.")
    return ops.softshrink(input, lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where -lambd <= input <= lambd, else input."""
    return ops.hardshrink(input, lambd)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|)."""
    return ops.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return ops.tanhshrink(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second."""
    return ops.glu(input, dim)


def _chosen_dim(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:  # noqa: A002
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=stacklevel)  # fmt: skip
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_type | None = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`, computed after conversion to `dtype` if given.

    >>> import flambeau as torch
    >>> torch.nn.functional.softmax(torch.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return ops.softmax(input, _chosen_dim("softmax", input, dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_type | None = None) -> Tensor:
    """softmax(-input) along `dim`."""
    axis = _chosen_dim("softmin", input, dim, _stacklevel)
    # As torch, unsigned numbers are negated before they are converted.
    return ops.softmin(input, axis) if dtype is None else ops.softmax(ops.neg(input), axis, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_type | None = None) -> Tensor:
    """log(softmax(input)) along `dim`, accurate also where softmax underflows."""
    return ops.log_softmax(input, _chosen_dim("log_softmax", input, dim, _stacklevel), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution; with `hard` one-hot, with the soft sample's gradient.

    Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017. `eps` has no effect.
    """
    noise = -empty_like(logits).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = zeros_like(logits).scatter_(dim, index, 1.0)
    return chosen - soft.detach() + soft
