"""Sizes that change from call to call: two captures serve them all, with the values, strides and errors of eager calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.core.events import counters

nn, F = torch.nn, torch.nn.functional
LENGTHS = [7, 12, *random.Random(0).sample([n for n in range(2, 60) if n not in (7, 12)], 48)]


def alike(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted), (type(found), type(wanted))
    if isinstance(wanted, torch.Tensor):
        assert found.shape == wanted.shape and found.dtype is wanted.dtype
        assert found.stride() == wanted.stride() and found.storage_offset() == wanted.storage_offset()
        assert found.requires_grad == wanted.requires_grad and found.is_leaf == wanted.is_leaf
        assert all(type(n) is int for n in found.shape)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            alike(f, w)
    elif isinstance(wanted, dict):
        alike(list(found.items()), list(wanted.items()))
    else:
        assert found == wanted


def serve(function: Callable[..., Any], calls: list[tuple[Any, ...]], captures: int = 2, **options: Any) -> Any:
    """Compare all calls; returns the compiled function after checking what was compiled for them."""
    compiled = torch.compile(function, **options)
    for args in calls:
        alike(compiled(*args), function(*args))
    assert compiled.eager_reason is None and compiled.tree.left == []
    assert compiled.tree.captures <= captures, compiled.history
    return compiled


def no_kernels(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], captures: int = 2, **options: Any) -> Any:
    """`serve` for all lengths, and that nothing is compiled after the second."""
    compiled = serve(function, [make(n) for n in LENGTHS[:captures]], captures, **options)
    inputs = [make(n) for n in LENGTHS[captures:]]
    before = counters["kernel_compiles"]
    found = [compiled(*args) for args in inputs]
    assert counters["kernel_compiles"] == before
    for args, result in zip(inputs, found, strict=True):
        alike(result, function(*args))
    assert compiled.tree.captures <= captures, compiled.history
    return compiled


def test_pointwise() -> None:
    compiled = no_kernels(lambda x: (x * 2 + 1).relu(), lambda n: (torch.randn(n, 8),))
    assert compiled.tree.captures == 2
    no_kernels(lambda x, y: (x + y).sin() * y, lambda n: (torch.randn(n, 8), torch.randn(n, 8)))
    no_kernels(lambda x, y: x * y, lambda n: (torch.randn(3, n), torch.randn(n)))
    no_kernels(lambda x, y: x[:, None] * y, lambda n: (torch.randn(n), torch.randn(2 * n + 1)))


def test_reductions() -> None:
    no_kernels(lambda x: (x.sum(0), x.mean(1), x.amax(), x.var(dim=0), x.argmax(1)), lambda n: (torch.randn(n, 8),))
    no_kernels(lambda x: (x.softmax(1), x.logsumexp(0), x.cumsum(1)), lambda n: (torch.randn(3, n),))


def test_sizes_as_numbers() -> None:
    def f(x: Any) -> Any:
        b, t = x.shape
        numbers = len(x), x.size(), t // 2 + 1, b / t, f"{b}x{t} {x.shape}", [b, (t, 3)], {"t": t}
        return x * b, x / t, x + t**0.5, x.sum() / x.numel(), numbers

    no_kernels(f, lambda n: (torch.randn(n, 6),))


def test_reshapes() -> None:
    def f(x: Any) -> Any:
        b, t, c = x.shape
        y = x.view(b * t, c).transpose(0, 1).reshape(2, -1)
        z = x.reshape(b, t * 2, c // 2).permute(1, 0, 2).contiguous().view(-1)
        return y, z, x.flatten(1), x.unsqueeze(0).expand(3, b, t, c), torch.zeros(t, b), x.new_ones(x.shape[1:]), torch.arange(t) + b

    no_kernels(f, lambda n: (torch.randn(2, n, 4),))


def test_parts() -> None:
    def f(x: Any) -> Any:
        t = x.shape[1]
        return x[:, -1], x[:, 1:], x[:, : t // 2] + 1, x[:, t - 1] * 2, x.narrow(1, 0, t - 1), torch.cat([x, x[:, :1]], 1), x[:, ::2]

    no_kernels(f, lambda n: (torch.randn(3, n + 2),))  # of 3 and less, halves are 1


def test_views_of_views_that_begin_at_places_that_depend_on_sizes() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        first, last = x[:5], x[n - 5 :]
        y = (x * 2)[n - 5 :].detach()
        z = x + 1
        z[n - 5 :].mul_(3)
        z[:5] += 1
        return first * 2 + last, last, y, z

    calls = [(torch.randn(n, 3),) for n in (9, 5, 6, 20, 5, 11)]
    serve(f, calls, 3)


def test_writes_through_views() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        y = x.clone()
        y[n // 2] = 1
        y[:, n // 2 :] *= 2
        y.t_()
        return y, y[-1]

    no_kernels(f, lambda n: (torch.randn(n, n + 3),))


def test_branches() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 10 else x + 1

    compiled = serve(f, [(torch.randn(n, 3),) for n in LENGTHS], 3)
    assert compiled.tree.captures in (2, 3)


def test_a_fixed_size_is_checked() -> None:
    def f(x: Any) -> Any:
        total = x[0] * 0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    compiled = torch.compile(f)
    inputs = [torch.randn(n, 3) for n in (4, 6, 4, 5, 6, 4)]
    for x in inputs:
        alike(compiled(x), f(x))
    assert compiled.tree.captures == 3


def test_predicates_of_operators_are_checked() -> None:
    def f(x: Any) -> Any:
        return x.view(-1, 3) * 2  # divisible by 3, or an error

    compiled = torch.compile(f)
    for n in (3, 6, 12, 9, 7, 15):
        x = torch.randn(n)
        if n == 7:
            for call in (compiled, f):
                with pytest.raises(RuntimeError, match="7"):
                    call(x)
        else:
            alike(compiled(x), f(x))


def test_broadcasting_is_checked() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    compiled = torch.compile(f)
    shapes = [((4, 3), (4, 3)), ((5, 3), (5, 3)), ((6, 3), (1, 3)), ((1, 3), (7, 3)), ((8, 3), (8, 3)), ((1, 3), (1, 3)), ((6, 3), (6, 1))]
    for a, b in shapes:
        x, y = torch.randn(a), torch.randn(b)
        alike(compiled(x, y), f(x, y))
    for a, b in [((4, 3), (5, 3)), ((6, 3), (9, 3))]:
        with pytest.raises(RuntimeError, match=rf"\({a[0]}\).*\({b[0]}\)"):
            compiled(torch.randn(a), torch.randn(b))
    alike(compiled(torch.ones(9, 3), torch.ones(9, 3)), torch.full((9, 3), 2.0))


def test_equal_sizes_that_come_apart() -> None:
    compiled = torch.compile(lambda x, y: (x.sum(1), y * 2))
    for a, b in ((3, 3), (5, 5), (6, 6), (6, 7), (7, 6), (8, 9), (9, 9)):
        x, y = torch.randn(a, 2), torch.randn(b, 2)
        alike(compiled(x, y), (x.sum(1), y * 2))
    assert compiled.tree.captures <= 3


def test_zero_and_one() -> None:
    compiled = torch.compile(lambda x: (x * 2, x.sum(0), x.flatten()))
    for n in (4, 1, 0, 6, 1, 0, 9):
        x = torch.randn(n, 3)
        alike(compiled(x), (x * 2, x.sum(0), x.flatten()))
    assert compiled.tree.captures <= 4


def test_multilayer_perceptron() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.0), nn.Linear(16, 4))
    no_kernels(lambda x: model(x).softmax(-1), lambda n: (torch.randn(n, 8),))
    compiled, plain = torch.compile(model), model
    for n in LENGTHS[:6]:
        x = torch.randn(n, 8)
        alike(compiled(x), plain(x))


def attention(x: Any) -> Any:
    b, t, c = x.shape
    q = x.view(b, t, 2, c // 2).transpose(1, 2)
    scores = (q @ q.transpose(-2, -1)) / (c // 2) ** 0.5
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return (scores @ q).transpose(1, 2).reshape(b, t, c)


def test_attention() -> None:
    no_kernels(attention, lambda n: (torch.randn(3, n + 1, 8),))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in self.qkv(self.first(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.feed(self.second(x))


class Transformer(nn.Module):
    def __init__(self, words: int = 17, width: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.block, self.norm, self.head = Block(width, 2), nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, text: Any, targets: Any) -> Any:
        x = self.words(text) + self.places(torch.arange(0, text.size(1), device=text.device))
        logits = self.head(self.norm(self.block(x)))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def training(seed: int = 0) -> tuple[Any, Callable[..., Any]]:
    torch.manual_seed(seed)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(text: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        loss = model(text, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return model, step


@pytest.mark.parametrize("changing", ["length", "batch"])
def test_training_steps(changing: str) -> None:
    (plain, eager), (model, step) = training(), training()
    compiled = torch.compile(step)
    for i, n in enumerate(LENGTHS):
        shape = (5, n) if changing == "length" else (n, 6)
        text, targets = torch.randint(0, 17, shape), torch.randint(0, 17, shape)
        before = counters["kernel_compiles"]
        found = compiled(text, targets)
        assert i < 2 or counters["kernel_compiles"] == before, i
        torch.testing.assert_close(found, eager(text, targets), rtol=1e-3, atol=1e-4)
    assert compiled.tree.captures == 2 and compiled.tree.left == []
    for name, p in plain.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), p, rtol=1e-2, atol=1e-2)


def test_gradients_of_arguments() -> None:
    weight = nn.Parameter(torch.randn(4, 4))
    compiled = torch.compile(lambda x: (x @ weight).tanh().sum(0))
    for n in LENGTHS[:12]:
        x = torch.randn(n, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        weight.grad = None
        compiled(x).square().sum().backward()
        found, weight.grad = weight.grad, None
        (y @ weight).tanh().sum(0).square().sum().backward()
        alike(x.grad, y.grad)
        alike(found, weight.grad)
    assert compiled.tree.captures == 2


def transposed(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 4).t(),)


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (lambda x: x.relu() * 2, transposed),
        (lambda x: (x.contiguous() + 1, x[1:] - x[:-1]), transposed),
        (lambda x: (x.t() @ torch.ones(4, 2), x.reshape(-1)), transposed),
        (lambda x: x.mul(3).sum(0), lambda n: (torch.randn(2, n, 5).permute(1, 2, 0),)),
        (lambda x: (x * 2 + 1).tanh(), lambda n: (torch.randn(2, 3, n, 6).contiguous(memory_format=torch.channels_last),)),
        (lambda x: x + 1, lambda n: (torch.randn(n, 1).t().clone(),)),
    ],
)
def test_tensors_that_are_dense_in_another_order(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> None:
    no_kernels(function, make)


def gradients_through_views(function: Callable[..., Any], view: Callable[[Any], Any], n: int) -> Any:
    leaf = torch.linspace(-1, 1, n * 12).reshape(n, 4, 3).requires_grad_()
    hidden = leaf * 1
    shown = view(hidden)
    found = function(shown)
    (found.sum() * 2 + hidden.square().sum() + shown.pow(3).sum()).backward()
    return found.detach(), hidden.detach(), leaf.grad, found.stride()


@pytest.mark.parametrize("view", [lambda h: h.transpose(0, 1), lambda h: h.unsqueeze(1), lambda h: h[1:]])
@pytest.mark.parametrize(
    ("function", "followed"),
    [
        (lambda v: v.relu() * 2, True),
        (lambda v: v[1:] + 0, True),
        (lambda v: v.transpose(0, 1), True),
        (lambda v: v.mul_(2), False),
        (lambda v: v[0].mul_(2) + 1, False),
        (lambda v: v.add_(1).sum(0), False),
    ],
)
def test_views_that_take_part_in_autograd(function: Callable[..., Any], followed: bool, view: Callable[[Any], Any]) -> None:
    compiled = torch.compile(function)
    for n in (4, 4, 6, 6, 5):
        alike(gradients_through_views(compiled, view, n), gradients_through_views(function, view, n))
    assert followed == (compiled.tree.left == [])
    part = view(torch.ones(4, 4, 3)).shape[0] == 3  # a view of a part is compiled for its sizes
    assert not followed or compiled.tree.captures == (3 if part else 2)


def test_values_are_needed_in_between() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        if y.sum().item() > 0:
            y = y + x.shape[0]
        z = y.flatten() - y.numel()
        return z, z.shape[0] + 1

    compiled = torch.compile(f)
    for n in LENGTHS:
        for sign in (1, -1):
            x = torch.rand(n, 3) * sign
            alike(compiled(x), f(x))
    assert compiled.tree.captures <= 5 and compiled.tree.left == []


def test_numbers_as_sizes() -> None:
    def f(x: Any, n: int) -> Any:
        return x[:n] * 2, torch.zeros(n, 2) + n, x.sum() * n

    x = torch.randn(64, 3)
    serve(f, [(x, n) for n in LENGTHS], 2)


def test_dynamic_from_the_first_call() -> None:
    compiled = no_kernels(lambda x: (x * 2).sum(1), lambda n: (torch.randn(n, n + 2),), 1, dynamic=True)
    assert compiled.tree.captures == 1


def test_never_dynamic() -> None:
    compiled = torch.compile(lambda x: x * 2, dynamic=False)
    for n in (3, 4, 5, 3):
        x = torch.randn(n, 2)
        alike(compiled(x), x * 2)
    assert compiled.tree.captures == 3


def test_marks() -> None:
    compiled = torch.compile(lambda x: x * x.shape[0])
    for i, n in enumerate((3, 4, 5, 1)):
        x = torch.randn(n, 2)
        if i == 0:
            torch._dynamo.mark_dynamic(x, 0)
        alike(compiled(x), x * n)
    assert compiled.tree.captures == 2  # one for 1
    compiled = torch.compile(lambda x: x * 2)
    for n in (3, 4, 5):
        x = torch.randn(n, 2)
        torch._dynamo.mark_static(x, 0)
        alike(compiled(x), x * 2)
    assert compiled.tree.captures == 3
    with pytest.raises(IndexError, match="dimension 5"):
        torch._dynamo.maybe_mark_dynamic(torch.ones(2), 5)


def test_too_many_fixed_sizes_run_eagerly_and_right() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        mask = torch.ones(len("a" * 100 if x.shape[0] < 0 else ("a" * 100)[: x.shape[0]]), 3)
        return y * mask + x.shape[0]

    compiled = torch.compile(f)
    for n in [*LENGTHS, *LENGTHS[:9]]:
        x = torch.randn(n, 3)
        alike(compiled(x), f(x))
    assert compiled.tree.left


def test_arguments_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        y.mul_(2)
        return x + y

    compiled = torch.compile(f)
    for first, second in (((0, 3), (3, 6)), ((0, 3), (0, 3)), ((0, 4), (4, 8)), ((0, 4), None), ((0, 5), (2, 7))):
        one, two = torch.arange(10.0), torch.arange(10.0)
        parts = [(b[slice(*first)], torch.ones(4) if second is None else b[slice(*second)]) for b in (one, two)]
        alike(compiled(*parts[0]), f(*parts[1]))
        alike(one, two)


def test_objects_outside_hold_numbers() -> None:
    class Holder:
        pass

    holder, seen = Holder(), []

    def f(x: Any) -> Any:
        holder.size = x.shape[0]
        holder.shape = (x.shape[0], [x.shape[0] + 1])
        seen.append(x.shape)
        return x * holder.size

    compiled = torch.compile(f)
    for n in LENGTHS[:10]:
        x = torch.randn(n, 2)
        alike(compiled(x), x * n)
        assert (holder.size, holder.shape, seen[-1]) == (n, (n, [n + 1]), (n, 2))
        assert type(holder.size) is int and type(holder.shape[1][0]) is int and type(seen[-1][0]) is int
    assert compiled.tree.captures <= 2


def test_ghosts_go_on_with_what_a_replay_computed() -> None:
    def f(x: Any, flag: float) -> Any:
        kept = {"y": x * 2}
        total = kept["y"].sum().item()
        if total > flag:
            kept["z"] = kept["y"] + x.shape[0]
            return kept["z"].flatten().cumsum(0), kept["y"][1:] * total
        return kept["y"].flatten()[:5] - 1, kept["y"]

    compiled = torch.compile(f)
    for n, flag in ((5, -99.0), (6, -99.0), (7, 99.0), (6, 99.0), (9, -99.0), (5, 99.0), (12, -98.0), (13, 98.0), (14, -97.0)):
        x = torch.randn(n, 3)
        alike(compiled(x, flag), f(x, flag))


def test_operators_with_a_static_size_of_the_same_value() -> None:
    """Nodes are made once for each name of a symbol: what making them decided must hold in every capture."""

    def f(x: Any, bias: Any) -> Any:
        return F.conv_transpose1d(x, x, bias, stride=3, groups=2)

    compiled = torch.compile(f, dynamic=True)
    for n, fits in ((4, True), (5, False), (12, False), (4, True)):
        x, bias = torch.randn(2, 2, n), torch.randn(n)
        if fits:
            alike(compiled(x, bias), f(x, bias))
        else:
            for call in (f, compiled):
                with pytest.raises(TypeError, match="cannot view"):
                    call(x, bias)
