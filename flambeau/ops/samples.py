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

    def complex(self, *shape: int) -> Any:
        """Real and imaginary parts uniform in [-2, 2), complex128."""
        return np.asarray(self.float(*shape) + 1j * self.float(*shape))

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
    yield (make.float(4, 5), make.bool(5), -1000), {}
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


# -- activation -----------------------------------------------------------------------------------------
def with_number(number: float) -> Sampler:
    """As ``unary``, then with a second argument."""

    def sample(make: SampleMaker) -> Iterator[Call]:
        yield from unary(make)
        yield (make.float(4, 5), number), {}

    return sample


def threshold(make: SampleMaker) -> Iterator[Call]:
    """A threshold and the value below it."""
    yield (make.float(4, 5), 0.3, -2.0), {}
    yield (make.float(17), 0.0, 0.0), {}


def prelu(make: SampleMaker) -> Iterator[Call]:
    """One weight for all, and one a channel."""
    yield (make.float(3, 4, 2), make.float(1)), {}
    yield (make.float(3, 4, 2), make.float(4)), {}
    yield (make.float(3, 4), make.float(4)), {}


def gelu(make: SampleMaker) -> Iterator[Call]:
    """Both forms, over the whole bend."""
    for approximate in ("none", "tanh"):
        yield (make.float(37, low=-4, high=4),), {"approximate": approximate}
        yield (make.float(3, 5),), {"approximate": approximate}


def softplus(make: SampleMaker) -> Iterator[Call]:
    """Both sides of the threshold."""
    yield (make.float(6, 4),), {}
    yield (make.float(37, low=-9, high=9), 1.5, 6.0), {}


def glu(make: SampleMaker) -> Iterator[Call]:
    """The last dimension and another."""
    yield (make.float(3, 8),), {}
    yield (make.float(4, 3, 2), 0), {}


def along_dim(make: SampleMaker) -> Iterator[Call]:
    """Every dimension of some shapes, a scalar and an empty tensor."""
    yield (make.float(6, 9), -1), {}
    yield (make.float(6, 9), 0), {}
    yield (make.float(3, 4, 5), 1), {}
    yield (make.float(13), 0), {}
    yield (make.float(), 0), {}
    yield (make.float(0, 3), 1), {}


# -- reduction ------------------------------------------------------------------------------------------
def reduction(make: SampleMaker) -> Iterator[Call]:
    """No dimension, one, several, kept; vectors, scalars and integers."""
    yield (make.float(5, 7),), {}
    yield (make.float(5, 7), 1), {}
    yield (make.float(5, 7), 0, True), {}
    yield (make.float(3, 4, 5), (0, -1)), {}
    yield (make.float(3, 4, 5), (1, 2)), {"keepdim": True}
    yield (make.float(67),), {}
    yield (make.float(1, 6), 0), {}
    yield (make.float(1),), {}
    yield (make.float(),), {}
    yield (make.float(), 0), {}
    yield (make.float(0, 3), 1), {}


def one_reduction(make: SampleMaker) -> Iterator[Call]:
    """No dimension or one, kept or not."""
    yield (make.float(5, 7),), {}
    yield (make.float(5, 7), 1), {}
    yield (make.float(3, 4, 5), 1, True), {}
    yield (make.int(6, 3, low=-3, high=4), 0), {}
    yield (make.float(), 0), {}


def optional_dim(make: SampleMaker) -> Iterator[Call]:
    """All elements, or a dimension, kept or not; odd and even lengths."""
    yield (make.float(5, 7),), {}
    yield (make.float(5, 8), 1), {}
    yield (make.float(3, 4, 5), 1, True), {}
    yield (make.float(6, 3), 0), {}
    yield (make.float(3, 1), 1), {}
    yield (make.float(),), {}
    yield (make.float(), 0), {}


def reduction_with_nan(make: SampleMaker) -> Iterator[Call]:
    """As ``reduction`` with NaN in some rows."""
    for args in (((5, 7), None), ((5, 7), 1), ((3, 4, 5), (0, 2))):
        x = make.float(*args[0])
        x[0, ..., :2] = np.nan
        yield (x, args[1]), {}
        yield (x, args[1], True), {}


