"""Start values, steps and lane folding of reductions on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.reduction import combine, horizontal, identity
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from tests.unit.cpu_kernel_runner import FEATURES, compile_kernel, kernel_text

NUMBERS = [dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
NUMPY = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


def fold(kind: str, element: dtype, x: np.ndarray, width: int) -> np.ndarray:
    """Each group of ``width`` elements folded, splatted back over the group."""

    def body(e: Emitter, values: Sequence[Value]) -> Value:
        start = e.const(identity(kind, element), values[0].kind, width)
        return e.splat(horizontal(e, kind, element, combine(e, kind, element, start, values[0])), width)

    result = np.empty_like(x)
    compile_kernel(kernel_text(body, [element], element, width, FEATURES))([x, result], len(x))
    return result[::width]


def tree(kind: str, x: np.ndarray) -> np.ndarray:
    """The documented order: upper half onto lower half."""
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x = NUMPY[kind](x[:, :half], x[:, half:])
    return x[:, 0]


def random_array(element: dtype, count: int) -> np.ndarray:
    random = np.random.default_rng()
    if element.category == "bool":
        return random.random(count) < 0.9
    if element.is_integer:
        info = np.iinfo(element.numpy)
        return random.integers(info.min, info.max, count, element.numpy, endpoint=True)
    x = random.normal(size=count).astype(element.numpy)
    x[:: count // 5] = np.nan
    x[1] = -np.inf
    return x


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_horizontal_folds_halves_in_order(element: dtype, kind: str) -> None:
    for width in (1, 2, 8, 16, 32):
        x = random_array(element, 8 * width)
        with np.errstate(all="ignore"):
            expected = tree(kind, x.reshape(8, width).copy())
        np.testing.assert_array_equal(fold(kind, element, x, width), expected)


@pytest.mark.parametrize("kind", list(NUMPY))
def test_horizontal_of_bool(kind: str) -> None:
    x = random_array(dtypes.bool_, 64 * 16)
    expected = tree("any" if kind in ("sum", "max", "any") else "all", x.reshape(64, 16).copy())
    np.testing.assert_array_equal(fold(kind, dtypes.bool_, x, 16), expected)


def test_max_and_min_find_a_nan_in_any_lane() -> None:
    for kind in ("max", "min"):
        x = np.random.default_rng().normal(size=(16, 16)).astype(np.float32)
        x[np.arange(16), np.arange(16)] = np.nan
        assert np.isnan(fold(kind, dtypes.float32, x.ravel(), 16)).all()


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_identity_of_extrema_is_the_end_of_the_type(element: dtype) -> None:
    info = np.iinfo(element.numpy) if element.is_integer else None
    assert identity("max", element) == (info.min if info else -np.inf)
    assert identity("min", element) == (info.max if info else np.inf)
    assert identity("sum", element) == 0
    assert identity("prod", element) == 1


def test_unknown_kinds_raise() -> None:
    with pytest.raises(KeyError, match="median"):
        identity("median", dtypes.float32)
    with pytest.raises(KeyError, match="any and all take bool"):
        combine(Emitter(), "any", dtypes.float32, Value("%a", "float"), Value("%b", "float"))
