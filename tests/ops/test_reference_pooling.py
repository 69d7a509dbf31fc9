"""Pooling against numpy loops, and its derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.derivative.differentiate import gradients
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _each(value: Any, count: int) -> tuple[int, ...]:
    return (value,) * count if value is None or isinstance(value, int) else tuple(value)


def _counts(lengths: Any, sizes: Any, steps: Any, pads: Any, dilations: Any, ceil_mode: bool) -> list[int]:
    out = []
    for n, k, s, a, d in zip(lengths, sizes, steps, pads, dilations, strict=True):
        room = (n + 2 * a - d * (k - 1) - 1) / s
        length = (math.ceil(room) if ceil_mode else math.floor(room)) + 1
        out.append(length - 1 if ceil_mode and (length - 1) * s >= n + a else length)
    return out


def _maxima(x: Any, boxes: Callable[[tuple[int, ...]], list[list[int]]], counts: list[int], indices: bool) -> Any:
    """The maximum over the coordinates that ``boxes`` names for each place of the result."""
    lead, lengths = x.shape[: x.ndim - len(counts)], x.shape[x.ndim - len(counts) :]
    flat = x.reshape(*lead, -1)
    values, where = (np.zeros((*lead, *counts), t) for t in (x.dtype, np.int64))
    for place in product(*map(range, counts)):
        places = np.array([np.ravel_multi_index(c, lengths) for c in product(*boxes(place))])
        at = flat[..., places].argmax(-1)
        where[(..., *place)] = places[at]
        values[(..., *place)] = flat[..., places].max(-1)
    return (values, where) if indices else values


def _max_pool(count: int) -> Callable[..., Any]:
    def run(x: Any, k: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, indices: bool = False) -> Any:
        sizes, pads, dilations = _each(k, count), _each(padding, count), _each(dilation, count)
        steps = sizes if stride is None else _each(stride, count)
        lengths = x.shape[x.ndim - count :]

        def boxes(place: tuple[int, ...]) -> list[list[int]]:
            every = zip(place, sizes, steps, pads, dilations, lengths, strict=True)
            return [[c for j in range(k) if 0 <= (c := i * s - a + j * d) < n] for i, k, s, a, d, n in every]

        return _maxima(x, boxes, _counts(lengths, sizes, steps, pads, dilations, ceil_mode), indices)

    return run


def _avg_pool(count: int) -> Callable[..., Any]:
    def run(
        x: Any, k: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include: bool = True, divisor_override: Any = None
    ) -> Any:
        sizes, pads = _each(k, count), _each(padding, count)
        steps = sizes if stride is None else _each(stride, count)
        lengths = x.shape[x.ndim - count :]
        counts = _counts(lengths, sizes, steps, pads, (1,) * count, ceil_mode)
        out = np.zeros((*x.shape[: x.ndim - count], *counts))
        for place in product(*map(range, counts)):
            starts = [i * s - a for i, s, a in zip(place, steps, pads, strict=True)]
            ends = [min(b + k, n + a) for b, k, n, a in zip(starts, sizes, lengths, pads, strict=True)]
            inner = [(max(b, 0), min(e, n)) for b, e, n in zip(starts, ends, lengths, strict=True)]
            box = x[(..., *(slice(b, e) for b, e in inner))]
            whole = math.prod(e - b for b, e in zip(starts, ends, strict=True))
            divisor = divisor_override or (whole if include else math.prod(e - b for b, e in inner))
            out[(..., *place)] = box.sum(tuple(range(x.ndim - count, x.ndim))) / divisor
        return out

    return run


def _bounds(i: int, n: int, o: int) -> tuple[int, int]:
    return i * n // o, -(-(i + 1) * n // o)


def _adaptive_max(count: int) -> Callable[..., Any]:
    def run(x: Any, output_size: Any, indices: bool = False) -> Any:
        lengths = x.shape[x.ndim - count :]
        counts = [n if o is None else o for o, n in zip(_each(output_size, count), lengths, strict=True)]
        every = lambda place: [list(range(*_bounds(i, n, o))) for i, n, o in zip(place, lengths, counts, strict=True)]  # noqa: E731
        return _maxima(x, every, counts, indices)

    return run


def _adaptive_mean(count: int) -> Callable[..., Any]:
    def run(x: Any, output_size: Any) -> Any:
        for i, o in enumerate(_each(output_size, count)):
            axis = x.ndim - count + i
            n = x.shape[axis]
            target = n if o is None else o
            parts = [np.take(x, range(*_bounds(j, n, target)), axis).mean(axis) for j in range(target)]
            x = np.stack(parts, axis)
        return x

    return run


def _unpool(x: Any, indices: Any, output_size: Any) -> Any:
    lead = x.shape[: x.ndim - len(output_size)]
    out = np.zeros((*lead, math.prod(output_size)))
    np.put_along_axis(out, indices.reshape(*lead, -1), x.reshape(*lead, -1), -1)
    return out.reshape(*lead, *output_size)


def _fractional(x: Any, draws: Any, kernel_size: Any, output_size: Any, indices: bool = False) -> Any:
    count, lengths = len(output_size), x.shape[x.ndim - len(output_size) :]
    planes = x.reshape(*draws.shape[:2], *lengths)
    out = [np.zeros((*planes.shape[:2], *output_size), t) for t in (x.dtype, np.int64)]
    for b, c in np.ndindex(*draws.shape[:2]):
        starts = []
        for n, k, o, u in zip(lengths, _each(kernel_size, count), output_size, draws[b, c, ::-1], strict=True):
            step = (n - k) / max(o - 1, 1)
            starts.append([*(int((i + u) * step) - int(u * step) for i in range(o - 1)), n - k])
        sizes = _each(kernel_size, count)
        boxes = lambda p, s=starts, k=sizes: [list(range(s[a][i], s[a][i] + k[a])) for a, i in enumerate(p)]  # noqa: E731
        for to, found in zip(out, _maxima(planes[b, c], boxes, list(output_size), True), strict=True):
            to[b, c] = found
    out = [o.reshape(*x.shape[: x.ndim - count], *output_size) for o in out]
    return tuple(out) if indices else out[0]


ORACLES: dict[str, Callable[..., Any]] = {
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_max(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive_mean(n) for n in (1, 2, 3)},
    "max_unpool": _unpool,
    "fractional_max_pool": _fractional,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", [n for n in ORACLES if "3d" not in n])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("pooling")} == set(ORACLES)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    x = graph_input("x", Aval((1, 1, 2, 4), dtypes.float64))
    out = ops.max_pool2d(x, 2)
    ones = graph_input("g", out.aval)
    (part,) = gradients([out], [ones], [x])
    assert part is not None
    (result,) = run_reference(Graph((x, ones), (part,)), [np.zeros((1, 1, 2, 4)), np.ones((1, 1, 1, 2))])
    np.testing.assert_array_equal(result[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0]])


X = graph_input("x", Aval((1, 4, 5, 5), dtypes.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.max_pool2d(X, 3, padding=2), "at most half"),
        (lambda: ops.max_pool2d(X, 7), "Output size is too small"),
        (lambda: ops.avg_pool2d(X, 2, divisor_override=0), "divisor must be not zero"),
        (lambda: ops.max_pool2d(X, (2, 2, 2)), "list of 2 values"),
        (lambda: ops.max_pool1d(X, 2), "Expected 2D or 3D"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
