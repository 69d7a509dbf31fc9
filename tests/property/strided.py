"""Random arrays for property tests: any shape, any strides that go forward, four types, and the tensor over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.pipeline_cases import Guarded

FLOATS, KINDS = ("float32", "float64"), ("float32", "float64", "int64", "bool")
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)


def shapes(most_axes: int = 4, most_elements: int = 3000, sizes: tuple[int, ...] = SIZES, least_axes: int = 0) -> Any:
    """Shapes, most of them of a few axes."""
    lists = st.lists(st.sampled_from(sizes), min_size=least_axes, max_size=most_axes)
    return lists.map(tuple).filter(lambda shape: np.prod(shape, dtype=np.int64) <= most_elements)


def values(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """Numbers of either sign; small whole ones, so that sums and products of a few are exact in every type."""
    random = np.random.default_rng(seed)
    if kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    whole = random.integers(-4, 5, shape)
    return (whole if kind == "int64" else whole / 2).astype(kind)


@st.composite
def strided(draw: st.DrawFn, shape: tuple[int, ...], kinds: tuple[str, ...] = KINDS, repeats: bool = True) -> Guarded:
    """A `Guarded` of ``shape``: axes in any order in memory, with gaps, and (``repeats``) axes that repeat one element."""
    kind, seed = draw(st.sampled_from(kinds)), draw(st.integers(0, 99))
    strides, running = [0] * len(shape), 1
    plain = draw(st.booleans())
    order = range(len(shape))[::-1] if plain else draw(st.permutations(range(len(shape))))
    array = values(kind, shape, seed)
    for axis in order:
        if not plain and repeats and shape[axis] > 1 and draw(st.integers(0, 7)) == 0:
            array = np.repeat(np.take(array, [0], axis), shape[axis], axis)
            continue
        running *= 1 if plain else draw(st.sampled_from((1, 1, 1, 2, 3)))
        strides[axis] = running
        running = running * max(shape[axis], 1) + (0 if plain else draw(st.sampled_from((0, 0, 1))))
    return Guarded(array, strides)


def same(found: Any, wanted: Any, tolerance: float = 0.0) -> None:
    """A tensor has the shape and the values of an array; types of whole numbers and bools are the same too."""
    wanted = np.asarray(wanted)
    assert tuple(found.shape) == wanted.shape
    result = found.detach().numpy()
    if wanted.dtype.kind in "bi":
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)
    elif tolerance:
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(result, wanted)
