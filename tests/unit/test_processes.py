"""Processes: started together, with tensors that they share or get copies of."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import Any

import pytest

import flambeau as torch
import flambeau.multiprocessing as mp


def add_one(index: int, shared: Any, copied: Any) -> None:
    shared[index] += index + 1
    copied += 5


def fail(index: int, how: str) -> None:
    if index == 1 and how == "raise":
        raise ValueError("the second process is bad")
    if index == 1:
        os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(7)
    time.sleep(60)


def answer(tasks: Any, results: Any) -> None:
    while (task := tasks.get()) is not None:
        task.mul_(2.0)
        results.put(task.sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_tensors(method):
    shared, copied = torch.zeros(3).share_memory_(), torch.zeros(3)
    assert shared.is_shared() and not copied.is_shared() and shared.share_memory_() is shared
    mp.start_processes(add_one, (shared, copied), nprocs=3, start_method=method)
    assert shared.tolist() == [1.0, 2.0, 3.0] and copied.tolist() == [0.0, 0.0, 0.0]


def test_queues_share_and_copy():
    context = mp.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(tasks, results))
    process.start()
    shared, copied = torch.ones(4).share_memory_(), torch.ones(4)
    tasks.put(shared)
    tasks.put(copied)
    sums = [results.get(timeout=30).item() for _ in range(2)]
    tasks.put(None)
    process.join(30)
    assert sums == [8.0, 8.0] and shared.tolist() == [2.0] * 4 and copied.tolist() == [1.0] * 4


def train(index: int, model: Any) -> None:
    torch.manual_seed(index)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(30):
        x = torch.randn(16, 2)
        optimizer.zero_grad()
        ((model(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
        optimizer.step()


def test_processes_train_one_model():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    assert model.share_memory() is model and all(p.is_shared() and p.requires_grad for p in model.parameters())
    before = model.weight.detach().clone()
    mp.start_processes(train, (model,), nprocs=2, start_method="fork")
    after = (model.weight.detach() - 1.0).abs().max()
    assert after < (before - 1.0).abs().max() and after < 0.2


@pytest.mark.parametrize(("how", "error", "text"), [
    ("raise", mp.ProcessRaisedException, "the second process is bad"), ("kill", mp.ProcessExitedException, "SIGKILL"),
    ("exit", mp.ProcessExitedException, "exit code 7"),
])  # fmt: skip
def test_a_failure_ends_all(how, error, text):
    started = time.monotonic()
    with pytest.raises(error, match=text) as found:
        mp.start_processes(fail, (how,), nprocs=3, start_method="fork")
    assert found.value.error_index == 1 and time.monotonic() - started < 30 and not multiprocessing.active_children()


def test_views_are_not_moved():
    base = torch.zeros(4)
    with pytest.raises(RuntimeError, match="a view cannot be moved"):
        base[1:].share_memory_()
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="Unknown sharing strategy"):
        mp.set_sharing_strategy("tea")
