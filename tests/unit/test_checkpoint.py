"""Checkpointing changes what is kept, and nothing else: gradients, random numbers and modes stay the same."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    detach_variable,
    get_device_states,
    set_device_states,
)


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.GELU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)
    )


def gradients(model: Any, run: Any) -> list[Any]:
    torch.manual_seed(2)
    x = torch.randn(6, 4, requires_grad=True)
    model.zero_grad()
    before = x * 2
    (run(before).square().sum() + before.sum()).backward()
    return [x.grad, *[p.grad for p in model.parameters()], torch.rand(2)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_and_random_numbers(reentrant):
    model = network()
    expected = gradients(model, model)
    assert all(
        torch.equal(a, b) for a, b in zip(gradients(model, lambda x: checkpoint(model, x, use_reentrant=reentrant)), expected, strict=True)
    )
    parts = gradients(model, lambda x: checkpoint_sequential(model, 2, x, use_reentrant=reentrant))
    assert all(torch.allclose(a, b) for a, b in zip(parts, expected, strict=True))


def test_several_results_keywords_and_closures():
    scale, x, y = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0, 5.0))
    outer = scale * 1.5

    def function(x: Any, *, other: Any) -> Any:
        return {"product": (x * other * outer, x.detach()), "name": "kept"}, [other.exp()]

    def total(found: Any) -> Any:
        return found[0]["product"][0] * 2 + found[1][0]

    expected = torch.autograd.grad(total(function(x, other=y)), (x, y, scale), retain_graph=True)
    found = checkpoint(function, x, other=y, use_reentrant=False)
    assert found[0]["name"] == "kept" and not found[0]["product"][1].requires_grad
    assert found[0]["product"][0].grad_fn.name() == "CheckpointBackward"
    assert torch.autograd.grad(total(found), (x, y, scale)) == expected
    # Only one of the results is used.
    outer = scale * 1.5
    assert torch.autograd.grad(checkpoint(function, x, other=y, use_reentrant=False)[1][0], (x, y), allow_unused=True)[0] is None


def test_second_derivatives_and_second_backward():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda v: v**3, x, use_reentrant=False)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]
    y = checkpoint(lambda v: v**3, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0, 24.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_nothing_inside_is_kept():
    inside: list[weakref.ref[Any]] = []

    def function(x: Any) -> Any:
        middle = x.exp()
        inside.append(weakref.ref(middle))
        return middle.sin()

    x = torch.ones(3, requires_grad=True)
    for run, alive in ((function, True), (lambda v: checkpoint(function, v, use_reentrant=False), False)):
        inside.clear()
        kept = run(x)
        gc.collect()
        assert (inside[0]() is not None) is alive
        kept.sum().backward()
    assert torch.allclose(x.grad, 2 * x.exp() * x.exp().cos())


def test_autocast_and_contexts():
    seen: list[Any] = []

    def function(a: Any) -> Any:
        out = a @ a
        seen.append(out.dtype)
        return out

    a = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        y = checkpoint(function, a, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts([]))
    y.float().sum().backward()
    assert seen == [torch.bfloat16] * 2 and not torch.is_autocast_enabled("cpu")


def test_errors():
    x = torch.ones(2, requires_grad=True)
    (detached, number) = detach_variable((x * 2, 3))
    assert detached.is_leaf and detached.requires_grad and number == 3
    with pytest.raises(RuntimeError, match="Only tuple of tensors"):
        detach_variable(x)
    set_device_states(*get_device_states(x))
    with pytest.raises(NotImplementedError, match=r"devices \[0\].*set_rng_state"):
        set_device_states([0], [torch.get_rng_state()])
    sizes = iter((2, 3))
    y = checkpoint(lambda x: x.repeat(next(sizes)), torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match="must do the same every time"):
        y.sum().backward()
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda x: x, torch.ones(1), determinism_check="tea")
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        assert not checkpoint(torch.nn.Linear(2, 2), torch.ones(1, 2), use_reentrant=True).requires_grad
    with torch.no_grad():
        assert not checkpoint(lambda x: x * 2, torch.ones(2, requires_grad=True), use_reentrant=False).requires_grad


def test_compiled_functions_decide_for_themselves():
    model = network().eval()
    step = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False))
    expected = gradients(model, model)
    for _ in range(2):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients(model, step), expected, strict=True))
    assert "1 compiled segment" in str(step.explain())
