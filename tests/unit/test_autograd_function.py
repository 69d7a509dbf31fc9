"""Functions with derivatives of their own."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd.function import once_differentiable


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, other: Any) -> Any:
        ctx.save_for_backward(x, other)
        ctx.factor = factor
        return x * factor + other * other

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, other = ctx.saved_tensors
        assert x.requires_grad
        return grad * ctx.factor, None, 2 * other * grad if ctx.needs_input_grad[2] else None


def test_gradients_and_numbers() -> None:
    x, other = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    result = Scale.apply(x, 3.0, other)
    assert result.grad_fn.name() == "ScaleBackward" and result.requires_grad
    result.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    np.testing.assert_allclose(other.grad.numpy(), 2 * other.detach().numpy())
    assert not Scale.apply(x.detach(), 2.0, other.detach()).requires_grad
    with torch.no_grad():
        assert not Scale.apply(x, 2.0, other).requires_grad
    assert Scale.apply(x, 2.0, other.detach()).grad_fn.needs_input_grad == (True, False, False)


def test_double_backward_goes_through_backward() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = torch.tensor([2.0], requires_grad=True)
    (first,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.item() == 12 and second.item() == 12
    assert torch.autograd.gradcheck(Cube.apply, (torch.rand(3, dtype=torch.float64, requires_grad=True),))


def test_setup_context_and_saved_results() -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (result,) = ctx.saved_tensors
            return result * grad

    x = torch.rand(3, requires_grad=True)
    y = Exp.apply(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(gradient.detach().numpy(), y.detach().numpy())
    (second,) = torch.autograd.grad(gradient.sum(), x)
    np.testing.assert_allclose(second.numpy(), y.detach().numpy())


def test_several_results_materialize_zeros_or_none() -> None:
    seen: list[Any] = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            index = torch.tensor([1, 2])
            ctx.mark_non_differentiable(index)
            return x * 2, x * 3, index

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            seen.append(b)
            return a * 2, None

    for materialize in (True, False):
        x = torch.rand(2, requires_grad=True)
        first, second, index = Two.apply(x, materialize)
        assert second.requires_grad and not index.requires_grad
        first.sum().backward()
        assert x.grad.tolist() == [2, 2]
    assert seen[0].tolist() == [0, 0] and seen[1] is None


def test_changes_in_place_are_marked() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    y = x * 1
    z = Double.apply(y)
    assert z is y and y.tolist() == [2, 2]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        Double.apply(x)


def test_returned_inputs_are_new_tensors() -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 5

    x = torch.ones(2, requires_grad=True)
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [5, 5] and x.is_leaf


def test_once_differentiable() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * grad

    x = torch.tensor([3.0], requires_grad=True)
    weight = torch.ones(1, requires_grad=True)
    (first,) = torch.autograd.grad(Once.apply(x), x, weight, create_graph=True)
    assert first.item() == 6 and first.requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()


def test_gradients_are_checked() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x.sum()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="expected 2, got 1"):
        Wrong.apply(x, x).backward()

    class Shape(Wrong):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.ones(3), None

    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[3\]"):
        Shape.apply(x, x).backward()
    with pytest.raises(RuntimeError, match="apply"):
        Wrong()

    class Missing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(NotImplementedError, match="backward"):
        Missing.apply(x).sum().backward()


def test_saved_tensors_are_freed_and_guarded() -> None:
    x = torch.rand(3, requires_grad=True)
    result = Scale.apply(x, 2.0, x * 1)
    result.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()
    y = x * 1
    result = Scale.apply(x, 2.0, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_graphs_die_with_their_results() -> None:
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    gc.disable()
    try:
        y = Keep.apply(torch.ones(2, requires_grad=True))
        entry = weakref.ref(y.grad_fn)
        del y
        assert entry() is None
    finally:
        gc.enable()
