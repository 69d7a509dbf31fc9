"""One interpretation of a function: it grows the trace tree, or follows what a replay already did (a *ghost*) until that point.

While it records, tensors computed are pending and steps are added to the tree as they are performed. A ghost takes the values of steps
from the variables of the replay and performs nothing. Past a point that cannot be captured the trace goes on without recording.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from flambeau.capture.custom import Lasting
from flambeau.capture.residual import NAME, Exit, outcome_of
from flambeau.capture.sizes import Pattern, Sizes
from flambeau.capture.tree import OTHERWISE, Block, Check, End, Step, Tree
from flambeau.capture.values import ATOMS, CLASSES, MISSING, Box, code_key, each_changed, is_ours, look_at, value_key, widens
from flambeau.capture.words import subject
from flambeau.core.symbolic import Expression
from flambeau.tensor.base import TensorBase

EMPTY = CellType()
VARIABLE = re.compile(r"(?<=\b[cvt])\d+\b")
__all__ = ["Diverged", "Trace", "Uncapturable"]


class Uncapturable(Exception):
    """Something that only an interpretation can do; it leaves the captured part."""


class Diverged(RuntimeError):
    """A ghost did not meet what the replay recorded: the function is not a function of what was checked. A fault of capture."""


class Trace:
    """The state of one interpretation with respect to the tree."""

    def __init__(self, tree: Tree, found: Exit | None = None, dynamic: bool | None = None) -> None:
        self.tree = tree
        self.sizes = Sizes(self, dynamic)
        self.expressions: dict[str, str] = {}  # what variables were read from
        self._settling = False
        self.block = tree.root
        self.index = 0
        self.variables: dict[str, Any] = {} if found is None else found.variables
        self.stop = None if found is None else found.at
        self.error = None if found is None else found.error
        self.forced = found is not None and found.forced
        self.ghost = found is not None
        self.recording = True
        self.path = {} if found is None else _path(found.at)
        self.known: dict[int, tuple[str, Any]] = {}
        self.by_memory: dict[int, list[tuple[str, Any]]] = {}  # the known tensors in each storage
        self.reads: dict[Any, tuple[Any, Any]] = {}
        self.inside: dict[int, Any] = {}
        self.numbers_of: dict[int, int] = {}  # of objects made inside, by id
        self.made_tensors: dict[int, Any] = {}  # references to tensors that the recorder made, by id
        self.births: dict[int, Any] = {}
        self.contents: list[tuple[Any, Any]] = []  # of reborn objects, as the replay left them
        self.made = 0
        self.met: dict[tuple[str, str], int] = {}  # how many numbers were read on a line, by the same words
        self.twins: dict[int, tuple[Any, Any]] = {}  # tensors of the ghost, by id, and those of the replay that they stand for
        self.stand_ins: dict[int, tuple[Any, Any]] = {}  # the other way round
        self.foreign: set[int] = set()  # objects of our classes that unknown code gave
        self.redo: list[tuple[Any, Any]] = []
        self.redo_gradient: Callable[[Any, Any], None] = lambda leaf, gradient: None
        self.deferred: list[tuple[Callable[[], str], Callable[[], Any]]] = []
        self.touched: set[tuple[int, Any]] = set()  # what those that wait change: an object's id, and a key or None for all of it
        self.trial: int | None = None  # how many objects had been made inside when a trial began
        self.capped = False  # nothing more is captured
        self.line: Callable[[], str] = lambda: "?"
        self.flush: Callable[[], None] = lambda: None  # runs what is recorded so far
        self.run_pending: Callable[[], None] = lambda: None  # the same without a step for it
        self.on_leave: Callable[[str], None] = lambda reason: None
        self.stopped: Callable[[], None] = lambda: None  # told when nothing is recorded any more

    # -- the way through the tree -----------------------------------------------------------------------
    def prepare(self) -> None:
        """Undo, last first, what steps of the replay changed and the ghost will change again; find what it let out."""
        undo: list[Callable[[dict[str, Any]], tuple[Any, Any]]] = []
        block: Block = self.tree.root
        while True:
            onward: Block | None = None
            for step in block.steps:
                if step is self.stop:
                    break
                if id(step) in self.path:
                    onward = step.raises[self.path[id(step)]]
                    break
                if step.birth is not None:
                    self.births[step.birth] = self.variables[step.names[0]]
                if step.undo is not None:
                    undo.append(step.undo)
            else:
                if isinstance(block.end, Check) and id(block.end) in self.path:
                    onward = block.end.outcomes[self.path[id(block.end)]]
            if onward is None:
                break
            block = onward
        self.redo = [action(self.variables) for action in reversed(undo)][::-1]

    def sync(self) -> None:
        """Become live at a block's end that no run went past; check what was decided about sizes."""
        self._arrive()
        if not self._settling and self.recording:
            self._settling = True
            try:
                self.sizes.settle()
                self._arrive()
                self.sizes.settle()
            finally:
                self._settling = False

    def _arrive(self) -> None:
        if self.ghost and self.block is self.stop and self.index >= len(self.block.steps):
            self.go_live()

    def go_live(self) -> None:
        """The replay went so far: from here on things are done for real."""
        self.ghost = False
        for obj, contents in self.contents:
            refill(obj, contents)
        self.contents = []
        for leaf, gradient in self.redo:
            self.redo_gradient(leaf, gradient) if leaf is not None else gradient()
        for _, run in self.deferred:
            run()
        self.deferred = [(text, nothing) for text, _ in self.deferred]
        end = self.block.end if self.block is self.stop else None
        if isinstance(end, End) and end.kind == "leave":
            self.recording = False
            self.run_pending()
            self._forget()

    def _forget(self) -> None:
        """Nothing is named any more: objects live as long as the program holds them."""
        for obj in self.inside.values():
            self.sizes.empty(obj)
            if self.twins:
                self._settle(obj)
        self.sizes.end()
        for kept in (self.known, self.by_memory, self.inside, self.reads, self.variables, self.births, self.stand_ins):
            kept.clear()
        self.stopped()

    def enter(self, block: Block) -> None:
        """Go on in another block."""
        self.block, self.index = block, 0

    def leave(self, reason: str) -> None:
        """What follows cannot be captured: every call will interpret it from here."""
        if not self.recording:
            return
        self.lasts()
        self.flush()
        self.sync()
        if self.ghost:
            raise Diverged(f"capture: {reason} at {self.line()}, and the replay went on")
        if self.recording:
            self.on_leave(reason)
            self.block.end = End("leave", "untouched" if self._untouched() else reason)
            self.tree.left.append(f"{reason} ({self.line()})")
            self.recording = False
            self._forget()

    def abandon(self, reason: str) -> None:
        """As `leave`, where what is recorded so far does not belong into the program either."""
        self.block.end = End("leave", "untouched" if self._untouched() else reason)
        self.tree.left.append(f"{reason} ({self.line()})")
        self.recording, self.deferred = False, []
        self.run_pending()
        self._forget()

    def _untouched(self) -> bool:
        """Whether nothing was done yet that a call from the start would do again: places were read, nothing else."""
        return all(s.place is not None for b in self.block.line() for s in b.steps)

    # -- steps and checks -------------------------------------------------------------------------------
    def step(
        self, expression: str, run: Callable[[], Any], *, out: bool = True, names: list[str] | None = None, segment: Any = None,
        birth: int | None = None, undo: Callable[[dict[str, Any]], tuple[Any, Any]] | None = None, place: tuple[Any, ...] | None = None,
    ) -> tuple[str, Any]:  # fmt: skip
        """Do something that every call must do again; returns the variable that holds the result, and the result."""
        self.sync()
        if not self.recording:
            return "", run()
        if self.ghost:
            return self._follow(expression)
        names = names if names is not None else [self.tree.fresh()] if out else []
        self.expressions.update(dict.fromkeys(names, expression))
        step = Step(names, expression, self.line(), segment, birth, undo, parent=self.block, place=place)
        try:
            value = run()
        except Exception as error:
            self.block.steps.append(step)
            self._raised(step, error)
            raise
        self.block.steps.append(step)
        self.index += 1
        if names and segment is None:
            self.variables[names[0]] = value
        return (names[0] if names else ""), value

    def next_step(self) -> Step:
        """The recorded step that the ghost is at."""
        if self.index >= len(self.block.steps):
            raise Diverged(f"capture: a step was expected at {self.line()} and none is recorded there")
        return self.block.steps[self.index]

    def _raised(self, step: Step, error: Exception) -> None:
        """The step raised: the line goes on in the block for that."""
        step.error = step.error or self.tree.fresh("e")
        self.variables[step.error] = error
        self.know(error, step.error)
        self.enter(step.raises.setdefault(type(error), Block((step, type(error)))))

    def follow(self, step: Step) -> None:
        """Pass a recorded step; raises what it raised in the replay."""
        error = self.error if step is self.stop else self.variables[step.error] if id(step) in self.path else None
        if error is None:
            self.index += 1
            return
        if step is self.stop:
            self.go_live()
        self._raised(step, error)  # type: ignore[arg-type]
        raise error

    def _follow(self, expression: str) -> tuple[str, Any]:
        step = self.next_step()
        if step.expression.partition("(")[0] != expression.partition("(")[0] and step.expression[:1] not in "cvt":
            raise Diverged(f"capture: recorded {step.expression!r}, met {expression!r} at {self.line()}")
        name = step.names[0] if step.names else ""
        self.expressions.update(dict.fromkeys(step.names, step.expression))
        self.follow(step)
        return name, self.variables[name] if name else None

    def check(self, expression: str, kind: str, key: Any, guard: Any = None) -> Any:
        """Note that what follows depends on how ``kind`` sees the expression; returns the outcome under which the line goes on."""
        self.sync()
        if not self.recording:
            return key
        changed = (
            kind == "look" and key[0] == "value" and widens(key[1]) and not expression.startswith("(") and self._changed(expression, key)
        )
        if self.ghost:
            check = self.block.end
            if not isinstance(check, Check) or check.kind != kind or self.index < len(self.block.steps):
                recorded = self.block.steps[self.index :] or check
                raise Diverged(f"capture: met a check of {expression or kind!r} at {self.line()}, recorded is {recorded}")
            if check is not self.stop:
                outcome = self.path[id(check)]
                self.enter(check.outcomes[outcome])
                if outcome == OTHERWISE:
                    self.leave("it has versions for other values")
                return outcome
            forced = outcome_of(self.tree, check, self.variables) if self.forced else None
            self.go_live()
            if forced is not None:
                check.outcomes[forced] = Block((check, forced))
                self.enter(check.outcomes[forced])
                return forced
            key = True not in check.outcomes if check.kind in ("same", "truth", "sizes") else self._widened(check, key)
            if (len(check.outcomes) >= self.tree.most_outcomes or self.capped) and check.kind != "sizes":
                key = OTHERWISE
        else:
            key = ("any", key[1][0]) if changed else key
            check = self.block.end = Check(expression, kind, self.line(), self.block, guard=guard)
        if key not in check.outcomes:
            check.outcomes[key] = Block((check, key))
        self.enter(check.outcomes[key])
        if key == OTHERWISE:
            of = f"{subject(self.tree, check.expression, self.expressions)}, as many as recompile_limit allows"
            self.leave(f"it has {len(check.outcomes) - 1} versions for other values of {of}; make it a tensor, or raise the limit")
        return key

    def _changed(self, expression: str, key: Any) -> bool:
        """Whether a number is known to change: another one was read by the same words in an earlier capture, or numbers there changed."""
        site = self.line(), VARIABLE.sub("", self.expressions.get(expression, expression))
        self.met[site] = self.met.get(site, 0) + 1
        seen, place = self.tree.numbers, (*site, self.met[site])
        before = seen.get(place, key)
        seen[place] = key
        if before[1][0] is key[1][0] and before != key:
            self.tree.changing.add(site)
        return site in self.tree.changing

    @staticmethod
    def _widened(check: Check, key: Any) -> Any:
        """A number that differs at its second sight becomes a variable of the program; in parentheses it is meant to be fixed."""
        if check.kind != "look" or key[0] != "value" or check.expression.startswith("("):
            return key
        kind = key[1][0]
        if widens(key[1]) and any(k[0] == "value" and k[1][0] is kind for k in check.outcomes):
            return "any", kind
        return key

    # -- values from outside ----------------------------------------------------------------------------
    def adopt(self, value: Any, name: str, dynamic: bool = False) -> Any:
        """A value came from outside in variable ``name``: check what the line may depend on, and remember whose it is."""
        kind = type(value)
        if not self.recording:
            return value
        if kind in ATOMS:
            place = (self.origin(name), kind) if widens((kind, value)) else None
            free = (dynamic and (kind in (bool, str) or place is not None)) or place in self.tree.widened
            key = self.check(name, "look", ("any", kind) if free else ("value", value_key(value)))
            if key[0] != "any":
                return value
            if place is not None:
                self.tree.widened.add(place)
            return Box(value, name)
        ours = dynamic and is_ours(kind) and not isinstance(value, (TensorBase, *CLASSES))
        if ours:
            self.foreign.add(id(value))
        tensor = isinstance(value, TensorBase)
        outcome = ("type", kind) if ours else self._tensor_outcome(name, value) if tensor else look_at(value)
        _, seen = self.check(name, "look", outcome)
        if value is MISSING:
            return value
        constant = isinstance(value, CLASSES) or (is_ours(kind) and not ours and not isinstance(value, TensorBase))
        if not constant:
            alike: list[tuple[str, Any]] = [(n, v) for n, v in self.known.values() if type(v) is kind and n[0] in "vt"]
            if kind is FunctionType:
                alike = [(n, v) for n, v in alike if code_key(v) == code_key(value)]
            same = list(dict.fromkeys(n for n, _ in alike))
            if same:
                at = position(value, *[self.variables.get(n) for n in same])
                at = self.check(f"{self.tree.constant(position)}({name}, {', '.join(same)})", "number", at)
                if at >= 0 and tensor:
                    return self.stand_in(value)
        if type(seen) is Pattern and self.recording:
            self.sizes.open(value, name, seen)
        if id(value) not in self.known or self.known[id(value)][1] is not value:
            self.know(value, name)
        return value

    def _tensor_outcome(self, name: str, tensor: Any) -> tuple[str, Any]:
        with self.sizes.apart():
            return self.sizes.outcome(self.origin(name), tensor, look_at(tensor)[1])

    def origin(self, name: str) -> str:
        """Where a variable was read from, without names of other variables."""
        text = name
        for _ in range(8):
            text, before = NAME.sub(lambda m: self.expressions.get(m[0], m[0]), text), text
            if text == before or len(text) > 400:
                break
        return text

    def know(self, value: Any, name: str) -> None:
        """``value`` is in variable ``name``."""
        self.known[id(value)] = (name, value)
        self.inside.pop(id(value), None)
        if isinstance(value, TensorBase):
            self.by_memory.setdefault(id(value.memory), []).append((name, value))

    def original(self, value: Any) -> Any:
        """The tensor of the replay that one of the ghost stands for, with the history that this one has by now; others as they are."""
        twin, real = self.twins.get(id(value), (None, value))
        if twin is not None and twin is not real:
            real.entry, real.output, real._requires_grad = twin.entry, twin.output, twin._requires_grad
            real.seen_version = twin.seen_version
            real._grad = real._grad if twin._grad is None else twin._grad
        return real

    def stand_in(self, value: Any) -> Any:
        """The tensor of the ghost that stands for one of the replay; others as they are."""
        real, twin = self.stand_ins.get(id(value), (None, value))
        return twin if real is value else value

    def settled(self, value: Any) -> Any:
        """What a variable holds once nothing is recorded any more: the tensor of the replay; a leaf stays what the tape knows."""
        if type(value) is tuple:
            return each_changed(value, self.settled)
        leaf = isinstance(value, TensorBase) and value._requires_grad and value.entry is None
        return value if leaf else self.original(value)

    def _settle(self, obj: Any) -> None:
        """`settled` for what an object made inside holds."""
        if type(obj) is CellType:
            if obj != EMPTY:
                obj.cell_contents = self.settled(obj.cell_contents)
            return
        held: Any = obj if isinstance(obj, (list, dict)) else getattr(obj, "__dict__", None)
        if isinstance(held, (list, dict)):
            for key, value in list(enumerate(held) if isinstance(held, list) else held.items()):
                if (now := self.settled(value)) is not value:
                    held[key] = now

    def catch_up(self, value: Any) -> None:
        """Unknown code may have given the tensor that one of the ghost stands for another history."""
        twin, real = self.twins.get(id(value), (None, value))
        if twin is not None:
            twin.entry, twin.output, twin._requires_grad = real.entry, real.output, real._requires_grad
            twin.seen_version = real.seen_version

    def was_made(self, tensor: Any) -> bool:
        """Whether a tensor was made by this interpretation."""
        made = self.made_tensors.get(id(tensor))
        return made is not None and made() is tensor

    def know_also(self, value: Any, name: str) -> None:
        """Another object stands for what is in a variable: of a ghost and its replay, one each."""
        if id(value) not in self.known:
            self.know(value, name)

    def read(self, key: Any, expression: str, get: Callable[[], Any], fixed: bool = False, place: tuple[Any, ...] | None = None) -> Any:
        """Read an outside place: once, until something may have changed it. ``fixed``: native code will look at the value."""
        if not self.recording:
            return get()
        hit = self.reads.get(key)
        if hit is not None:
            return self.fix(hit[0]) if fixed else hit[0]
        if self.deferred and not self.touched.isdisjoint((key[:2], (key[0], None))):
            self.tree.cuts.setdefault(f"it reads from where a tensor is put that is still to be computed ({self.line()})")
            self.flush()
        name, value = self.step(expression, get, place=place or ("read",))
        value = self.adopt(value, name, dynamic=key[0] in self.foreign)  # each call has another such object
        self.reads[key] = (value, None)
        return self.fix(value) if fixed else value

    def fix(self, value: Any) -> Any:
        """The value of a box; from here on the line holds for this value only."""
        if type(value) is Expression:
            return self.sizes.fixed(value)
        if type(value) is not Box:
            return value
        if self.recording:
            self.check(f"({value.name})", "look", ("value", value_key(value.value)))
        return value.value

    def wrote(self, obj: Any, key: Any, value: Any) -> None:
        """A place was written: what was read of it, or of another object of that kind that may be the same one, is forgotten."""
        kind = type(obj)
        for known in [k for k in self.reads if k[0] != id(obj) and k[1] != "cell" and self._may_be(k[0], kind)]:
            del self.reads[known]
        for known in [k for k in self.reads if k[0] == id(obj) and (k[1] == "*" or k[1] == ("length",))]:
            del self.reads[known]
        if key is not None:
            self.reads[id(obj), key] = (value, obj)
        self.touched.add((id(obj), key))

    def _may_be(self, other: int, kind: type) -> bool:
        found = self.known.get(other)
        return found is None or type(found[1]) is kind or (kind is dict and hasattr(found[1], "__dict__"))

    # -- objects made inside ----------------------------------------------------------------------------
    def new(self, obj: Any) -> Any:
        """An object is made inside. If the replay made it and let it out it is reborn: the same object with the contents of now."""
        if not self.recording:
            return obj
        self.made += 1
        old = self.births.get(self.made) if self.ghost else None
        if old is not None and type(old) is type(obj) and (isinstance(obj, (list, dict, set, deque, CellType)) or hasattr(obj, "__dict__")):
            self.contents.append((old, contents_of(old)))
            refill(old, contents_of(obj))
            obj = old
        self.numbers_of[id(obj)] = self.made
        self.inside[id(obj)] = obj
        return obj

    def lasts(self, obj: Any = None) -> None:
        """Something is about to be done that lasts, to ``obj`` if it was made inside: a trial ends."""
        if self.trial is not None and self.numbers_of.get(id(obj), 0) <= self.trial:
            raise Lasting

    def let_go(self) -> None:
        """Forget objects made inside that only this trace still holds, and with them the tensors that they keep alive."""
        found = True
        while found:
            found = False
            for key in list(self.inside):
                if sys.getrefcount(self.inside[key]) == 2:  # the dictionary's and the argument's
                    del self.inside[key]
                    self.numbers_of.pop(key, None)
                    found = True

    def effect(self, text: Callable[[], str], run: Callable[[], Any], waits: bool) -> None:
        """Change something outside, for real and at once; the step is written where the tensors that it needs exist."""
        self.lasts()
        self.sync()
        if not self.recording:
            run()
            return
        live = not self.ghost
        if live:
            run()
        if waits or self.deferred:
            self.deferred.append((text, nothing if live else run))
        else:
            self.touched.clear()
            self._write(text, nothing if live else run)

    def emit_deferred(self) -> None:
        """Write the steps of the effects that waited for a segment."""
        waiting, self.deferred = self.deferred, []
        self.touched.clear()
        for text, run in waiting:
            self._write(text, run)

    def _write(self, text: Callable[[], str], run: Callable[[], Any]) -> None:
        try:
            expression = text()
        except Uncapturable as reason:
            self.leave(str(reason))
            run()
        else:
            self.step(expression, run, out=False)


