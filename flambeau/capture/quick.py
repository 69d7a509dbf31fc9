"""The short way for functions of tensors without effects: all checks and the one segment in one native call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.capture.residual import NAME
from flambeau.capture.segments import Runner
from flambeau.capture.tree import Block, Check, End, Step, Tree
from flambeau.capture.values import MISSING, tensor_key
from flambeau.core.context import autocast_bits
from flambeau.ops.declare import default_float_check
from flambeau.tensor.native_graph import graph_entry

__all__ = ["MISSED", "quick_call"]

MISSED: Any = object()


class _NotQuick(Exception):
    """The line does something that the short way cannot do."""


def quick_call(tree: Tree) -> Callable[[tuple[Any, ...]], Any] | None:
    """A function of a call's arguments that gives the result, or ``MISSED`` with nothing done; None where the line is not that simple."""
    try:
        return _Line(tree).call()
    except _NotQuick:
        return None


class HeldGuard:
    """Tensors that the function or an object of ours holds, and how they were seen."""

    def __init__(self, held: list[tuple[Any, Any]]) -> None:
        self.held = held

    def failed(self) -> str | None:
        """What changed, or None."""
        return None if all(tensor_key(t) == key for t, key in self.held) else "a tensor that it uses changed"


class PlaceGuard:
    """Places that only Python can read, and the objects that were there."""

    def __init__(self, places: list[tuple[Callable[[], Any], Any]]) -> None:
        self.places = places

    def failed(self) -> str | None:
        """What changed, or None."""
        return None if all(get() is value for get, value in self.places) else "a place that it reads holds something else"


class _Line:
    """The first way through the tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.arguments: dict[str, int] = {}
        self.metas: list[tuple[Any, bool]] = []
        self.checks: list[tuple[Any, ...]] = []
        self.guards: list[Any] = []
        self.reads: dict[str, Step] = {}
        self.runner: Runner | None = None
        self.results: list[str] = []
        self.end: End | None = None
        self.distinct = False
        self.held: list[tuple[Any, Any]] = []
        self.gets: list[tuple[Callable[[], Any], Any]] = []
        self._walk(tree.root)

    def _walk(self, block: Block) -> None:
        while True:
            for step in block.steps:
                self._step(step)
            end = block.end
            if isinstance(end, End):
                self.end = end
                return
            if end is None:
                raise _NotQuick
            (key, block), *_ = end.outcomes.items()
            self._check(end, key)

    def _step(self, step: Step) -> None:
        if step.raises:
            raise _NotQuick
        if step.segment is not None:
            if self.runner is not None:
                raise _NotQuick
            self.runner, self.results = step.segment, step.names
        elif self.runner is not None or step.place is None:
            raise _NotQuick
        else:
            self.reads[step.names[0]] = step

    def _check(self, check: Check, key: Any) -> None:
        if check.kind == "look" and check.expression in self.reads:
            kind, *place = self.reads[check.expression].place or ("",)
            if kind == "argument":
                if key[0] != "tensor" or not key[1][3] or place[0] != len(self.metas):
                    raise _NotQuick
                self.arguments[check.expression] = place[0]
                self.metas.append((key[1][1], key[1][2]))
            else:
                if key[0] in ("type", "tensor") and place[-1] is not MISSING:
                    raise _NotQuick
                if kind == "get":
                    self.gets.append((place[0], place[1]))
                else:
                    self.checks.append((kind, *place))
        elif check.guard is not None:
            self.guards.append(check.guard)
        elif check.kind == "look" and check.expression in self.tree.constants and key[0] == "tensor":
            self.held.append((self.tree.constants[check.expression], key[1]))
        elif check.kind == "number" and key == -1 and set(NAME.findall(check.expression)) <= self.arguments.keys():
            self.distinct = True  # the native entry counts storages
        elif not (check.kind == "same" and ".fits(" in check.expression) and check is not self.tree.root.end:
            raise _NotQuick

    def call(self) -> Callable[[tuple[Any, ...]], Any]:
        """The native entry with what puts the result together."""
        runner, end = self.runner, self.end
        first = self.tree.root.end
        if runner is None or end is None or end.kind != "return" or not isinstance(first, Check):
            raise _NotQuick
        ((_, start), *_) = first.outcomes
        if self.distinct and runner.storages < len(self.metas):
            raise _NotQuick
        if start[1] or start[0] != len(self.metas) or runner.shared or runner.sizes or runner.segment.numbers or runner.segment.dropped:
            raise _NotQuick
        recorded = runner.segment.plan.recorded if runner.segment.plan.derivative is not None else ()
        if [r.index for r in runner.results] != list(range(len(runner.segment.states))) or not all(
            r.is_whole(r.index in recorded, runner.segment.states[r.index].meta) for r in runner.results
        ):
            raise _NotQuick
        bits = (not start[2][0]) | start[2][1] << 4 | autocast_bits(start[2][3])
        entry = graph_entry(
            runner.segment.plan, self.metas, [self._source(n) for n in runner.names], mode=bits, storages=runner.storages,
            checks=[*self.checks, default_float_check()], returned=len(self.results),
        )  # fmt: skip
        if entry is None:
            raise _NotQuick
        return self._finished(entry, end.text, runner)

    def _source(self, name: str) -> tuple[str, Any]:
        if name in self.arguments:
            return "argument", self.arguments[name]
        if name in self.tree.constants:
            return "held", self.tree.constants[name]
        raise _NotQuick

    def _finished(self, entry: Callable[[Any], Any], text: str, runner: Runner) -> Callable[[tuple[Any, ...]], Any]:
        if set(NAME.findall(text)) - set(self.results):
            raise _NotQuick
        together = None if [text] == self.results else eval(f"lambda {', '.join(self.results)}: {text}", dict(self.tree.constants))
        guards = [*self.guards, *([HeldGuard(self.held)] if self.held else []), *([PlaceGuard(self.gets)] if self.gets else [])]

        def call(arguments: tuple[Any, ...]) -> Any:
            for guard in guards:
                if guard.failed() is not None:
                    return MISSED
            found = entry(arguments)
            if found is NotImplemented:
                return MISSED
            runner.runs += 1
            return found[0] if together is None else together(*found)

        return call
