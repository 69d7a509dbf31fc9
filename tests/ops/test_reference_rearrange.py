"""Rearranging copies against numpy, and their derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    size = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], size, size))
    places = np.arange(x.shape[-1])
    out[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _block_diag(tensors: list[Any]) -> Any:
    blocks = [np.atleast_2d(t) for t in tensors]
    out = np.zeros(np.sum([b.shape for b in blocks], axis=0))
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return out


def _pad(x: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True))]
    amounts = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant":
        return np.pad(x, amounts, constant_values=value or 0)
    return np.pad(x, amounts, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])  # type: ignore[call-overload]


def _shuffle(x: Any, r: int) -> Any:
    out = np.zeros((x.shape[0], x.shape[1] // r**2, x.shape[2] * r, x.shape[3] * r))
    for c in range(x.shape[1]):
        out[:, c // r**2, (c // r) % r :: r, c % r :: r] = x[:, c]
    return out


def _unshuffle(x: Any, r: int) -> Any:
    planes = [x[:, c, i::r, j::r] for c in range(x.shape[1]) for i in range(r) for j in range(r)]
    return np.stack(planes, 1)


def _channel_shuffle(x: Any, groups: int) -> Any:
    per = x.shape[1] // groups
    return x[:, [g * per + i for i in range(per) for g in range(groups)]]


ORACLES: dict[str, Callable[..., Any]] = {
    "clone": lambda x: x,
    "flip": lambda x, dims: np.flip(x, dims),
    "roll": lambda x, shifts, dims=(): np.roll(x, shifts, dims) if dims else np.roll(x, shifts[0]),
    "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "repeat": lambda x, repeats: np.tile(x, repeats),
    "tile": np.tile,
    "repeat_interleave": np.repeat,
    "diag_embed": _diag_embed,
    "diag": np.diag,
    "diagflat": np.diagflat,
    "block_diag": _block_diag,
    "meshgrid": lambda tensors, indexing="ij": np.meshgrid(*tensors, indexing=indexing),
    "pad": _pad,
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _unshuffle,
    "channel_shuffle": _channel_shuffle,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("rearrange")} == set(ORACLES)


X = graph_input("x", Aval((2, 3), dtypes.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.repeat(X, (2,)), "can not be smaller"),
        (lambda: ops.roll(X, (1, 2), (0,)), "must align"),
        (lambda: ops.pad(X, (1,)), "divisible by 2"),
        (lambda: ops.pad(X, (3, 0), "reflect"), "less than the corresponding input dimension"),
        (lambda: ops.pad(X, (4, 0), "circular"), "more than once"),
        (lambda: ops.rot90(X, 1, (0, 0)), "to be different"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
