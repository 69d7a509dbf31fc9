"""What a Fourier transform of one length needs: its passes, their roots of unity, and the chirp of lengths with large prime factors.

Lengths whose prime factors are 2, 3 and 5 are done by passes of radix 4, 3, 5 and 2 (Stockham's self-sorting form); others as a
convolution with a chirp in such a length (Bluestein 1970).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from flambeau.core.dtypes import dtype

__all__ = ["HEADER", "PASS_WORDS", "FourierPlan", "factors_of", "fourier_plan", "padded_length"]

# Words of a plan: passes, padded length, whether there is a chirp, and where (in elements) lie the chirp, its transform and
# what results are multiplied by; the length transformed, and where the roots lie that join halves of real rows (0: whole rows).
HEADER = 8
# Words of a pass: which routine, m, s, and where its roots lie.
PASS_WORDS = 4


class FourierPlan(NamedTuple):
    """``words`` at ``address``: the header, a row for each pass, then numbers of the element type."""

    words: Any
    address: int


def factors_of(n: int) -> list[int] | None:
    """The radices of the passes for a length, None where it has a prime factor above 5."""
    out: list[int] = []
    for radix in (4, 3, 5, 2):
        while n % radix == 0:
            out.append(radix)
            n //= radix
    return out if n == 1 else None


def padded_length(n: int) -> int:
    """The length that passes work on: n, or for Bluestein's method the best one that holds the convolution."""
    if n == 0 or factors_of(n) is not None:
        return n
    return min(odd << max(4, (-(-(2 * n - 1) // odd) - 1).bit_length()) for odd in (1, 3, 5))


def _roots(numerators: Any, n: int) -> Any:
    """exp(-2 pi i k / n) from the nearest quarter turn, so that quarter turns are exact and rounding does not grow with k."""
    k = numerators % n
    quarters = (8 * k + n) // (2 * n)
    rest = np.exp(-0.5j * np.pi * (4 * k - quarters * n) / n)
    return rest * np.array([1, -1j, -1, 1j])[quarters % 4]


def _pass_roots(length: int, radix: int, step: int, lanes: int) -> Any:
    """The roots of a pass on m groups of ``step`` neighbours: of each element where neighbours do not fill a vector, else of each group."""
    m = length // (radix * step)
    powers: Any = np.outer(np.arange(m), np.arange(1, radix))
    roots = _roots(powers, m * radix)
    if routine(radix, step, lanes) % 3 == 2:
        return np.stack([roots.real, roots.imag], -1).reshape(-1)
    spread: Any = np.repeat(roots, step, axis=0).T
    return np.stack([spread.real, spread.imag], 1).reshape(-1)


@lru_cache(64)
def fourier_plan(n: int, element: dtype, lanes: int, norm: str, real: bool) -> FourierPlan:
    """The plan for rows of n complex numbers with parts of type ``element``, for kernels with vectors of ``lanes`` elements.

    Of ``real`` numbers an even n is half as many complex ones. ``norm`` says what results are divided by: "none", "root" (of n) or
    "length".
    """
    scale = n ** {"none": 0.0, "root": -0.5, "length": -1.0}[norm] if n else 1.0
    halved = real and n % 2 == 0
    n = n // 2 if halved else n
    length = padded_length(n)
    radices = factors_of(length) or []
    header = [len(radices), length, int(length != n), 0, 0, 0, n, 0]
    numbers: list[Any] = []
    filled = 0

    def place(values: Any) -> int:
        nonlocal filled
        start = filled
        numbers.append(values)
        filled += len(values)
        return start

    step, rows = 1, []
    for radix in radices:
        at = place(_pass_roots(length, radix, step, lanes))
        rows += [routine(radix, step, lanes), length // (radix * step), step, at]
        step *= radix
    if length != n:
        k = np.arange(n)
        chirp = _roots(k * k % (2 * n), 2 * n)
        wrapped = np.zeros(length, np.complex128)
        wrapped[:n] = chirp.conj()
        wrapped[length - n + 1 :] = chirp[:0:-1].conj()
        header[3] = place(np.concatenate([chirp.real, chirp.imag]))
        spectrum = np.fft.fft(wrapped) / length
        header[4] = place(np.concatenate([spectrum.real, spectrum.imag]))
    header[5] = place(np.array([scale]))
    if halved:
        joins = _roots(np.arange(n + 1), 2 * n)
        header[7] = place(np.concatenate([joins.real, joins.imag]))
    data = np.concatenate([np.zeros(0), *numbers]).astype(element.numpy)
    start = HEADER + len(rows)
    words = np.zeros(start + -(-data.nbytes // 8), np.int64)
    words[:start] = [*header, *rows]
    words[start:].view(element.numpy)[: len(data)] = data
    return FourierPlan(words, words.ctypes.data)


RADICES = (2, 3, 4, 5)
# Steps for which a pass puts its results in order inside of vectors; longer ones that do not fill a vector are masked.
SHORT_STEPS = (1, 4)


def routine(radix: int, step: int, lanes: int) -> int:
    """The number of the routine that does a pass."""
    kinds = [s for s in SHORT_STEPS if s < lanes]
    return RADICES.index(radix) * 3 + (SHORT_STEPS.index(step) if step in kinds else 2)
