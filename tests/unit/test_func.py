"""torch.func: errors, random numbers, modes, capture, and what goes beyond PyTorch, against loops and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.events import counters
from flambeau.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
    vmap,
)
from flambeau.tensor.batching import BatchedTensor


def _random(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(len(shape)).standard_normal(shape))


def _close(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=tolerance, atol=tolerance)


# -- against loops and differences ----------------------------------------------------------------------
def _net(x: Any) -> Any:
    return torch.tanh(x @ x.sin().outer(x).cumsum(0)).softmax(0) + torch.sort(x)[0] * x.norm()


def test_nested_maps_and_derivatives_equal_loops() -> None:
    x = _random(3, 4)
    _close(vmap(jacrev(_net))(x), torch.stack([jacrev(_net)(row) for row in x]))
    _close(vmap(jacfwd(_net))(x), vmap(jacrev(_net))(x))
    whole = grad(lambda x: vmap(grad(lambda row: vmap(lambda a: a.exp() * row.sum())(row).sum()))(x).sum())(x)
    parts = [grad(lambda row: grad(lambda r: (r.exp() * r.sum()).sum())(row).sum())(row) for row in x]
    _close(whole, torch.stack(parts))


def test_derivatives_equal_differences() -> None:
    x, t, step = _random(4), torch.tensor([0.3, -0.7, 0.2, 1.1], dtype=torch.float64), 1e-6
    difference = (_net(x + step * t) - _net(x - step * t)) / (2 * step)
    _close(jvp(_net, (x,), (t,))[1], difference, 1e-7)
    _close(linearize(_net, x)[1](t), difference, 1e-7)
    w = _random(4)
    _close(vjp(_net, x)[1](w)[0] @ t, w @ difference, 1e-7)
    slope = (grad(lambda x: _net(x)[1])(x + step * t) - grad(lambda x: _net(x)[1])(x - step * t)) / (2 * step)
    _close(hessian(lambda x: _net(x)[1])(x) @ t, slope, 1e-6)


@pytest.mark.parametrize("layer", [torch.nn.LSTM(3, 4, batch_first=True), torch.nn.GRU(3, 4, batch_first=True)])
def test_recurrent_layers(layer: Any) -> None:
    params, x = {k: v.detach() for k, v in layer.named_parameters()}, torch.randn(2, 5, 3)

    def loss(params: Any, x: Any) -> Any:
        return functional_call(layer, params, (x[None],))[0].square().sum()

    found = vmap(grad(loss), (None, 0))(params, x)
    for k, name in ((k, n) for k in range(2) for n in params):
        _close(found[name][k], grad(loss)(params, x[k])[name], 1e-4)


def test_a_map_runs_as_batched_kernels() -> None:
    x, w = torch.randn(1000, 8), torch.randn(8, 8)

    def f(x: Any) -> Any:
        return torch.softmax(torch.tanh(x @ w), 0).sum()

    vmap(f)(x)
    before = counters["eager_calls"] + counters["native_calls"]
    vmap(f)(x)
    assert counters["eager_calls"] + counters["native_calls"] - before < 30


def test_views_of_the_batch_are_views() -> None:
    x = torch.zeros(3, 4)

    def fill(row: Any) -> Any:
        row[1:].add_(1)
        return row

    vmap(fill)(x)
    assert x.tolist() == [[0.0, 1.0, 1.0, 1.0]] * 3


def test_gradients_by_what_is_the_same_for_all_are_one_for_each_place() -> None:
    w, x = _random(4), _random(3, 4)
    found = vmap(lambda row: grad(lambda w: (w * row).sin().sum())(w))(x)
    _close(found, torch.stack([torch.cos(w * row) * row for row in x]))


def test_functionalize_and_batch_norm() -> None:
    assert functionalize(lambda x: x.clone().add_(1), remove="mutations_and_views")(torch.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Valid options"):
        functionalize(lambda x: x, remove="all")
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    x = torch.randn(2, 5, 3)
    with pytest.raises(RuntimeError, match="differ along the batch"):
        vmap(model)(x)
    model = replace_all_batch_norm_modules_(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    _close(vmap(model)(x)[1], model(x[1]), 1e-5)


# -- random numbers -------------------------------------------------------------------------------------
def test_randomness() -> None:
    x = torch.zeros(4, 3)
    dropout = torch.nn.functional.dropout
    for f in (lambda a: a + torch.rand(3), lambda a: dropout(a + 1, 0.5), torch.randn_like, lambda a: a + torch.randperm(3)):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(f)(x)
        torch.manual_seed(0)
        same, different = vmap(f, randomness="same")(x), vmap(f, randomness="different")(torch.zeros(40, 3))
        assert different.unique(dim=0).shape[0] > 4
        if f is not torch.randn_like:
            assert same.unique(dim=0).shape[0] == 1
    orders = vmap(lambda a: torch.randperm(6), randomness="different")(x)
    assert torch.equal(orders.sort(1)[0], torch.arange(6).expand(4, 6))
    inner = vmap(vmap(lambda a: torch.rand(()) + 0 * a, randomness="different"), randomness="same")(x)
    assert inner.unique(dim=0).shape[0] == 1 and inner[0].unique().shape[0] == 3
    torch.manual_seed(3)
    first = vmap(lambda a: torch.rand(2), randomness="different")(x)
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(4, 2))


# -- errors ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum().item(), r"\.item\(\)"),
        (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda x: x.nonzero(), r"\.item\(\)"),
        (lambda x: x[x > 0], r"\.item\(\)"),
        (lambda x: torch.zeros(3).add_(x), "differ along the batch"),
        (lambda x: x.numpy(), "not to be had"),
        (lambda x: x.tolist(), "not to be had"),
        (lambda x: x.requires_grad_().sum().backward(), "inside vmap"),
        (lambda x: x.resize_(2), "resize_"),
    ],
)
def test_what_needs_values_raises(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        vmap(function)(torch.ones(2, 3))
    assert vmap(torch.sum)(torch.ones(2, 3)).tolist() == [3.0, 3.0]  # the level was left


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: vmap(lambda x: 3)(x), ValueError, "must only return Tensors"),
        (lambda x: vmap(torch.sin, in_dims=2)(x), ValueError, "dimensionality 2"),
        (lambda x: vmap(torch.add)(x, torch.ones(2)), ValueError, r"got sizes \[3, 2\]"),
        (lambda x: vmap(torch.sin, in_dims=(0, 0))(x), ValueError, "not compatible with the structure"),
        (lambda x: vmap(torch.sin, in_dims=None)(x), ValueError, "to be int or"),
        (lambda x: vmap(torch.sin)(3), ValueError, "over non-Tensor arguments"),
        (lambda x: vmap(lambda: 3)(), ValueError, "no inputs"),
        (lambda x: vmap(torch.sin, out_dims=(0, 0))(x), ValueError, "not compatible"),
        (lambda x: vmap(torch.sin, out_dims=3)(x), IndexError, r"range of \[-2, 1\], but got 3"),
        (lambda x: vmap(torch.sin, out_dims=None)(x), ValueError, "can not return a BatchedTensor"),
        (lambda x: vmap(torch.sin, in_dims=(None,))(x), ValueError, "at least one input"),
        (lambda x: vmap(torch.sin, randomness="a")(x), RuntimeError, "Only allowed values"),
        (lambda x: vmap(torch.sin, chunk_size=0)(x), ValueError, "chunk_size"),
        (lambda x: grad(lambda x: x)(x), RuntimeError, "scalar tensor, got tensor with 2 dims"),
        (lambda x: grad(lambda x: 3.0)(x), RuntimeError, "return a tensor"),
        (lambda x: grad(torch.sum, argnums=3)(x), RuntimeError, "only 1 positional"),
        (lambda x: grad(torch.sum, argnums=(0, 0))(x), RuntimeError, "unique"),
        (lambda x: grad(torch.sum)(x.long()), RuntimeError, "floating point"),
        (lambda x: grad(lambda x: x * 2)(3.0), RuntimeError, "must be a tensor"),
        (lambda x: jvp(torch.sin, (x,), (x[0],)), RuntimeError, "same shapes"),
        (lambda x: jvp(torch.sin, x, x), RuntimeError, "tuple"),
        (lambda x: jvp(lambda x: torch.ones(2), (x,), (x,), strict=True), RuntimeError, "independent"),
        (lambda x: vjp(torch.sin, x)[1](x[0]), RuntimeError, "Mismatch in shape"),
        (lambda x: vjp(torch.sin, x)[1]((x, x)), RuntimeError, "pytree structure"),
        (lambda x: jacrev(torch.sin, chunk_size=-1)(x), ValueError, "chunk_size"),
        (lambda x: jacrev(lambda x: 3.0)(x), RuntimeError, "only tensors"),
        (lambda x: functional_call(torch.nn.Linear(3, 2), {"foo": x}, (x,)), RuntimeError, "Unexpected key"),
        (lambda x: functional_call(torch.nn.Linear(3, 2), {"weight": x[:2]}, (x,), strict=True), RuntimeError, "Missing key"),
        (lambda x: functional_call(torch.nn.Linear(3, 2), [{"bias": x}, {"bias": x}], (x,)), ValueError, "multiple dictionaries"),
        (lambda x: stack_module_state([]), RuntimeError, "at least one model"),
        (lambda x: stack_module_state([torch.nn.Linear(1, 1), torch.nn.Bilinear(1, 1, 1)]), RuntimeError, "same class"),
        (lambda x: torch.autograd.grad(x, x, is_grads_batched=True), RuntimeError, "is_grads_batched"),
    ],
)
def test_errors(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(torch.ones(3, 4))


def test_a_tensor_that_left_its_map_goes_on_as_a_batch() -> None:
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x)(torch.arange(6.0).view(2, 3))
    assert type(kept[0]) is BatchedTensor and (kept[0] * 2).sum().value.tolist() == [6.0, 24.0]
    assert "BatchedTensor(lvl=" in repr(kept[0])


def test_tied_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    x, w = torch.ones(2), torch.eye(2) * 3
    assert functional_call(model, {"0.weight": w}, x).tolist() == [9.0, 9.0]
    before = model[0].weight
    _close(functional_call(model, {"0.weight": w}, x, tie_weights=False), before @ (w @ x), 1e-6)
    assert model[0].weight is before is model[1].weight


def test_aux_and_value_leave_no_history() -> None:
    x = torch.ones(2)
    found, (value, aux) = grad_and_value(lambda x: ((x * 2).sum(), x * 3), has_aux=True)(x)
    assert not (found.requires_grad or value.requires_grad or aux.requires_grad)
    x.requires_grad_()
    assert grad(lambda x: (x**2).sum())(x).requires_grad
    with torch.no_grad():
        assert not grad(lambda x: (x**2).sum())(x).requires_grad


# -- capture --------------------------------------------------------------------------------------------
_model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
_params = {k: v.detach() for k, v in _model.named_parameters()}


def _loss(params: Any, x: Any) -> Any:
    return functional_call(_model, params, (x[None],)).square().sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: vmap(torch.softmax, in_dims=(0, None))(x, 0),
        lambda x: vmap(grad(_loss), in_dims=(None, 0))(_params, x),
        lambda x: grad(lambda x: vmap(lambda a: _loss(_params, a))(x).sum())(x),
        lambda x: jacrev(lambda x: torch.softmax(x, 0))(x[0]),
        lambda x: jacfwd(lambda x: torch.softmax(x, 0))(x[0]),
        lambda x: vmap(hessian(lambda x: torch.softmax(x, 0)[0]))(x),
        lambda x: jvp(torch.sin, (x,), (x,)),
    ],
)
def test_compiled_into_one_segment(function: Callable[[Any], Any]) -> None:
    x = torch.randn(3, 4)
    compiled = torch.compile(function)
    for _ in range(3):
        found, wanted = compiled(x), function(x)
    for a, b in zip(_leaves(found), _leaves(wanted), strict=True):
        _close(a, b, 1e-4)
    assert ": 1 compiled segment\n" in str(compiled.explain())


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _leaves(v)] if isinstance(value, (list, tuple)) else [value]


def test_a_map_of_a_compiled_function_and_sizes_that_change() -> None:
    scale = [2.0]
    compiled = torch.compile(lambda x: torch.tanh(x) * scale[0])
    x = torch.randn(3, 4)
    _close(vmap(compiled)(x), torch.tanh(x) * 2, 1e-6)
    step = torch.compile(lambda x: vmap(grad(lambda a: (torch.tanh(a) * scale[0]).sum()))(x), dynamic=True)
    for n in (3, 5, 7):
        x = torch.randn(n, 4)
        _close(step(x), 2 * (1 - torch.tanh(x) ** 2), 1e-5)
    scale[0] = 3.0
    _close(step(x), 3 * (1 - torch.tanh(x) ** 2), 1e-5)


def test_functions_that_look_at_values_to_know_how_far_to_go() -> None:
    a, x, n = torch.tensor([0.5, 2.0]), torch.tensor([1.0, 30.0]), torch.tensor([1, 3])
    _close(vmap(torch.igamma)(a, x), torch.igamma(a, x), 1e-6)
    _close(vmap(torch.special.hermite_polynomial_h)(x, n), torch.special.hermite_polynomial_h(x, n), 1e-6)
    w = torch.tensor([[1, 2, 1], [3, 1, 1]])
    points = torch.randn(2, 2, 3)
    _close(vmap(lambda p, w: torch.cov(p, fweights=w))(points, w)[1], torch.cov(points[1], fweights=w[1]), 1e-5)
