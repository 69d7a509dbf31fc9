"""Recurrent Modules and packed sequences against float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import rnn

RNG = np.random.default_rng()
State = tuple[np.ndarray, ...]


def tensor(array: np.ndarray, requires_grad: bool = False) -> Any:
    return torch.tensor(array.astype(np.float32), requires_grad=requires_grad)


def close(actual: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(mode: str, x: np.ndarray, state: State, w: dict[str, np.ndarray], suffix: str) -> State:
    a = x @ w["weight_ih" + suffix].T + w.get("bias_ih" + suffix, 0)
    b = state[0] @ w["weight_hh" + suffix].T + w.get("bias_hh" + suffix, 0)
    if mode == "RNN":
        return (np.tanh(a + b),)
    if mode == "GRU":
        (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
        new = np.tanh(n + sigmoid(r + hr) * hn)
        share = sigmoid(z + hz)
        return ((1 - share) * new + share * state[0],)
    i, f, g, o = np.split(a + b, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    hidden = sigmoid(o) * np.tanh(cell)
    return hidden @ w["weight_hr" + suffix].T if "weight_hr" + suffix in w else hidden, cell


def run(mode: str, x: np.ndarray, state: State, w: dict[str, np.ndarray], suffix: str, lengths: list[int]) -> tuple[np.ndarray, State]:
    """One direction over (T, N, I): outputs, zero past the end of a sequence, and last states."""
    steps = range(len(x)) if not suffix.endswith("reverse") else range(len(x) - 1, -1, -1)
    outputs: list[Any] = [None] * len(x)
    for t in steps:
        alive = np.array([t < length for length in lengths])[:, None]
        state = tuple(np.where(alive, new, old) for new, old in zip(step(mode, x[t], state, w, suffix), state, strict=True))
        outputs[t] = np.where(alive, state[0], 0)
    return np.stack(outputs), state


def expected(layer: Any, mode: str, x: np.ndarray, start: State, lengths: list[int]) -> tuple[np.ndarray, State]:
    w = {name: p.detach().numpy().astype(np.float64) for name, p in layer.named_parameters()}
    finals: list[State] = []
    for number in range(layer.num_layers):
        parts = []
        for direction in range(1 + layer.bidirectional):
            place = len(finals)
            out, final = run(mode, x, tuple(s[place] for s in start), w, f"_l{number}" + "_reverse" * direction, lengths)
            parts.append(out)
            finals.append(final)
        x = np.concatenate(parts, -1)
    return x, tuple(np.stack([final[i] for final in finals]) for i in range(len(start)))


LAYERS = [
    ("RNN", lambda **o: nn.RNN(4, 6, **o), {}), ("GRU", lambda **o: nn.GRU(4, 6, 2, bidirectional=True, **o), {}),
    ("LSTM", lambda **o: nn.LSTM(4, 6, 2, bidirectional=True, **o), {}),
    ("LSTM", lambda **o: nn.LSTM(4, 6, 2, proj_size=3, bias=False, **o), {}),
]  # fmt: skip


def start_of(layer: Any, batch: int) -> State:
    rows = layer.num_layers * (1 + layer.bidirectional)
    return tuple(RNG.standard_normal((rows, batch, width)) for width in layer._state_sizes())


@pytest.mark.parametrize(("mode", "make", "options"), LAYERS)
def test_layers_over_padded_sequences(mode: str, make: Any, options: Any) -> None:
    layer, x = make(), RNG.standard_normal((5, 3, 4))
    start = start_of(layer, 3)
    given = tuple(tensor(s) for s in start)
    out, final = layer(tensor(x), given if mode == "LSTM" else given[0])
    wanted, last = expected(layer, mode, x, start, [5, 5, 5])
    close(out, wanted)
    for found, value in zip(final if mode == "LSTM" else (final,), last, strict=True):
        close(found, value)
    alone, _ = layer(tensor(x[:, 1]))
    close(alone, expected(layer, mode, x[:, 1:2], tuple(np.zeros_like(s[:, :1]) for s in start), [5])[0][:, 0])
    first = make(batch_first=True)
    first.load_state_dict(layer.state_dict())
    close(first(tensor(x.swapaxes(0, 1)), given if mode == "LSTM" else given[0])[0], wanted.swapaxes(0, 1))


@pytest.mark.parametrize(("mode", "make", "options"), LAYERS)
def test_layers_over_packed_sequences(mode: str, make: Any, options: Any) -> None:
    layer, x, lengths = make(), RNG.standard_normal((5, 3, 4)), [2, 5, 3]
    start = start_of(layer, 3)
    given = tuple(tensor(s) for s in start)
    packed = rnn.pack_padded_sequence(tensor(x), lengths, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 2, 0]
    out, final = layer(packed, given if mode == "LSTM" else given[0])
    wanted, last = expected(layer, mode, x, start, lengths)
    padded, found = rnn.pad_packed_sequence(out)
    close(padded, wanted)
    assert found.tolist() == lengths
    for actual, value in zip(final if mode == "LSTM" else (final,), last, strict=True):
        close(actual, value)


def test_batches_of_nothing() -> None:
    layer = nn.GRU(4, 6)
    out, final = layer(torch.zeros(5, 0, 4))
    (out.sum() + final.sum()).backward()
    assert out.shape == (5, 0, 6) and final.shape == (1, 0, 6) and not layer.weight_hh_l0.grad.any()


def test_gradients_flow_through_time() -> None:
    layer, x = nn.LSTM(2, 3), RNG.standard_normal((4, 2, 2))
    given = tensor(x, requires_grad=True)
    layer(given)[0].sum().backward()
    h = 1e-3
    for place in ((0, 0, 0), (3, 1, 1)):
        moved = [x.copy(), x.copy()]
        moved[0][place] += h
        moved[1][place] -= h
        zeros = (np.zeros((1, 2, 3)),) * 2
        up, down = (expected(layer, "LSTM", m, zeros, [4, 4])[0].sum() for m in moved)
        assert given.grad[place].item() == pytest.approx((up - down) / (2 * h), rel=1e-2, abs=1e-4)
    assert layer.weight_hh_l0.grad.abs().sum().item() > 0


RELU = ("RNN", lambda **o: nn.RNN(4, 6, nonlinearity="relu", **o), {})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("mode", "make", "options"), [*LAYERS, RELU])
def test_first_and_second_derivatives_are_slopes(mode: str, make: Any, options: Any, packed: bool) -> None:
    layer = make(dtype=torch.float64)
    operands = [torch.tensor(a, requires_grad=True) for a in (RNG.standard_normal((5, 3, 4)), *start_of(layer, 3))]
    operands += list(layer.parameters())
    weights = torch.tensor(RNG.standard_normal((11, (1 + layer.bidirectional) * layer._state_sizes()[0])))

    def loss() -> Any:
        x, *start = operands[: 2 + (mode == "LSTM")]
        given = rnn.pack_padded_sequence(x, [5, 4, 2]) if packed else x
        out, final = layer(given, tuple(start) if mode == "LSTM" else start[0])
        out = out.data if packed else out.reshape(15, -1)[:11]
        return (out * weights).sum() + sum((part * part).sum() for part in (final if mode == "LSTM" else (final,)))

    steps = [torch.tensor(RNG.standard_normal(t.shape)) for t in operands]

    def slope_at(distance: float, of: Any) -> Any:
        with torch.no_grad():
            for t, step in zip(operands, steps, strict=True):
                t += distance * step
        value = of().item()
        with torch.no_grad():
            for t, step in zip(operands, steps, strict=True):
                t -= distance * step
        return value

    def along(create_graph: bool = False) -> Any:
        found = torch.autograd.grad(loss(), operands, create_graph=create_graph)
        return sum((g * step).sum() for g, step in zip(found, steps, strict=True))

    h = 1e-6
    assert along().item() == pytest.approx((slope_at(h, loss) - slope_at(-h, loss)) / (2 * h), rel=1e-6, abs=1e-6)
    second = torch.autograd.grad(along(True), operands, allow_unused=True)
    bend = sum((g * step).sum() for g, step in zip(second, steps, strict=True) if g is not None)
    assert bend.item() == pytest.approx((slope_at(h, along) - slope_at(-h, along)) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("mode", "cell"), [("RNN", nn.RNNCell(4, 6)), ("GRU", nn.GRUCell(4, 6)), ("LSTM", nn.LSTMCell(4, 6))])
def test_cells(mode: str, cell: Any) -> None:
    x, h, c = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 6)), RNG.standard_normal((3, 6))
    w = {name: p.detach().numpy().astype(np.float64) for name, p in cell.named_parameters()}
    out = cell(tensor(x), (tensor(h), tensor(c)) if mode == "LSTM" else tensor(h))
    wanted = step(mode, x, (h, c), w, "")
    for actual, value in zip(out if mode == "LSTM" else (out,), wanted, strict=True):
        close(actual, value)
    single = cell(tensor(x[0]))
    close(single[0] if mode == "LSTM" else single, step(mode, x[:1], (h[:1] * 0, c[:1] * 0), w, "")[0][0])


def test_printing_and_parameters() -> None:
    layer = nn.LSTM(4, 6, 2, dropout=0.5, bidirectional=True, batch_first=True)
    assert repr(layer) == "LSTM(4, 6, num_layers=2, batch_first=True, dropout=0.5, bidirectional=True)"
    names = [name for name, _ in layer.named_parameters()]
    assert names[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]
    assert len(layer.all_weights) == 4 and len(layer._flat_weights) == 16 and layer.flatten_parameters() is None
    assert repr(nn.GRUCell(3, 4, bias=False)) == "GRUCell(3, 4, bias=False)"
    assert max(abs(p.detach().numpy()).max() for p in layer.parameters()) <= 1 / np.sqrt(6)


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda: nn.LSTM(4, 6)(torch.ones(2, 3, 5)), RuntimeError, "input.size(-1) must be equal to input_size. Expected 4, got 5"),
    (lambda: nn.GRU(4, 6)(torch.ones(4)), ValueError, "Expected input to be 2D or 3D, got 1D"),
    (lambda: nn.GRU(4, 6)(torch.ones(2, 3, 4), torch.ones(1, 2, 6)), RuntimeError, "Expected hidden size (1, 3, 6), got [1, 2, 6]"),
    (lambda: nn.GRU(4, 6)(torch.ones(2, 3, 4), torch.ones(3, 6)), RuntimeError, "hx should also be 3-D but got 2-D tensor"),
    (lambda: nn.RNN(4, 6, nonlinearity="odd"), ValueError, "Unknown nonlinearity 'odd'"),
    (lambda: nn.GRU(4, 6, proj_size=2), ValueError, "proj_size argument is only supported for LSTM"),
    (lambda: nn.LSTM(4, 0), ValueError, "hidden_size must be greater than zero"),
    (lambda: nn.LSTM(4, 6, 2, dropout=2), ValueError, "dropout should be a number in range"),
    (lambda: rnn.pack_padded_sequence(torch.ones(5, 2, 1), [2, 5]), RuntimeError, "must be sorted in decreasing order"),
    (lambda: rnn.pack_padded_sequence(torch.ones(5, 2, 1), [2]), RuntimeError, "equal to batch_size"),
    (lambda: rnn.pack_padded_sequence(torch.ones(5, 1, 1), [0]), RuntimeError, "has to be greater than 0"),
    (lambda: rnn.pad_packed_sequence(rnn.pack_sequence([torch.ones(3)]), total_length=2), ValueError, "Expected total_length"),
    (lambda: rnn.pad_sequence([torch.ones(1)], padding_side="top"), ValueError, "should be 'left' or 'right'"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as raised:
        action()
    assert message in str(raised.value)


def test_sequences_are_padded_and_packed() -> None:
    sequences = [torch.tensor([1.0, 2.0]), torch.tensor([3.0]), torch.tensor([4.0, 5.0, 6.0])]
    assert rnn.pad_sequence(sequences, True, 9.0).tolist() == [[1, 2, 9], [3, 9, 9], [4, 5, 6]]
    assert rnn.pad_sequence(sequences, padding_side="left").tolist() == [[0, 0, 4], [1, 0, 5], [2, 3, 6]]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [4, 1, 3, 5, 2, 6] and packed.batch_sizes.tolist() == [3, 2, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=9.0, total_length=4)
    assert padded.tolist() == [[1, 2, 9, 9], [3, 9, 9, 9], [4, 5, 6, 9]] and lengths.tolist() == [2, 1, 3]
    assert [s.tolist() for s in rnn.unpad_sequence(padded, lengths, batch_first=True)] == [[1, 2], [3], [4, 5, 6]]
    assert packed.to(torch.float64).data.dtype is torch.float64


def test_dropout_between_layers() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(4, 6, dropout=0.5)
    layer, x = nn.GRU(4, 6, 2, dropout=0.5), tensor(RNG.standard_normal((5, 3, 4)))
    assert (layer(x)[0] - layer(x)[0]).abs().max().item() > 0
    layer.eval()
    close(layer(x)[0], layer(x)[0].detach().numpy())
