"""Functions of the user under vmap, by a loop of calls; and what their forward and backward may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

Function = torch.autograd.Function


class Product(Function):
    """x * y, by a forward that has the context."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.name = "a product"

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        assert ctx.name == "a product"
        return (g * y).sum_to_size(x.shape), (g * x).sum_to_size(y.shape)


class Parts(Function):
    """(exp(x), the place of its maximum), the second without gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, power: int) -> Any:
        return x.exp() ** power, x.argmax(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output[0])
        ctx.power = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, unused: Any) -> Any:
        return g * ctx.saved_tensors[0] * ctx.power, None


class OwnRule(Product):
    """As Product, with its rule for vmap written out."""

    generate_vmap_rule = False
    calls: list[Any] = []

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
        OwnRule.calls.append((info.batch_size, info.randomness, in_dims))
        return x * (y if in_dims[1] is not None or y.dim() == 0 else y.unsqueeze(0)), 0


X, Y = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)


@pytest.mark.parametrize("function", [Product, OwnRule])
@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0), (1, 1)])
def test_results_and_gradients_are_those_of_a_loop(function: Any, dims: Any) -> None:
    def pick(value: Any, dim: int | None) -> Any:
        return value if dim is not None else value[0] if dims != (1, 1) else value[:, 0]

    if function is OwnRule and dims == (None, 0):
        pytest.skip("its rule takes the first operand as batched")
    x, y = (pick(v, d).clone().requires_grad_() for v, d in zip((X, Y), dims, strict=True))
    found = torch.vmap(function.apply, dims)(x, y)
    gradients = torch.autograd.grad(found.square().sum(), (x, y))
    size = found.shape[0]
    loop = torch.stack([function.apply(*(v if d is None else v.select(d, k) for v, d in zip((x, y), dims,
        strict=True))) for k in range(size)])
    wanted = torch.autograd.grad(loop.square().sum(), (x, y))
    assert torch.equal(found, loop)
    for one, other in zip(gradients, wanted, strict=True):
        assert torch.allclose(one, other)
    if function is OwnRule:
        assert OwnRule.calls.pop() == (size, "error", tuple(None if d is None else 0 for d in dims))


def test_gradients_inside_and_levels_of_batches() -> None:
    each = torch.vmap(torch.func.grad(lambda x, y: Product.apply(x, y).sum()), (0, None))(X, Y[0])
    assert torch.allclose(each, Y[0].expand(3, 4))
    twice = torch.vmap(torch.vmap(Product.apply, (0, None)), (0, 0))(X, Y[:, 0])
    assert torch.allclose(twice, X * Y[:, :1])
    hessian = torch.func.jacrev(torch.func.grad(lambda x: Product.apply(x, x).sum()))(X[0])
    assert torch.allclose(hessian, 2 * torch.eye(4, dtype=torch.float64))


def test_several_results() -> None:
    x = X.clone().requires_grad_()
    values, places = torch.vmap(lambda v: Parts.apply(v, 2))(x)
    assert torch.allclose(values, (2 * X).exp()) and torch.equal(places, X.argmax(-1)) and not places.requires_grad
    values.sum().backward()
    assert torch.allclose(x.grad, 2 * (2 * X).exp())


class Old(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def body(forward: Callable[..., Any] | None = None, backward: Callable[..., Any] | None = None) -> Any:
    members = {"forward": staticmethod(forward)} if forward else {}
    members |= {"backward": staticmethod(backward)} if backward else {}
    return type("Made", (Function,), members)


def double(ctx: Any, *x: Any) -> Any:
    return x[0] * 2


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (body(), NotImplementedError, "forward function"), (body(double), NotImplementedError, "backward|vjp"),
        (body(double, lambda ctx, g: (g, g)), RuntimeError, "incorrect number of gradients"),
        (body(double, lambda ctx, g: 3), TypeError, "expected a Tensor or None"),
        (body(double, lambda ctx, g: torch.ones(7)), RuntimeError, "invalid gradient"),
        (body(lambda ctx, x: ctx.save_for_backward(3)), TypeError, "can only save variables"),
        (body(lambda ctx, x: ctx.mark_dirty(x) or x.clone(), lambda ctx, g: g), RuntimeError, "marked as dirty"),
    ],
)  # fmt: skip
def test_what_functions_may_not_do(made: Any, error: type[Exception], message: str) -> None:
    x = torch.ones(2, requires_grad=True) * 1
    with pytest.raises(error, match=message):
        made.apply(x).sum().backward()


def test_gradients_are_fitted_and_kept_tensors_freed() -> None:
    x = torch.ones(2, requires_grad=True)
    body(double, lambda ctx, g: (g.expand(3, 2) * 2)).apply(x).sum().backward()  # summed to the shape of x
    assert x.grad.tolist() == [6, 6]
    y = x.clone()
    extra = body(double, lambda ctx, g: (g, None, None)).apply(y)  # None for what is not there
    extra.sum().backward()

    def keeping(ctx: Any, v: Any) -> Any:
        ctx.save_for_backward(v)
        assert ctx.saved_tensors[0] is v
        return v * 2

    out = body(keeping, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
    nothing = body(double, lambda ctx, g: None).apply(x)
    x.grad = None
    nothing.sum().backward()
    assert x.grad is None
    z = torch.ones(2, 2, requires_grad=True)
    torch.vmap(Old.apply)(z).sum().backward()  # a forward with ctx has a rule, too
    assert z.grad.tolist() == [[2, 2], [2, 2]]


def test_functions_of_layers_as_torch_has_them() -> None:
    x = torch.randn(4, 6, dtype=torch.float64)
    out, mean, scale = torch.native_layer_norm(x, (6,), None, None, 1e-5)
    assert torch.allclose(mean[:, 0], x.mean(1)) and torch.allclose(scale[:, 0], (x.var(1, correction=0) + 1e-5).rsqrt())
    assert torch.allclose(out, (x - mean) * scale)
    image = x.view(2, 6, 2)
    out, mean, scale = torch.native_group_norm(image, None, None, 2, 6, 2, 3, 1e-5)
    groups = image.reshape(2, 3, 4)
    assert torch.allclose(mean, groups.mean(-1)) and torch.allclose(out.view(2, 3, 4), (groups - mean[..., None]) * scale[..., None])
    with pytest.raises(RuntimeError, match="elements"):
        torch.native_group_norm(image, None, None, 2, 6, 3, 3, 1e-5)
    out, mean, scale = torch.native_batch_norm(image, None, None, None, None, True, 0.1, 1e-5)
    assert torch.allclose(mean, image.mean((0, 2))) and torch.allclose(out, (image - mean[:, None]) * scale[:, None])
    running = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    out, mean, scale = torch.native_batch_norm(image, None, None, *running, False, 0.1, 0.0)
    assert torch.allclose(out, image) and mean.numel() == scale.numel() == 0
    table = torch.randn(5, 3)
    assert torch.equal(torch.embedding(table, torch.tensor([[1, 4]])), table[[1, 4]][None])
    with pytest.raises(NotImplementedError, match="sparse"):
        torch.embedding(table, torch.tensor([1]), sparse=True)
    grid = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], [1, 1, 3, 3], False)
    image = torch.randn(1, 1, 3, 3)
    assert torch.allclose(torch.grid_sampler(image, grid, 0, 0, False), image, atol=1e-6)
    assert torch.allclose(torch.grid_sampler_2d(image, grid, 1, 1, False), image)
    y = torch.tensor([-1.0, 2.0])
    assert torch.threshold_(y, 0.0, 5.0) is y and y.tolist() == [5, 2] and torch.dropout_(y, 1.0, True).tolist() == [0, 0]