def reduction_of_zeros(make: SampleMaker) -> Iterator[Call]:
    """Floats, integers and bools with zeros."""
    yield (make.int(5, 7, low=0, high=2),), {}
    yield (make.bool(5, 3), 1), {}
    yield (make.float(4, 3) * make.bool(4, 3), 0), {}
    yield (make.bool(2, 3, 2), (0, 2)), {}


def reduction_with_required_dim(make: SampleMaker) -> Iterator[Call]:
    """A dimension, several, kept; a scalar."""
    yield (make.float(5, 7), 1), {}
    yield (make.float(3, 4, 5), (0, 2)), {"keepdim": True}
    yield (make.float(), 0), {}


def spread(make: SampleMaker) -> Iterator[Call]:
    """Dimensions, corrections and kept dimensions."""
    yield (make.float(5, 7),), {}
    yield (make.float(5, 7), 1), {}
    yield (make.float(3, 4, 5), (0, -1)), {"correction": 0, "keepdim": True}
    yield (make.float(9), 0), {"correction": 0.5}


def norms(make: SampleMaker) -> Iterator[Call]:
    """Every kind of order, with and without dimensions."""
    for order in (0, 1, 2, 3, 0.5, float("inf"), float("-inf")):
        yield (make.float(4, 5), order), {}
        yield (make.float(4, 5), order, 1, True), {}
    yield (make.float(3, 4, 5), 2, (0, 2)), {}


def torch_norms(make: SampleMaker) -> Iterator[Call]:
    """The default, a number, a dimension."""
    yield (make.float(4, 5),), {}
    yield (make.float(4, 5), 1), {}
    yield (make.float(4, 5), 2, 1, True), {}


def scans(make: SampleMaker) -> Iterator[Call]:
    """Each dimension; integers with ties."""
    yield (make.float(5, 7), 1), {}
    yield (make.float(5, 7), 0), {}
    yield (make.float(3, 4, 2), -2), {}
    yield (make.int(4, 6, low=-2, high=3), 1), {}
    yield (make.float(), 0), {}


# -- normalization --------------------------------------------------------------------------------------
def layer_norm(make: SampleMaker) -> Iterator[Call]:
    """One and two normalized dimensions; with weight and bias, with one of them, with none."""
    yield (make.float(4, 9), (9,), make.float(9), make.float(9)), {}
    yield (make.float(2, 3, 4), (3, 4), make.float(3, 4)), {"eps": 1e-3}
    yield (make.float(2, 3, 8), (8,)), {"bias": make.float(8)}
    yield (make.float(5, 7), (7,)), {}


def rms_norm(make: SampleMaker) -> Iterator[Call]:
    """One and two normalized dimensions, with and without weight and eps."""
    yield (make.float(4, 9), (9,), make.float(9)), {"eps": 1e-5}
    yield (make.float(2, 3, 4), (3, 4)), {"eps": 1e-2}


def group_norm(make: SampleMaker) -> Iterator[Call]:
    """Groups of several channels, one group, one channel a group."""
    yield (make.float(3, 4, 5), 2, make.float(4), make.float(4)), {}
    yield (make.float(2, 6, 2, 3), 3), {"eps": 1e-3}
    yield (make.float(5, 4), 2, make.float(4)), {}


def channel_norm(make: SampleMaker) -> Iterator[Call]:
    """Over batches and over instances, with and without weight and bias."""
    yield (make.float(6, 4), make.float(4), make.float(4), (0,), 1e-5), {}
    yield (make.float(2, 4, 3), None, None, (0, 2), 1e-3), {}
    yield (make.float(2, 4, 3, 2), make.float(4), None, (2, 3), 1e-5), {}


