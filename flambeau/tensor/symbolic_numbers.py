"""Functions of sizes that PyTorch's compiler may hold as symbols. Programs here always see plain numbers, so these are Python's own."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class _Symbol:
    def __init__(self, node: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: sizes are plain numbers here; use int, float or bool")


class SymInt(_Symbol):
    """The type of PyTorch's symbolic integers, which no number is of here; for isinstance."""


class SymFloat(_Symbol):
    """The type of PyTorch's symbolic floats, which no number is of here."""


class SymBool(_Symbol):
    """The type of PyTorch's symbolic truth values, which no value is of here."""


def sym_int(a: Any) -> int:
    """An integer, towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """A float."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float if one of them is."""
    found = builtins.max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float if one of them is."""
    found = builtins.min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, or of those in one sequence."""
    return builtins.sum(args[0] if len(args) == 1 and isinstance(args[0], Sequence) else args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t if b else f``."""
    return t if b else f