def nothing() -> None:
    """What is done for an effect that was performed already."""


def _path(stop: Any) -> dict[int, Any]:
    block = stop if isinstance(stop, Block) else stop.block if isinstance(stop, Check) else stop.parent
    return block.path()


def contents_of(obj: Any) -> Any:
    """A copy of what a list, dict, set or plain instance holds."""
    if isinstance(obj, (list, deque)):
        kind: Any = list if isinstance(obj, list) else deque
        return [*kind.__iter__(obj)]
    if isinstance(obj, dict):
        return dict(OrderedDict.items(obj) if isinstance(obj, OrderedDict) else dict.items(obj))
    if isinstance(obj, set):
        return {*set.__iter__(obj)}
    if isinstance(obj, CellType):
        return getattr(obj, "cell_contents", MISSING) if obj != EMPTY else MISSING
    return dict(obj.__dict__)


def refill(obj: Any, contents: Any) -> None:
    """Give a list, dict, set or plain instance these contents."""
    if isinstance(obj, list):
        list.__setitem__(obj, slice(None), contents)
    elif isinstance(obj, deque):
        obj.clear()
        obj.extend(contents)
    elif isinstance(obj, set):
        set.clear(obj)
        set.update(obj, contents)
    elif isinstance(obj, dict):
        base: Any = OrderedDict if isinstance(obj, OrderedDict) else dict
        base.clear(obj)
        for key, value in contents.items():
            base.__setitem__(obj, key, value)
    elif isinstance(obj, CellType):
        if contents is MISSING:
            del obj.cell_contents
        else:
            obj.cell_contents = contents
    else:
        obj.__dict__.clear()
        obj.__dict__.update(contents)


def position(value: Any, *others: Any) -> int:
    """Which of the others is this very object, -1 for none."""
    return next((i for i, other in enumerate(others) if other is value), -1)
