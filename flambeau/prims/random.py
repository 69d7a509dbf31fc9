"""The primitive that draws numbers: ordered, never merged, moved or recomputed."""

from __future__ import annotations

import itertools
import math
from typing import Any

from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.prims.complex import as_complex
from flambeau.prims.declare import prim, require
from flambeau.prims.pointwise import mul, number

KINDS = ("uniform", "uniform53", "normal", "word", "permutation")
_serial = itertools.count()


def _rule(kind: str, shape: tuple[Dim, ...], dtype: dtype, serial: int) -> Aval:
    require(kind in KINDS, "random", f"unknown kind {kind!r}")
    return Aval(shape, dtype)


def _reference(kind: str, shape: Any, dtype: dtype, serial: int) -> Any:
    raise NotImplementedError("random numbers have no reference value; compare streams instead")


def next_serials(count: int) -> list[int]:
    """Numbers for draws of a graph that was kept, in their order."""
    return [next(_serial) for _ in range(count)]


random = prim("random", "random", _rule, _reference, "the next numbers of the generator, in order of ``serial``")


def draw(kind: str, shape: tuple[Dim, ...], dtype: dtype) -> Node:
    """New random numbers from PyTorch's CPU stream.

    ``uniform``: [0, 1) with 24 bits (float32, one word an element) or 53 bits (float64, two words); ``uniform53``: 53 bits in
    float64 whatever is asked (what bernoulli_ and dropout compare with p); ``normal``: torch's normal_; ``word``: int64 holding 32
    random bits; ``permutation``: torch's randperm of one axis, int64: for i up to n - 2, swap place i with i + word % (n - i).
    Complex numbers are drawn part by part; normal ones have variance 1, half of it in each part.
    """
    if dtype.is_complex:
        parts = draw(kind, (*shape, 2), dtype.to_real())
        return as_complex(mul(parts, number(math.sqrt(0.5), parts)) if kind == "normal" else parts)
    return random(kind=kind, shape=shape, dtype=dtype, serial=next(_serial))
