"""Recurrent Modules: plain, long short-term memory, and gated recurrent units."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core.context import context
from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.tensor import Tensor, autocasting
from flambeau.tensor.creation import empty, zeros
from flambeau.tensor.function import Function
from flambeau.tensor.gradients import grad

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# Of fewer steps, turning the weight costs what it saves.
FEWEST_STEPS = 4

State = tuple[Tensor, ...]
# The input's part of the gates, the state, and what else the hidden state is multiplied with, to the next state.
Cell = Callable[[Tensor, State, Sequence[Any]], State]


class _Kind(NamedTuple):
    """What a cell is made of: the operator of a step, which gives the state and activations, and the one of the way back.

    There are so many ``parts`` of the state, and so many ``gates``; ``own`` says that the product has a gradient other than the gates'.
    """

    step: Callable[..., Any]
    gradient: Callable[..., Any]
    parts: int = 1
    gates: int = 1
    own: bool = False

    def next(self, gates: Tensor, state: State, weights: Sequence[Any]) -> State:
        """The next state; a third weight projects its first part."""
        found = self.step(gates, *state, weights[0], weights[1])
        hidden, *others = found[: self.parts] if isinstance(found, tuple) else (found,)
        return (hidden if weights[2] is None else F.linear(hidden, weights[2])), *others

    def way_back(self, before: State, found: Any) -> State:
        """What ``gradient`` takes, of a step from the state ``before``."""
        if not isinstance(found, tuple):
            return (found,)
        return (found[-1], before[-1], *found[1:-1])


KINDS = {
    "RNN_TANH": _Kind(ops.rnn_tanh_step, ops.rnn_tanh_step_gradient),
    "RNN_RELU": _Kind(ops.rnn_relu_step, ops.rnn_relu_step_gradient),
    "LSTM": _Kind(ops.lstm_step, ops.lstm_step_gradient, 2, 4),
    "GRU": _Kind(ops.gru_step, ops.gru_step_gradient, 1, 3, True),
}


def _states(cell: Cell, gates: Sequence[Tensor], start: State, backwards: bool, weights: Sequence[Any]) -> tuple[list[Tensor], State]:
    """The hidden states of all steps in the order of ``gates``, and the last state.

    Sequences of a batch are sorted by length. Forward, those that have ended leave their state behind; backwards, they join at their end.
    """
    outputs: list[Tensor] = []
    ended: list[State] = []
    state = tuple(part[: gates[-1].size(0)] for part in start) if backwards else start
    for step in reversed(gates) if backwards else gates:
        count, present = step.size(0), state[0].size(0)
        if count < present:
            ended.append(tuple(part[count:] for part in state))
            state = tuple(part[:count] for part in state)
        elif count > present:
            state = tuple(ops.cat([part, first[present:count]]) for part, first in zip(state, start, strict=True))
        state = cell(step, state, weights)
        outputs.append(state[0])
    if ended:
        state = tuple(ops.cat([last, *(other[i] for other in reversed(ended))]) for i, last in enumerate(state))
    return outputs[::-1] if backwards else outputs, state


def _turned(weight: Tensor) -> Tensor:
    """A weight in the order in which the products of many steps read it."""
    return weight.t().contiguous().t()


class _Steps(Function):
    """All steps of one direction of a layer, with one product for the gradient of the weight.

    The arguments are the kind, the sizes of the batch, whether to go backwards, the input's part of the gates at all steps, the weight
    and the bias of the hidden state, and the parts of the first state; the results the hidden states at all steps, and the last state.
    """

    @staticmethod
    def forward(
        ctx: Any, kind: _Kind, counts: list[int], backwards: bool, gates: Tensor, weight: Tensor, bias: Any, *start: Tensor
    ) -> State:
        befores: list[Tensor] = []
        kept: list[State] = []

        def cell(step: Tensor, state: State, weights: Sequence[Any]) -> State:
            found = kind.step(step, *state, *weights)
            befores.append(state[0])
            kept.append(kind.way_back(state, found))
            return found[: kind.parts] if isinstance(found, tuple) else (found,)

        outputs, final = _states(cell, gates.split(counts), start, backwards, (_turned(weight), bias))
        ctx.kind, ctx.counts, ctx.backwards = kind, counts, backwards
        ctx.save_for_backward(gates, weight, bias, *start, *befores, *(part for parts in kept for part in parts))
        return ops.cat(outputs), *final

    @staticmethod
    def backward(ctx: Any, grads: Tensor, *final: Tensor) -> tuple[Any, ...]:
        kind, counts, backwards = ctx.kind, ctx.counts, ctx.backwards
        gates, weight, bias, *others = ctx.saved_tensors
        start, others = tuple(others[: kind.parts]), others[kind.parts :]
        if context.grad_enabled:  # derivatives of the derivative are those of the steps
            outputs, last = _states(kind.next, gates.split(counts), start, backwards, (weight, bias, None))
            inputs = [t for t in (gates, weight, bias, *start) if t is not None and t.requires_grad]
            found = iter(grad([ops.cat(outputs), *last], inputs, [grads, *final], create_graph=True, allow_unused=True))
            return (None, None, None, *[next(found) if t is not None and t.requires_grad else None for t in (gates, weight, bias, *start)])
        befores, saved = others[: len(counts)], others[len(counts) :]
        width = len(saved) // len(counts)
        kept = [saved[i : i + width] for i in range(0, len(saved), width)]
        way = _WayBack(kind, weight, final)
        given = grads.split(counts)
        for place in reversed(range(len(counts))):
            way.step(given[len(counts) - 1 - place if backwards else place], kept[place])
        first = way.finish()
        # Places are in the order of steps, gates in that of time.
        turn = slice(None) if backwards else slice(None, None, -1)
        for_gates = ops.cat(way.gates[turn])
        own = ops.cat(way.own[turn]) if kind.own else for_gates
        for_weight = own.t() @ ops.cat(befores[::-1] if backwards else befores) if ctx.needs_input_grad[4] else None
        return None, None, None, for_gates, for_weight, None if bias is None else ops.sum(own, (0,)), *first


class _WayBack:
    """Gradients of the steps of a layer, from the last to the first."""

    def __init__(self, kind: _Kind, weight: Tensor, final: Sequence[Tensor]) -> None:
        self.kind, self.weight, self.final = kind, weight, final
        self.gates: list[Tensor] = []
        self.own: list[Tensor] = []
        self.starts: list[State] = []
        # Of the later step: the gradient of the product, and what the state gets beside.
        self.later = new_rows(weight, 0, weight.size(0))
        self.carried = tuple(new_rows(weight, 0, weight.size(1)) for _ in range(len(final) - 1 + kind.own))

    def step(self, given: Tensor, kept: Sequence[Tensor]) -> None:
        count, present = given.size(0), self.later.size(0)
        if count > present:  # these sequences end here
            hidden, *others = (part[present:count] for part in self.final)
            added = new_rows(self.weight, count - present, self.weight.size(0))
            given = given + (hidden if not present else ops.cat([new_rows(self.weight, present, hidden.size(1)), hidden]))
            others = others or [new_rows(self.weight, count - present, hidden.size(1)) for _ in self.carried]
            self.later = ops.cat([self.later, added])
            self.carried = tuple(ops.cat([part, other]) for part, other in zip(self.carried, others, strict=True))
        elif count < present:
            self._leave(count)
        found = self.kind.gradient(self.later, given, *self.carried, *kept, self.weight)
        gates, *rest = found if isinstance(found, tuple) else (found,)
        self.later, *carried = rest if self.kind.own else (gates, *rest)
        self.carried = tuple(carried)
        self.gates.append(gates)
        self.own.append(self.later)

    def _leave(self, count: int) -> None:
        """The gradient of the first state of the sequences from ``count`` on: they begin later than what follows."""
        hidden, others = self.later[count:] @ self.weight, [part[count:] for part in self.carried]
        self.starts.append((hidden + others[0],) if self.kind.own else (hidden, *others))
        self.later, self.carried = self.later[:count], tuple(part[:count] for part in self.carried)

    def finish(self) -> State:
        self._leave(0)
        if len(self.starts) == 1:
            return self.starts[0]
        return tuple(ops.cat([start[i] for start in reversed(self.starts)]) for i in range(len(self.final)))


def new_rows(like: Tensor, rows: int, width: int) -> Tensor:
    return zeros(rows, width, dtype=like.dtype, device=like.device)


class RNNBase(Module):
    """Layers of a recurrent cell over sequences (T, N, input_size), or (N, T, input_size) with `batch_first`, or (T, input_size).

    Returns the last layer's hidden states at all steps, and the last state (layers * directions, N, hidden_size). With `dropout`
    the results of all layers but the last are dropped out. Packed sequences give packed results.
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in KINDS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        _check_sizes(hidden_size, num_layers, dropout, proj_size, mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(1 + bidirectional):
                self._create_layer(layer, direction, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _create_layer(self, layer: int, direction: int, options: dict[str, Any]) -> None:
        real = self.proj_size or self.hidden_size
        size = self.input_size if layer == 0 else real * (1 + self.bidirectional)
        rows = KINDS[self.mode].gates * self.hidden_size
        shapes = {"weight_ih": (rows, size), "weight_hh": (rows, real)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}  # type: ignore[dict-item]
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}" + "_reverse" * direction
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, **options)))
        self._all_weights.append([name + suffix for name in shapes])
        self._flat_weights_names += self._all_weights[-1]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Nothing is to be done: parameters are used where they lie."""

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform in [-k, k] with k = 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        return text + "".join(f", {name}={getattr(self, name)}" for name, default in defaults.items() if getattr(self, name) != default)

    # -- running ------------------------------------------------------------------------------------------
    def _state_sizes(self) -> tuple[int, ...]:
        """The widths of the state's parts."""
        return (self.proj_size or self.hidden_size, self.hidden_size) if self.mode == "LSTM" else (self.hidden_size,)

    def _start(self, given: Any, like: Tensor, batch: int, batched: bool, order: Tensor | None) -> State:
        """The first state, in the order of a packed sequence."""
        rows = self.num_layers * (1 + self.bidirectional)
        if given is None:
            return tuple(zeros(rows, batch, width, dtype=like.dtype, device=like.device) for width in self._state_sizes())
        parts = given if self.mode == "LSTM" else (given,)
        if len(parts) != len(self._state_sizes()):
            raise RuntimeError(f"{type(self).__name__}: expected a state of {len(self._state_sizes())} tensors, got {len(parts)}")
        state: list[Tensor] = []
        for part, width in zip(parts, self._state_sizes(), strict=True):
            rank = 3 if batched else 2
            if part.dim() != rank:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {part.dim()}-D tensor")
            part = part if batched else part.unsqueeze(1)
            if tuple(part.shape) != (rows, batch, width):
                raise RuntimeError(f"Expected hidden size {(rows, batch, width)}, got {list(part.shape)}")
            state.append(part if order is None else part.index_select(1, order))
        return tuple(state)

    def _layers(self, data: Tensor, counts: list[int], state: State) -> tuple[Tensor, State]:
        """All layers over packed data."""
        finals: list[State] = []
        for layer in range(self.num_layers):
            results: list[Tensor] = []
            for direction in range(1 + self.bidirectional):
                place = layer * (1 + self.bidirectional) + direction
                weights = dict(zip((name.rsplit("_l", 1)[0] for name in self._all_weights[place]), self.all_weights[place], strict=True))
                gates = F.linear(data, weights["weight_ih"], weights.get("bias_ih"))
                others = (weights["weight_hh"], weights.get("bias_hh"), weights.get("weight_hr"))
                hidden, *final = self._direction(gates, counts, bool(direction), tuple(part[place] for part in state), others)
                results.append(hidden)
                finals.append(tuple(final))
            data = results[0] if len(results) == 1 else ops.cat(results, -1)
            if self.dropout and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, self.training)
        return data, tuple(ops.stack([final[i] for final in finals]) for i in range(len(state)))

    def _direction(self, gates: Tensor, counts: list[int], backwards: bool, start: State, weights: Sequence[Any]) -> State:
        """The hidden states of all steps, and the last state."""
        kind, operands = KINDS[self.mode], (gates, weights[0], weights[1], *start)
        many = len(counts) >= FEWEST_STEPS and weights[2] is None
        plain = context.autocast or context.batching or context.capture is not None or context.function_modes
        if many and not plain and context.grad_enabled and any(t is not None and t.requires_grad for t in operands):
            return _Steps.apply(kind, counts, backwards, *operands)
        if many and not plain and not context.grad_enabled:
            weights = (_turned(weights[0]), *weights[1:])
        outputs, final = _states(kind.next, gates.split(counts), start, backwards, weights)
        return ops.cat(outputs), *final

    def _as_given(self, state: State) -> Any:
        return state if self.mode == "LSTM" else state[0]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Results at all steps and the last state; `hx` is the first state (default: zeros)."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        self._check_width(input)
        batched = input.dim() == 3
        steps = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        length, batch = steps.shape[:2]
        state = self._start(hx, input, batch, batched, None)
        data, final = self._layers(steps.reshape(length * batch, steps.size(2)), [batch] * length, state)
        output = data.reshape(length, batch, data.size(1))
        if not batched:
            return output.squeeze(1), self._as_given(tuple(part.squeeze(1) for part in final))
        return (output.transpose(0, 1) if self.batch_first else output), self._as_given(final)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        self._check_width(input.data)
        counts = [int(count) for count in input.batch_sizes.tolist()]  # pyright: ignore
        state = self._start(hx, input.data, counts[0], True, input.sorted_indices)
        data, final = self._layers(input.data, counts, state)
        if input.unsorted_indices is not None:
            final = tuple(part.index_select(1, input.unsorted_indices) for part in final)
        return input._replace(data=data), self._as_given(final)

    def _check_width(self, input: Tensor) -> None:
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")


