"""Convolution against numpy loops, and its derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ir.node import walk
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _each(value: Any, count: int) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def _placed(i: int, step: int, dilation: int, size: int) -> slice:
    return slice(i * step, i * step + dilation * (size - 1) + 1, dilation)


def _convolution(count: int) -> Callable[..., Any]:
    def run(x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
        if x.ndim == count + 1:
            return run(x[None], w, bias, stride, padding, dilation, groups)[0]
        steps, dilations, sizes = _each(stride, count), _each(dilation, count), w.shape[2:]
        if padding == "same":
            pads = [((d * (k - 1)) // 2, d * (k - 1) - (d * (k - 1)) // 2) for k, d in zip(sizes, dilations, strict=True)]
        else:
            pads = [(n, n) for n in _each(padding, count)]
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], sizes, steps, dilations, strict=True)]
        out = np.zeros((x.shape[0], w.shape[0], *counts))
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for o, place in product(range(w.shape[0]), product(*map(range, counts))):
            g = o // per_out
            box = tuple(_placed(i, s, d, k) for i, s, d, k in zip(place, steps, dilations, sizes, strict=True))
            seen = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *box)]
            out[(slice(None), o, *place)] = (seen * w[o]).sum(tuple(range(1, 2 + count)))
        return out if bias is None else out + bias.reshape(-1, *(1,) * count)

    return run


def _transposed(count: int) -> Callable[..., Any]:
    def run(x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, extra: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:
        if x.ndim == count + 1:
            return run(x[None], w, bias, stride, padding, extra, groups, dilation)[0]
        steps, pads, extras, dilations = (_each(v, count) for v in (stride, padding, extra, dilation))
        sizes, per_in, per_out = w.shape[2:], x.shape[1] // groups, w.shape[1]
        whole = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], steps, dilations, sizes, extras, strict=True)]
        out = np.zeros((x.shape[0], per_out * groups, *whole))
        for c, place in product(range(x.shape[1]), product(*map(range, x.shape[2:]))):
            g = c // per_in
            box = tuple(_placed(i, s, d, k) for i, s, d, k in zip(place, steps, dilations, sizes, strict=True))
            given = x[(slice(None), c, *place)].reshape(-1, 1, *(1,) * count)
            out[(slice(None), slice(g * per_out, (g + 1) * per_out), *box)] += given * w[c]
        out = out[(slice(None), slice(None), *(slice(a, n - a) for a, n in zip(pads, whole, strict=True)))]
        return out if bias is None else out + bias.reshape(-1, *(1,) * count)

    return run


def _columns(x: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    if x.ndim == 3:
        return _columns(x[None], kernel, dilation, padding, stride)[0]
    sizes, dilations, pads, steps = (_each(v, 2) for v in (kernel, dilation, padding, stride))
    x = np.pad(x, [(0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2])
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], sizes, steps, dilations, strict=True)]
    boxes = [
        x[:, :, _placed(i, steps[0], dilations[0], sizes[0]), _placed(j, steps[1], dilations[1], sizes[1])].reshape(x.shape[0], -1)
        for i, j in product(*map(range, counts))
    ]
    return np.stack(boxes, -1)


def _images(x: Any, output_size: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The transpose of ``_columns``, from its action on every unit image."""
    if x.ndim == 2:
        return _images(x[None], output_size, kernel, dilation, padding, stride)[0]
    channels = x.shape[1] // int(np.prod(_each(kernel, 2)))
    units = np.eye(channels * int(np.prod(output_size))).reshape(-1, channels, *output_size)
    spread = _columns(units, kernel, dilation, padding, stride).reshape(len(units), -1)
    return (x.reshape(x.shape[0], -1) @ spread.T).reshape(-1, channels, *output_size)


ORACLES: dict[str, Callable[..., Any]] = {
    **{f"conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed(n) for n in (1, 2, 3)},
    "im2col": _columns,
    "col2im": _images,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "im2col", "col2im"])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("convolution")} == set(ORACLES)


def _input(*shape: int) -> Any:
    return graph_input(f"x{shape}", Aval(shape, dtypes.float32))


def test_a_convolution_is_one_product_over_windows() -> None:
    out = ops.conv2d(_input(8, 16, 32, 32), _input(64, 16, 3, 3), None, 1, 1)
    products = [n for n in walk([out]) if n.op.name == "matmul"]
    assert [n.shape for n in products] == [(64, 8 * 32 * 32)]


X = _input(1, 4, 5, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.conv2d(X, _input(2, 3, 3, 3)), "to have 3 channels, but got 4 channels"),
        (lambda: ops.conv2d(X, _input(2, 4, 7, 7)), "Kernel size can't be greater"),
        (lambda: ops.conv2d(X, _input(3, 2, 3, 3), groups=2), "divisible by 2 at dimension 0"),
        (lambda: ops.conv2d(X, _input(2, 4, 3, 3), stride=2, padding="same"), "not supported for strided"),
        (lambda: ops.conv2d(_input(5, 5), _input(2, 4, 3, 3)), "Expected 3D"),
        (lambda: ops.conv_transpose2d(X, _input(4, 2, 3, 3), output_padding=2), "output padding must be smaller"),
        (lambda: ops.col2im(_input(1, 8, 5), (4, 4), 2), "expected columns"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
