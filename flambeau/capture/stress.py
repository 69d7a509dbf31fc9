"""Switches of tests that make captures as hard as they can be."""

from __future__ import annotations

__all__ = ["Leaver", "stress"]


class Stress:
    """``flush``: run what is recorded after every operator. ``leave``: come back to the interpreter at every check, at each call one
    check later. ``fresh``: capture anew what earlier processes captured."""

    def __init__(self) -> None:
        self.flush = False
        self.leave = False
        self.fresh = False


class Leaver:
    """Says at which check a call leaves its program, while `Stress.leave` is on."""

    def __init__(self) -> None:
        self.target = 0
        self.passed = 0

    def begin(self) -> None:
        """A call begins."""
        self.target += 1
        self.passed = 0

    def now(self) -> bool:
        """Whether to leave at the check that comes now."""
        self.passed += 1
        return self.passed == self.target


stress = Stress()
