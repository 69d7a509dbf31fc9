"""torch.torch_version: versions that compare by their numbers."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


def _numbers(version: Any) -> tuple[int, ...]:
    parts = version if isinstance(version, tuple) else re.split(r"[.+-]", str(version))
    found = [int(match[0]) if (match := re.match(r"\d+", str(part))) else -1 for part in parts[:3]]
    return tuple(found + [0] * (3 - len(found)))


class TorchVersion(str):
    """A version as text, which compares by numbers with texts and tuples.

    >>> from flambeau.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") >= "2.4", TorchVersion("2.13.0") < (3, 0)
    (True, True)
    """

    def __lt__(self, other: Any) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(self) >= _numbers(other)
