"""One step of a recurrent layer, from the input's part of its gates."""

from __future__ import annotations

from collections.abc import Iterator

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops.activation import relu
from flambeau.ops.cases import Call, SampleMaker, case
from flambeau.ops.declare import Value, op
from flambeau.ops.matmul import PRODUCT, linear
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


@op(promote=PRODUCT, samples=_samples(4, 2))
def lstm_step(gates: Value, hidden: Value, cell: Value, weight: Value, bias: Value | None = None) -> tuple[Node, Node]:
    """The next hidden state and cell (N, H) from ``gates`` (N, 4 H) in the order in, forget, content, out, and ``weight`` (4 H, H).

    ``hidden`` may be narrower than the cell, as ``weight`` then is. Hochreiter and Schmidhuber 1997, Gers et al. 2000.
    """
    whole = p.add(gates, linear(hidden, weight, bias))
    entering, kept, content, leaving = pieces(whole, 1, [cell.shape[1]] * 4)
    cell = p.add(p.mul(sigmoid(kept), cell), p.mul(sigmoid(entering), tanh(content)))
    return p.mul(sigmoid(leaving), tanh(cell)), cell


@op(promote=PRODUCT, samples=_samples(3))
def gru_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> Node:
    """The next hidden state (N, H) from ``gates`` (N, 3 H) in the order reset, update, new, and ``weight`` (3 H, H).

    Cho et al. 2014, with the reset gate applied after the product.
    """
    width = hidden.shape[1]
    reset, update, new = pieces(gates, 1, [width] * 3)
    own_reset, own_update, own_new = pieces(linear(hidden, weight, bias), 1, [width] * 3)
    candidate = tanh(p.add(new, p.mul(sigmoid(p.add(reset, own_reset)), own_new)))
    return p.add(candidate, p.mul(sigmoid(p.add(update, own_update)), p.sub(hidden, candidate)))


@op(promote=PRODUCT, samples=_samples(1))
def rnn_tanh_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> Node:
    """tanh(gates + hidden @ weight.T + bias), (N, H) (Elman 1990)."""
    return tanh(p.add(gates, linear(hidden, weight, bias)))


@op(promote=PRODUCT, samples=_samples(1))
def rnn_relu_step(gates: Value, hidden: Value, weight: Value, bias: Value | None = None) -> Node:
    """relu(gates + hidden @ weight.T + bias), (N, H)."""
    return relu(p.add(gates, linear(hidden, weight, bias)))
