"""Exact counts of a GPT's training step, compiled and eager: kernels, bytes, guards, allocations, compiles, calls run natively."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.runtime import allocator

WIDTH, HEADS, BATCH, LENGTH, SYMBOLS = 32, 4, 4, 16, 65


class Block(torch.nn.Module):
    """Attention and a feed-forward layer, each after a layer norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        heads = [t.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, 2)]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def training_step(layers: int) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    torch.manual_seed(0)
    blocks = [Block() for _ in range(layers)]
    model = torch.nn.Sequential(
        torch.nn.Embedding(SYMBOLS, WIDTH), *blocks, torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, SYMBOLS)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    ids, targets = (torch.randint(0, SYMBOLS, (BATCH, LENGTH)) for _ in range(2))
    return step, ids, targets


def changes(run: Callable[[], Any]) -> dict[str, int]:
    before = counters.snapshot()
    run()
    after = counters.snapshot()
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


def repeat(step: Callable[[Any, Any], Any], ids: Any, targets: Any, times: int) -> None:
    for _ in range(times):
        step(ids, targets)


@pytest.mark.parametrize(("layers", "loops", "products"), [(1, 61, 21), (2, 101, 39), (3, 141, 57)])
def test_compiled_step_is_one_program(layers: int, loops: int, products: int) -> None:
    step, ids, targets = training_step(layers)
    compiled = torch.compile(step)
    repeat(compiled, ids, targets, 3)
    assert compiled.eager_reason is None
    (artifact,) = compiled.artifacts
    bound = artifact.segment.plan.run.bound
    assert bound is not None
    kinds = Counter(call.kind for call in bound.program.schedule.calls)
    assert kinds == {"loop": loops, "matmul": products, "scatter": 1}
    # Every parameter, the two moments and the step count of each, the gradients' places, and the two arguments.
    parameters = 12 * layers + 5
    assert compiled.explain().program.count("args[") == 2
    assert len(artifact.segment.inputs) >= 3 * parameters
    assert compiled.explain().segments == 1


@pytest.mark.parametrize(("layers", "arena"), [(1, 239_936), (2, 387_904), (3, 535_872)])
def test_bytes_and_allocations_of_a_compiled_step(layers: int, arena: int) -> None:
    step, ids, targets = training_step(layers)
    compiled = torch.compile(step)
    repeat(compiled, ids, targets, 3)
    (artifact,) = compiled.artifacts
    bound = artifact.segment.plan.run.bound
    assert bound is not None
    assert bound.arena_bytes == arena
    before = allocator.stats()
    repeat(compiled, ids, targets, 10)
    after = allocator.stats()
    # The loss, a gradient for each parameter, and the temporaries.
    assert after.allocations - before.allocations == 10 * (12 * layers + 5 + 2)
    assert (after.allocated, after.mappings) == (before.allocated, before.mappings)


def test_allocations_of_an_eager_step() -> None:
    step, ids, targets = training_step(2)
    repeat(step, ids, targets, 5)
    before = allocator.stats()
    repeat(step, ids, targets, 10)
    after = allocator.stats()
    assert after.allocations - before.allocations == 1310
    assert (after.allocated, after.mappings) == (before.allocated, before.mappings)


def test_equal_layers_compile_once() -> None:
    small, ids, targets = training_step(2)
    repeat(torch.compile(small), ids, targets, 2)
    large, ids, targets = training_step(3)
    found = changes(lambda: repeat(torch.compile(large), ids, targets, 2))
    assert found.get("captures") == 1
    # A third layer adds kernels for sums over more layers only, none for its own forward and backward.
    assert found.get("kernel_compiles", 0) + found.get("kernel_disk_hits", 0) <= 10


def test_steady_compiled_step_only_replays() -> None:
    step, ids, targets = training_step(1)
    compiled = torch.compile(step)
    repeat(compiled, ids, targets, 4)
    assert changes(lambda: repeat(compiled, ids, targets, 10)) == {"compiled_calls": 10}


def test_steady_eager_step_runs_natively() -> None:
    step, ids, targets = training_step(2)
    repeat(step, ids, targets, 4)
    found = changes(lambda: repeat(step, ids, targets, 10))
    if config.native:
        # Every operator and every entry of the tape, clipping and the optimizer included.
        assert found == {"native_calls": 510, "native_backwards": 430}
    else:
        assert found == {"eager_calls": 510, "eager_backwards": 430}


def test_calls_left_to_python_are_counted_with_their_reasons() -> None:
    x, y = torch.ones(3, 7, 11), torch.ones(11, 7, 3, requires_grad=True)

    def call() -> None:
        torch.Tensor.add(x, x)  # native from the third time on
        with torch.autograd.detect_anomaly():
            torch.exp(y).sum().backward()  # a mode that only Python knows

    found = changes(lambda: [call() for _ in range(4)])
    if not config.native:
        assert not any("native" in name or "python" in name for name in found)
        assert found["eager_backwards"] == 2 * 4
        return
    assert found["native_calls"] == 2
    assert found["eager_calls"] == found["python_for_new"] + found["python_for_modes"] - found["eager_backwards"]
    assert (found["python_for_new"], found["eager_backwards"]) == (2, 2 * 4)


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_leave_nothing_behind(compiled: bool) -> None:
    step, ids, targets = training_step(1)
    run = torch.compile(step) if compiled else step
    repeat(run, ids, targets, 20)
    gc.collect()
    objects, before = len(gc.get_objects()), allocator.stats()
    repeat(run, ids, targets, 10_000 if config.native and not config.checked else 300)
    gc.collect()
    after = allocator.stats()
    assert after.allocated == before.allocated
    assert after.mappings == before.mappings
    assert len(gc.get_objects()) <= objects + 5
