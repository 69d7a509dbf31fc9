"""Captures that outlive the process: a second process interprets nothing and generates no code, and what changed is captured anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.stress import stress
from flambeau.core.events import counters
from flambeau.runtime import disk_cache

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

# Each function with a name in capitals makes a function and the arguments of its calls; EDITS change what it does.
PROGRAM = """
import functools, json, sys
import flambeau as torch
from flambeau import nn
from flambeau.core.events import counters
F = nn.functional
FACTOR = 2
STEPS = []

def helper(x):
    return x + 1  # helper

@torch.no_grad()
def decorated(x):
    return x * 3  # decorated

class Scaler:
    offset = 1.0  # class attribute

    def __init__(self):
        self.scale = 2.0  # attribute

    def __call__(self, x):
        return x * self.scale + self.offset

    @property
    def half(self):
        return 0.5  # property

class Net(nn.Module):
    POWER = 2  # class attribute of a Module

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.norm = nn.LayerNorm(width)
        self.outer = nn.Linear(width, 4)

    def forward(self, x):
        return self.outer(F.gelu(self.norm(self.inner(x)))) ** self.POWER  # forward

def batches(count=3, rows=6):
    return [(torch.randn(rows, 8), torch.randint(0, 4, (rows,))) for _ in range(count)]

def POINTWISE():
    return lambda x: (x * 2 + 1).relu(), [(torch.randn(5, 3),)] * 3  # pointwise

def USES_HELPER():
    return lambda x: helper(x) * 2, [(torch.randn(4),)] * 2

def USES_DECORATED():
    return lambda x: decorated(x) * 2, [(torch.randn(4),)] * 2

def USES_GLOBAL():
    return lambda x: x * FACTOR, [(torch.randn(4),)] * 2

def USES_PARTIAL():
    times = functools.partial(lambda a, x: x * a, 3.0)  # partial
    return lambda x: times(x), [(torch.randn(4),)] * 2

def USES_OBJECT():
    scaler = Scaler()
    return lambda x: scaler(x) * scaler.half, [(torch.randn(4),)] * 2

def USES_METHOD():
    method = Scaler().__call__
    return lambda x: method(x), [(torch.randn(4),)] * 2

def train(model, optimizer, loss_of=F.cross_entropy):
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step

def ADAMW():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))  # adamw model
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-2)), batches()  # adamw

def MOMENTUM():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return train(model, torch.optim.SGD(model.parameters(), lr=1e-1, momentum=0.9)), batches(5)  # momentum

def ACCUMULATED():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1, dampening=0.5, momentum=0.75)
    calls = [0]
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        calls[0] += 1
        if calls[0] % 2 == 0:  # the state of the optimizer is made in the second call
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()
    return step, batches(6)

def DAMPED():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1, dampening=0.5, momentum=0.75)
    scale = [1]  # damped
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach() * 2 if scale[0] == 2 else loss.detach()  # looked at when the state has been made
    return step, batches()

def DROPOUT():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4))  # dropout
    return train(model, torch.optim.Adam(model.parameters(), lr=1e-2)), batches()

def BATCH_NORM():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-2)), batches()

def CLIPPED():
    model = Net(16)
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}], lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # clipping
        optimizer.step()
        scheduler.step()
        return loss.detach()
    return step, batches(4)

def MODEL():
    model = Net(16).eval()  # model
    return model, [(torch.randn(6, 8),)] * 3

def MODEL_GRADIENT():
    model = Net(16)
    return model, [(torch.randn(6, 8, requires_grad=True),)] * 3

def BRANCHES():
    def f(x):
        total = x.sum()
        if total > 0:
            y = x * 2
        else:
            y = x - 1  # branch
        STEPS.append(total.item())
        print("met", round(total.item(), 3), file=sys.stderr)
        return y * total.item()
    return f, [(torch.full((3,), s),) for s in (1.0, -2.0, 3.0, -4.0, 5.0)]

def RAISES():
    def f(x):
        try:
            if x.sum() > 0:
                raise ValueError("too large")
            return x
        except ValueError:
            return x * 7  # raises
    return f, [(torch.ones(3),), (-torch.ones(3),), (torch.ones(3),)]

