"""One step of a recurrent layer, from the input's part of its gates, and its way back.

Steps of cells with gates give the activations too, from which their derivatives start. The derivative of a step has two forms of one
formula: the operator's own, and ``..._step_gradient``, which multiplies the later step's gradient with the weight first, so that a layer
needs one call for each step backward and computes the gradient of its weight for all steps at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops.activation import relu
from flambeau.ops.cases import Call, SampleMaker, case
from flambeau.ops.declare import Value, op
from flambeau.ops.matmul import PRODUCT, linear, multiply
from flambeau.ops.pointwise import sigmoid, tanh
from flambeau.ops.samples import Sampler
from flambeau.ops.view import pieces


def _samples(gates: int, states: int = 1) -> Sampler:
    def make(m: SampleMaker) -> Iterator[Call]:
        def operands(rows: int, width: int) -> tuple[object, ...]:
            return m.float(rows, gates * width), *(m.float(rows, width) for _ in range(states)), m.float(gates * width, width)

        yield case(*operands(3, 4), m.float(gates * 4))
        yield case(*operands(1, 2), None)
        yield case(*operands(0, 3), m.float(gates * 3))

    return make


def _gradient_samples(gates: int, *widths: int) -> Sampler:
    """Of the later gradient, states of so many widths, and the weight."""

    def make(m: SampleMaker) -> Iterator[Call]:
        for n, h in ((3, 4), (1, 2), (0, 3)):
            yield case(*(m.float(n, w * h) for w in (gates, *widths)), m.float(gates * h, h))

    return make


def _sum(x: Node, y: Node | None) -> Node:
    return x if y is None else x + y


def _through_product(own: Node, hidden: Node, weight: Node, bias: Node | None) -> tuple[Node | None, ...]:
    """The gradients of hidden state, weight and bias, given that of ``linear(hidden, weight, bias)``."""
    return p.matmul(own, weight), p.matmul(p.transpose(own), hidden), None if bias is None else p.reduce(own, kind="sum", axes=(0,))


# -- long short-term memory -------------------------------------------------------------------------------
@op(promote=PRODUCT, samples=_samples(4, 2))
def lstm_step(gates: Value, hidden: Value, cell: Value, weight: Value, bias: Value | None = None) -> tuple[Node, Node, Node]:
    """The next hidden state and cell (N, H) from ``gates`` (N, 4 H) in the order in, forget, content, out, and ``weight`` (4 H, H).

    The third result are the activations (N, 4 H). ``hidden`` may be narrower than the cell, as ``weight`` then is. Hochreiter and
    Schmidhuber 1997, Gers et al. 2000.
    """
    entering, kept, content, leaving = pieces(gates + linear(hidden, weight, bias), 1, [cell.shape[1]] * 4)
    entering, kept, content, leaving = sigmoid(entering), sigmoid(kept), tanh(content), sigmoid(leaving)
    cell = kept * cell + entering * content
    return leaving * tanh(cell), cell, p.cat(entering, kept, content, leaving, axis=1)


def _lstm_gradient(
    grad: Node, grad_cell: Node | None, activations: Node, before: Node, cell: Node, direct: Node | None = None
) -> tuple[Node, Node]:
    """The gradients of the gates and of the cell before; ``direct`` is one that activations get beside."""
    entering, kept, content, leaving = pieces(activations, 1, [cell.shape[1]] * 4)
    shown = tanh(cell)
    inner = _sum(grad * leaving * (1 - shown * shown), grad_cell)
    parts = [inner * content, inner * before, inner * entering, grad * shown]
    if direct is not None:
        parts = [part + other for part, other in zip(parts, pieces(direct, 1, [cell.shape[1]] * 4), strict=True)]
    slopes = (entering * (1 - entering), kept * (1 - kept), 1 - content * content, leaving * (1 - leaving))
    return p.cat(*(part * slope for part, slope in zip(parts, slopes, strict=True)), axis=1), inner * kept


def _lstm_step_derivative(g: Any, _out: Any, arguments: Any) -> tuple[Node | None, ...]:
    _, hidden, before, weight, bias = arguments
    _, cell, activations = lstm_step.body(*arguments)  # the nodes that there are; those of results that nobody uses may be gone
    gates, for_cell = _lstm_gradient(p.number(0, cell) if g[0] is None else g[0], g[1], activations, before, cell, g[2])
    for_hidden, for_weight, for_bias = _through_product(gates, hidden, weight, bias)
    return gates, for_hidden, for_cell, for_weight, for_bias


lstm_step.derivative = _lstm_step_derivative


@op(promote=PRODUCT, samples=_gradient_samples(4, 1, 1, 4, 1, 1))
def lstm_step_gradient(
    later: Value, grad: Value, grad_cell: Value, activations: Value, before: Value, cell: Value, weight: Value
) -> tuple[Node, Node]:
    """The gradients of gates (N, 4 H) and of the cell ``before`` a step that gave ``cell``.

    ``later`` is that of the next step's gates, ``grad`` what the hidden state gets beside.
    """
    return _lstm_gradient(grad + multiply(later, weight), grad_cell, activations, before, cell)


# -- gated recurrent unit ---------------------------------------------------------------------------------
@op(promote=PRODUCT, samples=_samples(3))
def gru_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> tuple[Node, Node]:
    """The next hidden state (N, H) from ``gates`` (N, 3 H) in the order reset, update, new, and ``weight`` (3 H, H).

    The second result are the three activations and the new state's part of the product (N, 4 H). Cho et al. 2014, with the reset gate
    applied after the product.
    """
    width = hidden.shape[1]
    reset, update, new = pieces(gates, 1, [width] * 3)
    own_reset, own_update, own_new = pieces(linear(hidden, weight, bias), 1, [width] * 3)
    reset, update = sigmoid(reset + own_reset), sigmoid(update + own_update)
    new = tanh(new + reset * own_new)
    return new + update * (hidden - new), p.cat(reset, update, new, own_new, axis=1)


def _gru_gradient(grad: Node, activations: Node, before: Node, direct: Node | None = None) -> tuple[Node, Node, Node]:
    """The gradients of the gates, of the product and of the state before, the last without what comes through the product."""
    width = before.shape[1]
    reset, update, new, own_new = pieces(activations, 1, [width] * 4)
    beside = [None] * 4 if direct is None else pieces(direct, 1, [width] * 4)
    for_new = _sum(grad * (1 - update), beside[2]) * (1 - new * new)
    for_update = _sum(grad * (before - new), beside[1]) * update * (1 - update)
    for_reset = _sum(for_new * own_new, beside[0]) * reset * (1 - reset)
    own = _sum(for_new * reset, beside[3])
    return p.cat(for_reset, for_update, for_new, axis=1), p.cat(for_reset, for_update, own, axis=1), grad * update


def _gru_step_derivative(g: Any, _out: Any, arguments: Any) -> tuple[Node | None, ...]:
    _, hidden, weight, bias = arguments
    _, activations = gru_step.body(*arguments)
    gates, own, through = _gru_gradient(p.number(0, hidden) if g[0] is None else g[0], activations, hidden, g[1])
    for_hidden, for_weight, for_bias = _through_product(own, hidden, weight, bias)
    return gates, _sum(through, for_hidden), for_weight, for_bias


gru_step.derivative = _gru_step_derivative


@op(promote=PRODUCT, samples=_gradient_samples(3, 1, 1, 4, 1))
def gru_step_gradient(
    later: Value, grad: Value, through: Value, activations: Value, before: Value, weight: Value
) -> tuple[Node, Node, Node]:
    """The gradients of gates and of the product (N, 3 H), and what the state ``before`` a step gets from it but through the product.

    ``later`` and ``through`` are the last two of the next step, ``grad`` what the hidden state gets beside.
    """
    return _gru_gradient(grad + through + multiply(later, weight), activations, before)


# -- plain ------------------------------------------------------------------------------------------------
@op(promote=PRODUCT, samples=_samples(1))
def rnn_tanh_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> Node:
    """tanh(gates + hidden @ weight.T + bias), (N, H) (Elman 1990)."""
    return tanh(gates + linear(hidden, weight, bias))


@op(promote=PRODUCT, samples=_gradient_samples(1, 1, 1))
def rnn_tanh_step_gradient(later: Value, grad: Value, hidden: Value, weight: Value) -> Node:
    """The gradient of the gates of a step that gave ``hidden``, where ``later`` is that of the next step's."""
    return (grad + multiply(later, weight)) * (1 - hidden * hidden)


@op(promote=PRODUCT, samples=_samples(1))
def rnn_relu_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> Node:
    """relu(gates + hidden @ weight.T + bias), (N, H)."""
    return relu(gates + linear(hidden, weight, bias))


@op(promote=PRODUCT, samples=_gradient_samples(1, 1, 1))
def rnn_relu_step_gradient(later: Value, grad: Value, hidden: Value, weight: Value) -> Node:
    """The gradient of the gates of a step that gave ``hidden``, where ``later`` is that of the next step's."""
    whole = grad + multiply(later, weight)
    return p.where(p.lt(p.number(0, hidden), hidden), whole, p.number(0, whole))
