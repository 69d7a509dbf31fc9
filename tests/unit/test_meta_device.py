"""Tensors on the meta device: shapes and types without elements."""

from __future__ import annotations

import copy

import pytest

import flambeau as torch


def test_a_module_is_built_without_memory() -> None:
    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(1 << 20, 1 << 20), torch.nn.LayerNorm(1 << 20))
    assert all(p.is_meta and p.data_ptr() == 0 for p in module.parameters())
    out = module(torch.empty(3, 1 << 20, device="meta"))
    assert out.shape == (3, 1 << 20) and out.is_meta
    out.sum().backward()
    assert module[0].weight.grad.shape == (1 << 20, 1 << 20)
    assert copy.deepcopy(module)[0].weight.is_meta


def test_meta_tensors_get_elements_by_to_empty_and_assign() -> None:
    with torch.device("meta"):
        module = torch.nn.Linear(2, 3)
    with pytest.raises(NotImplementedError, match="no data"):
        module.to("cpu")
    state = torch.nn.Linear(2, 3).state_dict()
    module.load_state_dict(state, assign=True)
    assert torch.equal(module.weight, state["weight"])
    assert torch.nn.Linear(2, 3, device="meta").to_empty(device="cpu").weight.device.type == "cpu"


def test_shapes_types_and_views_are_those_of_other_tensors() -> None:
    x = torch.randn(2, 3, device="meta")
    assert (x @ x.t() + torch.tensor(2.0)).shape == (2, 2)
    assert x.to(torch.float16).sum(0, keepdim=True).dtype == torch.float16
    assert x.t()[1:].stride() == (1, 3) and x.uniform_().zero_().copy_(torch.ones(2, 3)) is x
    assert torch.empty_like(x, device="cpu").device.type == "cpu" and torch.ones(2).to("meta").is_meta
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"


@pytest.mark.parametrize("use", [lambda x: x.sum().item(), lambda x: bool(x.sum()), lambda x: x.nonzero()])
def test_elements_are_not_to_be_had(use) -> None:
    with pytest.raises(RuntimeError, match="meta tensors"):
        use(torch.ones(2, device="meta"))


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="meta and cpu"):
        torch.ones(2, device="meta") * torch.ones(2)
    with pytest.raises(NotImplementedError, match="no data"):
        torch.ones(2).copy_(torch.ones(2, device="meta"))
