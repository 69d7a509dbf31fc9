"""Integer division by zero raises what torch raises, eager and compiled, and never a wrong number."""

from __future__ import annotations

import pytest

import flambeau as torch

OPERATIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
    "div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
def test_a_zero_among_integer_divisors(name, kind):
    a, good, bad = (torch.tensor(v, dtype=kind) for v in ([7, 9], [2, 3], [2, 0]))
    operation = OPERATIONS[name]
    compiled = torch.compile(operation)
    for run in (operation, compiled):
        assert run(a, good).tolist() == {"floor_divide": [3, 3], "div": [3, 3]}.get(name, [1, 0])
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            run(a, bad)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        operation(a, 0)


def test_floats_divide_by_zero_as_ieee_says():
    assert (torch.tensor([1.0, -1.0]) // torch.tensor([0.0, 0.0])).tolist() == [float("inf"), float("-inf")]


def test_sizes_that_no_memory_can_hold():
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.empty(2**40, 2**40)
    with pytest.raises(RuntimeError, match="not enough memory"):
        torch.empty(10**15)
