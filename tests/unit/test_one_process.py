"""torch.distributed and nn.parallel in one process, and settings that have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau import distributed as dist
from flambeau import nn


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("nccl", world_size=1, rank=0)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_collectives_of_one_process_give_what_they_get() -> None:
    assert not dist.is_available() and not isinstance(torch.ones(1), dist.tensor.DTensor)
    assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_world_size() == 1
    assert dist.get_backend() == "nccl"
    x = torch.rand(4, 2)
    whole = x.clone()
    work = dist.all_reduce(x, op=dist.ReduceOp.SUM, async_op=True)
    assert work is not None and work.wait() and torch.equal(x, whole)
    parts = [torch.zeros(4, 2)]
    dist.all_gather(parts, x)
    into = torch.zeros(4, 2)
    dist.all_gather_into_tensor(into, x)
    half = torch.zeros(4, 2)
    dist.reduce_scatter_tensor(half, x, op=dist.ReduceOp.AVG)
    assert all(torch.equal(t, x) for t in (parts[0], into, half))
    objects: list[Any] = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    dist.broadcast(x, src=0)
    dist.barrier()
    leaf = torch.ones(2, requires_grad=True)
    (dist.nn.all_reduce(leaf) * 3).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="needs 1 tensor"):
        dist.all_gather([x, x], x)
    with pytest.raises(ValueError, match="rank 1"):
        dist.broadcast(x, src=1)
    with pytest.raises(ValueError, match="no other process"):
        dist.send(x, dst=1)
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_what_needs_a_group_or_more_processes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(NotImplementedError, match="2 processes"):
        dist.init_process_group(world_size=2, rank=0)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(NotImplementedError, match="8 processes"):
        dist.init_process_group()


@pytest.mark.usefixtures("group")
def test_wrapped_models_train_as_they_do_alone() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    x = torch.rand(5, 3)
    for wrapper in (nn.DataParallel, nn.parallel.DistributedDataParallel):
        wrapped = wrapper(model, device_ids=None)
        assert torch.equal(wrapped(x), model(x)) and list(wrapped.state_dict()) == ["module.weight", "module.bias"]
        with pytest.raises(NotImplementedError, match="several devices"):
            wrapper(model, device_ids=[0, 1])
    with nn.parallel.DistributedDataParallel(model).no_sync():
        pass
    with pytest.raises(RuntimeError, match="requires a gradient"):
        nn.parallel.DistributedDataParallel(nn.ReLU())
    assert torch.equal(nn.parallel.data_parallel(model, x), model(x))


def test_settings_are_kept() -> None:
    torch.set_deterministic_debug_mode("warn")
    assert torch.get_deterministic_debug_mode() == 1 and torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    assert torch.get_deterministic_debug_mode() == 0
    torch.set_warn_always(True)
    assert torch.is_warn_always_enabled()
    torch.set_warn_always(False)
    torch._inductor.config.coordinate_descent_tuning = True
    assert torch._inductor.config.coordinate_descent_tuning
    torch._inductor.config.coordinate_descent_tuning = False
    with pytest.warns(FutureWarning, match="resize"):
        assert tuple(torch.ones(6).resize(2, 3).shape) == (2, 3)


def test_types_of_gpus_are_no_types_of_the_cpu() -> None:
    assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(torch.ones(1), torch.cuda.FloatTensor)
