"""ProcessGroup: what collectives take place in."""

from __future__ import annotations

__all__ = ["ProcessGroup"]


class ProcessGroup:
    """A group of one process."""

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1
