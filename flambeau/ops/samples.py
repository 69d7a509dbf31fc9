"""Sample arguments that the operators' tests are generated from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = tuple[tuple[Any, ...], dict[str, Any]]
Sampler = Callable[["SampleMaker"], Iterator[Call]]


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


# -- pointwise ------------------------------------------------------------------------------------------
def within(low: float, high: float) -> Sampler:
    """Shapes that matter for one operand (a vector with a tail, a matrix, a scalar, nothing), values in [low, high)."""

    def sample(make: SampleMaker) -> Iterator[Call]:
        for shape in ((37,), (3, 5), (), (0, 4)):
            yield (make.float(*shape, low=low, high=high),), {}

    return sample


unary = within(-2.0, 2.0)
positive_only = within(0.1, 3.0)
unit = within(-0.9, 0.9)


def pairs(low: float, high: float) -> Sampler:
    """Two operands: equal shapes, broadcasting both ways, numbers and empty operands; the second in [low, high)."""

    def sample(make: SampleMaker) -> Iterator[Call]:
        def second(*shape: int) -> Any:
            return make.float(*shape, low=low, high=high)

        yield (make.float(5, 7), second(5, 7)), {}
        yield (make.float(5, 1, 3), second(4, 1)), {}
        yield (make.float(2, 3), 1.5), {}
        yield (make.float(3), second()), {}
        yield (make.float(0, 3), second(1, 3)), {}

    return sample


binary = pairs(-2.0, 2.0)
divisor = pairs(0.3, 2.0)


def both_positive(make: SampleMaker) -> Iterator[Call]:
    """Two operands in [0.2, 3)."""
    yield (make.float(5, 7, low=0.2, high=3.0), make.float(5, 7, low=0.2, high=3.0)), {}
    yield (make.float(4, 1, low=0.2, high=3.0), make.float(3, low=0.2, high=3.0)), {}
    yield (make.float(6, low=0.2, high=3.0), 1.5), {}


def scaled(make: SampleMaker) -> Iterator[Call]:
    """As ``binary``, then with ``alpha``."""
    yield from binary(make)
    yield (make.float(3, 4), make.float(4)), {"alpha": 2.5}
    yield (make.int(3, 4), make.int(4)), {"alpha": 3}


def division(make: SampleMaker) -> Iterator[Call]:
    """As ``divisor``, in every rounding mode, with integers and both signs."""
    yield from divisor(make)
    for mode in (None, "trunc", "floor"):
        signs = make.random.choice([-1.0, 1.0], (6, 5))
        yield (make.float(6, 5, low=-9, high=9), signs * make.float(6, 5, low=0.5)), {"rounding_mode": mode}
        yield (make.int(40, low=-9, high=9), make.int(40, low=1, high=5) * make.random.choice([-1, 1], 40)), {"rounding_mode": mode}


def quotients(make: SampleMaker) -> Iterator[Call]:
    """Floats and integers of both signs; no divisor is zero."""
    signs = make.random.choice([-1.0, 1.0], (6, 5))
    yield (make.float(6, 5, low=-9, high=9), signs * make.float(6, 5, low=0.5)), {}
    yield (make.int(40, low=-9, high=9), make.int(40, low=1, high=5) * make.random.choice([-1, 1], 40)), {}
    yield (make.float(7, low=-9, high=9), 2.5), {}


def ternary(make: SampleMaker) -> Iterator[Call]:
    """Three operands that broadcast; the third stays away from zero."""
    yield (make.float(4, 5), make.float(4, 5), make.float(4, 5, low=0.4)), {}
    yield (make.float(4, 1), make.float(5), make.float(4, 5, low=0.4)), {}


def ternary_with_value(make: SampleMaker) -> Iterator[Call]:
    """As ``ternary``, then with ``value``."""
    yield from ternary(make)
    yield (make.float(4, 1), make.float(5), make.float(4, 5, low=0.4)), {"value": -0.7}


def interpolation(make: SampleMaker) -> Iterator[Call]:
    """Two ends and a weight on both sides of one half."""
    yield (make.float(4, 5), make.float(4, 5), make.float(4, 5, low=0.0, high=1.0)), {}
    yield (make.float(4, 5), make.float(5), 0.25), {}
    yield (make.float(4, 5), make.float(5), 0.75), {}


def bounds(make: SampleMaker) -> Iterator[Call]:
    """One bound or both, numbers or tensors."""
    yield (make.float(5, 6), -0.5, 1.25), {}
    yield (make.float(5, 6), None, 0.5), {}
    yield (make.float(5, 6),), {"min": 0.25}
    yield (make.float(5, 6), make.float(6, low=-1, high=0), make.float(5, 1, low=0, high=1)), {}
    yield (make.int(5, 6), -2, 3), {}


def special(make: SampleMaker) -> Iterator[Call]:
    """Infinities, NaN and both zeros among ordinary floats; then integers and bools."""
    x = make.float(37)
    x[:5] = [np.inf, -np.inf, np.nan, 0.0, -0.0]
    yield (x,), {}
    yield (make.int(3, 4),), {}
    yield (make.bool(5),), {}
    yield (make.float(0, 4),), {}


def special_pairs(make: SampleMaker) -> Iterator[Call]:
    """Pairs that are close, far, infinite or NaN."""
    x = make.float(12)
    y = x + np.where(make.bool(12), 1e-9, 0.1)
    x[:4] = [np.inf, np.inf, np.nan, np.nan]
    y[:4] = [np.inf, -np.inf, np.nan, 1.0]
    yield (x, y), {}
    yield (x, y), {"equal_nan": True}
    yield (make.int(9), make.int(9)), {}


def ordered(make: SampleMaker) -> Iterator[Call]:
    """Pairs in which each order and equality occur; integers, NaN, a number and mixed types too."""
    x = make.float(5, 7)
    y = np.where(make.bool(5, 7), x, make.float(5, 7))
    y[0, 0] = np.nan
    yield (x, y), {}
    yield (make.int(5, 1), make.int(6)), {}
    yield (make.int(9), 1), {}
    yield (make.int(9), 1.5), {}
    yield (make.bool(6), make.bool(6)), {}


def logical(make: SampleMaker) -> Iterator[Call]:
    """Bools, integers with zeros, and mixed types that broadcast."""
    yield (make.bool(5, 4), make.bool(4)), {}
    yield (make.int(7, low=-1, high=2), make.int(7, low=-1, high=2)), {}
    yield (make.int(3, 1, low=-1, high=2), make.float(4)), {}


def bits(make: SampleMaker) -> Iterator[Call]:
    """Integers and bools."""
    yield (make.int(5, 4, low=-99, high=99), make.int(4, low=-99, high=99)), {}
    yield (make.int(9, low=-99, high=99), 12), {}
    yield (make.bool(6), make.bool(6)), {}


def shifts(make: SampleMaker) -> Iterator[Call]:
    """Integers with shift counts inside and outside the width."""
    yield (make.int(5, 4, low=-99, high=99), make.int(4, low=0, high=9)), {}
    yield (make.int(4, low=-99, high=99), np.array([-1, 63, 64, 70])), {}
    yield (make.int(9, low=-99, high=99), 3), {}


def powers(make: SampleMaker) -> Iterator[Call]:
    """Positive bases with any exponent, any base with a whole exponent, integers with exponents of both signs."""
    yield (make.float(5, 6, low=0.2, high=3.0), make.float(5, 6)), {}
    yield (make.float(4, 1, low=0.2, high=3.0), 1.7), {}
    yield (make.float(9), 2), {}
    yield (make.int(9, low=-3, high=4), make.int(9, low=0, high=6)), {}
    yield (np.array([2, 1, -1, -1, 3]), np.array([-1, -1, -3, -2, 0])), {}


def static_powers(make: SampleMaker) -> Iterator[Call]:
    """Each exponent that has a cheap form."""
    for exponent in (-2, -1, -0.5, 0.5, 1, 2, 3, 4):
        yield (make.float(7, low=0.2, high=2.0), exponent), {}
    yield (make.int(7), 3), {}


def choices(make: SampleMaker) -> Iterator[Call]:
    """A condition with two alternatives: tensors, a number, a scalar."""
    yield (make.bool(4, 5), make.float(4, 5), make.float(4, 5)), {}
    yield (make.bool(5), make.float(4, 1), 2.5), {}
    yield (make.bool(3, 1), make.int(4), make.float()), {}


def fills(make: SampleMaker) -> Iterator[Call]:
    """A tensor, a mask that broadcasts, and a value: a number and a scalar tensor."""
    yield (make.float(4, 5), make.bool(4, 5), -1.5), {}
    yield (make.float(4, 5), make.bool(5), float("-inf")), {}
    yield (make.float(3, 4, 5), make.bool(4, 1), make.float()), {}
    yield (make.int(4, 5), make.bool(5), 7), {}


def replacements(make: SampleMaker) -> Iterator[Call]:
    """Infinities and NaN, with and without given replacements."""
    for kwargs in ({}, {"nan": 0.5, "posinf": 9.0, "neginf": -8.0}):
        x = make.float(11)
        x[:3] = [np.inf, -np.inf, np.nan]
        yield (x,), dict(kwargs)
    yield (make.int(4),), {}


def roundings(make: SampleMaker) -> Iterator[Call]:
    """Halves, then decimals of both signs, and integers."""
    yield (np.arange(-7, 8) / 2,), {}
    yield (make.float(9, low=-99, high=99),), {"decimals": 1}
    yield (make.float(9, low=-999, high=999),), {"decimals": -1}
    yield (make.int(5),), {}
