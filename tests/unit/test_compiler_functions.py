"""torch.compiler: stances, and what marks functions for captures."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import compiler

X, Y = torch.ones(3), torch.ones(2, 2)


def test_force_eager_calls_the_function():
    calls = []
    compiled = torch.compile(lambda x: x * 2)
    compiled.function = lambda x: calls.append(x.shape) or x * 2
    with compiler.set_stance("force_eager"):
        assert compiled(X).tolist() == [2.0] * 3 and compiled(Y).shape == (2, 2)
    assert len(calls) == 2 and not compiled.artifacts
    with compiler.set_stance("force_eager"), compiler.set_stance("default"):
        pass
    compiler.set_stance("force_eager")
    compiled(X)
    compiler.set_stance("default")
    assert len(calls) == 3


def test_eager_on_recompile_runs_what_fits():
    compiled = torch.compile(lambda x: x * 2)
    compiled(X)
    assert len(compiled.artifacts) == 1
    with compiler.set_stance("eager_on_recompile"):
        assert compiled(Y).tolist() == [[2.0, 2.0], [2.0, 2.0]] and compiled(X).tolist() == [2.0] * 3
    assert len(compiled.artifacts) == 1 and compiled.tree.captures == 1
    compiled(Y)
    assert len(compiled.artifacts) == 2


def test_fail_on_recompile():
    compiled = torch.compile(lambda x: x * 2)
    with compiler.set_stance("fail_on_recompile"):
        compiled(X)
        assert compiled(X).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(Y)
    assert compiled(Y).shape == (2, 2)


def test_a_stance_as_decorator():
    compiled = torch.compile(lambda x: x * 2)

    @compiler.set_stance("force_eager")
    def eager(x):
        return compiled(x)

    assert eager(X).tolist() == [2.0] * 3 and not compiled.artifacts and eager.__name__ == "eager"
    compiled(X)
    assert len(compiled.artifacts) == 1


def test_stances_end_with_errors_and_hold_for_modules():
    module = torch.compile(torch.nn.Linear(3, 2))
    with pytest.raises(ZeroDivisionError), compiler.set_stance("fail_on_recompile"):
        module(X)
        1 / 0  # noqa: B018
    assert module(torch.ones(5, 3)).shape == (5, 2)
    with pytest.raises(RuntimeError, match="invalid stance"):
        compiler.set_stance("nonsense")
    with pytest.raises(NotImplementedError, match="force_backend"):
        compiler.set_stance("default", force_backend="eager")


def test_questions():
    assert not compiler.is_compiling() and not compiler.is_dynamo_compiling() and not compiler.is_exporting()
    seen = []

    def f(x):
        seen.append(compiler.is_compiling())
        return x + 1

    torch.compile(f)(X)
    assert seen == [True]
    assert compiler.list_backends() == ["flambeau", "inductor"] and "eager" in compiler.list_backends(None)


def test_marks_change_no_function():
    def f(x):
        return x + 1

    for mark in (
        compiler.allow_in_graph,
        compiler.assume_constant_result,
        compiler.nested_compile_region,
        compiler.nested_compile_region(),
    ):
        assert mark(f) is f
    assert compiler.allow_in_graph([f]) == [f] and compiler.substitute_in_graph(len)(f) is f
    compiler.cudagraph_mark_step_begin()
    with pytest.raises(TypeError, match="needs a function"):
        compiler.assume_constant_result(3)


def test_functions_of_arrays():
    both = compiler.wrap_numpy(lambda a, k=1: {"sum": np.add(a, k), "n": a.size})
    found = both(torch.ones(2), k=torch.tensor([1.0, 2.0]))
    assert found["sum"].tolist() == [2.0, 3.0] and isinstance(found["sum"], torch.Tensor) and found["n"] == 2
    with pytest.raises(RuntimeError):
        both(torch.ones(2, requires_grad=True))


def test_counter_of_a_module_becomes_a_number_that_changes() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    module = Counting()
    compiled = torch.compile(lambda x: module(module(x)))
    for _ in range(4):
        compiled(torch.ones(2))
    assert compiled.tree.captures == 2
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 90.0))


def test_a_number_that_changed_on_one_way_is_one_that_changes_on_others() -> None:
    seen = {"sum": 0.0, "n": 1000}

    def f(x: torch.Tensor, kind: str) -> torch.Tensor:
        if kind == "a":
            x = x + 1
        elif kind == "b":
            x = x * 2
        seen["sum"] += 0.5
        seen["n"] += 1
        return x * seen["sum"] + seen["n"]

    compiled = torch.compile(f)
    for kind in "aaaabbbcccabc":
        before = dict(seen)
        found = compiled(X, kind)
        after, seen["sum"], seen["n"] = dict(seen), before["sum"], before["n"]
        assert torch.equal(found, f(X, kind)) and seen == after
    assert compiled.tree.captures == 4  # two of the first way, as its numbers change, and one of each other way
