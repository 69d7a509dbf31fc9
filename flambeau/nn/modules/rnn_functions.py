"""Recurrent layers and cells as functions of their weights: ``torch.lstm``, ``torch.gru_cell`` and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.modules.rnn import KINDS, RNNBase, State
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.tensor import Tensor

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


class _GivenWeights(RNNBase):
    """A layer that gets its weights from outside."""

    def reset_parameters(self) -> None:
        """Nothing is drawn."""


def _run(mode: str, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The forms ``(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` and, packed,
    ``(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)``."""
    packed = "data" in kwargs or (len(args) > 1 and isinstance(args[1], Tensor) and not args[1].is_floating_point())
    names = ("data", "batch_sizes") if packed else ("input",)
    names = (*names, "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", *(() if packed else ("batch_first",)))
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) != set(names):
        raise TypeError(f"{mode.lower()}: needs the arguments {', '.join(names)}, got {', '.join(given)}")
    weights: Sequence[Tensor] = given["params"]
    width = weights[0].shape[1]
    state = given["hx"] if mode == "LSTM" else (given["hx"],)
    hidden, projected = state[-1].shape[-1], state[0].shape[-1]
    layer = _GivenWeights(
        mode, width, hidden, given["num_layers"], given["has_biases"], given.get("batch_first", False), given["dropout"],
        given["bidirectional"], projected if projected != hidden else 0,
    )  # fmt: skip
    layer._parameters.update(zip(layer._flat_weights_names, weights, strict=True))  # type: ignore[arg-type]
    layer.train(given["train"])
    sequences = PackedSequence(given["data"], given["batch_sizes"]) if packed else given["input"]
    output, final = layer(sequences, given["hx"])
    return (output.data if packed else output, *(final if mode == "LSTM" else (final,)))


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Layers of LSTM over sequences: the results, the last hidden state and the last cell."""
    return _run("LSTM", *args, **kwargs)


def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Layers of GRU over sequences: the results and the last state."""
    return _run("GRU", *args, **kwargs)


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Plain recurrent layers with tanh: the results and the last state."""
    return _run("RNN_TANH", *args, **kwargs)


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Plain recurrent layers with relu: the results and the last state."""
    return _run("RNN_RELU", *args, **kwargs)


def _cell(mode: str, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None) -> State:
    return KINDS[mode].next(F.linear(input, w_ih, b_ih), state, (w_hh, b_hh, None))


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> State:
    """One step of LSTM: the hidden state and the cell."""
    return _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of GRU."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of a plain cell with tanh."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of a plain cell with relu."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
