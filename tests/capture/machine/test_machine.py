"""The machine's own interface: its counts, limits, frames and tracebacks, and what stands in for Python's frames."""

# ruff: noqa: B904, B018
from __future__ import annotations

import inspect
import linecache
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

from flambeau.capture import machine as package
from flambeau.capture.machine import Frame, Generator, Interruption, Machine, Semantics, StepLimitReached, Unsupported, needs_frame

FOLDER = str(Path(package.__file__).parent)


@pytest.fixture
def machine() -> Machine:
    return Machine(Semantics())


def run(machine: Machine, function: Any, *args: Any, **kwargs: Any) -> Any:
    return machine.call_function(function, args, kwargs)


def test_steps_are_counted_and_limited(machine: Machine) -> None:
    def loop(n: int) -> int:
        total = 0
        for i in range(n):
            total += i
        return total

    assert run(machine, loop, 10) == 45
    short = machine.steps
    assert run(machine, loop, 20) == 190
    assert machine.steps - short > short

    def count(n: int) -> int:
        while n > 0:
            n -= 1
        return n

    for function in (loop, count):
        machine.step_limit = machine.steps + 50
        with pytest.raises(StepLimitReached, match="bytecodes were run, the limit is"):
            run(machine, function, 10**9)
        assert machine.frames == [] and machine.steps < machine.step_limit + 50


def test_interruptions_run_no_handler_of_the_program(machine: Machine) -> None:
    log = []

    def stop() -> None:
        raise Interruption("stop")

    def program() -> None:
        try:
            stop()
        except BaseException:
            log.append("except")
        finally:
            log.append("finally")

    with pytest.raises(Interruption, match="stop"):
        run(machine, program)
    assert log == [] and machine.frames == []


def test_asynchronous_functions_are_not_entered(machine: Machine) -> None:
    async def coroutine() -> int:
        return 5

    async def generator() -> Any:
        yield 5

    with pytest.raises(Unsupported, match="asynchronous"):
        run(machine, coroutine)
    assert not machine.can_enter(coroutine) and not machine.can_enter(generator)
    made = run(machine, lambda: coroutine())
    assert inspect.iscoroutine(made)
    with pytest.raises(StopIteration) as stop:
        made.send(None)
    assert stop.value.value == 5