def batch_norm(make: SampleMaker) -> Iterator[Call]:
    """Training and not, with and without running numbers, weight and bias."""
    running = (make.float(4), make.float(4, low=0.5))
    yield (make.float(6, 4), *running, make.float(4), make.float(4)), {"training": True, "momentum": 0.3}
    yield (make.float(2, 4, 3), None, None), {"training": True, "eps": 1e-3}
    yield (make.float(2, 4, 3, 2), *running, make.float(4), make.float(4)), {}
    yield (make.float(3, 4), *running), {}


def instance_norm(make: SampleMaker) -> Iterator[Call]:
    """With and without running numbers, weight and bias; by the running numbers."""
    running = (make.float(4), make.float(4, low=0.5))
    yield (make.float(3, 4, 5),), {}
    yield (make.float(2, 4, 3, 2), *running, make.float(4), make.float(4)), {"momentum": 0.3}
    yield (make.float(2, 4, 3), *running), {"use_input_stats": False}


def normalize(make: SampleMaker) -> Iterator[Call]:
    """Orders and dimensions; a row of zeros, which stays."""
    yield (make.float(4, 5),), {}
    yield (make.float(3, 4, 5), 1.0, -1), {}
    yield (make.float(6) * 0.0 + np.arange(6), 2.0, 0), {"eps": 1e-3}


def two_vectors(make: SampleMaker) -> Iterator[Call]:
    """Pairs of vectors along a dimension, broadcasting too."""
    yield (make.float(4, 5), make.float(4, 5)), {}
    yield (make.float(4, 5), make.float(1, 5)), {"dim": -1}
    yield (make.float(7), make.float(7)), {"dim": 0}


def pairwise(make: SampleMaker) -> Iterator[Call]:
    """Orders, with the dimension kept or not."""
    yield (make.float(4, 5), make.float(4, 5)), {}
    yield (make.float(4, 5), make.float(5), 1.0), {"keepdim": True}


# -- losses ---------------------------------------------------------------------------------------------
REDUCTIONS = ("mean", "sum", "none")


def _class_indices(make: SampleMaker, *shape: int, classes: int) -> Any:
    return make.int(*shape, low=0, high=classes)


def nll_loss(make: SampleMaker) -> Iterator[Call]:
    """Rows, one row, more dimensions; class weights and an ignored class."""
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), _class_indices(make, 6, classes=5)), {"reduction": reduction}
        yield (make.float(6, 5), np.array([0, 1, 2, 3, 4, 1]), make.float(5, low=0.2)), {"reduction": reduction, "ignore_index": 1}
    yield (make.float(5), _class_indices(make, classes=5)), {}
    yield (make.float(1, 5), _class_indices(make, 1, classes=5)), {}
    yield (make.float(2, 4, 3), _class_indices(make, 2, 3, classes=4), make.float(4, low=0.2)), {}


def cross_entropy(make: SampleMaker) -> Iterator[Call]:
    """As ``nll_loss``, with label smoothing, and with probabilities as targets."""
    yield from nll_loss(make)
    yield (make.float(6, 5), _class_indices(make, 6, classes=5)), {"label_smoothing": 0.1}
    weights = make.float(5, low=0.2)
    smooth = {"label_smoothing": 0.2, "ignore_index": 1, "reduction": "none"}
    yield (make.float(6, 5), np.array([0, 1, 2, 3, 4, 1]), weights), smooth
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), make.float(6, 5, low=0.0, high=1.0), weights), {"reduction": reduction}
    yield (make.float(2, 4, 3), make.float(2, 4, 3, low=0.0, high=1.0)), {"label_smoothing": 0.3}


def regression(make: SampleMaker) -> Iterator[Call]:
    """Every reduction; operands that broadcast."""
    for reduction in REDUCTIONS:
        yield (make.float(4, 5), make.float(4, 5)), {"reduction": reduction}
    yield (make.float(4, 5), make.float(5)), {}


def weighted_regression(make: SampleMaker) -> Iterator[Call]:
    """As ``regression``, then with weights."""
    yield from regression(make)
    for reduction in REDUCTIONS:
        yield (make.float(4, 5), make.float(4, 5)), {"reduction": reduction, "weight": make.float(4, 5, low=0.2)}


