"""Generated CPU code against the reference interpreter on random kernels."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.core import dtypes
from flambeau.ir.kernel_reference import run_kernel
from tests.unit.kernel_harness import CompiledKernel
from tests.unit.random_kernels import Case, random_case


def assert_like(got: np.ndarray, wanted: np.ndarray, message: str) -> None:
    kind = dtypes.BY_NUMPY[wanted.dtype]
    if not kind.is_floating_point:
        np.testing.assert_array_equal(got, wanted, err_msg=message)
        return
    tolerance = {dtypes.bfloat16: 2.0**-7, dtypes.float16: 2.0**-9, dtypes.float32: 3e-5}.get(kind, 1e-12)
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=1e-30, err_msg=message)


def compare(case: Case, seed: int) -> None:
    kernel = case.kernel
    assert kernel is not None
    message = f"seed {seed}\n{kernel}{case.sizes}"
    wanted = [a.copy() for a in case.arrays]
    reports = run_kernel(kernel, wanted, case.sizes, case.numbers)
    compiled = CompiledKernel(kernel)
    results = []
    for grain, backwards in ((1, False), (3, True), (1000, False)):
        got = [a.copy() for a in case.arrays]
        record = compiled.run(got, case.sizes, case.numbers, grain, backwards)
        assert bool(record[0]) == bool(reports), message
        if reports:
            assert (record[4], record[5]) in {(value, bound) for _, value, bound in reports}, message
        for one, other in zip(got, wanted, strict=True):
            assert_like(one, other, message)
        results.append(got)
    for got in results[1:]:
        for one, other in zip(got, results[0], strict=True):
            assert one.tobytes() == other.tobytes(), f"the grain changes results\n{message}"


@pytest.mark.parametrize("seed", range(120))
def test_random_kernel(seed: int) -> None:
    compare(random_case(seed), seed)
