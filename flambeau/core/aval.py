"""The abstract value: shape and dtype of a tensor without its data."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, product


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape, dtype and whether the value came from a Python number (``weak``: it does not decide a promotion)."""

    shape: tuple[Dim, ...]
    dtype: dtype
    weak: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Dim:
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]{'w' if self.weak else ''}"
