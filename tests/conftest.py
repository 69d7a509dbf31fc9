"""What every test shares: the repository root and fixed random seeds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def repository_root() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Python's and numpy's global generators start alike in every test, whatever ran before."""
    random.seed(0)
    np.random.seed(0)
