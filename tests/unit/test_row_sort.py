"""Stable orders of rows against numpy's stable sort, for every type, direction, vector width and length."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import dtypes
from flambeau.core.cpu import cpu_features, vector_bits
from flambeau.core.dtypes import dtype
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.templates.row_sort import row_argsort

ELEMENTS = tuple(d for d in dtypes.ALL if not d.is_complex and not d.is_float8)
SHAPES = ((3, 1, 1), (2, 7, 1), (1, 48, 2), (2, 49, 1), (1, 96, 1), (1, 300, 3), (2, 1000, 1), (1, 0, 5), (0, 4, 1))


def argsort(x: np.ndarray, descending: bool, bits: int = 0, grain: int = 1) -> np.ndarray:
    """The kernel's result for an array of three axes."""
    kernel = row_argsort(dtypes.BY_NUMPY[x.dtype], descending, bits or vector_bits(), cpu_features())
    padded = np.full(x.size + 8, -7, np.int64)
    outer, n, inner = x.shape
    chunks = -(-kernel.iterations(outer, n, inner) // grain)
    tasks = TaskArray(kernel.scratch_bytes(n, inner))
    address = get_kernel(KernelText(kernel.text, kernel.name)).address
    tasks.add(address, [0, grain, x.ctypes.data, padded.ctypes.data, outer, n, inner], chunks=chunks, wave=0)
    run_tasks(tasks)
    assert (padded[x.size:] == -7).all(), "the kernel wrote past the end"
    return padded[:x.size].reshape(x.shape)


def expected(x: np.ndarray, descending: bool) -> np.ndarray:
    """Equal elements keep their order; NaN is largest."""
    wide = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    if not descending:
        return np.argsort(wide, axis=1, kind="stable")
    order = np.argsort(wide[:, ::-1], axis=1, kind="stable")
    return (x.shape[1] - 1 - order)[:, ::-1]


def sample(shape: tuple[int, ...], element: dtype, rng: np.random.Generator, few: bool) -> np.ndarray:
    """Random elements of all magnitudes, or of ``few`` distinct values with the special ones among them."""
    if not element.is_floating_point:
        if element.category == "bool":
            return rng.random(shape) < 0.5
        limits = np.iinfo(element.numpy)
        return rng.integers(-3 if element.is_signed else 0, 4, shape, element.numpy) if few else rng.integers(
            limits.min, limits.max, shape, element.numpy, endpoint=True
        )
    if few:
        return rng.choice([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan, 1e-7, -1e-7], shape).astype(element.numpy)
    return (rng.standard_normal(shape) * 10.0 ** rng.uniform(-6, 4, shape)).astype(element.numpy)


@pytest.mark.parametrize("bits", sorted({128, min(256, vector_bits()), vector_bits()}))
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_every_type_and_shape(element: dtype, bits: int) -> None:
    rng = np.random.default_rng(element.itemsize + bits)
    for descending in (False, True):
        for shape in SHAPES:
            for few in (False, True):
                x = sample(shape, element, rng, few)
                got = argsort(x, descending, bits)
                np.testing.assert_array_equal(got, expected(x, descending), err_msg=f"{descending} {shape} {few}")


def test_a_long_row() -> None:
    rng = np.random.default_rng(6)
    for element in (np.float32, np.float64, np.int64):
        x = (rng.standard_normal((1, 100_000, 1)) * 1000).astype(element)
        np.testing.assert_array_equal(argsort(x, False), expected(x, False))


def test_bytes_that_all_keys_share_are_passed_over() -> None:
    x = np.random.default_rng(7).integers(0, 256, (1, 500, 1)) * 65536 + 77
    np.testing.assert_array_equal(argsort(x, False), expected(x, False))
    np.testing.assert_array_equal(argsort(np.full((1, 500, 1), 9), True)[0, :, 0], np.arange(500))


def test_chunks_do_not_change_the_result() -> None:
    x = np.random.default_rng(8).standard_normal((29, 100, 3)).astype(np.float32)
    np.testing.assert_array_equal(argsort(x, True, grain=1), argsort(x, True, grain=50))


def test_what_cannot_be_sorted_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="no order"):
        row_argsort(dtypes.complex64, False, 512, cpu_features())
    with pytest.raises(NotImplementedError, match=r"2\*\*32 - 1 elements"):
        row_argsort(dtypes.float32, False, 512, cpu_features()).scratch_bytes(1 << 32, 1)
