"""Anomaly mode: NaN gradients raise, and say which operation made them."""

from __future__ import annotations

from typing import Self

from flambeau.core.context import context


class set_detect_anomaly:  # noqa: N801 - torch's own name
    """Set anomaly mode now; as a context manager also put it back.

    While it is on, backward raises RuntimeError when an operation gives NaN as a gradient.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = context.anomaly
        context.anomaly = bool(mode) and check_nan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        context.anomaly = self._before


class detect_anomaly:  # noqa: N801
    """Anomaly mode inside a ``with`` block.

    >>> import flambeau as torch
    >>> x = torch.tensor(-1.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     torch.sqrt(x).backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(context.anomaly)
        context.anomaly = self._check_nan
        return self

    def __exit__(self, *_: object) -> None:
        context.anomaly = self._before.pop()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return context.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN, which is all that it does."""
    return context.anomaly


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off."""
    context.anomaly = mode and check_nan