def smooth_l1_loss(make: SampleMaker) -> Iterator[Call]:
    """As ``regression``, with other bends."""
    yield from regression(make)
    yield (make.float(4, 5), make.float(4, 5)), {"beta": 0.4}
    yield (make.float(4, 5), make.float(4, 5)), {"beta": 0.0}


def huber_loss(make: SampleMaker) -> Iterator[Call]:
    """As ``weighted_regression``, with another bend."""
    yield from weighted_regression(make)
    yield (make.float(4, 5), make.float(4, 5)), {"delta": 0.4}


def binary_cross_entropy(make: SampleMaker) -> Iterator[Call]:
    """Probabilities with targets in [0, 1], with and without weights."""
    for reduction in REDUCTIONS:
        operands = (make.float(4, 5, low=0.05, high=0.95), make.float(4, 5, low=0.0, high=1.0))
        yield operands, {"reduction": reduction}
        yield (*operands, make.float(5, low=0.2)), {"reduction": reduction}


def binary_cross_entropy_with_logits(make: SampleMaker) -> Iterator[Call]:
    """Logits with targets in [0, 1], with and without weights for elements and for positives."""
    for reduction in REDUCTIONS:
        operands = (make.float(4, 5), make.float(4, 5, low=0.0, high=1.0))
        yield operands, {"reduction": reduction}
        yield operands, {"reduction": reduction, "weight": make.float(5, low=0.2), "pos_weight": make.float(5, low=0.2)}


def kl_div(make: SampleMaker) -> Iterator[Call]:
    """Every reduction, for probabilities and for their logarithms."""
    for reduction in (*REDUCTIONS, "batchmean"):
        yield (make.float(4, 5), make.float(4, 5, low=0.1, high=1.0)), {"reduction": reduction}
        yield (make.float(4, 5), make.float(4, 5, low=-2.0, high=0.0)), {"reduction": reduction, "log_target": True}


def gaussian_nll_loss(make: SampleMaker) -> Iterator[Call]:
    """A variance for each element, for each row, and the constant."""
    for reduction in REDUCTIONS:
        yield (make.float(4, 5), make.float(4, 5), make.float(4, 5, low=0.3)), {"reduction": reduction}
    yield (make.float(4, 5), make.float(4, 5), make.float(4, low=0.3)), {"full": True}


def poisson_nll_loss(make: SampleMaker) -> Iterator[Call]:
    """Logarithms of rates and rates, with and without Stirling's term."""
    for reduction in REDUCTIONS:
        yield (make.float(4, 5), make.float(4, 5, low=0.0, high=4.0)), {"reduction": reduction, "full": True}
    yield (make.float(4, 5, low=0.2), make.float(4, 5, low=0.0)), {"log_input": False}


def _signs(make: SampleMaker, *shape: int) -> Any:
    return make.random.choice([-1, 1], shape)


def sign_target(make: SampleMaker) -> Iterator[Call]:
    """Targets 1 and -1, every reduction."""
    for reduction in REDUCTIONS:
        yield (make.float(4, 5), _signs(make, 4, 5)), {"reduction": reduction}


def hinge_embedding_loss(make: SampleMaker) -> Iterator[Call]:
    """As ``sign_target``, with another margin."""
    yield from sign_target(make)
    yield (make.float(4, 5), _signs(make, 4, 5)), {"margin": 0.5}


def margin_ranking_loss(make: SampleMaker) -> Iterator[Call]:
    """Every reduction and a margin."""
    for reduction in REDUCTIONS:
        yield (make.float(9), make.float(9), _signs(make, 9)), {"reduction": reduction, "margin": 0.3}


def cosine_embedding_loss(make: SampleMaker) -> Iterator[Call]:
    """Rows and one pair of vectors."""
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), make.float(6, 5), _signs(make, 6)), {"reduction": reduction, "margin": -0.2}
    yield (make.float(5), make.float(5), np.asarray(1)), {}


