"""Residual programs in native form: how much Python a steady call runs, and that it does what the Python form does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.capture.replay import REASONS
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.runtime.native.replay import OBJECTS
from tests.native_switch import python_path

pytestmark = pytest.mark.skipif(not config.native, reason="native code is off")

PROGRAMS: dict[str, tuple[Callable[[], Any], int]] = {}
Call = Callable[[], Any]
# What takes and checks memory in the checked mode is Python's.
CHECKED = ("CheckedAllocator.", "Allocator.", "string_at")


def program(python: int) -> Any:
    """A maker of (compiled function, arguments of calls that come round again); a steady call runs so many Python functions."""

    def add(make: Callable[[], Any]) -> Any:
        PROGRAMS[make.__name__] = make, python
        return make

    return add


def tensors(count: int, *shape: int) -> list[Any]:
    return [torch.randn(*shape) for _ in range(count)]


@program(1)
def three_operators() -> Any:
    return torch.compile(lambda x, y: (x + y).relu() * 2), [(tensors(2, 8), {})]


@program(1)
def ten_tensors() -> Any:
    def total(*xs: Any) -> Any:
        a, b, c, d, e, f, g, h, i, j = xs
        return a + b + c + d + e + f + g + h + i + j

    return torch.compile(total), [(tensors(10, 8), {})]


@program(1)
def numbers_that_change() -> Any:
    return torch.compile(lambda x, scale: x * scale + 1), [((torch.ones(3), float(k)), {}) for k in range(5)]


@program(1)
def keywords_and_constants() -> Any:
    def scaled(x: Any, *, by: int, name: str, flag: bool = True, none: Any = None, wide: float = 0.5) -> Any:
        return x * by * wide if flag and none is None and name == "name" else x

    return torch.compile(scaled), [((torch.ones(3),), {"by": 3, "name": "name", "wide": 0.25})]


@program(1)
def written_in_place() -> Any:
    return torch.compile(lambda x, y: x.add_(y)), [(tensors(2, 6), {})]


@program(1)
def a_dictionary_of_results() -> Any:
    return torch.compile(lambda x, y: {"sum": x + y, "both": (x * y, [x])}), [(tensors(2, 6), {})]


@program(1)
def changing_sizes() -> Any:
    return torch.compile(lambda x, y: (x + y).relu() * x.shape[0]), [(tensors(2, n, 4), {}) for n in (3, 5, 4, 7, 9)]


@program(2)
def views_of_arguments() -> Any:
    base = torch.randn(6, 4)
    return torch.compile(lambda x, y: x @ y + 1), [((base[1:5].t(), base[2:6]), {})]


@program(2)
def a_module() -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return torch.compile(model), [(tensors(1, 3, 4), {})]


@program(1)
def attributes_and_stores() -> Any:
    held = SimpleNamespace(weight=torch.randn(5), count=3, table={"scale": 2.0}, last=None)
    seen: list[Any] = []

    def run(x: Any) -> Any:
        held.last = x * held.weight * held.count
        seen.append(held.last)
        seen.clear()
        return held.last * held.table["scale"]

    return torch.compile(run), [(tensors(1, 5), {})]


@program(5)
def a_branch_on_a_value() -> Any:
    def run(x: Any) -> Any:
        doubled = x * 2
        return doubled + 1 if doubled.sum().item() > 0 else doubled - 1

    return torch.compile(run), [((torch.ones(4),), {}), ((-torch.ones(4),), {})]


@program(1)
def a_method() -> Any:
    class Scaled:
        def __init__(self) -> None:
            self.by = torch.randn(4)

        @torch.compile
        def run(self, x: Any) -> Any:
            return x * self.by

    return Scaled().run, [(tensors(1, 4), {})]


@program(1)
def random_numbers() -> Any:
    return torch.compile(lambda x: F.dropout(x, 0.5)), [((torch.ones(64),), {})]


def training(make: Callable[[Any], Any]) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = make(model.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss, [p.grad for p in model.parameters()]

    return torch.compile(step), [((torch.randn(6, 4), torch.randn(6, 1)), {})]


# The functions that read settings of the optimizer, see to its state, and some that make the loss one whose backward has run.
@program(10)
def a_step_of_sgd() -> Any:
    return training(lambda p: torch.optim.SGD(p, 0.1))


@program(22)
def a_step_of_adamw() -> Any:
    return training(torch.optim.AdamW)


@pytest.fixture(params=PROGRAMS)
def made(request: Any) -> Iterator[Any]:
    make, python = PROGRAMS[request.param]
    torch.manual_seed(0)
    function, calls = make()
    for _ in range(3):
        for args, kwargs in calls:
            function(*args, **kwargs)
    yield function, calls, python


def functions_run(call: Call) -> list[str]:
    """The Python functions that a call runs."""
    found: list[str] = []
    gc.disable()  # which may call what other tests left behind
    sys.setprofile(lambda frame, event, _: found.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    # Once any test has made a class with __torch_function__, public functions look for it.
    looks = ("_stubs.", "_looker.", "_collect")
    return [name for name in found[1:] if not name.startswith(looks)]


def reasons_of(call: Call) -> dict[str, int]:
    before = {reason: counters[f"python_for_replay_{reason}"] for reason in REASONS}
    call()
    after = {reason: counters[f"python_for_replay_{reason}"] - before[reason] for reason in REASONS}
    return {reason: count for reason, count in after.items() if count}


def test_how_much_python_a_call_runs(made: Any) -> None:
    function, calls, python = made
    compiled = getattr(function, "__func__", None) or vars(function).get("_compiled", function)
    assert compiled.native.expressions == []
    for args, kwargs in calls:
        before = counters["captures"]
        assert reasons_of(lambda args=args, kwargs=kwargs: function(*args, **kwargs)) == {}
        found = functions_run(lambda args=args, kwargs=kwargs: function(*args, **kwargs))
        assert len([name for name in found if not name.startswith(CHECKED)]) == python, found
        assert counters["captures"] == before


def picture(value: Any) -> Any:
    """A value with the contents of its tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().tolist(), value.requires_grad, value.is_leaf, value.stride()
    if isinstance(value, (list, tuple)):
        return [picture(v) for v in value]
    return {k: picture(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_the_python_form_gives_the_same(made: Any) -> None:
    function, calls, python = made
    if python > 6:
        return  # each step of an optimizer starts where the last one ended; see below
    found: list[list[Any]] = [[], []]
    for args, kwargs in calls:
        fresh = [torch.randn(a.shape) if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args]
        for seen, way in zip(found, (nullcontext, python_path), strict=True):
            torch.manual_seed(2)
            given = [a.clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in fresh]
            with way():
                reasons = reasons_of(lambda given=given, seen=seen, kwargs=kwargs: seen.append(picture(function(*given, **kwargs))))
            assert reasons == ({} if way is nullcontext else {"modes": 1})
            seen.append(picture(given))
    assert found[0] == found[1]


def test_steps_of_an_optimizer_are_the_same_in_python() -> None:
    found = []
    for way in (nullcontext, python_path):
        torch.manual_seed(3)
        step, ((args, _),) = training(torch.optim.AdamW)
        losses = [picture(step(*args)) for _ in range(3)]
        with way():
            losses += [picture(step(*args)) for _ in range(4)]
        found.append(losses)
    assert found[0] == found[1]


def test_references_are_balanced(made: Any) -> None:
    function, calls, _ = made
    compiled = getattr(function, "__func__", None) or vars(function).get("_compiled", function)
    watched = [None, True, 1, torch.Tensor, compiled.tree, compiled.native.kept, *compiled.tree.constants.values()]
    watched += [w for args, _ in calls for a in args if isinstance(a, torch.Tensor) for w in (a.meta, a)]

    def run() -> None:
        for _ in range(200):
            for args, kwargs in calls:
                function(*args, **kwargs)

    run()
    gc.collect()
    before = [sys.getrefcount(o) for o in watched]
    run()
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)


def test_what_changes_is_met_by_the_program() -> None:
    """Every kind of check: what it lets through, and that a call for which it does not hold is captured."""
    held = SimpleNamespace(number=1, name="a", wide=0.5, flag=True, call=abs, made=SimpleNamespace())

    def helper(x: Any) -> Any:
        return x + 1

    held.helper = helper

    @torch.compile
    def run(x: Any) -> Any:
        x = held.helper(x) * held.number * held.wide + len(held.name)
        return -x if held.flag else x

    def expected(x: Any) -> Any:
        x = held.helper(x) * held.number * held.wide + len(held.name)
        return -x if held.flag else x

    changes: list[tuple[str, Any]] = [
        ("number", 5), ("number", 7), ("number", True), ("name", "abc"), ("wide", 0.25), ("wide", 1), ("flag", False), ("flag", None),
        ("helper", lambda x: x * 3), ("flag", True), ("number", 7),
    ]  # fmt: skip
    x = torch.randn(3, 4)
    run(x)
    for name, value in changes:
        setattr(held, name, value)
        for given in (x, torch.randn(4, 3).t(), torch.randn(3, 4).requires_grad_(), torch.randn(3, 4).double(), torch.randn(5, 4)):
            for _ in range(2):
                np.testing.assert_allclose(run(given).detach().numpy(), expected(given).detach().numpy(), rtol=1e-6)
                with torch.no_grad():
                    assert not run(given).requires_grad


def test_errors_of_steps_and_segments() -> None:
    table: dict[str, Any] = {"a": torch.ones(3)}

    @torch.compile
    def look(x: Any, key: str, index: Any) -> Any:
        try:
            return x[index] + table[key]
        except KeyError as error:
            return str(error)

    x, index = torch.arange(4.0), torch.tensor([0, 1, 2])
    for _ in range(3):
        assert look(x, "a", index).tolist() == [1.0, 2.0, 3.0]
        assert look(x, "b", index) == "'b'"
    for _ in range(2):
        with pytest.raises(IndexError) as native:
            look(x, "a", index + 2)
        with python_path(), pytest.raises(IndexError) as python:
            look(x, "a", index + 2)
        assert str(native.value) == str(python.value)
    assert look(x, "a", index).tolist() == [1.0, 2.0, 3.0]


def test_a_program_that_is_left_in_other_modes_than_it_began() -> None:
    @torch.compile
    def run(x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
            sign = 1 if y.sum().item() > 0 else -1  # the first call of each sign comes back to the interpreter here
            z = y * sign
        return z, x * sign

    x = torch.ones(3, requires_grad=True)
    for given in (x, x, (-x).detach().requires_grad_(), (-x).detach().requires_grad_(), x):
        z, product = run(given)
        assert not z.requires_grad and product.requires_grad and torch.is_grad_enabled()
        assert z.tolist() == [2.0] * 3 and product.tolist() == [1.0] * 3


def test_reasons_for_python() -> None:
    double = torch.compile(lambda x: x * 2)
    x = torch.ones(3)
    double(x)
    assert reasons_of(lambda: double(x)) == {}
    with python_path():
        assert reasons_of(lambda: double(x)) == {"modes": 1}
    base = torch.zeros(4)
    row = base[:3]
    base.add_(1)
    assert reasons_of(lambda: double(row)).keys() <= {"check"}
    assert counters["python_for_replay_check"] >= 0


def test_the_report_tells_what_runs_as_python() -> None:
    held = [3]

    @torch.compile
    def run(x: Any) -> Any:
        return x * -held[0]

    x = torch.ones(2)
    for value in (3, 4, 5, 6):
        held[0] = value
        assert run(x).tolist() == [-value] * 2
    assert run.native.expressions == run.explain().python != []
    assert "tensor_of(v1) == c" in str(run.explain()) and "is (Tensor, f32[2], False, True, None)" in str(run.explain())
    assert f"#     {run.native.expressions[0]}" in str(run.explain())


def test_no_object_lies_where_variables_are_numbered() -> None:
    # Executables that are not position-independent, as Debian's and Ubuntu's interpreters, begin at 4 MiB.
    assert OBJECTS < 1 << 22
    starts = [int(line.split("-")[0], 16) for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines()]
    assert OBJECTS <= min(starts)
