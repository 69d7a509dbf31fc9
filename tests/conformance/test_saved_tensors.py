"""Hooks of what is kept for backward, hooks of several tensors and edges of the tape, held against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as reference

import flambeau as torch


def _run(lib: Any, hooks: Any) -> list[Any]:
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

    x = lib.tensor(np.linspace(0.1, 1, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)
    w = lib.tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2), requires_grad=True)
    with hooks(lib):
        y = lib.nn.functional.layer_norm((x @ w).exp(), (2,)).tanh()
        z = Cube.apply(lib.softmax(y, -1)).sum() + y.sigmoid().mean()
    z.backward()
    return [z, x.grad, w.grad]


@pytest.mark.parametrize(
    "hooks",
    [
        lambda lib: lib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), lambda a: lib.tensor(a)),
        lambda lib: lib.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()),
        lambda lib: lib.autograd.graph.save_on_cpu(),
    ],
    ids=["arrays", "types", "cpu"],
)
def test_gradients_through_packed_tensors(hooks: Any) -> None:
    for ours, theirs in zip(_run(torch, hooks), _run(reference, hooks), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=1e-6)


def test_each_saved_tensor_is_packed_and_unpacked() -> None:
    def calls(lib: Any) -> list[Any]:
        seen: list[Any] = []
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        with lib.autograd.graph.saved_tensors_hooks(lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t):
            y = (x.exp() * 2).sin().sum()
        y.backward()
        return seen

    assert calls(torch) == calls(reference)


def test_changes_in_place_and_second_derivatives() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        middle = x * 2
        y = (middle * middle).sum()
        with torch.no_grad():
            middle.zero_()
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [8.0, 16.0]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x * 1).exp().sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, x.detach().exp())
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="unpack_hook must give a tensor"):
        y.backward()
    with (
        torch.autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"),
        torch.autograd.graph.save_on_cpu(),
    ):  # fmt: skip
        pass
    with torch.autograd.graph.save_on_cpu(), pytest.raises(NotImplementedError, match="second derivatives by leaves"):
        torch.autograd.grad((x * x).sum(), x, create_graph=True)


def test_hooks_of_several_tensors_and_edges() -> None:
    def calls(lib: Any) -> list[Any]:
        a, b = (lib.tensor(v, requires_grad=True) for v in (2.0, 3.0))
        seen: list[Any] = []
        handle = lib.autograd.graph.register_multi_grad_hook([a, b], lambda gs: seen.append([g.item() for g in gs]))
        lib.autograd.graph.register_multi_grad_hook([b], lambda g: seen.append(g.item()), mode="any")
        for _ in range(2):
            (a * b * b).backward()
        handle.remove()
        (a * b).backward()
        edges = [lib.autograd.graph.get_gradient_edge(t) for t in (a, a * b)]
        return [sorted(map(str, seen)), [e.output_nr for e in edges], edges[0].node.variable is a]

    assert calls(torch) == calls(reference)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))
