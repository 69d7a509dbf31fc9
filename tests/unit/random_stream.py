"""PyTorch's random numbers from numpy's Mersenne twister: the oracle of random tests."""

from __future__ import annotations

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype


class Stream:
    """The words of one seed from numpy, and what PyTorch makes of them."""

    def __init__(self, seed: int) -> None:
        self.bits = np.random.MT19937()
        self.bits._legacy_seeding(seed)
        self.kept: float | None = None

    def words(self, count: int) -> np.ndarray:
        return self.bits.random_raw(count).astype(np.uint64)

    def uniform(self, count: int, element: dtype) -> np.ndarray:
        if element is dtypes.float32:
            return (self.words(count) & np.uint64(0xFFFFFF)).astype(np.float64) / 2**24
        pairs = self.words(2 * count)
        return ((pairs[::2] << np.uint64(32) | pairs[1::2]) & np.uint64(2**53 - 1)).astype(np.float64) / 2**53

    def normal(self, count: int, element: dtype) -> np.ndarray:
        if count < 16:
            return np.array([self.single() for _ in range(count)])
        drawn = self.uniform(count, element)
        out = np.concatenate([self.group(drawn[i:i + 16]) for i in range(0, count - 15, 16)] + [np.empty(count % 16)])
        if count % 16:
            out[-16:] = self.group(self.uniform(16, element))
        return out

    def group(self, drawn: np.ndarray) -> np.ndarray:
        radius, angle = np.sqrt(-2 * np.log(1 - drawn[:8])), 2 * np.pi * drawn[8:]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])

    def single(self) -> float:
        if self.kept is not None:
            value, self.kept = self.kept, None
            return value
        a, b = self.uniform(2, dtypes.float64)
        radius = np.sqrt(-2 * np.log1p(-b))
        self.kept = radius * np.sin(2 * np.pi * a)
        return radius * np.cos(2 * np.pi * a)

    def permutation(self, count: int) -> np.ndarray:
        out = np.arange(count)
        for i, word in enumerate(self.words(count - 1)):
            other = i + int(word) % (count - i)
            out[i], out[other] = out[other], out[i]
        return out

    def seed(self) -> int:
        first, second = (int(word) for word in self.words(2))
        return (first << 32 | second) % 2**63
