"""Running sums, products, maxima and minima against numpy, for every type, vector width and cutting into chunks."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import dtypes
from flambeau.core.cpu import cpu_features, vector_bits
from flambeau.core.dtypes import dtype
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.templates.row_scan import row_scan

SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}
ELEMENTS = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
WIDTHS = sorted({128, min(256, vector_bits()), vector_bits()})
SHAPES = ((3, 1, 1), (2, 7, 1), (1, 16, 1), (4, 131, 1), (2, 5, 2), (1, 9, 17), (2, 6, 64), (2, 3, 300), (1, 0, 5), (0, 4, 1))


def scan(kind: str, x: np.ndarray, bits: int = 0, grain: int = 1) -> np.ndarray:
    """The kernel's result for an array of three axes."""
    kernel = row_scan(kind, dtypes.BY_NUMPY[x.dtype], bits or vector_bits(), cpu_features())
    padded = np.full(x.size + 64, 7, x.dtype)
    outer, n, inner = x.shape
    chunks = -(-kernel.iterations(outer, n, inner) // grain)
    tasks = TaskArray(kernel.scratch_bytes(n, inner))
    address = get_kernel(KernelText(kernel.text, kernel.name)).address
    tasks.add(address, [0, grain, x.ctypes.data, padded.ctypes.data, outer, n, inner], chunks=chunks, wave=0)
    run_tasks(tasks)
    assert (padded[x.size:] == 7).all(), "the kernel wrote past the end"
    return padded[:x.size].reshape(x.shape)


def sample(shape: tuple[int, ...], element: dtype, rng: np.random.Generator) -> np.ndarray:
    if element.is_floating_point:
        return rng.uniform(-1.3, 1.3, shape).astype(element.numpy)
    limits = np.iinfo(element.numpy)
    return rng.integers(limits.min, limits.max, shape, element.numpy, endpoint=True)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_every_kind_and_shape(element: dtype, bits: int) -> None:
    rng = np.random.default_rng(element.itemsize + bits)
    for kind, reference in SCANS.items():
        for shape in SHAPES:
            x = sample(shape, element, rng)
            got = scan(kind, x, bits)
            wide = x.astype(np.float64) if element.is_floating_point else x
            want = (reference(wide, axis=1) if kind in ("max", "min") else reference(wide, axis=1, dtype=wide.dtype)).astype(x.dtype)
            if element is dtypes.float32 and kind in ("sum", "prod"):
                np.testing.assert_allclose(got, want, rtol=1.2e-7, atol=1e-12, err_msg=f"{kind} {shape}")
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{kind} {shape}")


def test_nan_stays() -> None:
    rng = np.random.default_rng(3)
    for shape in ((5, 40, 1), (2, 40, 19)):
        for element in (np.float32, np.float64):
            x = rng.standard_normal(shape).astype(element)
            x[rng.random(shape) < 0.03] = np.nan
            for kind in ("max", "min"):
                np.testing.assert_array_equal(scan(kind, x), SCANS[kind](x, axis=1))


def test_float32_is_summed_in_float64() -> None:
    x = np.random.default_rng(4).uniform(0, 1, (1, 200_000, 1)).astype(np.float32)
    want = np.cumsum(x.astype(np.float64), axis=1).astype(np.float32)
    np.testing.assert_allclose(scan("sum", x), want, rtol=6e-8)


def test_products_of_float64_are_taken_one_by_one() -> None:
    x = np.tile(np.array([1e-200, 1e-200, 1e200, 1e200]), 5).reshape(1, 20, 1)
    np.testing.assert_array_equal(scan("prod", x), np.cumprod(x, axis=1))


def test_chunks_do_not_change_the_result() -> None:
    rng = np.random.default_rng(5)
    for shape in ((37, 50, 1), (3, 50, 333)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(scan("sum", x, grain=1), scan("sum", x, grain=1000))


def test_types_without_a_scan_are_refused() -> None:
    for element in (dtypes.bool_, dtypes.float16, dtypes.bfloat16, dtypes.complex64):
        with pytest.raises(NotImplementedError, match="cast to"):
            row_scan("sum", element, 512, cpu_features())
    with pytest.raises(KeyError, match="median"):
        row_scan("median", dtypes.float32, 512, cpu_features())


def test_cost_is_in_whole_nanoseconds() -> None:
    kernel = row_scan("sum", dtypes.float32, 512, cpu_features())
    assert kernel.cost(1) >= 1 and isinstance(kernel.cost(1000), int)
    assert kernel.cost(1000, 64) > kernel.cost(1000)
