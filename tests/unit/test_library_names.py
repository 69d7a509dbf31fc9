"""What public libraries ask of torch beyond its documented names."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn.attention import flex_attention as flex
from flambeau.torch_version import TorchVersion
from flambeau.utils import _pytree


def test_data_is_changed_unseen_by_backward() -> None:
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    loss = (p * p).sum()
    p.data.mul_(2)
    loss.backward()
    assert p.tolist() == [2, 4] and p.grad.tolist() == [4, 8]  # as torch's
    q = torch.ones(2, requires_grad=True) * 1
    loss = (q * q).sum()
    q.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_storage_shows_a_file(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    storage = torch.UntypedStorage.from_file(str(tmp_path / "numbers"), False, 24)
    x = torch.asarray(storage[8:24], dtype=torch.uint8).view(dtype=torch.float32).reshape(2, 2)
    assert x.tolist() == [[2, 3], [4, 5]]
    x.zero_()
    assert np.fromfile(tmp_path / "numbers", np.float32).tolist() == list(range(6))


def test_pairs_of_half_numbers_are_only_named() -> None:
    with pytest.raises(NotImplementedError, match="complex32"):
        torch.ones(2).to(torch.complex32)
    with pytest.raises(RuntimeError, match="Promotion"):
        torch.empty(2, dtype=torch.complex32) + torch.ones(2)
    with pytest.raises(NotImplementedError, match="complex32"):
        torch.empty(2, dtype=torch.complex32) + 1


def test_numbers_of_a_batch_index() -> None:
    x, rows = torch.arange(12).view(3, 4), torch.tensor([2, 0])
    assert torch.equal(torch.vmap(lambda i: x[i])(rows), x[rows])
    assert torch.equal(torch.vmap(lambda i, j: x[i, j])(rows, rows), x[rows, rows])
    assert torch.equal(torch.vmap(lambda i: x[1:, i])(rows), x[1:, rows].t())


def test_leaves_are_found_with_their_places() -> None:
    tree = {"a": [1, (2, 3)], "b": 4}
    found, spec = _pytree.tree_flatten_with_path(tree)
    assert [(_pytree.keystr(path), leaf) for path, leaf in found] == [("['a'][0]", 1), ("['a'][1][0]", 2), ("['a'][1][1]", 3), ("['b']", 4)]
    assert spec == _pytree.tree_structure(tree)
    assert _pytree.tree_map_with_path(lambda path, leaf: (len(path), leaf), {"a": [1]}) == {"a": [(2, 1)]}


def test_flex_attention_equals_attention() -> None:
    q, k, v = (torch.randn(2, 4, 7, 8) for _ in range(3))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 2, None, 7, 7)
    causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(flex.flex_attention(q, k, v, block_mask=mask), causal, atol=1e-5)
    slopes = torch.rand(4)

    def nearer(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score - slopes[h] * (i - j).abs()

    far = (torch.arange(7)[:, None] - torch.arange(7)).abs() * slopes[:, None, None]
    biased = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=-far.expand(2, 4, 7, 7))
    assert torch.allclose(flex.flex_attention(q, k, v, nearer), biased, atol=1e-5)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(q, k[:, :2], v[:, :2])


def test_versions_compare_by_numbers() -> None:
    version = TorchVersion("2.13.0+flambeau")
    assert version >= "2.4" and version > (2, 9) and version < "3" and version <= (2, 13, 0) and version == "2.13.0+flambeau"


def test_calls_of_modules_have_a_signature() -> None:
    assert list(inspect.signature(torch.nn.Linear(2, 2)).parameters) == ["args", "kwargs"]


def test_operators_by_pytorchs_own_names() -> None:
    assert torch.ops.aten.add.Tensor(torch.ones(1), 1).item() == 2 and torch.ops.aten.mm.default is torch.ops.aten.mm.default
    with pytest.raises(NotImplementedError, match="no_such_operator"):
        torch.ops.aten.no_such_operator()


def test_arguments_of_operators_are_in_their_places() -> None:
    @torch.library.custom_op("tests::scaled_by", mutates_args=())
    def scaled_by(x: torch.Tensor, factor: float, power: int = 1) -> torch.Tensor:
        return x * factor**power

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.factor, ctx.power = inputs

    scaled_by.register_autograd(lambda ctx, g: (g * ctx.factor**ctx.power, None, None), setup_context=setup)
    x = torch.ones(1, requires_grad=True)
    scaled_by(x, factor=3.0).sum().backward()
    assert x.grad.item() == 3


def test_modules_of_devices_and_passes_over_loaders() -> None:
    assert torch.get_device_module("cpu") is torch.cpu and torch.get_device_module("cuda:0") is torch.cuda
    loader = torch.utils.data.DataLoader([1, 2])
    assert isinstance(iter(loader), torch.utils.data.dataloader._BaseDataLoaderIter)


def test_wrappers_of_optimizers_step_without_our_init() -> None:
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    p = torch.nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    Wrapper(torch.optim.SGD([p], lr=0.5)).step()
    assert p.item() == 0.5


def test_devices_of_other_machines_have_names() -> None:
    assert torch.device("mps").type == "mps" and torch.device("mps") != torch.device("cpu")
    with pytest.raises(RuntimeError, match="not linked with support for mps"):
        torch.ones(1, device="mps")


def test_stated_conditions() -> None:
    torch._check(True)
    for call, error in ((torch._check, RuntimeError), (torch._check_index, IndexError), (torch._check_type, TypeError)):
        with pytest.raises(error, match="why"):
            call(False, lambda: "why")
    with pytest.raises(AssertionError, match="why"):
        torch._assert(False, "why")
    with pytest.raises(RuntimeError, match="why"):
        torch._assert_async(torch.tensor(False), "why")


class Registry(dict[str, int]):
    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(str(key), default)


def test_super_is_met_again_where_a_compiled_function_takes_another_way() -> None:
    registry = Registry({"1": 3})

    @torch.compile
    def scaled(x: Any, more: bool) -> Any:
        y = x * registry.get(1)
        return y + 1 if more else y

    for more in (False, False, True, False):
        assert scaled(torch.ones(2), more).tolist() == [3 + more] * 2
