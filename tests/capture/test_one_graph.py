"""fullgraph=True: operators that choose by values and those of programs are part of one graph, a branch of Python's is not."""

from __future__ import annotations

import logging

import pytest

import flambeau as torch
from flambeau._dynamo.testing import CompileCounter
from tests.capture.corpus import PROGRAMS, compare
from tests.capture.corpus.chosen import cube

CHOSEN = [name for name, made in PROGRAMS.items() if made.make.__module__.endswith("chosen") and "change_tensors" not in name]


@pytest.mark.parametrize("name", [n for n in CHOSEN if "gradients" not in n and n != "branches_by_cond"])
def test_operators_that_choose_are_part_of_one_graph(name: str) -> None:
    found, _ = compare(PROGRAMS[name], "function", lambda f: torch.compile(f, fullgraph=True))
    assert found is None


def test_a_module_whose_branches_are_chosen_is_one_graph() -> None:
    class Gate(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.yes, self.no = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.mean() > 0, self.yes, self.no, (cube(x),))

    gate = Gate()
    compiled = torch.compile(gate, fullgraph=True)
    for sign in (1.0, -1.0, 1.0, -1.0):
        gate.zero_grad()
        compiled(torch.full((1, 2), sign)).sum().backward()
        used, other = (gate.yes, gate.no) if sign > 0 else (gate.no, gate.yes)
        assert used.weight.grad is not None and torch.equal(used.weight.grad, torch.full((2, 2), sign)) and other.weight.grad is None


def test_a_branch_of_python_is_not() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"(?s)test_one_graph.py:\d+.*torch.cond"):
        torch.compile(f, fullgraph=True)(torch.ones(2))
    found = torch._dynamo.explain(f)(torch.ones(2))
    assert found.graph_break_count == 1 and "needs the value" in found.break_reasons[0].reason
    assert found.break_reasons[0].user_stack[0].filename == "test_one_graph.py"


def test_logs_tell_of_recompiles_and_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    torch._logging.set_logs(dynamo=logging.DEBUG, guards=True)
    try:
        compiled = torch.compile(f)
        compiled(torch.ones(2))
        compiled(torch.ones(2, dtype=torch.float64))
    finally:
        torch._logging.set_logs()
    told = capsys.readouterr().err
    assert "[__graph_break]" in told and "[__recompile]" in told and "f32[2]" in told
    torch.compile(lambda x: x.sum().item())(torch.ones(2))
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="recompile_reasons"):
        torch._logging.set_logs(recompile_reasons=True)


def test_counters_count_operations_and_no_constants() -> None:
    counter = CompileCounter()
    torch.compile(lambda x: x * 2 + 1, backend=counter)(torch.ones(2))
    assert (counter.frame_count, counter.op_count) == (1, 2)


def test_filters_of_guards_keep_all() -> None:
    compiled = torch.compile(lambda x: x + 1, options={"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe})
    assert compiled(torch.ones(1)).item() == 2
    assert torch.compiler.keep_tensor_guards_unsafe([object(), object()]) == [True, True]
    x = torch.ones(2, requires_grad=True)
    with torch._dynamo.compiled_autograd._enable(torch.compile), torch._dynamo.compiled_autograd._disable():
        (x * 2).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))
