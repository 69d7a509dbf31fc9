"""Numbers that differ from call to call: settings of operators are inputs of the graph, numbers of one place become variables at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional
Function = Callable[[Any, Any], Any]


def lists_in_place(x: Any, k: Any) -> Any:
    made = [x * 1, x + 1]
    torch._foreach_sub_(made, 0.5 * k)
    torch._foreach_addcmul_(made, [x, x], [x, x], value=0.5 * k)
    torch._foreach_lerp_(made, [x, x], 0.25 * k)
    torch._foreach_clamp_max_(made, k)
    return sum(made, x)


def clipped(x: Any, k: Any) -> Any:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = x.detach() * 3
    norm = nn.utils.clip_grad_norm_([weight], 0.5 * k)
    return x * norm + weight.grad


OPERATORS: dict[str, Function] = {
    "clamp": lambda x, k: x.clamp(-0.5 * k, 0.5 * k), "clamp_min": lambda x, k: torch.clamp_min(x, 0.5 * k),
    "clip": lambda x, k: torch.clip(x, max=0.5 * k), "masked_fill": lambda x, k: x.masked_fill(x > 0, 0.5 * k),
    "fill_": lambda x, k: x * torch.zeros(3).fill_(0.5 * k), "full": lambda x, k: x * torch.full((3,), 0.5 * k),
    "full of integers": lambda x, k: x * torch.full((3,), k), "full_like": lambda x, k: x * torch.full_like(x, 0.5 * k),
    "new_full": lambda x, k: x * x.new_full((3,), 0.5 * k), "index_fill": lambda x, k: x.index_fill(0, torch.tensor([1]), 0.5 * k),
    "where": lambda x, k: torch.where(x > 0, x, 0.5 * k), "leaky_relu": lambda x, k: F.leaky_relu(x, 0.5 * k),
    "addcmul": lambda x, k: x.addcmul(x, x, value=0.5 * k), "alpha": lambda x, k: torch.sub(x, x * 2, alpha=0.5 * k),
    "addmm": lambda x, k: torch.addmm(x.view(1, 3), x.view(1, 3), torch.ones(3, 3), beta=0.5 * k, alpha=0.5 * k),
    "softplus": lambda x, k: F.softplus(x, 0.5 * k + 0.25, 0.5 * k), "elu": lambda x, k: F.elu(x, 0.5 * k),
    "celu": lambda x, k: F.celu(x, 0.5 * k + 0.25), "threshold": lambda x, k: F.threshold(x, 0.5 * k, 0.5 * k),
    "hardtanh": lambda x, k: F.hardtanh(x, -0.5 * k, 0.5 * k), "hardshrink": lambda x, k: F.hardshrink(x, 0.5 * k),
    "softshrink": lambda x, k: F.softshrink(x, 0.5 * k), "linspace": lambda x, k: x * torch.linspace(0.5 * k, 0.25 * k, 3),
    "floor division": lambda x, k: x + x // (0.5 * k + 0.25), "modulo": lambda x, k: x % (0.5 * k + 0.25),
    "reflected": lambda x, k: k / x + (k - x) + (0.5 * k) % (x.detach() + 7), "rsub": lambda x, k: torch.rsub(x, x * 2, alpha=0.5 * k),
    "integers": lambda x, k: x.long() % (k + 2) + x.long() // (k + 2) + x.long().clamp(min=k) + x,
    "in place": lambda x, k: x.clone().mul_(k).add_(0.5 * k).clamp_(max=0.25 * k),
    "half": lambda x, k: x.half().clamp(max=0.3 * k).float(),
    "addcdiv": lambda x, k: torch.addcdiv(x.clone().addcdiv_(x, torch.tensor([2.0, 4.0, 8.0]), value=-0.5 * k), x, x * 0 + 1, value=k),
    "addmv": lambda x, k: torch.addmv(x, torch.ones(3, 3), x, beta=0.5 * k, alpha=k) + torch.addr(torch.ones(3, 3), x, x, alpha=0.5 * k),
    "addbmm": lambda x, k: torch.addbmm(x.view(3, 1), x.view(1, 3, 1), torch.ones(1, 1, 1), beta=0.5 * k, alpha=k),
    "scatter": lambda x, k: x.scatter(0, torch.tensor([1]), 0.5 * k) * torch.zeros(3).scatter_(0, torch.tensor([2]), k),
    "diagonal": lambda x, k: x @ torch.eye(3).fill_diagonal_(0.5 * k),
    "lists": lambda x, k: sum(torch._foreach_add(torch._foreach_mul([x, x * 2], 0.5 * k), [x, x], alpha=0.5 * k + 1), x),
    "lists of quotients": lambda x, k: sum(torch._foreach_addcdiv(torch._foreach_div([x], 0.5 * k + 1), [x], [torch.ones(3)], value=-k), x),
    "lists in place": lists_in_place, "clipped gradients": clipped,
    # Their numbers are part of the graph: captured anew, never taken for another.
    "pow": lambda x, k: x.abs() ** (0.5 * k), "huber_loss": lambda x, k: F.huber_loss(x, x * 2, delta=0.5 * k + 0.25),
    "cross_entropy": lambda x, k: F.cross_entropy(x[None], torch.tensor([1]), label_smoothing=k / 9),
    "layer_norm": lambda x, k: F.layer_norm(x, (3,), eps=0.1 * k + 0.1),
    "normalize": lambda x, k: F.normalize(x, p=0.5 * k + 1, dim=0), "quantile": lambda x, k: torch.quantile(x, 0.05 * k),
}  # fmt: skip
FIXED = {"pow", "cross_entropy", "huber_loss", "layer_norm", "normalize", "quantile"}


def written(x: Any, k: Any) -> Any:
    out = x.clone()
    out[0] = 0.5 * k
    out[1:] = k
    return out


OPERATORS["written into"] = written


def results(function: Function, numbers: list[int]) -> list[Any]:
    found: list[Any] = []
    for k in numbers:
        x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        made = function(x, k)
        made.sum().backward()
        found += [str(made.dtype), made.tolist(), x.grad.tolist()]  # type: ignore[union-attr]
    return found


# The first two numbers are met by captures, so that shortcuts for 0, 1 and 2 would show in later ones.
@pytest.mark.parametrize("numbers", [[1, 2, 3, 4, 5], [3, 0, 5, 1], [3, 2, 4, 0], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_settings_of_operators(name: str, numbers: list[int]) -> None:
    function = OPERATORS[name]
    compiled: Any = torch.compile(function)
    assert repr(results(compiled, numbers)) == repr(results(function, numbers))
    assert name in FIXED or compiled.explain().captures <= 4


def test_numbers_of_one_place_become_variables_together() -> None:
    """A dozen layers that count their calls, and an optimizer with a count for each parameter, take a few captures, not one for each."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x + self.calls

    net = nn.Sequential(*[Layer() for _ in range(12)])
    compiled: Any = torch.compile(lambda x: net(x))
    for call in range(1, 6):
        assert compiled(torch.zeros(2)).tolist() == [12.0 * call] * 2
    assert compiled.explain().captures == 2


