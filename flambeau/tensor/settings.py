"""Choices about arithmetic that programs make: what is asked for is what is done anyway, or is refused."""

from __future__ import annotations

_PRECISIONS = ("highest", "high", "medium")
_chosen: dict[str, object] = {"precision": "highest", "deterministic": False, "warn_only": False, "warn_always": False}
_MODES = ("default", "warn", "error")


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
    _chosen["deterministic"], _chosen["warn_only"] = bool(mode), bool(mode and warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What ``use_deterministic_algorithms`` was given."""
    return bool(_chosen["deterministic"])


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers are now treated as asked: False for ``mode`` True, since they are always kept."""
    return not mode


def get_num_interop_threads() -> int:
    """1: operators run one after another, each on all threads."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted: operators run one after another. RuntimeError unless ``num`` is positive."""
    if num <= 0:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number of threads, got {num}")


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``use_deterministic_algorithms`` was given as ``warn_only``."""
    return bool(_chosen["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error"; results are the same in every run anyway."""
    if debug_mode not in (*_MODES, 0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected `default`, `warn` or `error`, but got {debug_mode}")
    mode = _MODES[debug_mode] if isinstance(debug_mode, int) else debug_mode
    use_deterministic_algorithms(mode != "default", warn_only=mode == "warn")


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, see ``set_deterministic_debug_mode``."""
    return (1 if _chosen["warn_only"] else 2) if _chosen["deterministic"] else 0


def set_warn_always(b: bool, /) -> None:
    """Keep the setting; warnings go through Python's filters alone."""
    _chosen["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` was given."""
    return bool(_chosen["warn_always"])
