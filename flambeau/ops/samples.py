"""Sample arguments that the operators' tests are generated from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Call = tuple[tuple[Any, ...], dict[str, Any]]


class SampleMaker:
    """Draws fresh random arrays; tests convert float64 arrays to the dtype under test and differentiate by them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def float(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        """Uniform float64 in [low, high)."""
        return np.asarray(self.random.uniform(low, high, shape))

    def int(self, *shape: int, low: int = -5, high: int = 6) -> Any:
        """Uniform int64 in [low, high)."""
        return np.asarray(self.random.integers(low, high, shape))

    def bool(self, *shape: int) -> Any:
        """True and False with equal chance."""
        return np.asarray(self.random.integers(0, 2, shape).astype(bool))


def unary(make: SampleMaker) -> Iterator[Call]:
    """Shapes that matter for one operand: a vector with a tail, a matrix, a scalar, nothing."""
    for shape in ((37,), (3, 5), (), (0, 4)):
        yield (make.float(*shape),), {}


def positive(make: SampleMaker) -> Iterator[Call]:
    """As ``unary``, with values in (0.1, 3)."""
    for shape in ((37,), (3, 5), (), (0, 4)):
        yield (make.float(*shape, low=0.1, high=3.0),), {}


def unit(make: SampleMaker) -> Iterator[Call]:
    """As ``unary``, with values in (-0.9, 0.9)."""
    for shape in ((37,), (3, 5), ()):
        yield (make.float(*shape, low=-0.9, high=0.9),), {}


def binary(make: SampleMaker) -> Iterator[Call]:
    """Equal shapes, broadcasting both ways, numbers and empty operands."""
    yield (make.float(5, 7), make.float(5, 7)), {}
    yield (make.float(5, 1, 3), make.float(4, 1)), {}
    yield (make.float(2, 3), 1.5), {}
    yield (make.float(3), make.float()), {}
    yield (make.float(0, 3), make.float(1, 3)), {}