def SIZES():
    return lambda x: torch.softmax(x.reshape(x.shape[0], -1), 1) * x.shape[1], [(torch.randn(n, 3, 2),) for n in (4, 5, 6, 7, 9)]  # sizes

def KEYWORDS():
    return lambda x, factor=3: x * factor, [(torch.randn(4),), (torch.randn(4), 5), (torch.randn(4), 6)]  # keywords

def MADE():
    return lambda x: {"a": x + torch.tensor([1.0, 2.0]), "b": [x.sum(0), (x, None)]}, [(torch.randn(3, 2),)] * 2  # made

def flat(value):
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            value.square().sum().backward()
        return value.detach().double().reshape(-1).tolist()
    if isinstance(value, dict):
        value = list(value.items())
    return [flat(v) for v in value] if isinstance(value, (list, tuple)) else value

def results(make, compile):
    torch.manual_seed(0)
    function, calls = make()
    call = torch.compile(function) if compile else function
    found = [flat(call(*c)) for c in calls]
    if isinstance(function, nn.Module):
        found += [flat(p.grad) for p in function.parameters() if p.grad is not None]
    return found, call

def main(names):
    report = {}
    for name, make in list(globals().items()):
        if not name.isupper() or not callable(make) or names and name not in names:
            continue
        expected, _ = results(make, False)
        counters.reset()
        found, call = results(make, True)
        counted = {k: counters[k] for k in ("captures", "bytecodes", "kernel_compiles", "schedules", "captures_kept", "captures_revived")}
        call = getattr(call, "__dict__", {}).get("_compiled", call)
        report[name] = {"expected": expected, "found": found, "not_kept": call.not_kept, "history": call.history, **counted}
    print(json.dumps(report))

if __name__ == "__main__":
    main(sys.argv[1:])
