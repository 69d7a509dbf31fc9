"""Every operator on tensors, through schedule, kernels and launch, equals its graph evaluated in numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core import dtypes
from flambeau.core.config import config
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import samples_of
from tests.ops.pipeline_cases import LAYOUTS, Run, check_equal, convert, expected_of, layouts_for, map_arrays

FLOATS = (dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.int64, dtypes.int32, dtypes.uint8)

# Operators that have a meaning for numbers of these kinds in numpy, but (as in torch) no kernel: they say so.
NO_INTEGERS = {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "clip_grad_norm_", "embedding_bag", "nll_loss"}
NO_BOOLS = NO_INTEGERS | {
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "div", "floor_divide", "fmod", "index_reduce", "remainder", "scatter_reduce", "sgd_step",
}  # fmt: skip


def _without_kernel(name: str, kind: dtype) -> bool:
    return name in (() if kind.is_floating_point else NO_BOOLS if kind is dtypes.bool_ else NO_INTEGERS)


def _check(name: str, number: int, kind: dtype, layout: str) -> None:
    operator = ALL[name]
    calls = samples_of(operator)
    call = map_arrays(operator, calls[number % len(calls)], lambda _, array: convert(array, kind))
    run = Run(operator, call, LAYOUTS[layout])
    try:
        _, expected = expected_of(operator, run.call)
    except Exception as error:
        with pytest.raises(NotImplementedError if _without_kernel(name, kind) else type(error)):
            run.eager()
        return
    try:
        found = run.eager()
    except NotImplementedError as error:
        assert _without_kernel(name, kind) and str(error).startswith(name), error
        return
    except RuntimeError as error:
        assert operator.kind == "view" and "not compatible" in str(error) and layout != "contiguous", error
        return
    check_equal(operator, run.call, found, expected)
    run.check_guards()


@pytest.mark.parametrize("name", sorted(ALL))
def test_float32(name: str) -> None:
    for number in range(len(samples_of(ALL[name]))):
        _check(name, number, dtypes.float32, "contiguous")


# as_strided counts in the memory of its operand, where the graph counts in its elements.
@pytest.mark.parametrize("name", sorted(set(ALL) - {"as_strided"}))
def test_other_layouts(name: str) -> None:
    names = layouts_for(name, "transposed", "stepped", "expanded")
    for number in range(max(len(samples_of(ALL[name])), len(names))):
        _check(name, number, dtypes.float32, names[number % len(names)])


@pytest.mark.parametrize("name", sorted(ALL))
def test_other_floats(name: str) -> None:
    for number, kind in enumerate(FLOATS):
        _check(name, number, kind, "contiguous")


@pytest.mark.parametrize("name", sorted(ALL))
def test_integers_and_bools(name: str) -> None:
    for number, kind in enumerate((*INTEGERS, dtypes.bool_)):
        _check(name, number, kind, "contiguous")


@pytest.mark.parametrize("name", sorted(set(ALL) - {"as_strided"}))
def test_checked(name: str) -> None:
    """Runs in a process of checked kernels, see below; here it is one more layout."""
    for number, layout in enumerate(("contiguous", "stepped")):
        _check(name, number, dtypes.float32, layout)


@pytest.mark.skipif(config.checked, reason="this is the process of checked kernels")
def test_kernels_stay_inside_their_buffers() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(Path(__file__)), "-k", "test_checked"]
    done = subprocess.run(command, env={**os.environ, "FLAMBEAU_CHECKED": "1"}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:]
