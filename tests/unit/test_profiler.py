"""The profiler: what it counts, ranges inside each other, schedules, tables and files; and the timing of statements."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import flambeau as torch
from flambeau.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from flambeau.utils import benchmark


def test_operators_forward_backward_and_compiled():
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    step = torch.compile(lambda x: layer(x).square().mean())
    step(x), step(x)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            layer(x).square().sum().backward()
        step(x), step(x)
    found = {e.key: e for e in prof.key_averages()}
    assert found["aten::linear"].count == found["linear_backward"].count == found["aten::square"].count == 3
    assert (
        sum(e.count for key, e in found.items() if key.endswith("<lambda>")) == 2
        and found["aten::linear"].cpu_memory_usage == 3 * 2 * 3 * 4
    )
    by_shape = {(e.key, str(e.input_shapes)) for e in prof.key_averages(group_by_input_shape=True)}
    assert ("aten::linear", "[[2, 4], [3, 4], [3]]") in by_shape
    layer(x)
    assert {e.key: e.count for e in prof.key_averages()}["aten::linear"] == 3  # nothing is seen outside
    assert torch.allclose(step(x), layer(x).square().mean())


def test_ranges_lie_inside_each_other():
    @record_function("decorated")
    def work() -> None:
        time.sleep(0.01)

    with profile() as prof, record_function("outer"):
        time.sleep(0.01)
        with record_function("inner"):
            work()
            torch.ones(3) + 1
    found = {e.key: e for e in prof.key_averages()}
    assert found["outer"].cpu_time_total >= found["inner"].cpu_time_total >= found["decorated"].cpu_time_total >= 10_000
    assert found["outer"].self_cpu_time_total == pytest.approx(found["outer"].cpu_time_total - found["inner"].cpu_time_total)
    assert [e.name for e in prof.events()][:3] == ["outer", "inner", "decorated"]
    text = prof.key_averages().table(sort_by="cpu_time_total", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split()[:4] == ["Name", "Self", "CPU", "%"] and lines[3].split()[0] == "outer" and "decorated" not in text
    assert lines[-1].startswith("Self CPU time total: ")
    with record_function("no profiler"):
        pass


def test_schedules():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = "NONE NONE WARMUP RECORD RECORD_AND_SAVE NONE WARMUP RECORD RECORD_AND_SAVE NONE NONE".split()
    assert [plan(i) for i in range(11)] == [ProfilerAction[n] for n in names]
    ready: list[Any] = []
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append([e.count for e in p.key_averages() if e.key == "aten::add"])) as prof:
        for _ in range(11):
            torch.ones(2) + 1
            prof.step()
    assert ready == [[2], [2]]
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=0, active=0)


def test_traces(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path)), record_shapes=True), record_function("range"):
        torch.ones(2, 3).sum()
    (path,) = tmp_path.glob("*.pt.trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert {(e["name"], e["cat"], e["ph"]) for e in events} >= {("range", "user_annotation", "X"), ("aten::sum", "cpu_op", "X")}
    outer, inner = (next(e for e in events if e["name"] == n) for n in ("range", "aten::sum"))
    assert (
        outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] and inner["args"]["Input Dims"] == [[2, 3]]
    )


def test_the_older_profiler():
    with torch.autograd.profiler.profile(record_shapes=True) as prof:
        torch.ones(2).exp()
    assert prof.self_cpu_time_total == pytest.approx(prof.total_average().self_cpu_time_total) and prof.total_average().count >= 2
    assert "aten::exp" in prof.table() and [e.count for e in prof.key_averages() if e.key == "aten::exp"] == [1]
    with torch.autograd.profiler.profile(enabled=False) as prof:
        torch.ones(2).exp()
    assert not prof.function_events


def test_timers():
    x = torch.randn(8, 8)
    timer = benchmark.Timer(
        "x @ x", setup="y = 1", globals={"x": x}, label="product", sub_label="8x8", description="float32", num_threads=1
    )
    one, many = timer.timeit(20), timer.blocked_autorange(min_run_time=0.01)
    assert one.number_per_run == 20 and len(one.raw_times) == 1 and one.mean == one.median > 0 and one.iqr == 0
    assert sum(many.raw_times) >= 0.01 and many.title == "product: 8x8" and "Median:" in repr(many) and "1 thread(s)" in repr(many)
    assert timer.adaptive_autorange(threshold=0.5, max_run_time=0.5).times
    slow = benchmark.Timer("time.sleep(0.002)", globals={"time": time}, label="product", sub_label="8x8", description="sleep").timeit(5)
    assert slow.median >= 0.002
    text = str(benchmark.Compare([many, slow]))
    assert "float32" in text and "sleep" in text and "[ product ]" in text and "8x8" in text
    with pytest.raises(ValueError, match="Measurement"):
        benchmark.Compare([1])
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        benchmark.Timer("x", language="c++")