def _check_sizes(hidden_size: int, num_layers: int, dropout: float, proj_size: int, mode: str) -> None:
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
    if dropout > 0 and num_layers == 1:
        warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                      f"than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=4)  # fmt: skip
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if proj_size < 0 or proj_size >= hidden_size:
        raise ValueError("proj_size has to be a positive integer, smaller than hidden_size, or zero to disable projections")


class RNN(RNNBase):
    """tanh(W x + b + U h + c), or relu with ``nonlinearity="relu"`` (Elman, 1990)."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", *args: Any, **kwargs: Any
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory; the state is a pair of hidden state and cell. `proj_size` makes the hidden state that wide.

    >>> import flambeau as torch
    >>> output, (hidden, cell) = torch.nn.LSTM(10, 20, 2)(torch.ones(5, 3, 10))
    >>> tuple(output.shape), tuple(hidden.shape)
    ((5, 3, 20), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent cell: input (N, input_size) or (input_size), state (N, hidden_size) or (hidden_size)."""

    mode: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in shapes.items():
            wanted = bias or not name.startswith("bias")
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform in [-k, k] with k = 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")

    def _step(self, input: Tensor, state: State | None, parts: int) -> State:
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        if state is None:
            state = (zeros(rows.size(0), self.hidden_size, dtype=input.dtype, device=input.device),) * parts
        else:
            state = tuple(part if batched else part.unsqueeze(0) for part in state)
        gates = F.linear(rows, self.weight_ih, self.bias_ih)
        out = KINDS[self.mode].next(gates, state, (self.weight_hh, self.bias_hh, None))
        return out if batched else tuple(part.squeeze(0) for part in out)


class RNNCell(RNNCellBase):
    """One step of RNN."""

    mode = "RNN_TANH"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.mode = "RNN_" + nonlinearity.upper()
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of LSTM: gives hidden state and cell."""

    mode = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: dtype | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> State:
        return self._step(input, hx, 2) if not context.autocast else autocasting.apply("lstm_cell", self._step, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of GRU."""

    mode = "GRU"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: dtype | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, None if hx is None else (hx,), 1)[0]