"""
NAMES = [line[4:-3] for line in PROGRAM.splitlines() if line.startswith("def ") and line[4:-3].isupper()]
# Sums of gradients in another order.
CLOSE = {"MODEL_GRADIENT", "CLIPPED", "BATCH_NORM", "DROPOUT", "ADAMW", "MOMENTUM", "ACCUMULATED", "DAMPED"}
# What is different in a later process, one edit of each function at a time; the last column: whether a capture is needed.
EDITS: dict[str, list[tuple[str, str, bool]]] = {
    "POINTWISE": [("(x * 2 + 1).relu()", "(x * 2 - 1).relu()", True), ("(x * 2 + 1).relu()", "(x * 2 + 1).abs()", True)],
    "USES_HELPER": [("return x + 1  # helper", "return x + 2  # helper", True)],
    "USES_DECORATED": [("return x * 3  # decorated", "return x * 4  # decorated", True)],
    "USES_GLOBAL": [("FACTOR = 2", "FACTOR = 3", True), ("FACTOR = 2", "FACTOR = 2.5", True)],
    "USES_PARTIAL": [("3.0)  # partial", "4.0)  # partial", True), ("lambda a, x: x * a", "lambda a, x: x / a", True)],
    "USES_OBJECT": [("return 0.5  # property", "return 0.25  # property", True), ("offset = 1.0", "offset = 1.5", True)],
    "USES_METHOD": [("x * self.scale + self.offset", "x * self.scale - self.offset", True), ("scale = 2.0", "scale = 2.5", True)],
    "ADAMW": [
        ("lr=1e-2)), batches()  # adamw", "lr=1e-2, amsgrad=True)), batches()", True),
        ("lr=1e-2)), batches()  # adamw", "lr=3e-2, weight_decay=0.5)), batches()", False),
        ("lr=1e-2)), batches()  # adamw", "lr=1e-2, weight_decay=0.0)), batches()", True),
    ],
    "MOMENTUM": [
        ("momentum=0.9", "momentum=0.9, nesterov=True", True),
        ("momentum=0.9", "momentum=0.8", False),
        ("momentum=0.9", "momentum=0.0", True),
    ],
    "DAMPED": [("scale = [1]  # damped", "scale = [2]", True)],
    "DROPOUT": [("nn.Dropout(0.5)", "nn.Dropout(0.25)", True), ("nn.Dropout(0.5)", "nn.ReLU()", True)],
    "BATCH_NORM": [("BatchNorm1d(16)", "BatchNorm1d(16, affine=False)", True), ("BatchNorm1d(16)", "BatchNorm1d(16, eps=0.3)", True)],
    "CLIPPED": [
        ("0.5)  # clipping", "0.25)  # clipping", True),
        ("self.norm = nn.LayerNorm(width)", "self.norm = nn.LayerNorm(width, eps=0.1)", True),
        ("lambda step: 1 / (step + 1)", "lambda step: 1 / (step + 2)", False),
    ],
    "MODEL": [
        ("Net(16).eval()  # model", "Net(24).eval()", True),
        ("Net(16).eval()  # model", "Net(16).double().float().requires_grad_(False)", True),
        ("Net(16).eval()  # model", "Net(16); model.inner.register_forward_hook(lambda m, a, out: out * 2)", True),
    ],
    "MODEL_GRADIENT": [("POWER = 2", "POWER = 3", True), ("F.gelu(", "F.silu(", True)],
    "BRANCHES": [("y = x - 1  # branch", "y = x - 2  # branch", True), ("if total > 0", "if total > 4", True)],
    "RAISES": [("return x * 7  # raises", "return x * 8  # raises", True)],
    "SIZES": [("* x.shape[1], [(", "* x.shape[2], [(", True), ("(4, 5, 6, 7, 9)", "(8, 3, 12)", False)],
    "KEYWORDS": [("factor=3: x * factor", "factor=4: x * factor", True)],
    "MADE": [("[1.0, 2.0]", "[1.0, 3.0]", True)],
}
ROUNDS = max(map(len, EDITS.values()))


def run(folder: Path, cache: Path, text: str = PROGRAM, *names: str, **environment: str) -> dict[str, Any]:
    """Run the program in a process of its own; what it reports."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(text)
    settings = {**os.environ, "PYTHONPATH": PATHS, "FLAMBEAU_CACHE_DIR": str(cache), **environment}
    done = subprocess.run(
        [sys.executable, "program.py", *names], cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {"stderr": done.stderr, **json.loads(done.stdout)}


def agrees(name: str, outcome: dict[str, Any]) -> None:
    """Compiled results are the eager ones."""
    found, expected = outcome["found"], outcome["expected"]
    if name in CLOSE:
        assert numbers(found) == pytest.approx(numbers(expected), rel=1e-4, abs=1e-6)
    else:
        assert json.dumps(found) == json.dumps(expected)


def numbers(value: Any) -> list[float]:
    return [n for v in value for n in numbers(v)] if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The program, again from another folder, and edited: in three processes, one after the other."""
    folder = tmp_path_factory.mktemp("stored")
    cache = folder / "cache"
    found: dict[str, Any] = {"first": run(folder / "one", cache), "second": run(folder / "two", cache)}
    for number in range(ROUNDS):
        edited = PROGRAM
        for before, after, _ in [edits[number] for edits in EDITS.values() if number < len(edits)]:
            assert edited.count(before) == 1, before
            edited = edited.replace(before, after)
        found[f"edit {number}"] = run(folder / "one", cache, edited)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_second_process_interprets_nothing(runs: dict[str, Any], name: str) -> None:
    first, second = runs["first"][name], runs["second"][name]
    agrees(name, first)
    assert first["captures"] and first["not_kept"] is None
    assert json.dumps(second["found"]) == json.dumps(first["found"])
    assert {k: second[k] for k in ("captures", "bytecodes", "kernel_compiles", "schedules")} == dict.fromkeys(
        ("captures", "bytecodes", "kernel_compiles", "schedules"), 0
    ), second["history"]
    assert second["captures_revived"] == 1


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, edits in EDITS.items() for i in range(len(edits))])
def test_what_changed_is_captured_anew(runs: dict[str, Any], name: str, number: int) -> None:
    edited = runs[f"edit {number}"][name]
    agrees(name, edited)
    assert json.dumps(edited["found"]) != json.dumps(runs["first"][name]["found"])
    assert (edited["captures"] > 0) is EDITS[name][number][2], edited["history"]


OTHERS = '''
import json, sys
import flambeau as torch
from flambeau import nn
from flambeau.core.events import counters

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
run = torch.compile(lambda x: model(x).square().mean())

def plain_step(x, first):
    optimizer.zero_grad()
    (model[0](x).sum() if first else model(x).sum()).backward()
    optimizer.step()

step = torch.compile(plain_step)

def modes():
    """Training and evaluation by turns."""
    found = []
    for train in (True, False, True, False):
        model.train(train)
        found.append(run(torch.ones(2, 8)).item())
    return found

def resumed():
    """With "apart" some parameters have made a step more than others."""
    model.eval()
    x = torch.ones(2, 8)
    if sys.argv[2:] == ["apart"]:
        plain_step(x, True)
        plain_step(x, False)
    for _ in range(2):
        step(x, False)
    return [p.double().sum().item() for p in model.parameters()]

found = globals()[sys.argv[1]]()
counted = {"captures": counters["captures"], "bytecodes": counters["bytecodes"], "revived": counters["captures_revived"]}
print(json.dumps({"found": found, **counted}))
'''


def run_others(folder: Path, cache: Path, *arguments: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    (folder / "others.py").write_text(OTHERS)
    settings = {**os.environ, "PYTHONPATH": PATHS, "FLAMBEAU_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "others.py", *arguments], cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_training_and_evaluation_are_kept_together(tmp_path: Path) -> None:
    first, second = (run_others(tmp_path, tmp_path / "cache", "modes") for _ in range(2))
    assert first["captures"] == 2
    assert second == {"found": first["found"], "captures": 0, "bytecodes": 0, "revived": 1}


def test_state_that_is_shared_in_another_way_is_captured_anew(tmp_path: Path) -> None:
    """A kept step adds one to the one count of all parameters; it is not for parameters that have counts of their own."""
    run_others(tmp_path, tmp_path / "cache", "resumed")
    apart = run_others(tmp_path, tmp_path / "cache", "resumed", "apart")
    fresh = run_others(tmp_path, tmp_path / "another cache", "resumed", "apart")
    assert apart["found"] == fresh["found"]
    assert apart["captures"] > 0


def test_corpus_does_the_same_in_a_second_process(tmp_path: Path) -> None:
    settings = {**os.environ, "PYTHONPATH": PATHS, "FLAMBEAU_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tests.capture.kept", "3", "20"]
    first, second = (
        json.loads(subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        for _ in range(2)
    )
    assert first["differ"] == second["differ"] == []
    assert second["captures_revived"] >= 100
    kept = set(first["captured"]) - {*first["unkept"], *second["unkept"]}
    assert len(kept) > 200 and len(kept & set(second["captured"])) < len(kept) / 5  # of what was kept as a whole
    assert second["cache_corrupt_entries"] == 0


def test_damaged_entry_is_captured_anew_with_one_warning(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = run(tmp_path / "one", cache, PROGRAM, "POINTWISE", "ADAMW")
    for entry in (cache / "captures").iterdir():
        entry.write_bytes(entry.read_bytes()[:-5])
    second = run(tmp_path / "one", cache, PROGRAM, "POINTWISE", "ADAMW")
    assert second["stderr"].count("found the damaged entry") == 1
    for name in ("POINTWISE", "ADAMW"):
        assert second[name]["found"] == first[name]["found"]
        assert second[name]["captures"] > 0
    assert run(tmp_path / "one", cache, PROGRAM, "POINTWISE", "ADAMW")["ADAMW"]["captures"] == 0


@pytest.mark.filterwarnings("ignore:flambeau found the damaged entry")
def test_entry_of_another_form_is_captured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress, "fresh", False)
    function, x = (lambda x: (x * 2).sin()), torch.ones(3)
    compiled = torch.compile(function)
    expected = compiled(x)
    (key, *_) = compiled._keys
    kept = disk_cache.get("captures", key)
    assert kept is not None and torch.compile(function)(x).equal(expected)
    for bad in (kept[: len(kept) // 2], b"{}", b"[]", kept.replace(b'"nodes":[[', b'"nodes":[7,[')):
        disk_cache.put("captures", key, bad)
        damaged, captures = counters["cache_corrupt_entries"], counters["captures"]
        assert torch.compile(function)(x).equal(expected)
        assert counters["cache_corrupt_entries"] == damaged + 1
        assert counters["captures"] == captures + 1


class Times:
    """Called like a partial, and not one."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


def called_far_inside(inner: Any) -> Any:
    """A function whose capture has the same name in the cache whatever is called in it."""

    def middle(x: Any) -> Any:
        return inner(x)

    def outer(x: Any) -> Any:
        return middle(x)

    return lambda x: outer(x)


def wrapping(function: Any) -> Any:
    """A Module of a class whose code is the same for all functions."""

    class Wrapper(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    return Wrapper()


def test_capture_that_looks_into_another_kind_of_object_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress, "fresh", False)
    x, damaged, outdated = torch.ones(3), counters["cache_corrupt_entries"], counters["captures_outdated"]
    for inner in (partial(torch.mul, 3.0), Times(5.0), partial(torch.add, 3.0)):
        assert torch.compile(called_far_inside(inner))(x).equal(inner(x))
    assert counters["cache_corrupt_entries"] == damaged
    assert counters["captures_outdated"] == outdated + 1


def test_capture_for_other_code_is_dropped_before_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was only read before the first difference does not make a capture of an earlier process part of this one."""
    monkeypatch.setattr(stress, "fresh", False)
    for change in (lambda x: x + 1, lambda x: x - 1):
        compiled = torch.compile(wrapping(change))
        assert compiled(torch.ones(2)).equal(change(torch.ones(2)))
        assert compiled.explain().captures == 1


def test_segment_whose_first_run_raises_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress, "fresh", False)
    compiled = torch.compile(lambda x, index: (x * 2)[index] + 1)
    for index in (torch.tensor([7]), torch.tensor([1])):
        if index.item() == 7:
            with pytest.raises(IndexError):
                compiled(torch.ones(3), index)
        else:
            assert compiled(torch.ones(3), index).tolist() == [3.0]


def test_what_cannot_be_kept_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress, "fresh", False)
    generator, before = torch.Generator(), counters["captures_not_kept"]
    compiled = torch.compile(lambda x: x + torch.rand(3, generator=generator))
    compiled(torch.ones(3))
    assert counters["captures_not_kept"] == before + 1
    assert "not kept for other processes, because of an object of flambeau.tensor.functions_random.Generator" in str(compiled.explain())


def test_two_processes_keep_at_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda i: run(tmp_path / f"at once {i}", cache, PROGRAM, "ADAMW", "BRANCHES"), range(3)))
    assert all(outcome["ADAMW"]["found"] == found[0]["ADAMW"]["found"] for outcome in found)
    assert run(tmp_path / "later", cache, PROGRAM, "ADAMW", "BRANCHES")["ADAMW"]["bytecodes"] == 0


def test_artifacts_hold_captures(tmp_path: Path) -> None:
    """What is saved as bytes is found by a process with another cache folder."""
    saving = PROGRAM + "    open('artifacts', 'wb').write(torch.compiler.save_cache_artifacts()[0])\n"
    begin = "    report = {}\n"
    loading = PROGRAM.replace(begin, begin + "    torch.compiler.load_cache_artifacts(open('artifacts', 'rb').read())\n")
    first = run(tmp_path / "one", tmp_path / "cache", saving, "ADAMW", "MODEL")
    second = run(tmp_path / "one", tmp_path / "another cache", loading, "ADAMW", "MODEL")
    for name in ("ADAMW", "MODEL"):
        assert second[name]["found"] == first[name]["found"]
        assert second[name]["bytecodes"] == second[name]["kernel_compiles"] == 0
