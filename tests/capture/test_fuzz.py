"""Random programs do the same plainly and compiled, in every bit."""

from __future__ import annotations

import pytest

from tests.capture import fuzz

# Seeds whose programs differ today. Each is a fault of capture: whatever makes one right takes it off the list.
DIFFER: set[int] = set()


def cases() -> list[object]:
    fault = pytest.mark.xfail(strict=True, reason="a known fault of capture")
    return [pytest.param(seed, marks=[fault] if seed in DIFFER else []) for seed in range(40)]


@pytest.mark.parametrize("seed", cases())
def test_random_program(seed: int) -> None:
    found = fuzz.run(seed)
    assert found is None, f"{found}\n{fuzz.source_of(seed)}"


def test_a_seed_gives_one_program() -> None:
    assert fuzz.source_of(7) == fuzz.source_of(7) != fuzz.source_of(8)