def triplet_margin_loss(make: SampleMaker) -> Iterator[Call]:
    """Every reduction, with the swap, another order and another margin."""
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), make.float(6, 5), make.float(6, 5)), {"reduction": reduction}
    yield (make.float(6, 5), make.float(6, 5), make.float(6, 5)), {"swap": True, "margin": 2.0, "p": 1.0}


def multi_margin_loss(make: SampleMaker) -> Iterator[Call]:
    """Both powers, weights, one row."""
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), _class_indices(make, 6, classes=5)), {"reduction": reduction}
    yield (make.float(6, 5), _class_indices(make, 6, classes=5)), {"p": 2, "margin": 0.7, "weight": make.float(5, low=0.2)}
    yield (make.float(5), _class_indices(make, classes=5)), {}


def multilabel_soft_margin_loss(make: SampleMaker) -> Iterator[Call]:
    """Every reduction and weights."""
    for reduction in REDUCTIONS:
        yield (make.float(6, 5), make.float(6, 5, low=0.0, high=1.0)), {"reduction": reduction}
    yield (make.float(6, 5), make.float(6, 5, low=0.0, high=1.0), make.float(5, low=0.2)), {}


# -- optimizers -----------------------------------------------------------------------------------------
SHAPES = ((3, 4), (5,), ())


def _list(make: SampleMaker, low: float = -2.0) -> list[Any]:
    return [make.float(*shape, low=low) for shape in SHAPES]


def sgd_step(make: SampleMaker) -> Iterator[Call]:
    """Plain, with momentum, first and later, with every option."""
    yield (_list(make), _list(make), None, 0.1), {}
    yield (_list(make), _list(make), _list(make), 0.1), {"momentum": 0.9, "first": True}
    yield (_list(make), _list(make), _list(make), 0.1), {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01}
    yield (_list(make), _list(make), _list(make), 0.1), {"momentum": 0.9, "nesterov": True, "maximize": True}


def adam_step(make: SampleMaker) -> Iterator[Call]:
    """The first step, a later one, decoupled decay, AMSGrad, a beta below one half."""
    numbers = (1e-3, 0.9, 0.999, 1e-8)
    for step in (0.0, 17.0):
        yield (_list(make), _list(make), _list(make), _list(make, 0.0), None, np.asarray(step, np.float32), *numbers), {}
    lists = (_list(make), _list(make), _list(make), _list(make, 0.0))
    yield (*lists, None, np.asarray(3, np.float32), *numbers, 0.01), {"decoupled": True}
    yield (*lists, _list(make, 0.0), np.asarray(3, np.float32), *numbers, 0.01), {"amsgrad": True, "maximize": True}
    yield (*lists, None, np.asarray(3, np.float32), 0.1, 0.3, 0.6, 1e-4), {}


def rmsprop_step(make: SampleMaker) -> Iterator[Call]:
    """Plain, centered, with momentum and decay."""
    yield (_list(make), _list(make), _list(make, 0.0), None, None, 0.01, 0.99, 1e-8), {}
    centers = [np.asarray(0.01 * x) for x in _list(make)]
    squares = [np.asarray(x + 1.0) for x in _list(make, 0.0)]
    yield (_list(make), _list(make), squares, centers, _list(make), 0.01, 0.9, 1e-8, 0.02, 0.8), {"maximize": True}


def adagrad_step(make: SampleMaker) -> Iterator[Call]:
    """The first step and a later one."""
    yield (_list(make), _list(make), _list(make, 0.0), np.asarray(0, np.float32), 0.01), {}
    yield (_list(make), _list(make), _list(make, 0.0), np.asarray(9, np.float32), 0.01, 0.1, 0.02), {"maximize": True}


def clip_grad_norm_(make: SampleMaker) -> Iterator[Call]:
    """Longer and shorter than the limit; other orders."""
    yield (_list(make), 1.0), {}
    yield (_list(make), 100.0), {}
    for order in (1.0, 3.0, float("inf")):
        yield (_list(make), 0.5, order), {}
