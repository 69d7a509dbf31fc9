"""Generated CPU code against the reference interpreter on random kernels."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.core import dtypes
from tests.kernel_reference import run_kernel
from tests.unit.kernel_harness import CompiledKernel
from tests.unit.random_kernels import Case, random_case


def assert_like(got: np.ndarray, wanted: np.ndarray, single: bool, message: str) -> None:
    kind = dtypes.BY_NUMPY[wanted.dtype]
    if not kind.is_floating_point:
        np.testing.assert_array_equal(got, wanted, err_msg=message)
        return
    tolerance = {dtypes.bfloat16: 2.0**-7, dtypes.float16: 2.0**-9, dtypes.float32: 3e-5}.get(kind, 3e-5 if single else 1e-12)
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=1e-30, err_msg=message)


def compare(case: Case, seed: int, features: frozenset[str] | None = None, checked: bool = False) -> None:
    kernel = case.kernel
    assert kernel is not None
    message = f"seed {seed}\n{kernel}{case.sizes}"
    single = any(n.dtype is dtypes.float32 for n in kernel.nodes())
    wanted = [a.copy() for a in case.arrays]
    reports = run_kernel(kernel, wanted, case.sizes, case.numbers)
    compiled = CompiledKernel(kernel, features, checked)
    results = []
    for grain, backwards in ((1, False), (3, True), (1000, False)):
        got = [a.copy() for a in case.arrays]
        record = compiled.run(got, case.sizes, case.numbers, grain, backwards)
        # What only an empty inner loop would check need not be checked.
        assert bool(record[0]) == bool(reports) or any(not case.extents[a.name] for a in kernel.inner), message
        if record[0]:
            assert (record[4], record[5]) in {(value, bound) for _, value, bound in reports}, message
        for one, other in zip(got, wanted, strict=True):
            assert_like(one, other, single, message)
        results.append(got)
    for got in results[1:]:
        for one, other in zip(got, results[0], strict=True):
            assert one.tobytes() == other.tobytes(), f"the grain changes results\n{message}"


@pytest.mark.parametrize("seed", range(120))
def test_random_kernel(seed: int) -> None:
    compare(random_case(seed), seed)


@pytest.mark.parametrize("seed", range(3000, 3040))
def test_streaming_form_of_a_random_kernel(seed: int) -> None:
    """The same bytes, on memory that is aligned and on memory that is not."""
    case = random_case(seed)
    assert case.kernel is not None
    plain, streaming = CompiledKernel(case.kernel), CompiledKernel(case.kernel, streaming=True)
    wanted = [a.copy() for a in case.arrays]
    plain.run(wanted, case.sizes, case.numbers)
    for align in (0, 64):
        got = [a.copy() for a in case.arrays]
        streaming.run(got, case.sizes, case.numbers, align=align)
        for one, other in zip(got, wanted, strict=True):
            assert one.tobytes() == other.tobytes(), f"seed {seed}, alignment {align}\n{case.kernel}{case.sizes}"


AVX2 = frozenset(("avx", "avx2", "fma", "f16c", "bmi", "bmi2"))


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_random_kernel_with_half_the_lanes(seed: int) -> None:
    compare(random_case(seed), seed, features=AVX2)


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_random_kernel_with_checked_accesses(seed: int) -> None:
    compare(random_case(seed), seed, checked=True)