def test_unknown_opcodes_are_told_before_the_first_step(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau.capture.machine import decode

    def program() -> Any:
        return [1, machine]

    monkeypatch.delitem(decode.table(), "BUILD_LIST")
    with pytest.raises(Unsupported, match="opcode BUILD_LIST"):
        run(machine, program)
    assert machine.steps == 0 and not machine.can_enter(program)
    assert machine.semantics.call(program, (), {}) == [1, machine]


def test_frames_are_visible_while_they_run() -> None:
    seen: list[Any] = []

    class Watching(Semantics):
        def binary(self, name: str, left: Any, right: Any) -> Any:
            seen.append([(frame.code.co_name, frame.line - frame.code.co_firstlineno) for frame in self.machine.frames])
            assert all(isinstance(frame, Frame) for frame in self.machine.frames)
            return super().binary(name, left, right)

    def outer(x: int) -> int:
        y = x

        return inner(y)

    def inner(x: int) -> int:
        return x + 1

    assert run(Machine(Watching()), outer, 1) == 2
    assert seen == [[("outer", 3), ("inner", 1)]]


def test_traceback_shows_the_program_alone(machine: Machine) -> None:
    def outer(x: float) -> Any:
        kept = [x]
        return inner(kept[0])

    def inner(x: float) -> Any:
        text = str(x)
        return sorted([text, x])  # raises

    try:
        run(machine, outer, 2.5)
    except TypeError as error:
        trace = error.__traceback__
        texts = traceback.format_exception(error)
    try:
        outer(2.5)
    except TypeError as error:
        expected = traceback.format_exception(error)
    assert trace is not None
    rows = [row for row in traceback.extract_tb(trace) if row.filename != __file__ or row.name != "run"]
    assert [row.name for row in rows] == ["test_traceback_shows_the_program_alone", "outer", "inner"]
    assert all(not row.filename.startswith(FOLDER) for row in rows)
    assert rows[-1].line == linecache.getline(__file__, inner.__code__.co_firstlineno + 2).strip()
    # The very columns are known, and the variables as they were.
    assert texts[-3:] == expected[-3:]
    last = list(traceback.walk_tb(trace))[-1][0]
    assert dict(last.f_locals) == {"x": 2.5, "text": "2.5"} and last.f_globals is globals()
    assert last.f_lineno == trace.tb_next.tb_next.tb_next.tb_lineno  # type: ignore[union-attr]


def test_traceback_keeps_native_frames_between(machine: Machine) -> None:
    space: dict[str, Any] = {}
    exec("def native(f):\n    async def never(): pass\n    return f()", space)

    def callback() -> Any:
        return numbers(0)

    def numbers(n: int) -> Any:
        return sum(1 // (n - i) for i in range(2))

    def program() -> Any:
        return max([1], key=lambda _: callback())

    with pytest.raises(ZeroDivisionError) as caught:
        run(machine, program)
    names = [entry.name for entry in caught.traceback]
    assert names[-5:] == ["program", "<lambda>", "callback", "numbers", "<genexpr>"]


def test_exceptions_of_the_same_object_grow_the_traceback(machine: Machine) -> None:
    def program() -> Any:
        error = ValueError("kept")
        for _ in range(2):
            try:
                raise error
            except ValueError:
                pass
        return error

    native, interpreted = program(), run(machine, program)
    lines = [[entry[1] for entry in traceback.walk_tb(error.__traceback__)] for error in (native, interpreted)]
    assert lines[0] == lines[1]


def test_nothing_is_kept_alive_after_an_exception(machine: Machine) -> None:
    import gc
    import weakref

    class Thing:
        pass

    def program(references: list[Any]) -> Any:
        thing = Thing()
        references.append(weakref.ref(thing))
        try:
            1 // 0
        except ZeroDivisionError:
            pass
        thing = None
        return references[0]()

    gc.disable()
    try:
        assert run(machine, program, []) is None
    finally:
        gc.enable()


def test_warnings_are_told_at_the_line_of_the_program(machine: Machine) -> None:
    def outer() -> None:
        inner()

    def inner() -> None:
        warnings.warn("at the caller", stacklevel=2)
        warnings.warn("here")  # noqa: B028

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(machine, outer)
    found = [(Path(entry.filename).name, entry.lineno) for entry in caught]
    assert found == [(Path(__file__).name, outer.__code__.co_firstlineno + 1), (Path(__file__).name, inner.__code__.co_firstlineno + 2)]
    with pytest.raises(TypeError, match="category must be a Warning subclass, not 'int'"):
        run(machine, lambda: warnings.warn("text", 5, stacklevel=1))  # type: ignore[arg-type]


def test_frame_functions(machine: Machine) -> None:
    def program() -> Any:
        here = sys._getframe()
        stack = [entry.function for entry in inspect.stack()]
        return (
            here is sys._getframe(),
            here.f_code.co_name,
            here.f_lineno - here.f_code.co_firstlineno,
            sorted(here.f_locals),
            here.f_back.f_code.co_name,
            inspect.currentframe().f_code.co_name,
            isinstance(here, types.FrameType),
            stack[:3],
        )

    def caller() -> Any:
        return program()

    same, name, line, names, back, current, is_frame, stack = run(machine, caller)
    assert (same, name, line, back, current, is_frame) == (True, "program", 6, "caller", "program", True)
    assert names == ["here", "stack"] and stack == ["program", "caller", "run"]


def test_native_classes_are_named_by_the_module_that_calls(machine: Machine) -> None:
    def program() -> Any:
        return type("Made", (), {}).__module__

    assert run(machine, program) == __name__


def test_evaluated_code_inherits_only_the_flags_of_its_caller(machine: Machine) -> None:
    space = {"__name__": "elsewhere"}
    text = "def program():\n    space = {}\n    exec('def f(x: int): pass', space)\n    return space['f'].__annotations__"
    exec(compile(text, "<program>", "exec", dont_inherit=True), space)
    assert run(machine, space["program"]) == {"x": int}


def test_recursion_goes_on_natively_below_the_depth_limit() -> None:
    def depth(n: int) -> int:
        return 0 if n == 0 else 1 + depth(n - 1)

    machine = Machine(Semantics())
    assert run(machine, depth, 150) == 150
    steps = machine.steps
    machine.depth_limit = 20
    machine.steps = 0
    assert run(machine, depth, 300) == 300
    assert machine.steps < steps


def test_generators_are_generators(machine: Machine) -> None:
    def numbers() -> Any:
        yield 1

    made = run(machine, numbers)
    assert type(made) is Generator and isinstance(made, types.GeneratorType) and inspect.isgenerator(made)
    assert inspect.getgeneratorstate(made) == "GEN_CREATED" and made.gi_code is numbers.__code__
    assert next(made) == 1 and inspect.getgeneratorstate(made) == "GEN_SUSPENDED"
    assert made.gi_frame.f_code is numbers.__code__ and repr(made).startswith("<generator object test_generators")
    assert list(made) == [] and inspect.getgeneratorstate(made) == "GEN_CLOSED"
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        made.__reduce__()


def test_functions_that_need_a_frame_of_their_own_are_told() -> None:
    def debugged() -> None:
        breakpoint()  # noqa: T100

    assert needs_frame(debugged.__code__) == "breakpoint"
    assert needs_frame(run.__code__) is None


def test_patched_operations_see_every_operation() -> None:
    calls: list[str] = []

    class Recording(Semantics):
        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("_") and name != "machine":
                calls.append(name)
            return super().__getattribute__(name)

    class Manager:
        def __enter__(self) -> int:
            return 1

        def __exit__(self, *_: Any) -> None:
            pass

    def program(items: list[int]) -> Any:
        with Manager() as one:
            total = one
        for item in items:
            if item > 1 and item in items:
                total += -item
        return f"{total}", items[0], [*items, total]

    assert run(Machine(Recording()), program, [1, 2]) == ("-1", 1, [1, 2, -1])
    expected = {"enter_context", "exit_context", "iterator", "advance", "compare", "truth", "contains", "inplace", "unary"}
    assert expected | {"format_value", "subscript", "build_list", "list_extend", "list_append", "build_tuple"} <= set(calls)
