"""Open loops of a function under construction: values are written into the outermost loop where they are known, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from flambeau.codegen.cpu.emitter import Emitter, Value

Body = Callable[[Value, list[Value]], Sequence[Value]]


class Level:
    """One open loop: the text of its body so far, the axes it binds, and the values already written into it."""

    __slots__ = ("axes", "block", "lines", "memo")

    def __init__(self, lines: list[str], block: str, axes: dict[str, Value]) -> None:
        self.lines = lines
        self.block = block
        self.axes = axes
        self.memo: dict[Hashable, Value] = {}


class Nest:
    """The levels from the function's body (0) to the innermost open loop.

    A loop's text joins its parent's only when it is closed; until then its parent can still receive loop-invariant code.
    """

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.levels = [Level(e.lines, e.block, {})]

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    def bind(self, axes: Mapping[str, Value]) -> None:
        """Give axes their values at the innermost level."""
        self.levels[-1].axes.update(axes)

    def axis(self, name: str) -> tuple[Value, int]:
        """The value of an axis (that of lane 0 for the vector axis) and the depth that binds it."""
        for depth in range(self.depth, -1, -1):
            value = self.levels[depth].axes.get(name)
            if value is not None:
                return value, depth
        raise KeyError(f"axis {name!r} is not bound here")

    def binds(self, name: str) -> bool:
        """Whether the axis has a value here."""
        return any(name in level.axes for level in self.levels)

    def find(self, key: Hashable) -> tuple[Value, int] | None:
        """A value written at an open level, with its depth."""
        for depth in range(self.depth, -1, -1):
            value = self.levels[depth].memo.get(key)
            if value is not None:
                return value, depth
        return None

    def put(self, key: Hashable, value: Value) -> None:
        """Remember a value at the innermost level."""
        self.levels[-1].memo[key] = value

    def keep(self, key: Hashable, depth: int, make: Callable[[], Value]) -> Value:
        """The value of ``key``, written by ``make`` at ``depth`` when no open level has it."""
        for level in reversed(self.levels):
            value = level.memo.get(key)
            if value is not None:
                return value
        return self.write(key, depth, make)

    def write(self, key: Hashable, depth: int, make: Callable[[], Value]) -> Value:
        """Write a value that no open level has, at ``depth``."""
        value = self.levels[depth].memo[key] = self.at(depth, make)
        return value

    def at(self, depth: int, make: Callable[[], Value]) -> Value:
        """Run ``make`` with its text going to the end of the level at ``depth``, before the loops open inside it."""
        if depth == self.depth:
            return make()
        e, levels = self.e, self.levels
        levels[-1].block = e.block
        self.levels = levels[: depth + 1]
        e.lines, e.block = levels[depth].lines, levels[depth].block
        value = make()
        levels[depth].block = e.block
        self.levels = levels
        e.lines, e.block = levels[-1].lines, levels[-1].block
        return value

    def loop(
        self, axis: str | None, start: Value, stop: Value, step: int, carried: Sequence[Value], body: Body
    ) -> tuple[Value, list[Value]]:
        """``for axis in range(start, stop, step)`` with carried values; returns the final index and the final values."""
        e = self.e
        head, inside, after = (e.fresh_label(stem) for stem in ("head", "body", "end"))
        index = Value(f"%{head}.i", "i64")
        values = [Value(f"%{head}.v{k}", v.kind, v.width) for k, v in enumerate(carried)]
        parent = self.levels[-1]
        parent.block = e.block
        level = Level([], inside, {} if axis is None else {axis: index})
        self.levels.append(level)
        e.lines, e.block = level.lines, inside
        results = body(index, values)
        following = e.add(index, e.const(step, "i64"))
        last = e.block
        self.levels.pop()
        e.lines, e.block = parent.lines, parent.block
        self._close(level, (head, inside, after), last, index, (start, stop, following), (values, carried, results))
        return index, values

    def _close(
        self, level: Level, labels: tuple[str, str, str], last: str, index: Value, bounds: tuple[Value, Value, Value],
        carried: tuple[list[Value], Sequence[Value], Sequence[Value]],
    ) -> None:  # fmt: skip
        e, before = self.e, self.e.block
        (head, inside, after), (start, stop, following) = labels, bounds
        e.branch(head)
        e.label(head)
        e.emit(f"{index.text} = phi i64 [ {start.text}, %{before} ], [ {following.text}, %{last} ]")
        for value, first, result in zip(*carried, strict=True):
            e.emit(f"{value.text} = phi {value.type} [ {first.text}, %{before} ], [ {result.text}, %{last} ]")
        e.branch_if(e.compare("slt", index, stop), inside, after)
        e.label(inside)
        e.lines.extend(level.lines)
        e.branch(head)
        e.label(after)

    def choose(self, condition: Value, make: Callable[[], Value], otherwise: Value) -> Value:
        """``make()`` where the scalar condition holds, jumped over where it does not."""
        e = self.e
        inside, after, before = e.fresh_label("valid"), e.fresh_label("given"), e.block
        e.branch_if(condition, inside, after)
        e.label(inside)
        memo = dict(self.levels[-1].memo)
        value = make()
        self.levels[-1].memo = memo
        last = e.block
        e.branch(after)
        e.label(after)
        out = Value(e.fresh(), otherwise.kind, otherwise.width)
        e.emit(f"{out.text} = phi {out.type} [ {value.text}, %{last} ], [ {otherwise.text}, %{before} ]")
        return out

    def when(self, condition: Value, body: Callable[[], object], otherwise: Callable[[], object] | None = None) -> None:
        """Run ``body``'s text only where the scalar condition holds, else that of ``otherwise``; what they write is forgotten."""
        e = self.e
        inside, after = e.fresh_label("then"), e.fresh_label("fi")
        outside = after if otherwise is None else e.fresh_label("else")
        e.branch_if(condition, inside, outside)
        memo = self.levels[-1].memo
        for label, text in ((inside, body), (outside, otherwise)):
            if text is not None:
                e.label(label)
                self.levels[-1].memo = dict(memo)
                text()
                e.branch(after)
        self.levels[-1].memo = memo
        e.label(after)
