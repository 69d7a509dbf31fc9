"""How the operands of a program arrive and where its results go."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.core.symbolic import Dim

Strides = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class InputSpec:
    """How an input arrives: in memory with ``strides`` (in elements), or as a number (``scalar``)."""

    strides: Strides | None
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Where an output goes: new memory with ``strides`` (None: row-major), or ``into`` the memory of an input."""

    strides: Strides | None = None
    into: int | None = None