def test_keys_that_change_are_variables() -> None:
    held: dict[Any, Any] = {}
    row = [0] * 9

    def f(x: Any, k: int) -> Any:
        held[k] = x * 2
        held[f"k{k}"] = k
        row[k] = k
        return held[k] + sum(row) + len(held)

    compiled: Any = torch.compile(f)
    found = [compiled(torch.ones(2), k).tolist() for k in range(9)]
    assert compiled.explain().captures == 2
    assert (len(held), row) == (18, list(range(9)))
    held.clear()
    row[:] = [0] * 9
    assert found == [f(torch.ones(2), k).tolist() for k in range(9)]


def drawn_slices(x: Any) -> Any:
    data = torch.arange(40.0)
    return torch.stack([data[i : i + 3] for i in torch.randint(2, 30, (2,))])


def norms_by_a_generator(x: Any) -> Any:
    return sum(t.norm().item() ** 2 for t in (x, x * 2)) ** 0.5


def optimizer_of_one_call(x: Any) -> Any:
    weight = nn.Parameter(x.clone())
    optimizer = torch.optim.Adam([{"params": [weight]}], lr=0.1)
    (weight * x).sum().backward()
    optimizer.step()
    return len(optimizer.state), optimizer.param_groups[0]["lr"]


def gradient_by_the_argument(x: Any) -> Any:
    x.requires_grad = True
    (x * x).sum().backward()
    return x.grad


class Centered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        y = x - self.center
        self.center = self.center * 0.9 + x * 0.1
        return y


LAYERS = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
BEFORE: dict[Any, Any] = {}


def sharpened(x: Any) -> Any:
    LAYERS(x).sum().backward()
    with torch.no_grad():
        for p in LAYERS.parameters():
            BEFORE[p] = p.data.clone()
            p.add_(p.grad)
        for p in LAYERS.parameters():
            p.data = BEFORE[p]
    LAYERS.zero_grad()


@pytest.mark.parametrize(
    "function", [Centered(), sharpened, drawn_slices, norms_by_a_generator, optimizer_of_one_call, gradient_by_the_argument]
)
def test_captures_do_not_grow_with_the_calls(function: Any) -> None:
    compiled: Any = torch.compile(function)
    for k in range(12):
        compiled(torch.ones(3) * (k + 1))
    told = compiled.explain()
    assert told.captures <= 4 and not told.left and told.eager_reason is None
