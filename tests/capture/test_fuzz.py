"""Random programs do the same plainly and compiled, in every bit."""

from __future__ import annotations

import pytest

from tests.capture import fuzz


@pytest.mark.parametrize("seed", range(25))
def test_random_program(seed: int) -> None:
    found = fuzz.run(seed)
    assert found is None, f"{found}\n{fuzz.source_of(seed)}"


def test_a_seed_gives_one_program() -> None:
    assert fuzz.source_of(7) == fuzz.source_of(7) != fuzz.source_of(8)
