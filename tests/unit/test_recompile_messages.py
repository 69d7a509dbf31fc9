"""Every recompile, and every end of a graph, is told in the user's terms: what it was, what it is now, and the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

X = torch.ones(2)
SCALE: Any = 2.0


class Holder:
    scale = 1.0

    def __init__(self) -> None:
        self.mode = "train"


def told(function: Any, *calls: Any, **options: Any) -> list[str]:
    """The notes of calls; functions among them are called between."""
    compiled = torch.compile(function, **options)
    for entry in calls:
        if callable(entry):
            entry()
        else:
            compiled(*entry)
    return getattr(compiled, "_compiled", compiled).history


def one(notes: list[str], pattern: str) -> None:
    assert len(notes) == 1 and re.fullmatch(f"compiled again: {pattern}", notes[0]), notes


def here(function: Callable[..., Any], after: int = 0) -> str:
    return rf"\(test_recompile_messages.py:{function.__code__.co_firstlineno + after}\)"


def test_values_of_arguments() -> None:
    f = lambda x, k: x * (1 if k == "a" else 2)  # noqa: E731
    notes = told(f, (X, "a"), (X, "b"), (X, 3.0))
    assert notes[0] == "compiled again: argument 'k' was 'a' and is now 'b' " + here(f).replace("\\", "")
    assert "argument 'k' was 'a' or 'b' and is now 3.0" in notes[1]


def test_tensors() -> None:
    f = lambda x: x * 2  # noqa: E731
    one(told(f, (X,), (X.double(),)), rf"argument 'x' was a tensor f32\[2\] and is now a tensor f64\[2\] {here(f)}")
    one(told(f, (X,), (X.clone().requires_grad_(),)), rf".*is now a tensor f32\[2\], requires_grad {here(f)}")
    notes = told(f, (torch.ones(2, 3),), (torch.ones(3, 3),), (torch.ones(1, 3),))
    assert "was a tensor f32[2, 3] and is now a tensor f32[3, 3]" in notes[0]
    assert "of sizes [any, 3] and is now a tensor f32[1, 3]" in notes[1]


def test_attributes() -> None:
    holder = Holder()

    def f(x: Any) -> Any:
        return x * 2 if holder.mode == "train" else x * 3

    one(told(f, (X,), lambda: setattr(holder, "mode", "eval"), (X,)), rf"holder.mode was 'train' and is now 'eval' {here(f, 1)}")


def test_globals_and_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x * SCALE

    one(told(f, (X,), lambda: monkeypatch.setitem(globals(), "SCALE", 4), (X,)), rf"SCALE was 2.0 and is now 4 {here(f, 1)}")
    table = {"g": lambda x: x + 1}

    def g(x: Any) -> Any:
        return table["g"](x)

    notes = told(g, (X,), lambda: table.update(g=lambda x: x + 2), (X,))
    assert "was a function of other code and is now the function " in notes[0]


def test_modules() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    x = torch.ones(1, 2)
    notes = told(
        net, (x,), net.eval, (x,), lambda: net.append(nn.ReLU()), (x,), lambda: net[0].register_forward_hook(lambda *a: None), (x,),
        lambda: setattr(net[0], "weight", nn.Parameter(torch.ones(2, 2))), (x,),
    )  # fmt: skip
    assert "the Module Sequential changed: its training was True and is now False" in notes[0]
    assert "the Module Sequential changed: its modules are others" in notes[1]
    assert "the Module Linear '0' changed: its forward_hooks are others" in notes[2]
    assert "the Module Linear '0' changed: its parameters are others" in notes[3]


def test_calls_and_modes() -> None:
    f = lambda *xs, **named: sum(xs) + sum(named.values())  # noqa: E731
    notes = told(f, (X,), (X, X + 1))
    assert "the number of positional arguments was 1 and is now 2" in notes[0]
    try:
        notes = told(lambda x: x * 2, (X,), lambda: torch.set_grad_enabled(False), (X,))
    finally:
        torch.set_grad_enabled(True)
    assert "grad mode was True and is now False" in notes[0]
    g = lambda a, b: a + b  # noqa: E731
    one(told(g, (X, X + 1), (X, X)), rf"argument 'b' and argument 'a' are one object, and were not {here(g)}")


def test_branches_and_errors() -> None:
    f = lambda x: x * 2 if x.sum() > 0 else x * 3  # noqa: E731
    one(told(f, (X,), (-X,)), rf"bool\(a computed tensor\) was True and is now False {here(f)}")
    compiled = torch.compile(lambda x: x.sum().item() ** -0.5)
    compiled(X)
    with pytest.raises(ZeroDivisionError):
        compiled(X * 0)


def test_the_limit_says_what_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    notes = told(lambda x, k: x * len(k), *[(X, "a" * i) for i in range(1, 6)], recompile_limit=3)
    text = "it has 3 versions for other values of argument 'k', as many as recompile_limit allows; make it a tensor, or raise the limit"
    assert text in notes[-1] and text in capsys.readouterr().err


@torch.compiler.disable
def disabled(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("function", "cause", "way_out"),
    [
        (lambda x: x * x.sum().item(), "item() needs the value of a tensor", "keep it a tensor"),
        (lambda x: x * 2 if x.sum() > 0 else x, "a branch needs the value of a tensor", "torch.where"),
        (lambda x: x[x > 0].sum(), "needs the contents of a tensor, as an index by a mask does", "torch.where(mask, x, 0)"),
        (lambda x: (x * 2).numpy().sum(), "numpy() needs the values of a tensor", "compute with tensors"),
        (lambda x: disabled(x * 2), "disabled is marked by torch.compiler.disable", "take that out"),
        (lambda x: print(x * 2), "print() needs the values of a tensor", "print outside"),
        (lambda x: (v for v in [x]), "generator object made inside is let out", "take that out"),
        (lambda x: float(x[0]) + 1, "float() needs the value of a tensor", "keep it a tensor"),
    ],
)  # fmt: skip
def test_what_is_not_one_graph_says_line_cause_and_way_out(function: Any, cause: str, way_out: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.compile(function, fullgraph=True)(X)
    text = str(raised.value)
    assert "compile(fullgraph=True): <lambda> cannot be compiled as one graph" in text
    assert cause in text and way_out in text and "leave fullgraph=True out" in text
    assert f"test_recompile_messages.py:{function.__code__.co_firstlineno}" in text
