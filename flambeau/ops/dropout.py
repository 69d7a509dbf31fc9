"""Dropout: what is kept is drawn from PyTorch's stream."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, broadcast_to, op
from flambeau.prims.random import draw

SELU_SATURATION = 1.7580993408473766  # alpha * scale of SELU: what it gives for -infinity, negated


def _check(operator: str, x: Node, probability: float) -> None:
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{operator}: dropout probability has to be between 0 and 1, but got {probability}")
    if not x.dtype.is_floating_point:
        raise RuntimeError(
            f"{operator}: result type Float can't be cast to the desired output type {x.dtype}; convert the tensor with .float()"
        )


def kept(shape: tuple[Dim, ...], probability: float, like: Node) -> Node:
    """1 where an element of ``shape`` is kept and 0 where it is dropped with ``probability``, in the type of ``like``."""
    drawn = draw("uniform53", shape, dtypes.float64)
    return p.cast(p.lt(drawn, p.number(1 - probability, drawn)), to=like.dtype)


def dropped(x: Node, probability: float, shape: tuple[Dim, ...]) -> Node:
    """x * (mask / (1 - probability)), in that order; one mask element for each of ``shape``, which broadcasts to x."""
    if probability == 1.0:
        return p.mul(x, p.number(0, x))
    mask = kept(shape, probability, x)
    return p.mul(x, broadcast_to(p.div(mask, p.number(1 - probability, mask)), x.shape))


def _dropout_samples(m: SampleMaker) -> Calls:
    return [case(m.float(4, 6), 0.25), case(m.float(3, 4, 5)), case(m.float(8), 0.5, False), case(m.float(8), 0.0), case(m.float(8), 1.0)]


@op(promote="arithmetic", samples=_dropout_samples)
def dropout(x: Value, p_: float = 0.5, training: bool = True) -> Node:
    """Zero each element with probability ``p_`` and scale the others by 1 / (1 - p_); x itself when not training."""
    _check("dropout", x, p_)
    return dropped(x, p_, x.shape) if training and p_ else x


@op(promote="arithmetic", samples=lambda m: [case(m.float(2, 3, 4), 0.5), case(m.float(2, 3), 0.5, False)])
def feature_dropout(x: Value, p_: float = 0.5, training: bool = True) -> Node:
    """As ``dropout`` for whole channels: x is [batch, channels, ...] and one number decides about a channel."""
    _check("feature_dropout", x, p_)
    if x.rank < 2:
        raise RuntimeError(f"feature_dropout: needs at least 2 dimensions in input, got shape {list(x.shape)}")
    return dropped(x, p_, (*x.shape[:2], *(1 for _ in x.shape[2:]))) if training and p_ else x


@op(promote="arithmetic", samples=lambda m: [case(m.float(4, 6), 0.25, True), case(m.float(8), 0.5), case(m.float(8), 1.0, True)])
def alpha_dropout(x: Value, p_: float = 0.5, training: bool = False) -> Node:
    """Dropout to SELU's negative saturation that keeps mean and variance."""
    _check("alpha_dropout", x, p_)
    if not training or not p_:
        return x
    if p_ == 1.0:
        return p.mul(x, p.number(0, x))
    scale = 1 / ((SELU_SATURATION**2 * p_ + 1) * (1 - p_)) ** 0.5
    mask = kept(x.shape, p_, x)
    shift = p.mul(p.sub(mask, p.number(1, mask)), p.number(SELU_SATURATION * scale, mask))
    shift = p.add(shift, p.number(SELU_SATURATION * scale * p_, mask))
    return p.add(p.mul(x, p.mul(mask, p.number(scale, mask))), shift)
