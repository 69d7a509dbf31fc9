"""Modes of Modules and marks of leaves that a captured function sets: steps, undone before a ghost that sets them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.capture.guards import holds_modules

# Methods of Modules that change what lies in the Module alone, by a state that `Marks` holds.
MODES = frozenset(("train", "eval", "requires_grad_"))


class Marks:
    """The modes of a Module and those in it, and which leaves require gradients; of a tensor whether it does."""

    def __init__(self, owner: Any) -> None:
        whole = holds_modules(owner)
        self.owner = owner
        self.modes = [(m, m.training) for m in owner.modules()] if whole else []
        self.leaves = [(t, t._requires_grad) for t in (owner.parameters() if whole else [owner]) if t.entry is None]

    def restore(self) -> None:
        """Set all to what it was."""
        for module, training in self.modes:
            module.training = training
        for leaf, flag in self.leaves:
            leaf._requires_grad = flag


def set_marks(owner: Any, name: str, *args: Any, **kwargs: Any) -> Marks:
    """Call a method that sets marks; returns what was before."""
    before = Marks(owner)
    getattr(owner, name)(*args, **kwargs)
    return before


@dataclass(frozen=True)
class MarksUndo:
    """Puts back the marks from before a step, which are in its variable; gives what sets those that it and what followed left."""

    name: str

    def __call__(self, variables: dict[str, Any]) -> tuple[Any, Any]:
        before = variables[self.name]
        after = Marks(before.owner)
        before.restore()
        return None, after.restore
