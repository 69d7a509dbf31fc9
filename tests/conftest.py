"""What every test shares: a disk cache of the tests' own and fixed random seeds."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

# Set before flambeau is imported, which reads it once; kept between runs, as recompiling every kernel would be most of a run.
os.environ.setdefault("FLAMBEAU_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".pytest_cache" / "objects"))


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Python's and numpy's global generators start alike in every test, whatever ran before."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def fresh_captures() -> None:
    """Nothing that an earlier test or run captured is taken up."""
    from flambeau.capture.stress import stress  # noqa: PLC0415 - after the settings above

    stress.fresh = True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/texts anew instead of comparing with them")
