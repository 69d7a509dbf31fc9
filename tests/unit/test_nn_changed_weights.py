"""Pruned, parametrized and normalized weights by what must hold of them: zeros, orthogonality, norms, and the way back."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize, prune

RNG = np.random.default_rng(11)


def layer(rows: int = 4, columns: int = 5) -> Any:
    made = nn.Linear(columns, rows).double()
    with torch.no_grad():
        made.weight.copy_(torch.tensor(RNG.permutation(rows * columns).reshape(rows, columns) - 7.5))
    return made


def kept(module: Any, name: str = "weight") -> np.ndarray:
    return getattr(module, name + "_mask").numpy() != 0


# -- pruning ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("amount", "count"), [(0, 0), (3, 3), (0.25, 5), (1.0, 20), (20, 20)])
def test_the_least_elements_are_pruned(amount: float, count: int) -> None:
    module = layer()
    weight = module.weight.detach().numpy().copy()
    assert prune.l1_unstructured(module, "weight", amount) is module and prune.is_pruned(module)
    mask = kept(module)
    assert (~kept(module)).sum() == count and np.array_equal(module.weight.detach().numpy(), weight * kept(module))
    if 0 < count < 20:
        assert abs(weight)[~kept(module)].max() <= abs(weight)[kept(module)].min()
    module(torch.ones(2, 5, dtype=torch.float64)).sum().backward()
    assert np.array_equal(module.weight_orig.grad.numpy() != 0, kept(module))  # what is pruned learns nothing
    assert sorted(module.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    prune.remove(module, "weight")
    assert not prune.is_pruned(module) and sorted(module.state_dict()) == ["bias", "weight"] and isinstance(module.weight, nn.Parameter)
    assert np.array_equal(module.weight.detach().numpy(), weight * mask)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("n", [1, 2, math.inf, -math.inf])
def test_the_least_slices_are_pruned(n: float, dim: int) -> None:
    module = layer()
    weight = module.weight.detach().numpy().copy()
    prune.ln_structured(module, "weight", 2, n, dim)
    norms = np.linalg.norm(weight, n, axis=1 - dim % 2)
    left = kept(module).all(1 - dim % 2)
    assert np.array_equal(kept(module).any(1 - dim % 2), left) and (~left).sum() == 2
    assert norms[~left].max() <= norms[left].min()


@pytest.mark.parametrize("amount", [3, 0.5])
def test_random_pruning_prunes_as_many(amount: float) -> None:
    torch.manual_seed(0)
    module = prune.random_unstructured(layer(), "weight", amount)
    assert (~kept(module)).sum() == (3 if amount == 3 else 10)
    rows = prune.random_structured(layer(6, 3), "weight", amount, 0)
    assert (~kept(rows).any(1)).sum() == 3 and (kept(rows).all(1)).sum() == 3
    assert kept(prune.random_structured(layer(), "weight", 0, 0)).all() and kept(prune.ln_structured(layer(), "weight", 0, 2, 0)).all()


def test_scores_stand_for_elements() -> None:
    module, scores = layer(), torch.arange(20.0).view(4, 5)
    prune.l1_unstructured(module, "weight", 4, importance_scores=scores)
    assert np.array_equal(kept(module).ravel(), np.arange(20) >= 4)
    other = prune.ln_structured(layer(), "weight", 1, 1, 0, importance_scores=-scores)
    assert kept(other)[1:].all() and not kept(other)[0].any()
    with pytest.raises(AssertionError, match="same shape"):
        prune.l1_unstructured(layer(), "weight", 4, importance_scores=torch.ones(3))
    method = prune.L1Unstructured(2)
    assert method.prune(torch.tensor([3.0, -1.0, 2.0])).tolist() == [3, 0, 0]
    assert method.prune(torch.tensor([3.0, -1.0, 2.0]), importance_scores=torch.tensor([0.0, 1.0, 2.0])).tolist() == [0, 0, 2]
    with pytest.raises(AssertionError, match="same shape"):
        method.prune(torch.ones(2), importance_scores=torch.ones(3))


def test_methods_follow_one_another() -> None:
    module = layer()
    prune.l1_unstructured(module, "weight", 5)
    first = kept(module)
    prune.l1_unstructured(module, "weight", 0.2)  # a fifth of what is left
    assert (~kept(module)).sum() == 8 and not (kept(module) & ~first).any()
    prune.random_structured(module, "weight", 1, 0)
    assert (~kept(module).any(1)).sum() >= 1
    prune.custom_from_mask(module, "weight", torch.tensor([1, 1, 1, 1, 0]).expand(4, 5))
    assert not kept(module)[:, 4].any()
    (container,) = module._forward_pre_hooks.values()
    assert len(container) == 4 and [type(m) for m in container][0] is prune.L1Unstructured and container[3].PRUNING_TYPE == "global"
    prune.identity(module, "bias")
    assert kept(module, "bias").all() and prune.is_pruned(nn.Sequential(nn.ReLU(), module)) and not prune.is_pruned(nn.ReLU())


def test_parameters_are_pruned_together() -> None:
    one, two = layer(2, 3), layer(3, 2)
    with torch.no_grad():
        one.weight.copy_(torch.arange(1.0, 7).view(2, 3))
        two.weight.copy_(torch.arange(4.0, 10).view(3, 2))
    prune.global_unstructured([(one, "weight"), (two, "weight")], prune.L1Unstructured, amount=5)
    assert kept(one).ravel().tolist() == [False] * 4 + [True] * 2 and kept(two).ravel().tolist() == [False] + [True] * 5
    prune.global_unstructured([(one, "weight"), (two, "weight")], prune.L1Unstructured, amount=1)
    assert kept(one).ravel().tolist() == [False] * 5 + [True] or (~kept(two)).sum() == 2
    scores = {(one, "bias"): torch.tensor([5.0, 1.0])}
    prune.global_unstructured([(one, "bias")], prune.L1Unstructured, importance_scores=scores, amount=0.5)
    assert kept(one, "bias").tolist() == [True, False]


PRUNING_ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "in the range"), (lambda m: prune.l1_unstructured(m,
    "weight", -1), ValueError, "range"),
    (lambda m: prune.l1_unstructured(m, "weight", 21), ValueError, "smaller"), (lambda m: prune.L1Unstructured("many"), TypeError,
    "amount"),
    (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "multidimensional"), (lambda m: prune.ln_structured(m,
    "weight", 1, 2, 2), IndexError, "Invalid index"),
    (lambda m: prune.custom_from_mask(m, "weight", torch.ones(3)), AssertionError, "shape"), (lambda m: prune.remove(m,
    "weight"), ValueError, "has to be pruned"),
    (lambda m: prune.global_unstructured(3, prune.L1Unstructured, amount=1), TypeError, "Iterable"),
    (lambda m: prune.global_unstructured([(m, "weight")], prune.L1Unstructured, importance_scores=[1], amount=1), TypeError, "dict"),
    (lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=1), TypeError, "unstructured"),
    (lambda m: prune.PruningContainer().add_pruning_method(3), TypeError, "BasePruningMethod"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PRUNING_ERRORS)))
def test_pruning_that_is_refused(number: int) -> None:
    call, error, message = PRUNING_ERRORS[number]
    with pytest.raises(error, match=message):
        call(layer())


def test_containers_hold_methods_of_one_tensor_and_known_kinds() -> None:
    class Odd(prune.BasePruningMethod):
        PRUNING_TYPE = "odd"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            return default_mask

    class Sliced(Odd):
        PRUNING_TYPE = "structured"

    one, two = prune.Identity(), prune.Identity()
    one._tensor_name, two._tensor_name = "weight", "bias"
    container = prune.PruningContainer(one)
    container.add_pruning_method(None)
    assert len(container) == 1
    with pytest.raises(ValueError, match="acting on the parameter named 'weight'"):
        container.add_pruning_method(two)
    for kind, error, message in ((Odd, ValueError, "Unrecognized"), (Sliced, AttributeError, "`dim`")):
        module = prune.identity(layer(), "weight")
        with pytest.raises(error, match=message):
            kind.apply(module, "weight")


# -- parametrizations -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_stay_orthogonal(kind: Any, rows: int, columns: int, trivial: bool) -> None:
    torch.manual_seed(1)
    module = parametrizations.orthogonal(layer(rows, columns), orthogonal_map=kind, use_trivialization=trivial)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    goal = torch.tensor(RNG.standard_normal((rows, columns)))
    starts = []
    for _ in range(4):
        weight = module.weight
        product = weight @ weight.mT if rows <= columns else weight.mT @ weight
        assert torch.allclose(product, torch.eye(min(rows, columns), dtype=torch.float64), atol=1e-9)
        loss = (weight * goal).sum()
        starts.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert starts[-1] < starts[0]
    if trivial or kind == "householder" or (kind is None and rows != columns):
        q = torch.linalg.qr(torch.tensor(RNG.standard_normal((max(rows, columns), min(rows, columns)))))[0]
        q = q if rows >= columns else q.mT
        module.weight = q
        assert torch.allclose(module.weight, q, atol=1e-9)
    parametrize.remove_parametrizations(module, "weight")
    assert type(module) is nn.Linear and isinstance(module.weight, nn.Parameter)


def test_complex_orthogonal_weights() -> None:
    module = nn.Linear(3, 3, dtype=torch.complex128)
    weight = parametrizations.orthogonal(module).weight
    assert torch.allclose(weight.mH @ weight, torch.eye(3, dtype=torch.complex128), atol=1e-9)
    with pytest.raises(ValueError, match="complex"):
        parametrizations.orthogonal(nn.Linear(3, 3, dtype=torch.complex128), orthogonal_map="householder")


@pytest.mark.parametrize("kind", ["hook", "parametrization"])
@pytest.mark.parametrize("dim", [0, 1])
def test_spectral_norms_are_one(kind: str, dim: int) -> None:
    module = layer()
    weight = module.weight.detach().numpy().copy()
    make = nn.utils.spectral_norm if kind == "hook" else parametrizations.spectral_norm
    make(module, n_power_iterations=50, dim=dim)
    x = torch.ones(1, 5, dtype=torch.float64)
    module(x)
    largest = np.linalg.svd(weight)[1][0]
    np.testing.assert_allclose(module.weight.detach().numpy(), weight / largest, rtol=1e-6)
    module.eval()
    assert torch.equal(module(x), module(x))
    if kind == "hook":
        module.train()
        module(x).sum().backward()
        assert module.weight_orig.grad is not None and sorted(module.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
        nn.utils.remove_spectral_norm(module)
    else:
        (module(x).sum()).backward()
        assert module.parametrizations.weight.original.grad is not None
        parametrize.remove_parametrizations(module, "weight")
    np.testing.assert_allclose(module.weight.detach().numpy(), weight / largest, rtol=1e-6)
    assert sorted(module.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("dim", [0, 1, None])
def test_directions_and_lengths(dim: int | None) -> None:
    module = layer()
    weight = module.weight.detach().numpy().copy()
    parametrizations.weight_norm(module, dim=dim)
    np.testing.assert_allclose(module.weight.detach().numpy(), weight, rtol=1e-12)
    length = module.parametrizations.weight.original0.detach().numpy()
    norms = np.linalg.norm(weight) if dim is None else np.linalg.norm(weight, axis=1 - dim, keepdims=True)
    np.testing.assert_allclose(np.broadcast_to(length, np.shape(norms)), norms, rtol=1e-12)
    with torch.no_grad():
        module.parametrizations.weight.original0.mul_(2)
    np.testing.assert_allclose(module.weight.detach().numpy(), 2 * weight, rtol=1e-12)
    module.weight = torch.tensor(weight)
    np.testing.assert_allclose(module.weight.detach().numpy(), weight, rtol=1e-12)
    parametrize.remove_parametrizations(module, "weight")
    np.testing.assert_allclose(module.weight.detach().numpy(), weight, rtol=1e-12)


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a: Any) -> Any:
        return a.triu()


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x

    def right_inverse(self, y: Any) -> Any:
        return y / 2


class Pair(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a * b

    def right_inverse(self, x: Any) -> Any:
        return x.abs(), x.sign()


class Fixed(nn.Module):
    """Returns what it is made with, forward and back."""

    def __init__(self, forward: Any, back: Any = None) -> None:
        super().__init__()
        self.values = forward, back
        if back is not None:
            self.right_inverse = lambda x: self.values[1]

    def forward(self, *x: Any) -> Any:
        return self.values[0]


def square() -> Any:
    return layer(3, 3)


def test_parametrizations_compose() -> None:
    module = square()
    before = module.weight.detach().clone()
    parametrize.register_parametrization(module, "weight", Symmetric())
    symmetric = before.triu() + before.triu(1).mT
    assert torch.equal(module.weight, symmetric) and torch.equal(module.parametrizations.weight.original, before.triu())
    parametrize.register_parametrization(module, "weight", Doubled())
    assert torch.equal(module.weight, 2 * symmetric) and type(module).__name__ == "ParametrizedLinear"
    module.weight = torch.eye(3, dtype=torch.float64)
    assert torch.equal(module.weight, torch.eye(3)) and module.parametrizations.weight.original.tolist() == (0.5 * np.eye(3)).tolist()
    assert parametrize.is_parametrized(module) and parametrize.is_parametrized(module, "weight")
    assert not parametrize.is_parametrized(module, "bias")
    assert parametrize.type_before_parametrizations(module) is nn.Linear and parametrize.type_before_parametrizations(nn.ReLU()) is nn.ReLU
    other = parametrize.transfer_parametrizations_and_params(module, square())
    assert torch.equal(other.weight, module.weight) and len(other.parametrizations.weight) == 2
    twin = copy.deepcopy(module)
    assert torch.equal(twin.weight, module.weight) and twin.parametrizations.weight.original is not module.parametrizations.weight.original
    with pytest.raises(RuntimeError, match="state_dict"):
        torch.save(module, io.BytesIO())
    fresh = square()
    for part in (Symmetric(), Doubled()):
        parametrize.register_parametrization(fresh, "weight", part)
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh.weight, module.weight)
    assert parametrize.remove_parametrizations(module, "weight", leave_parametrized=False) is module
    assert type(module) is nn.Linear and module.weight.tolist() == (0.5 * np.eye(3)).tolist()


def test_several_tensors_can_stand_for_one_and_buffers_too() -> None:
    module = square()
    before = module.weight.detach().clone()
    parametrize.register_parametrization(module, "weight", Pair())
    assert torch.equal(module.weight, before) and [n for n, _ in module.named_parameters()][1:] == [
        "parametrizations.weight.original0", "parametrizations.weight.original1"
    ]  # fmt: skip
    module.weight = -before
    assert torch.equal(module.weight, -before)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(module, "weight")
    assert isinstance(module.weight, nn.Parameter) and torch.equal(module.weight, -before)
    module.register_buffer("table", torch.ones(2, 2))
    parametrize.register_parametrization(module, "table", Doubled())
    assert module.table.tolist() == [[1, 1], [1, 1]]
    assert dict(module.named_buffers())["parametrizations.table.original"].tolist() == [[0.5] * 2] * 2


def test_parametrized_tensors_are_computed_once_inside_cached() -> None:
    module, calls = square(), []
    parametrize.register_parametrization(module, "weight", Symmetric())
    module.parametrizations.weight[0].register_forward_hook(lambda *_: calls.append(1))
    assert module.weight is not module.weight and len(calls) == 2
    with parametrize.cached(), parametrize.cached():
        first = module.weight
        assert module.weight is first and len(calls) == 3
    assert module.weight is not first


ones = torch.ones(3, 3, dtype=torch.float64)
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: parametrize.register_parametrization(m, "nothing", Symmetric()), "does not have a parameter"),
    (lambda m: parametrize.remove_parametrizations(m, "weight"), "does not have a parametrization"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(3)), "must return a tensor"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(ones.float())), "may not change the dtype"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(ones[0])), "may not change the shape"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(ones, 3)), "Sequence of tensors"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(ones, [ones, 3])), "element 1"),
    (lambda m: parametrize.register_parametrization(m, "weight", Fixed(ones, ones.float())), "may not change the dtype"),
    (lambda m: twice(m, Fixed(3)), "must return a tensor"), (lambda m: twice(m, Fixed(ones.float())), "may not change the dtype"),
    (lambda m: twice(m, Fixed(ones, 3)), "must return a tensor"), (lambda m: twice(m, Fixed(ones, ones[0])), "must be like"),
    (lambda m: parametrize.ParametrizationList([], m.weight), "one or more modules"),
    (lambda m: parametrizations.orthogonal(m, "bias"), "matrix|dim"), (lambda m: parametrizations.orthogonal(m, orthogonal_map="x"),
    "orthogonal_map"),
    (lambda m: parametrizations.orthogonal(m, "nothing"), "no parameter"), (lambda m: parametrizations.spectral_norm(m, "nothing"),
    "no parameter"),
    (lambda m: parametrizations.spectral_norm(m, n_power_iterations=0), "positive"),
    (lambda m: nn.utils.spectral_norm(m, n_power_iterations=0), "positive"),
    (lambda m: nn.utils.remove_spectral_norm(m), "not found"),
]  # fmt: skip


def twice(module: Any, second: Any) -> Any:
    return parametrize.register_parametrization(parametrize.register_parametrization(module, "weight", Symmetric()), "weight", second)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_parametrizations_that_are_refused(number: int) -> None:
    call, message = REFUSED[number]
    with pytest.raises(ValueError, match=message):
        call(square())


def test_values_that_cannot_be_set() -> None:
    module = parametrize.register_parametrization(square(), "weight", Fixed(ones))
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        module.weight = ones
    module = parametrize.register_parametrization(square(), "weight", Pair())
    for back, message in ((ones, "sequence of tensors"), ((ones,), "of length 2"), ((ones, ones.float()), "dtype")):
        module.parametrizations.weight[0].right_inverse = lambda x, back=back: back
        if isinstance(back, torch.Tensor):
            continue
        with pytest.raises(ValueError, match=message):
            module.weight = ones
    with pytest.raises(RuntimeError, match="two spectral_norm hooks"):
        nn.utils.spectral_norm(nn.utils.spectral_norm(square()))
    module = square()
    parametrize.register_parametrization(module, "weight", Fixed(ones[0]), unsafe=True)
    assert module.weight.shape == (3,) and module.parametrizations.weight.unsafe
