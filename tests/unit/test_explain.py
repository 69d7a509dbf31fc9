"""The recording of a program's run, and what each FLAMBEAU_DEBUG level prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.core import events
from flambeau.core.config import config
from flambeau.core.source_lines import user_line
from flambeau.explain import Recording, recording
from flambeau.ir.origins import origins_of


def step(x: Any, w: Any) -> Any:
    hidden = (x @ w).relu()
    loss = (hidden * hidden).sum()
    loss.backward()
    return loss.detach()


def line_of(text: str) -> str:
    """The line of this file, after the beginning of ``step``, that holds the text."""
    first = step.__code__.co_firstlineno
    lines = ["hidden = (x @ w)", "loss = (hidden", "loss.backward()"]
    return f"test_explain.py:{first + 1 + lines.index(text)}"


def run_step(runs: int = 4) -> Recording:
    compiled = torch.compile(step)
    x, w = torch.randn(6, 5), torch.randn(5, 3, requires_grad=True)
    with recording() as seen:
        for _ in range(runs):
            w.grad = None
            compiled(x, w)
    return seen


def test_kernels_know_their_lines_and_operators() -> None:
    seen = run_step()
    (version,) = seen.versions
    origins = [o for call in version.bound.program.schedule.calls for o in call.origins]
    assert {o.line for o in origins} == {line_of("hidden = (x @ w)"), line_of("loss = (hidden")}
    assert {"matmul", "relu", "mul", "sum", "matmul_backward", "relu_backward", "mul_backward"} <= {o.operator for o in origins}


def test_replays_are_timed_call_by_call_and_give_the_same_result() -> None:
    torch.manual_seed(0)
    compiled = torch.compile(step)
    x, w = torch.randn(6, 5), torch.randn(5, 3, requires_grad=True)
    with recording() as seen:
        results = []
        for _ in range(3):
            w.grad = None
            results.append((compiled(x, w).item(), w.grad.tolist()))
    (version,) = seen.versions
    calls = version.bound.program.schedule.calls
    assert len(version.seconds) == 2 and all(len(run) == len(calls) and min(run) > 0 for run in version.seconds)
    w.grad = None
    assert results[0] == results[1] == results[2] == (compiled(x, w).item(), w.grad.tolist())
    assert len(version.seconds) == 2  # nobody watches any more


def test_report_leads_from_lines_to_kernels() -> None:
    seen = run_step()
    short, whole = seen.report(), seen.report(full=True)
    assert "step: version 0 was compiled from" in short
    assert re.search(rf"{line_of('loss = (hidden')} +[\d.]+% +\d+  ", short)
    assert whole.count("\n### Kernel ") == len(seen.versions[0].bound.program.schedule.calls)
    assert "prims.matmul(" in whole and "define void @" in whole


def test_report_tells_why_a_function_runs_eagerly() -> None:
    kept = []

    def branch(x: Any) -> Any:
        kept.append(i for i in range(3))
        return x

    compiled = torch.compile(branch)
    with recording() as seen:
        compiled(torch.ones(2))
    report = seen.report()
    assert compiled.explain().left and not seen.versions
    assert "runs eagerly" in report and compiled.explain().left[0] in report


def test_origins_are_kept_only_while_asked_for() -> None:
    compiled = torch.compile(lambda x: (x * 3.5).tanh())
    compiled(torch.ones(7))
    (artifact,) = compiled.artifacts
    assert origins_of(artifact.segment.function.graph.nodes()) == ()


def test_user_line_is_outside_the_package() -> None:
    assert user_line() == f"test_explain.py:{sys._getframe().f_lineno}"


PRINTED = {
    1: ("program_compile", "kernel_compile", "compile"),
    2: ("timing",),
    3: ("graph",),
    4: ("kernel_text",),
    5: ("pass_diff",),
    6: ("assembly",),
}


@pytest.mark.parametrize("level", PRINTED)
def test_debug_level_prints_its_kinds_and_those_below(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=level, cache=False):
        torch.compile(lambda x: (x.double().float() + level * 0.37).sum(1))(torch.ones(3, 4))
    printed = set(re.findall(r"^\[flambeau\] (\w+):", capsys.readouterr().err, re.MULTILINE))
    expected = {kind for number, kinds in PRINTED.items() if number <= level for kind in kinds}
    assert expected <= printed
    assert all((events.print_level(kind) or 99) <= level for kind in printed)


def test_recompile_is_printed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    double = torch.compile(lambda x: x + x)
    with config.override(debug=1):
        double(torch.ones(2))
        double(torch.ones(2, dtype=torch.float64))
    assert re.search(r"recompile: .*note=compiled again: ", capsys.readouterr().err)


@pytest.mark.parametrize("kinds", [(), ("timing",), ("graph",)])
def test_subscribers_see_the_kinds_that_they_ask_for(kinds: tuple[str, ...]) -> None:
    seen: list[str] = []
    note: Callable[[str, events.Event], None] = lambda kind, _: seen.append(kind)  # noqa: E731
    unsubscribe = events.subscribe(note, *kinds)
    try:
        events.emit("timing", stage="x", milliseconds=1.0)
        assert events.enabled("timing") is (kinds != ("graph",))
    finally:
        unsubscribe()
    assert seen == ([] if kinds == ("graph",) else ["timing"])
