"""autograd.Functions inside compiled functions: their forward and backward are part of the graph."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd.function import once_differentiable

LOG: list[float] = []


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x**3 * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g * ctx.k, None


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, strength: float) -> Any:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.neg() * ctx.strength, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(-1, 1)


class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        larger = a > b
        ctx.mark_non_differentiable(larger)
        return a * b, a + b, larger

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any, _: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b + h, g * a + h * h  # not linear, so that both gradients have to come at once


class Product(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x @ w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g @ w.t() if ctx.needs_input_grad[0] else None, x.t() @ g if ctx.needs_input_grad[1] else None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()


class Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g + 1


class Logged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        LOG.append(float(g.sum()))
        return g * 2


INSIDE = {
    "cube": lambda x, w: Cube.apply(x, 2.0) + x,
    "saved result": lambda x, w: Exponential.apply(x * 0.5) * 2,
    "view": lambda x, w: Reversed.apply(x, 0.3) * 3 + x,
    "straight through": lambda x, w: StraightThrough.apply(x * 3) * x,
    "two results": lambda x, w: sum(Two.apply(x * 1, w)[:2]),
    "one of two": lambda x, w: Two.apply(x * 1, w)[1],
    "setup_context": lambda x, w: Product.apply(x, w),
    "once": lambda x, w: Once.apply(x),
    "constant": lambda x, w: Constant.apply(x) * w,
    "nested": lambda x, w: Exponential.apply(Cube.apply(StraightThrough.apply(x), 0.5) * 0.1),
}
STEPS = {"logs": lambda x, w: Logged.apply(x), "one tensor twice": lambda x, w: Two.apply(x, x)[0]}


def gradients(function: Any) -> Any:
    return lambda x, w: torch.autograd.grad((function(x, w) ** 2).sum(), [x, w], allow_unused=True)


def penalty(function: Any) -> Any:
    def f(x: Any, w: Any) -> Any:
        found = torch.autograd.grad((function(x, w) ** 2).sum(), [x, w], allow_unused=True, create_graph=True)
        return torch.autograd.grad(sum((g * g).sum() for g in found if g is not None), [x, w], allow_unused=True)

    return f


def inputs(rows: int = 3) -> tuple[Any, Any]:
    return torch.randn(rows, 3).requires_grad_(), torch.randn(3, 3).requires_grad_()


def same(want: Any, got: Any) -> None:
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [*INSIDE, *STEPS])
@pytest.mark.parametrize("way", ["gradients outside", "gradients inside", "second gradients"])
def test_gradients_are_those_of_eager_code(name: str, way: str) -> None:
    torch.manual_seed(0)
    function = {**INSIDE, **STEPS}[name]
    if way == "second gradients" and name == "once":
        pytest.skip("eager code finds no gradient, a compiled one raises")
    plain = {"gradients outside": gradients, "gradients inside": gradients, "second gradients": penalty}[way](function)
    if way == "gradients outside":
        inner = torch.compile(function)
        taken = gradients(inner)
    else:
        inner = taken = torch.compile(plain)
    for _ in range(3):
        x, w = inputs()
        LOG.clear()
        want, logged = plain(x, w), list(LOG)
        LOG.clear()
        same(want, taken(x, w))
        assert logged == LOG
    if name in INSIDE:
        assert inner.explain().segments == 1


def test_sizes_change() -> None:
    f = torch.compile(INSIDE["nested"])
    for rows in (3, 4, 5, 6):
        x, w = inputs(rows)
        same(gradients(INSIDE["nested"])(x, w), gradients(f)(x, w))
    assert f.explain().captures == 2


def test_numbers_change() -> None:
    f = torch.compile(lambda x, k: Cube.apply(x, k))
    for k in (1.0, 2.0, 3.0):
        x = torch.ones(2, requires_grad=True)
        f(x, k).sum().backward()
        assert x.grad.tolist() == [3 * k, 3 * k]
    assert f.explain().captures == 2


def test_without_gradients_the_forward_alone_is_recorded() -> None:
    f = torch.compile(lambda x: Cube.apply(x, 2.0))
    assert f(torch.ones(2)).tolist() == [2, 2]
    with torch.no_grad():
        assert f(torch.ones(2, requires_grad=True)).requires_grad is False
    assert all(g.count("own") == 0 for g in f.explain().graphs)


def test_the_backward_of_a_whole_step_is_one_graph() -> None:
    net = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = Exponential.apply(StraightThrough.apply(net(x))).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    twin = torch.nn.Linear(3, 3)
    twin.load_state_dict(net.state_dict())
    other = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(2, 3)
        step(x)
        other.zero_grad()
        Exponential.apply(StraightThrough.apply(twin(x))).sum().backward()
        other.step()
        same(twin.parameters(), net.parameters())
    assert step.explain().segments == 1


def test_differentiating_twice_what_is_marked_once_raises() -> None:
    f = torch.compile(penalty(INSIDE["once"]))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        f(*inputs())
