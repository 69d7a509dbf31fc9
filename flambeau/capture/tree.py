"""The trace tree: what a compiled function does, as straight lines of steps that part at checks.

Everything that the function learns from outside is a *step* (``v3 = v1.weight``), and what the rest of the line depends on is a
*check* of it, a node of the tree with one continuation for each outcome. Guards, branches, loop exits, types of results of unknown
calls and variants by size are this one mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from flambeau.capture.stress import Leaver

__all__ = ["OTHERWISE", "Block", "Check", "End", "Step", "Tree"]


OTHERWISE = ("otherwise", None)  # the outcome of a check that has had too many


@dataclass(eq=False, slots=True, repr=False)
class Step:
    """``names = expression``; ``raises`` holds how the line goes on when the expression raises that type of exception.

    ``segment`` is what a step that runs a graph runs; ``birth`` numbers the object made inside that the step lets out; ``undo`` takes the
    values of all variables and puts back what a step changed, for a run that goes through it again; it gives
    the leaf and the gradient that it had.
    """

    names: list[str]
    expression: str
    where: str = ""
    segment: Any = None
    birth: int | None = None
    undo: Callable[[dict[str, Any]], tuple[Any, Any]] | None = None
    raises: dict[type, Block] = field(default_factory=dict)
    error: str = ""  # the variable of what it raised
    place: tuple[Any, ...] | None = None  # how it reads something, where it does nothing else
    parent: Block | None = None

    def __repr__(self) -> str:
        return f"<step {', '.join(self.names)} = {self.expression}>"


@dataclass(eq=False, slots=True, repr=False)
class Check:
    """What the line depends on: how ``kind`` sees ``expression``; one block for each outcome met so far."""

    expression: str
    kind: str
    where: str
    block: Block
    outcomes: dict[Any, Block] = field(default_factory=dict)
    guard: Any = None

    def __repr__(self) -> str:
        return f"<check of {self.expression} by {self.kind}>"


@dataclass(frozen=True, slots=True)
class End:
    """How a line ends: ``return`` of an expression; ``raise``, which is interpreted so that the traceback is the program's; or
    ``leave``: what follows can only be interpreted, for this reason."""

    kind: str
    text: str


@dataclass(eq=False, slots=True, repr=False)
class Block:
    """Steps and what comes after them: a check, an end, or None where no run has gone on."""

    parent: tuple[Check, Any] | tuple[Step, type] | None = None
    steps: list[Step] = field(default_factory=list)
    end: Check | End | None = None

    def __repr__(self) -> str:
        return f"<block of {len(self.steps)} steps, then {self.end!r}>"

    def line(self) -> Iterator[Block]:
        """This block and those above it."""
        block: Block | None = self
        while block is not None:
            yield block
            above = None if block.parent is None else block.parent[0]
            block = above.block if isinstance(above, Check) else None if above is None else above.parent

    def path(self) -> dict[int, Any]:
        """By the id of each check and step on the way from the root to here, its outcome."""
        return {id(b.parent[0]): b.parent[1] for b in self.line() if b.parent is not None}


class Tree:
    """All that is kept of one compiled function: the blocks, the constants that they name, and what was counted."""

    def __init__(self, name: str, most_outcomes: int = 8, backend: Any = None, shadow: Any = None) -> None:
        self.name = name
        self.shadow = shadow  # told of operators that differ, in shadow mode
        self.backend = backend  # makes of a plan what runs in place of its program
        self.most_outcomes = most_outcomes
        self.root = Block()
        self.constants: dict[str, Any] = {}
        self.names: dict[int, str] = {}  # of constants, by id
        self.named = 0
        self.atoms: dict[Any, Any] = {}  # one object for each
        self.shapes: dict[Any, list[tuple[int, ...]]] = {}  # of tensors by where they came from
        self.numbers: dict[Any, Any] = {}  # read by lines, words and how many there were before them: their last values
        self.changing: set[Any] = set()  # lines and words of those that change
        self.count = 0
        self.captures = 0
        self.leaver = Leaver()
        self.calling_back: Any = None  # calls a function, and compiles those that it gives to it
        self.segments: list[Any] = []
        self.left: list[str] = []
        # Tensors of Modules, by the id of those and their name, which guards and constants keep alive: that the function replaces (whether
        # as plain attributes), and that were found to be others at a later call.
        self.replaced: dict[tuple[int, str], bool] = {}
        self.varying: set[tuple[int, str]] = set()
        self.parameters: tuple[str, ...] = ()  # of the function, as far as its first capture could tell
        self.widened: set[Any] = set()  # where numbers were read, and their types, that differed from call to call on some line
        self.cuts: dict[str, None] = {}  # why segments end inside the function
        # The program's functions that were interpreted: their code by its digest, and the blocks at which they were entered.
        self.entered: dict[str, tuple[CodeType, dict[int, Block]]] = {}
        self.seen_names: set[str] = set()  # in that code
        self.literals: dict[int, Any] = {}  # tensors that the library made of Python data meanwhile
        self.late: Callable[[], None] | None = None  # finds the constants that were not there yet when the tree was kept
        self.changed: Callable[[], None] = lambda: None  # told when it has

    def constant(self, value: Any) -> str:
        """The name of a constant, which stays alive with the tree, so that its id stays its own."""
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = f"c{self.named}"
            self.named += 1
            self.constants[name] = value
        return name

    def started(self, make: Callable[[], None]) -> None:
        """Make state that outlives the call, where it is not there yet."""
        make()
        if self.late is not None:
            self.late()

    def fresh(self, prefix: str = "v") -> str:
        """A variable that nothing else uses."""
        self.count += 1
        return f"{prefix}{self.count}"

    def blocks(self) -> Iterator[Block]:
        """All blocks, from the root on."""
        waiting = [self.root]
        while waiting:
            block = waiting.pop()
            yield block
            for step in block.steps:
                waiting += step.raises.values()
            if isinstance(block.end, Check):
                waiting += block.end.outcomes.values()

    def counts(self) -> dict[str, int]:
        """How many steps, checks, ends and segments there are."""
        blocks = list(self.blocks())
        return {
            "steps": sum(len(b.steps) for b in blocks),
            "checks": sum(isinstance(b.end, Check) for b in blocks),
            "ends": sum(isinstance(b.end, End) for b in blocks),
            "segments": sum(s.segment is not None for b in blocks for s in b.steps),
            "captures": self.captures,
        }
