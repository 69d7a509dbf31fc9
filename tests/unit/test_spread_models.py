"""Meshes, spread tensors and models, and checkpoints as folders, in a group of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import flambeau as torch
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint import state_dict as states
from flambeau.distributed.fsdp import FSDPModule, FullyShardedDataParallel, MixedPrecision, ShardingStrategy, fully_shard
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", world_size=1, rank=0)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_mesh() -> None:
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    assert mesh.shape == (1, 1) and mesh["data"].ndim == 1 and mesh.get_group("data").size() == 1 and mesh["data"] != mesh
    with pytest.raises(NotImplementedError, match="sizes 1"):
        init_device_mesh("cpu", (2,))
    with pytest.raises(KeyError, match="no dimension"):
        mesh["pipe"]


def test_spread_tensor() -> None:
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.arange(6.0).reshape(2, 3).requires_grad_(), mesh, [Shard(0)])
    y = x * 2
    assert isinstance(y, DTensor) and y.placements == (Shard(0),) and y.device_mesh is mesh
    assert cast(DTensor, y.sum()).placements == (Replicate(),) and x.redistribute(placements=[Replicate()]).placements == (Replicate(),)
    y.sum().backward()
    assert x.grad is not None and (x.grad == 2).all()
    x.to_local().sum().backward()
    assert (x.grad == 3).all() and type(y.to_local()) is torch.Tensor and torch.equal(y.full_tensor(), torch.arange(6.0).reshape(2, 3) * 2)
    assert "Shard(dim=0)" in repr(x)
    with pytest.raises(IndexError, match="dim must be"):
        distribute_tensor(torch.ones(2), mesh, [Shard(1)])


def test_spread_models() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    names, x = list(model.state_dict()), torch.ones(2, 3)
    expected = model(x)
    model[0] = FullyShardedDataParallel(model[0], sharding_strategy=ShardingStrategy.FULL_SHARD)
    outer = FullyShardedDataParallel(model)
    assert list(outer.state_dict()) == names == [n for n, _ in outer.named_parameters()]
    outer.load_state_dict({n: v * 0 for n, v in outer.state_dict().items()})
    assert not outer(x).any() and expected.any()
    plain = torch.nn.Linear(2, 2)
    assert fully_shard(plain) is plain and isinstance(plain, FSDPModule) and isinstance(plain, torch.nn.Linear)
    plain.unshard()
    assert type(fully_shard(torch.nn.Linear(2, 2))) is type(plain) and plain(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises(NotImplementedError, match="autocast"):
        FullyShardedDataParallel(plain, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))


def _trained() -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW([{"params": model[1].parameters(), "lr": 0.1}, {"params": model[0].parameters()}], lr=0.01)
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    return model, optimizer


def test_states_by_name_survive_a_checkpoint(tmp_path: Path) -> None:
    model, optimizer = _trained()
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    state: dict[str, Any] = {
        "model": states.get_model_state_dict(wrapped), "optimizer": states.get_optimizer_state_dict(wrapped, optimizer), "step": 2,
        "empty": {},
    }  # fmt: skip
    assert "0.weight" in state["model"] and "1.bias" in state["optimizer"]["state"]
    checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(tmp_path / "folder"))
    new = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    before = new[0].weight.clone()
    other = torch.optim.AdamW(new.parameters(), lr=0.5)  # one group, in another order
    found = {"model": states.get_model_state_dict(new), "optimizer": states.get_optimizer_state_dict(new, other), "step": 0, "empty": None}
    assert torch.equal(before, new[0].weight), "a first state must not move parameters"
    with pytest.raises(checkpoint.CheckpointException, match="missing key"):
        checkpoint.load({"nothing": 1}, checkpoint_id=tmp_path / "folder")
    with pytest.raises(checkpoint.CheckpointException, match="shape"):
        checkpoint.load({"model": {"0.weight": torch.ones(1)}}, checkpoint_id=tmp_path / "folder")
    model_only = {"model": found["model"], "step": 0}
    checkpoint.load(model_only, storage_reader=checkpoint.FileSystemReader(tmp_path / "folder"))
    assert model_only["step"] == 2 and torch.equal(new[0].weight, model[0].weight)
    states.set_optimizer_state_dict(new, other, state["optimizer"])
    moment = other.state[new[1].weight]["exp_avg"]
    assert torch.equal(moment, optimizer.state[model[1].weight]["exp_avg"]) and other.param_groups[0]["lr"] == 0.01
    result = states.set_model_state_dict(wrapped, found["model"], options=states.StateDictOptions(strict=False))
    assert not result.missing_keys and not result.unexpected_keys


def test_objects_with_states(tmp_path: Path) -> None:
    model, optimizer = _trained()
    checkpoint.save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path)
    wanted = model[0].weight.clone()
    with torch.no_grad():
        model[0].weight.zero_()
    checkpoint.load({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path)
    assert torch.equal(model[0].weight, wanted)
    with pytest.raises(RuntimeError, match="already exists"):
        checkpoint.save({}, storage_writer=checkpoint.FileSystemWriter(tmp_path, overwrite=False))
