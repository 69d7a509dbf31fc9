"""How many kernels common functions compile to: a fusion that is lost shows here, not as a slower benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import prims
from flambeau.compilation.program import Program
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.events import counters
from flambeau.ir.graph import Graph, graph_input
from flambeau.schedule.grouping import group_nodes

X, W, B = (8, 96), (96,), (96,)


def program_of(function: Callable[..., Any], *arguments: Any) -> Program:
    """The only program that ``compile(function)`` makes for the arguments; the second call must run it again."""
    compiled = torch.compile(function)
    compiled(*arguments)
    before = counters["compiled_calls"]
    compiled(*arguments)
    assert compiled.eager_reason is None
    assert counters["compiled_calls"] == before + 1
    (artifact,) = compiled.artifacts
    bound = artifact.segment.plan.run.bound
    assert bound is not None
    return bound.program


def mean_and_variance(x: Any) -> Any:
    return x.mean(-1), x.var(-1)


def attention(q: Any) -> Any:
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def convolved(x: Any, w: Any, b: Any) -> Any:
    return F.relu(F.conv2d(x, w, b, padding=1) + x)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], dict[str, int], int]] = {
    # name: function, shapes, calls by kind, temporaries
    "pointwise chain": (lambda x, w, b: F.gelu(x + b) * w, [X, W, B], {"loop": 1}, 0),
    "softmax": (lambda x: torch.softmax(x, -1), [X], {"loop": 1}, 0),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), [X], {"loop": 1}, 0),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (96,), w, b), [X, W, B], {"loop": 1}, 0),
    "two reductions of one input": (mean_and_variance, [X], {"loop": 1}, 0),
    "linear with gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [X, (128, 96), (128,)], {"matmul": 1}, 0),
    "chain of views": (lambda x: x.t()[3:].reshape(-1)[::2] + 1, [X], {"loop": 1}, 0),
    "changes in place": (lambda x: x.add_(1).mul_(2), [X], {"loop": 1}, 0),
    "convolution, shortcut and relu": (convolved, [(4, 8, 14, 14), (8, 8, 3, 3), (8,)], {"loop": 1, "matmul": 1}, 1),
    "channels on their own": (lambda x, w: F.relu(F.conv2d(x, w, groups=8)), [(4, 8, 14, 14), (8, 1, 3, 3)], {"loop": 1}, 0),
    "attention": (attention, [(2, 4, 16, 8)], {"matmul": 2, "loop": 1}, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_a_function(name: str) -> None:
    function, shapes, calls, temporaries = CASES[name]
    schedule = program_of(function, *(torch.randn(*shape) for shape in shapes)).schedule
    assert Counter(call.kind for call in schedule.calls) == calls
    assert sum(buffer.role == "temporary" for buffer in schedule.buffers) == temporaries


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_time_steps_share_their_kernels(layer: str) -> None:
    def kernels(steps: int) -> int:
        model = getattr(torch.nn, layer)(16, 24, 2, batch_first=True)

        def gradients(x: Any) -> Any:
            return torch.autograd.grad(model(x)[0].sum(), list(model.parameters()))

        return len({kernel.text for kernel in program_of(gradients, torch.randn(5, steps, 16)).emitted})

    assert kernels(9) == kernels(6)


@pytest.mark.parametrize("shapes", [[(33, 7)] * 20, [(16, 16), (16,), (64, 16), (64,), (3, 5, 7)] * 4])
def test_one_launch_updates_all_parameters(shapes: list[tuple[int, ...]]) -> None:
    parameters = [torch.nn.Parameter(torch.randn(*shape)) for shape in shapes]
    optimizer = torch.optim.AdamW(parameters)
    for parameter in parameters:
        parameter.grad = torch.randn(*parameter.shape)
    optimizer.step()
    schedule = program_of(optimizer.step).schedule
    assert len(schedule.calls) == len(shapes) + 1  # One more counts the steps.
    assert {call.wave for call in schedule.calls} == {0, 1}
    assert not any(buffer.role == "temporary" for buffer in schedule.buffers)


@pytest.mark.parametrize("seed", range(3))
def test_eager_compiles_nothing_for_new_sizes(seed: int) -> None:
    def run(batch: int, length: int, width: int) -> None:
        x = torch.randn(batch, length, width, requires_grad=True)
        weight, bias = torch.randn(3 * width, width, requires_grad=True), torch.randn(3 * width, requires_grad=True)
        y = F.layer_norm(F.gelu(F.linear(x, weight, bias)), (3 * width,))
        (torch.softmax(y @ y.transpose(1, 2), -1).sum(0)[:, : length // 2].mean() + x[:, 1:].std()).backward()

    run(4, 8, 16)
    run(3, 21, 19)
    before = counters.snapshot()
    run(5 + seed, 37 - seed, 23 + 2 * seed)
    after = counters.snapshot()
    assert after.get("kernel_compiles", 0) == before.get("kernel_compiles", 0)
    assert after.get("traces", 0) == before.get("traces", 0)


def test_long_chains_of_numbers_are_grouped_in_linear_time() -> None:
    """A number that is read twice at every step of a chain, past the size of one group, is looked at once for each reader."""
    x = graph_input("x", Aval((), dtypes.float32))
    value = x
    for _ in range(400):
        value = prims.add(prims.mul(value, value), prims.sin(value))
    grouping = group_nodes(Graph((x,), (value,)))
    assert sum(map(len, grouping.uses.values())) < 5000


def test_steps_of_recurrent_layers() -> None:
    step = {"LSTM": 2, "GRU": 2, "RNN": 1}  # the product, and what reads all gates; backward one kernel for all
    for kind, count in step.items():
        layer = getattr(torch.nn, kind)(8, 8)

        def run(x: Any, layer: Any = layer) -> Any:
            return torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))

        calls = [len(program_of(run, torch.ones(length, 3, 8)).schedule.calls) for length in (8, 12)]
        assert calls[1] - calls[0] == 4 * (count + 1), kind
