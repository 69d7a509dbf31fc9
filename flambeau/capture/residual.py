"""Prints a trace tree as a Python function and compiles it: the residual program, which replays what was captured."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from flambeau.capture.regions import loosely
from flambeau.capture.stress import stress
from flambeau.capture.tree import OTHERWISE, Block, Check, End, Step, Tree
from flambeau.capture.values import LOOKS, tensor_key

__all__ = ["Exit", "Printer", "Residual", "generate"]

# Nested outcomes in one function; deeper ones get a function of their own. Python takes 20 nested blocks, two for each `except`.
DEEPEST = 8
NAME = re.compile(r"\b[vtne]\d+\b")
SHORT = (int, bool, str, type(None))


class Exit:
    """The replay has come to where the tree does not go on: at a check without that outcome, a block or a step that raised ``error``."""

    __slots__ = ("at", "error", "forced", "variables")

    def __init__(self, at: Any, variables: dict[str, Any], error: BaseException | None = None, forced: bool = False) -> None:
        self.at = at
        self.forced = forced  # the tree does go on there
        self.variables = variables
        self.error = error


class Residual:
    """The generated function: its text, the function, compiled when it is first called, and which step each line is."""

    def __init__(self, tree: Tree, text: str, places: dict[int, Step]) -> None:
        self.tree = tree
        self.text = text
        self.places = places

    @cached_property
    def replay(self) -> Callable[[Any, Any], Any]:
        """The function."""
        scope = scope_of(self.tree)
        exec(compile(self.text, f"<residual program {id(self.tree)} of {self.tree.name}>", "exec"), scope)
        return scope["replay"]

    def step_of(self, error: BaseException) -> tuple[Step | None, dict[str, Any]]:
        """The step that raised, and the variables at that point."""
        trace, found, variables = error.__traceback__, None, {}
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.replay.__code__.co_filename:
                found = self.places.get(trace.tb_lineno)
                variables = {**variables, **trace.tb_frame.f_locals}
                variables = {**variables.pop("before", {}), **variables}
            trace = trace.tb_next
        return found, variables


def generate(tree: Tree) -> Residual:
    """The program of a tree."""
    printer = Printer(tree)
    printer.function("replay", "args, kwargs", tree.root)
    return Residual(tree, "\n".join(printer.lines), printer.places)


class Printer:
    """Prints the program of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.lines: list[str] = []
        self.places: dict[int, Step] = {}
        self.waiting: list[tuple[str, Block]] = []
        self.functions = 0

    def function(self, name: str, parameters: str, root: Block) -> None:
        """One function, then those that it hands deep outcomes to."""
        self._one(name, parameters, root, first=True)
        while self.waiting:
            part, block = self.waiting.pop()
            self._one(part, "args, kwargs, before", block, first=False)

    def _one(self, name: str, parameters: str, root: Block, first: bool) -> None:
        outer, self.lines = self.lines, []
        head = len(outer) + 1
        self._nested = not first
        places, self.places = self.places, {}
        self._block(root, 1)
        body, inner = self.lines, self.places
        self.lines, self.places = outer, places
        self.lines.append(f"def {name}({parameters}):")
        if not first:
            assigned = {n for s in _steps_within(body) for n in s}
            used = sorted({m for line in body for m in NAME.findall(line)} - assigned)
            self.lines += [f"    {n} = before[{n!r}]" for n in used]
        shift = len(self.lines)
        self.places.update({line + shift: step for line, step in inner.items()})
        assert shift >= head
        self.lines += body

    def _add(self, depth: int, text: str, step: Step | None = None) -> None:
        self.lines.append("    " * depth + text)
        if step is not None:
            self.places[len(self.lines)] = step

    def _exit(self, depth: int, at: Any, forced: bool = False) -> None:
        variables = "{**before, **locals()}" if self._nested else "locals()"
        self._add(depth, f"return Exit({self.tree.constant(at)}, {variables}{', None, True' if forced else ''})")

    def _block(self, block: Block, depth: int) -> None:
        while True:
            for step in block.steps:
                self._step(step, depth)
            end = block.end
            if end is None or (isinstance(end, End) and end.kind != "return"):
                self._exit(depth, block)
                return
            if isinstance(end, End):
                self._add(depth, f"return {end.text}")
                return
            (first, following), *others = end.outcomes.items()
            if stress.leave:
                self._add(depth, f"if {self.tree.constant(self.tree.leaver)}.now():")
                self._exit(depth + 1, end, forced=True)
            self._add(depth, f"if not ({self.test(end, first)}):")
            for key, other in others:
                self._add(depth + 1, f"if {self.test(end, key)}:")
                self._outcome(other, depth + 2)
            self._exit(depth + 1, end)
            block = following

    def _outcome(self, block: Block, depth: int) -> None:
        if depth < DEEPEST:
            self._block(block, depth)
            return
        self.functions += 1
        name = f"part_{self.functions}"
        self.waiting.append((name, block))
        self._add(depth, f"return {name}(args, kwargs, {'{**before, **locals()}' if self._nested else 'locals()'})")

    def _step(self, step: Step, depth: int) -> None:
        left = "".join(f"{n}, " for n in step.names) if step.segment is not None else ", ".join(step.names)
        text = f"{left.rstrip() if step.segment is not None else left} = {step.expression}" if step.names else step.expression
        if not step.raises:
            self._add(depth, text, step)
            return
        self._add(depth, "try:")
        self._add(depth + 1, text, step)
        for kind, block in step.raises.items():
            self._add(depth, f"except {self.tree.constant(kind)} as error:")
            self._add(depth + 1, f"if type(error) is not {self.tree.constant(kind)}: raise")
            self._add(depth + 1, f"{step.error} = error")
            self._outcome(block, depth + 1)

    def test(self, check: Check, key: Any) -> str:
        """The expression that tells whether a check has this outcome."""
        text = check.expression
        if key == OTHERWISE:
            return "True"
        if check.kind == "truth":
            return f"bool({text})" if key else f"not {text}"
        if check.kind in ("same", "sizes"):
            return f"({text})" if key else f"not ({text})"
        if check.kind == "number":
            return f"{text} == {key!r}"
        how, seen = key
        if how == "any":
            return f"type({text}) is {self.tree.constant(seen)}" + f" and -{1 << 63} <= {text} < {1 << 63}" * (seen is int)
        if how == "is":
            return f"{text} is {self.tree.constant(seen.value)}"
        if how == "value" and seen[0] in SHORT and len(repr(seen[1])) < 60:
            if seen[0] in (bool, type(None)):
                return f"{text} is {seen[1]!r}"
            return f"type({text}) is {seen[0].__name__} and {text} == {seen[1]!r}"
        if how == "sizes":
            return f"{self.tree.constant(seen)}.fits({text})"
        if how == "type":
            return f"type({text}) is {self.tree.constant(seen)}"
        return f"{how}_of({text}) == {self.tree.constant(seen)}"


def outcome_of(tree: Tree, check: Check, variables: dict[str, Any]) -> Any:
    """The outcome of a check under which the tree goes on with these variables, None where there is none."""
    printer, scope = Printer(tree), scope_of(tree)
    return next((key for key in check.outcomes if eval(printer.test(check, key), scope, variables)), None)


def scope_of(tree: Tree) -> dict[str, Any]:
    """The names that programs use."""
    looks = {f"{name}_of": look for name, look in LOOKS.items()}
    return {**tree.constants, "Exit": Exit, "tensor_key": tensor_key, "apart_of": loosely, **looks}


def _steps_within(lines: list[str]) -> list[list[str]]:
    """The variables that each line assigns: neither those whose attributes or items it sets, nor those that it tests."""
    lefts = [line.split(" = ", 1)[0].strip() for line in lines if " = " in line and not line.lstrip().startswith(("if ", "return "))]
    return [[name for name in map(str.strip, left.split(",")) if NAME.fullmatch(name)] for left in lefts]
