"""Choices about arithmetic that programs make: what is asked for is what is done anyway, or is refused."""

from __future__ import annotations

_PRECISIONS = ("highest", "high", "medium")
_chosen = {"precision": "highest", "deterministic": False}


def set_float32_matmul_precision(precision: str) -> None:
    """Allow less precision in products of float32 matrices; they are made in float32 all the same."""
    if precision not in _PRECISIONS:
        raise ValueError(f"set_float32_matmul_precision: {precision!r} is not one of {', '.join(_PRECISIONS)}")
    _chosen["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` was given."""
    return str(_chosen["precision"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that do not change from run to run; they never do."""
    _chosen["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What ``use_deterministic_algorithms`` was given."""
    return bool(_chosen["deterministic"])


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers are now treated as asked: False for ``mode`` True, since they are always kept."""
    return not mode


def get_num_interop_threads() -> int:
    """1: operators run one after another, each on all threads."""
    return 1
