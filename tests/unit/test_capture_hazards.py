"""What must not be baked into a compiled function, or lost by replaying it."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch


def compiled(function: Callable[..., Any]) -> Any:
    return torch.compile(function)


def runs_as_graph(c: Any) -> bool:
    return c.eager_reason is None and len(c.artifacts) > 0


X = torch.linspace(-1, 1, 20).reshape(4, 5)


def test_the_value_of_an_argument_decides_every_time():
    c = compiled(lambda x: x * 2 if x.sum().item() > 0 else x * 3)
    ones = torch.ones(4, 5)
    assert torch.equal(c(ones), ones * 2)
    assert torch.equal(c(-ones), ones * -3)
    assert c.explain().segments == 3 and c.explain().captures == 2


def test_a_tensor_used_as_a_number_is_read_every_time():
    c = compiled(lambda x: X * float(x[0, 0]))
    for value in (3.0, 4.0):
        assert torch.equal(c(torch.full((4, 5), value)), X * value)


def test_a_constant_that_is_changed_is_new_at_every_call():
    def f(x):
        bias = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        bias.add_(1)
        return x + bias

    c = compiled(f)
    for _ in range(3):
        assert torch.equal(c(X), X + torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0]))
    assert runs_as_graph(c)


def test_numbers_made_into_tensors():
    f = lambda x: x + torch.tensor(2.0) * torch.tensor(3) + torch.tensor(True)  # noqa: E731
    c = compiled(f)
    for _ in range(3):
        assert torch.equal(c(X), f(X))
    assert runs_as_graph(c)


def test_undefined_memory_written_piece_by_piece():
    def f(x):
        out = torch.empty(4, 5)
        out[:] = x
        out[1] += 1
        return out

    c = compiled(f)
    for _ in range(2):
        assert torch.equal(c(X), f(X))
    assert runs_as_graph(c)


SETTINGS = {"scale": 2.0, "steps": [1, 2]}
FACTOR = 3


def test_globals_are_read_again(monkeypatch):
    c = compiled(lambda x: x * SETTINGS["scale"] * FACTOR + SETTINGS["steps"][1])
    assert torch.equal(c(X), X * 2.0 * 3 + 2)
    monkeypatch.setitem(SETTINGS, "scale", 5.0)
    assert torch.equal(c(X), X * 5.0 * 3 + 2)
    monkeypatch.setitem(globals(), "FACTOR", 7)
    assert torch.equal(c(X), X * 5.0 * 7 + 2)
    monkeypatch.setitem(SETTINGS, "steps", [1, 9])
    assert torch.equal(c(X), X * 5.0 * 7 + 9)
    assert runs_as_graph(c)


def test_attributes_of_plain_objects_are_read_again():
    class Config:
        pass

    config = Config()
    config.scale = 1.5
    c = compiled(lambda x: x * config.scale)
    assert torch.equal(c(X), X * 1.5)
    config.scale = 2.5
    assert torch.equal(c(X), X * 2.5)


def test_effects_on_outside_objects_are_done_at_every_call(capsys):
    seen: list[int] = []
    numbers: dict[str, int] = {}
    kept: dict[str, Any] = {}

    def appends(x):
        seen.append(1)
        return x + 1

    def stores(x):
        numbers["n"] = numbers.get("n", 0) + 1
        return x + 1

    def keeps(x):
        kept["h"] = x * 2
        return x + 1

    def prints(x):
        print("hello")
        return x + 1

    for function in (appends, stores, keeps, prints):
        c = compiled(function)
        for _ in range(3):
            assert torch.equal(c(X), X + 1)
        assert runs_as_graph(c)
    assert len(seen) == 3 and numbers == {"n": 3} and torch.equal(kept["h"], X * 2)
    assert capsys.readouterr().out == "hello\n" * 3


def test_containers_made_inside_are_free():
    def f(x):
        parts, names = [], {}
        names["a"] = x + 1
        parts.append(names["a"] * 2)
        return parts, names

    c = compiled(f)
    for _ in range(2):
        parts, names = c(X)
        assert torch.equal(parts[0], (X + 1) * 2) and torch.equal(names["a"], X + 1)
    assert runs_as_graph(c)


def test_random_numbers_go_on_with_the_stream():
    f = lambda x: x + torch.rand(4, 5)  # noqa: E731
    c = compiled(f)
    first = c(X)
    assert not torch.equal(first, c(X))
    torch.manual_seed(3)
    ours = c(X)
    torch.manual_seed(3)
    assert torch.equal(ours, f(X)) and runs_as_graph(c)


def test_a_seed_set_inside_counts():
    def f(x):
        torch.manual_seed(0)
        return x + torch.rand(4, 5)

    c = compiled(f)
    assert torch.equal(c(X), c(X))


def test_modules_change_their_mode():
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Dropout(0.5))
    c = torch.compile(model)
    c(X)
    model.eval()
    assert torch.equal(c(X), c(X))
    model.train()
    torch.manual_seed(1)
    ours = c(X)
    torch.manual_seed(1)
    assert torch.equal(ours, model(X))


def test_arguments_are_changed_in_place():
    def f(x):
        x.add_(1)
        return x.sum()

    c = compiled(f)
    x = torch.zeros(4, 5)
    totals = [c(x).item() for _ in range(3)]
    assert totals == [20.0, 40.0, 60.0] and torch.equal(x, torch.full((4, 5), 3.0))


def test_arguments_that_share_memory():
    def f(a, b):
        a.add_(1)
        return b * 2

    c = compiled(f)
    c(torch.zeros(4, 5), torch.zeros(4, 5))
    x = torch.zeros(4, 5)
    assert torch.equal(c(x, x), torch.full((4, 5), 2.0))
    y = torch.zeros(4, 5)
    assert c(y[:2], y[1:3])[:, 0].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("name", ["read after write", "write after write", "returned"])
def test_arguments_at_other_places_of_shared_memory(name):
    def read_after_write(a, b):
        a.add_(1)
        return b * 2

    def write_after_write(a, b):
        b.mul_(2)
        a.add_(b)
        return a, b + 1

    functions = {"read after write": read_after_write, "write after write": write_after_write, "returned": lambda a, b: (a, b)}
    function = functions[name]
    c = compiled(function)
    for first, second in [(0, 2), (0, 2), (0, 1), (2, 0), (0, 0), (0, 8), (8, 0), (0, 2)]:
        x, y = torch.arange(12.0), torch.arange(12.0)
        found = c(x[first : first + 4], x[second : second + 4])
        expected = function(y[first : first + 4], y[second : second + 4])
        found, expected = ((r if isinstance(r, tuple) else (r,)) for r in (found, expected))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert torch.equal(x, y)


def test_an_argument_in_the_memory_of_a_held_tensor():
    held = torch.arange(12.0)

    def function(a):
        a.add_(1)
        return held.sum()

    c = torch.compile(function)
    for part in (held[1:5], held[2:6], torch.ones(4)):
        assert c(part).item() == held.sum().item()


def test_an_argument_and_its_detached_self():
    x = torch.ones(4, requires_grad=True)
    c = compiled(lambda a, b: a * b)
    for y in (x.detach(), torch.full((4,), 3.0), x.detach()):
        assert torch.equal(c(x, y), y)


def test_results_that_are_views_of_arguments():
    c = compiled(lambda x: (x.t(), x[1:3]))
    x = X.clone()
    for _ in range(2):
        turned, part = c(x)
        assert turned.stride() == (1, 5) and turned.data_ptr() == x.data_ptr()
        assert part.data_ptr() == x.data_ptr() + 5 * 4
    w = torch.randn(5, requires_grad=True)
    views = compiled(lambda w: (w[1:3], w.view(5, 1)))
    views(w)
    a, b = views(w)
    (a.sum() + b.sum()).backward()
    assert w.grad.tolist() == [1.0, 2.0, 2.0, 1.0, 1.0]


def test_gradients_flow_through_and_follow_grad_mode():
    w = torch.randn(5, requires_grad=True)
    c = compiled(lambda x: (x * w).sum())
    c(X).backward()
    assert torch.allclose(w.grad, X.sum(0))
    with torch.no_grad():
        assert not c(X).requires_grad
    assert len(c.artifacts) == 2


def test_a_failed_step_changes_nothing():
    table, head = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 3)
    parameters = [*table.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=0.1)

    def step(index, target):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(table(index)), target)
        loss.backward()
        optimizer.step()
        return loss

    c = compiled(step)
    good, target = torch.tensor([1, 2, 3]), torch.tensor([0, 1, 2])
    losses = [c(good, target).item() for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]
    before = [p.detach().clone() for p in parameters]
    for bad in ((torch.tensor([1, 2, 30]), target), (good, torch.tensor([0, 1, 7]))):
        with pytest.raises(IndexError, match="out of bounds"):
            c(*bad)
        assert all(torch.equal(a, b) for a, b in zip(before, parameters, strict=True))
    assert c(good, target).item() < losses[2]
    assert runs_as_graph(c) and len(c.artifacts) == 1


def test_a_changing_learning_rate_is_read_at_every_call():
    w = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([w], lr=1.0)

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    c = compiled(step)
    for rate, expected in ((1.0, -1.0), (0.5, -1.5), (0.25, -1.75)):
        optimizer.param_groups[0]["lr"] = rate
        c()
        assert w.tolist() == [expected] * 3
    assert len(c.artifacts) == 1


def test_a_module_compiled_in_place():
    model = torch.nn.Linear(5, 2)
    expected = model(X)
    model.compile()
    for _ in range(2):
        assert torch.allclose(model(X), expected)
    assert runs_as_graph(model._compiled_call_impl)


def test_capturing_goes_on_with_a_profiler():
    c = torch.compile(lambda x: x * 2 + 1)
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert torch.equal(c(X), X * 2 + 1)
        after = sum([1, 2])
    finally:
        profile.disable()
    assert after == 3 and runs_as_graph(c)
    assert any("sum" in str(entry.code) for entry in profile.getstats())


@pytest.mark.parametrize("way", ["detach", "data", "view", "in place", "two leaves"])
def test_a_parameter_met_first_without_its_history(way):
    w = torch.ones(4, requires_grad=True)
    other = w.detach().requires_grad_()

    def f(x):
        if way == "two leaves":
            return x, w * 2 + other * 3
        shown = w.data if way == "data" else w.detach()
        y = shown.view(2, 2).sum() + x if way == "view" else shown + x
        if x.sum() > 100:
            return x, w
        if way == "in place":
            h = w * x
            shown = h.detach()
            if x.sum() > 99:
                return x, w
            y = shown + 1
            h.add_(shown)
            return y, h
        return y, w * x

    found = []
    for function in (f, compiled(f)):
        for _ in range(2):
            w.grad = other.grad = None
            y, z = function(torch.full((4,), 2.0))
            assert not y.requires_grad
            z.sum().backward()
            found.append((w.grad.tolist(), other.grad.tolist() if other.grad is not None else None))
    assert found[0] == found[1] == found[2] == found[3]


def test_backward_again_by_a_result_that_needs_nothing_saved():
    c = compiled(lambda x: (x * 2, x.exp()))
    x = torch.ones(3, requires_grad=True)
    a, b = c(x)
    (a.sum() + b.sum()).backward()
    a.sum().backward()
    assert torch.allclose(x.grad, torch.full((3,), 4.0) + x.detach().exp())
    with pytest.raises(RuntimeError, match="a second time"):
        b.sum().backward()
