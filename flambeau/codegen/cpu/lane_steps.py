"""How an index expression changes from lane to lane and from vector to vector along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.symbolic import Atom, Dim, Monomial, symbol_of, terms_of

Terms = tuple[tuple[Monomial, int], ...]
# Larger steps from lane to lane are not worth telling apart, and 32 bits hold what follows from smaller ones.
LARGEST_STEP = 1 << 12


class LaneSteps:
    """Lanes run along the axis ``vector``, ``width`` of them; ``node_varies`` tells it of the nodes behind loaded atoms.

    With ``aligned`` the axis is a multiple of the width in lane 0, so that quotients by such multiples are the same in every
    lane of a vector.
    """

    def __init__(self, vector: str, width: int, node_varies: Callable[[Any], bool], aligned: bool) -> None:
        self.vector = vector
        self.width = width
        self.node_varies = node_varies
        self.aligned = aligned
        self._varying: dict[Atom, bool] = {}
        self._steps: dict[Dim, int | None] = {}

    def moves(self, terms: Terms) -> bool:
        """Whether the terms differ from vector to vector along the axis, be it that all lanes of one have the same."""
        return any(self.atom_moves(a) for m, _ in terms for a in m)

    def atom_moves(self, a: Atom) -> bool:
        return self.atom_varies(a) or any(self.moves(terms_of(argument)) for argument in a.arguments)

    def varies(self, value: Dim) -> bool:
        """Whether the expression differs from lane to lane."""
        return any(self.monomial_varies(m) for m, _ in terms_of(value))

    def monomial_varies(self, monomial: Monomial) -> bool:
        return any(self.atom_varies(a) for a in monomial)

    def atom_varies(self, a: Atom) -> bool:
        if a.kind == "axis":
            return a.name == self.vector
        if a.kind == "loaded":
            return self.node_varies(a.payload)
        if a not in self._varying:
            within = a.kind == "floordiv" and self.stays_within(a)
            self._varying[a] = not within and any(self.varies(argument) for argument in a.arguments)
        return self._varying[a]

    def stays_within(self, a: Atom) -> bool:
        """Whether the lanes of a vector lie between two neighbouring multiples of the divisor of a floordiv or mod atom."""
        value, divisor = a.arguments
        step = self.constant_step(value) if self.aligned and isinstance(divisor, int) else None
        if step is None or step <= 0 or divisor % (self.width * step):
            return False
        fixed, _ = self.split(value)
        return all(coefficient % (self.width * step) == 0 for _, coefficient in fixed)

    def atom_step(self, a: Atom) -> int | None:
        """By how much an atom grows from lane to lane, where that is a constant."""
        if a.kind == "axis":
            return 1
        return self.constant_step(a.arguments[0]) if a.kind == "mod" and self.stays_within(a) else None

    def split(self, value: Dim) -> tuple[Terms, Terms]:
        """The terms that are the same in every lane, and those that are not."""
        terms = terms_of(value)
        varying = tuple(t for t in terms if self.monomial_varies(t[0]))
        return tuple(t for t in terms if t not in varying), varying

    def is_contiguous(self, value: Dim) -> bool:
        """Whether it grows by one from lane to lane."""
        return self.constant_step(value) == 1

    def has_distinct_lanes(self, value: Dim) -> bool:
        """Whether no two lanes can have the same index: it grows by the same other than 0 from lane to lane."""
        _, varying = self.split(value)
        return len(varying) == 1 and len(varying[0][0]) == 1 and self.atom_step(varying[0][0][0]) is not None

    def constant_step(self, value: Dim) -> int | None:
        """By how much it grows from lane to lane, where that is one small number."""
        if value not in self._steps:
            _, varying = self.split(value)
            single = len(varying) == 1 and len(varying[0][0]) == 1
            step = self.atom_step(varying[0][0][0]) if single else None
            self._steps[value] = None if step is None or abs(step * varying[0][1]) > LARGEST_STEP else step * varying[0][1]
        return self._steps[value]

    def distance(self, value: Dim) -> Dim | None:
        """By how much it grows from lane to lane, where that is the same everywhere."""
        total: Dim = 0
        for monomial, coefficient in self.split(value)[1]:
            part: Dim = coefficient
            steps = [self.atom_step(a) if self.atom_varies(a) else 0 for a in monomial]
            if None in steps or sum(step != 0 for step in steps) != 1:
                return None
            for a, step in zip(monomial, steps, strict=True):
                part = part * (step or symbol_of(a))
            total = total + part
        return total

    def is_even(self, value: Dim) -> bool:
        """Whether an expression with a constant step is as far from copy to copy as the lanes make it, nothing else moving."""
        fixed, varying = self.split(value)
        return not self.moves(fixed) and all(a.kind != "mod" for m, _ in varying for a in m)
