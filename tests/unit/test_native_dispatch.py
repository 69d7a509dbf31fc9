"""Native dispatch gives what the Python path gives: results, types, layouts, tape, views and errors, for calls seen before or not."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import ops
from flambeau.core.events import counters
from flambeau.ops.declare import ALL
from flambeau.tensor import dispatch
from tests.native_switch import loaded, python_path

pytestmark = pytest.mark.skipif(loaded is None, reason="native code is off")


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (tuple, list)) else []


def describe(value: Any) -> Any:
    """Everything about a result that can be compared."""
    if isinstance(value, (tuple, list)):
        return type(value), [describe(v) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    entry = value.grad_fn
    name = None if entry is None else entry.name()
    edges = None if entry is None else [None if e[0] is None else (e[0].name(), e[1]) for e in entry.next_functions]
    steps = None if value.view_of is None else [(s.operator, s.sizes, s.output) for s in value.view_of.steps]
    return (type(value), value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.requires_grad, value.is_leaf, name,
            edges, steps, value.output_nr, value.memory.version, value.detach().array().tobytes())  # fmt: skip


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return describe(run())
    except Exception as error:
        return type(error), str(error)


def check_both(run: Callable[[], Any]) -> int:
    """Run four times natively (a plan is left by the second) and once in Python; how many calls were native."""
    with python_path():
        expected = outcome(run)
    before = counters["native_calls"]
    for _ in range(4):
        assert outcome(run) == expected
    return counters["native_calls"] - before


def make(*shape: int, grad: bool = False) -> Any:
    return torch.tensor(np.random.default_rng().standard_normal(shape).astype("f4")).requires_grad_(grad)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "add number": lambda x, y: x + 1.5,
    "add int": lambda x, y: x + 3,
    "add bool": lambda x, y: x + True,
    "add alpha": lambda x, y: torch.add(x, y, alpha=0.25),
    "add alpha one": lambda x, y: torch.add(x, y, alpha=1),
    "radd": lambda x, y: 2 + x,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: 2.5 - x,
    "mul itself": lambda x, y: x * x,
    "div": lambda x, y: x / y,
    "rdiv": lambda x, y: 1 / x,
    "div int": lambda x, y: x / 3,
    "matmul": lambda x, y: x @ y,
    "neg": lambda x, y: -x,
    "pow": lambda x, y: x**2,
    "compare": lambda x, y: x < y,
    "broadcast": lambda x, y: x * y[0],
    "mixed types": lambda x, y: x * y.to(torch.float64),
    "0-d": lambda x, y: x + y[0, 0],
    "strided": lambda x, y: x.t() + y,
    "exp": lambda x, y: x.exp(),
    "relu": lambda x, y: torch.relu(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "clamp min": lambda x, y: x.clamp(min=0.25),
    "leaky relu": lambda x, y: torch.nn.functional.leaky_relu(x, 0.2),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "sum": lambda x, y: x.sum(),
    "sum dims": lambda x, y: x.sum((0, 1), keepdim=True),
    "sum dim list": lambda x, y: x.sum([0]),
    "mean": lambda x, y: x.mean(dim=-1),
    "max": lambda x, y: x.max(1),
    "softmax": lambda x, y: torch.softmax(x, dim=1),
    "softmax dtype": lambda x, y: torch.softmax(x, 1, dtype=torch.float64),
    "layer norm": lambda x, y: torch.nn.functional.layer_norm(x, (4,), y[0], y[1]),
    "linear": lambda x, y: torch.nn.functional.linear(x, y, y[0]),
    "cat": lambda x, y: torch.cat([x, y, x], 1),
    "stack": lambda x, y: torch.stack((x, y)),
    "view": lambda x, y: x.view(2, 8),
    "view tuple": lambda x, y: x.view((8, -1)),
    "reshape copy": lambda x, y: x.t().reshape(16),
    "view of view": lambda x, y: x.view(2, 8).t()[1:3],
    "split": lambda x, y: x.split(2),
    "unbind": lambda x, y: torch.unbind(x, 1),
    "expand": lambda x, y: x[0].expand(3, 4),
    "gather": lambda x, y: x.gather(1, torch.tensor([[0, 1], [2, 3]])),
    "contiguous": lambda x, y: x.t().contiguous(),
    "clone": lambda x, y: x.clone(),
    "to": lambda x, y: x.to(torch.float16),
    "zeros": lambda x, y: torch.zeros(2, 3),
    "arange": lambda x, y: torch.arange(5),
    "wrong shapes": lambda x, y: x + y.view(16)[:3],
    "wrong view": lambda x, y: x.t().view(16),
    "wrong dim": lambda x, y: x.sum(5),
    "wrong type": lambda x, y: x + "1",
    "wrong keyword": lambda x, y: ops.exp(x, other=y),
    "missing": lambda x, y: ops.add(x),
    "large int": lambda x, y: x + (1 << 70),
    "large float": lambda x, y: x + 1e300,
    "infinity": lambda x, y: x * float("inf"),
    "index out of range": lambda x, y: x.gather(1, torch.tensor([[7]])),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
def test_results_are_those_of_the_python_path(case, grad):
    x, y = make(4, 4, grad=grad), make(4, 4, grad=grad)
    calls = check_both(lambda: CASES[case](x, y))
    if not case.startswith(("wrong", "missing", "large", "index")):
        assert calls > 0, "nothing was served natively"
    with torch.no_grad():
        check_both(lambda: CASES[case](x, y))


def test_gradients_are_those_of_the_python_path():
    def gradients() -> Any:
        x, w = make(3, 4, grad=True), make(5, 4, grad=True)
        for _ in range(3):
            x.grad = w.grad = None
            hidden = torch.relu(torch.nn.functional.linear(x, w) * 2 - 1)
            (torch.softmax(hidden, 1).log() * hidden.exp()).sum().backward()
        with python_path():
            before = x.grad.clone(), w.grad.clone()
            x.grad = w.grad = None
            hidden = torch.relu(torch.nn.functional.linear(x, w) * 2 - 1)
            (torch.softmax(hidden, 1).log() * hidden.exp()).sum().backward()
        return before, (x.grad, w.grad)

    native, python = gradients()
    for a, b in zip(native, python, strict=True):
        assert a.array().tobytes() == b.array().tobytes()


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "add_ alpha": lambda x, y: x.add_(y, alpha=-0.5),
    "iadd": lambda x, y: x.__iadd__(y),
    "mul_ itself": lambda x, y: x.mul_(x),
    "relu_": lambda x, y: x.relu_(),
    "fill_": lambda x, y: x.fill_(3),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y),
    "addcmul_": lambda x, y: x.addcmul_(y, y, value=0.5),
    "own row": lambda x, y: x.add_(x[0]),
    "own transpose": lambda x, y: x.add_(x.t()),
    "too large": lambda x, y: x.add_(y.view(1, 4, 4).expand(2, 4, 4)),
    "wrong dtype": lambda x, y: x.to(torch.int64).add_(y),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 2.0),
}


@pytest.mark.parametrize("case", IN_PLACE)
@pytest.mark.parametrize("which", ["plain", "leaf", "result", "other", "view"])
def test_in_place_changes_are_those_of_the_python_path(case, which):
    values = np.random.default_rng().standard_normal((2, 4, 4)).astype("f4")

    def run() -> Any:
        x, y = torch.tensor(values[0]), torch.tensor(values[1])
        base = x
        if which == "leaf":
            x.requires_grad_()
        elif which == "result":
            x = base = x.requires_grad_() * 2
        elif which == "other":
            y.requires_grad_()
        elif which == "view":
            x = x[:]
        changed = IN_PLACE[case](x, y)
        assert changed is x or case == "wrong dtype"
        return changed, base

    check_both(run)


def test_every_operator_gives_the_same_natively():
    from flambeau.ops.samples import SampleMaker

    native = 0
    for name, operator in sorted(ALL.items()):
        if operator.samples is None or "random" in name:
            continue
        for args, kwargs in list(operator.samples(SampleMaker(5)))[:4]:
            def convert(value: Any) -> Any:
                if isinstance(value, np.ndarray):
                    return torch.tensor(value.astype("f4") if value.dtype == np.float64 else value)
                return type(value)(map(convert, value)) if type(value) in (tuple, list) else value

            def run(operator: Any = operator, args: Any = args, kwargs: Any = kwargs) -> Any:
                torch.manual_seed(3)
                return operator(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})

            native += check_both(run)
    assert native > 500


# -- modes --------------------------------------------------------------------------------------------------
def test_modes_are_seen_at_once_and_by_thread():
    x = make(3, grad=True)
    assert (x + 1).requires_grad
    found: list[bool] = []

    def other() -> None:
        found.append((x + 1).requires_grad)
        with torch.no_grad():
            found.append((x + 1).requires_grad)
            ready.set()
            assert go_on.wait(20)
            found.append((x + 1).requires_grad)

    with torch.no_grad():
        assert not (x + 1).requires_grad
        ready, go_on = threading.Event(), threading.Event()
        thread = threading.Thread(target=other)
        thread.start()
        assert ready.wait(20)
        assert not (x + 1).requires_grad
    assert (x + 1).requires_grad
    go_on.set()
    thread.join()
    assert found == [True, False, False]
    with torch.inference_mode():
        assert not (x + 1).requires_grad
    torch.set_grad_enabled(False)
    assert not (x + 1).requires_grad
    torch.set_grad_enabled(True)
    assert (x + 1).requires_grad


def test_threads_share_plans():
    values = [make(64, 300) for _ in range(4)]
    large = [make(600, 700) for _ in range(2)]
    expected = [v.array() * 2 + 1 for v in values]
    products = [np.tanh(v.array()) for v in large]
    failures: list[int] = []

    def work(number: int) -> None:
        for _ in range(60):
            found = values[number] * 2 + 1
            if not np.allclose(found.array(), expected[number], rtol=1e-6):
                failures.append(number)
            if number < 2 and not np.allclose(large[number].tanh().array(), products[number], atol=1e-5):
                failures.append(number + 10)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_forked_child_goes_on():
    x = make(16)
    expected = (x + x).array() * 1.0
    child = os.fork()
    if child == 0:
        try:
            good = all(np.array_equal((x + x).array(), expected) for _ in range(100))
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- lifetime -----------------------------------------------------------------------------------------------
def test_references_are_balanced():
    x, y = make(4, 4), make(4, 4)
    w = make(4, 4, grad=True)
    number, sizes = 1.25, (2, 8)
    cases = [lambda: x + y, lambda: x + number, lambda: -x, lambda: x.exp(), lambda: x.view(sizes), lambda: x.split(2), lambda: x.max(1),
             lambda: w * y, lambda: w.view(sizes), lambda: torch.softmax(w, 1), lambda: x.add_(y), lambda: x.add_(y, alpha=number),
             lambda: outcome(lambda: x.gather(1, torch.tensor([[9]]))), lambda: outcome(lambda: x + "a")]  # fmt: skip
    watched = [x, y, w, x.meta, x.memory, w.memory, number, sizes, torch.Tensor, None, dispatch.OperatorEntry]
    for case in cases:
        for _ in range(5):
            case()
    gc.collect()
    objects = len(gc.get_objects())
    before = [sys.getrefcount(o) for o in watched]
    for case in cases:
        for _ in range(200):
            case()
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(b - a) < 50 for a, b in zip(before, after, strict=True)), list(zip(before, after, strict=True))
    assert len(gc.get_objects()) - objects < 100


def test_memory_is_given_back():
    from flambeau.runtime import allocator

    x = make(100, 100)
    x + x
    gc.collect()
    before = allocator.stats().allocated
    for _ in range(50):
        y = (x + x).exp()
    assert allocator.stats().allocated <= before + 2 * allocator.size_class(x.nbytes)
    del y
    assert allocator.stats().allocated == before


def test_cycles_are_collected():
    x = make(4, grad=True)
    for _ in range(3):
        y = x * 2
    y.itself = y
    y.grad_fn.register_hook(y.clone)
    alive, storage = weakref.ref(y), weakref.ref(y.memory)
    del y
    gc.collect()
    assert alive() is None and storage() is None


def test_long_chains_are_freed_without_recursion():
    x = make(2, grad=True)
    for _ in range(100_000):
        x = x * 1.0
    alive = weakref.ref(x)
    del x
    assert alive() is None


def test_saved_values_do_not_keep_operands_alive():
    x = make(4, grad=True)
    for _ in range(3):
        hidden = x * 2
        result = hidden.exp()
    operand = weakref.ref(hidden.memory)
    del hidden
    assert operand() is None
    result.sum().backward()
    assert np.allclose(x.grad.array(), 2 * np.exp(2 * x.detach().array().astype("f8")), rtol=1e-5)


# -- classes ------------------------------------------------------------------------------------------------
class Labelled(torch.Tensor):
    """A subclass with attributes and an operator of its own."""

    def __add__(self, other: Any) -> Any:
        return "added", other


def test_subclasses_keep_their_operators():
    x, y = make(3), make(3).as_subclass(Labelled)
    for _ in range(3):
        assert (y + x) == ("added", x)
        assert np.array_equal((x * y).array(), x.array() * y.array())
        assert np.array_equal((x + y).array(), x.array() + y.array())
    y.label = "a"
    assert y.__dict__ == {"label": "a"}


def test_parameters_are_served_natively():
    weight = torch.nn.Parameter(make(4, 4))
    x = make(4, 4)
    assert check_both(lambda: torch.nn.functional.linear(x, weight)) >= 2


def test_tensors_with_attributes_and_weak_references():
    x = make(3)
    y = x + x
    y.name = "sum"
    reference = weakref.ref(y)
    assert reference() is y and y.__dict__ == {"name": "sum"}
    del y
    assert reference() is None


def test_numbers_of_other_types_go_through_python():
    x = make(3)
    for value in (np.float32(1.5), np.int64(2), np.float64(0.5), 10**30):
        check_both(lambda value=value: x * value)
    with pytest.raises(TypeError):
        x + "text"
    assert x.__add__("text") is NotImplemented


def test_anomaly_mode_and_generators_are_left_to_python():
    x = make(3, grad=True)
    x * 2
    before = counters["native_calls"]
    with torch.autograd.set_detect_anomaly(True):
        x * 2
    assert counters["native_calls"] == before


def test_plans_are_dropped_when_there_are_too_many(monkeypatch):
    from flambeau.tensor import native

    monkeypatch.setattr(native, "_LIMIT", 20)
    for size in range(1, 70):
        x = torch.ones(size)
        assert float((x + x).sum()) == 2 * size
