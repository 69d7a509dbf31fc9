"""Nested tensors against loops over their parts: values, gradients, errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional


def _parts(*lengths: int, width: int = 4) -> list[Any]:
    random = np.random.default_rng(3)
    return [torch.tensor(random.standard_normal((n, width))) for n in lengths]


def _nested(parts: list[Any]) -> Any:
    return torch.nested.as_nested_tensor(parts, layout=torch.jagged)


def _same(found: Any, wanted: list[Any]) -> None:
    assert len(found.unbind()) == len(wanted)
    for a, b in zip(found.unbind(), wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


WEIGHT = torch.tensor(np.random.default_rng(4).standard_normal((4, 4)))
ROWS = torch.tensor(np.random.default_rng(5).standard_normal((3, 1, 4)))


@pytest.mark.parametrize(
    ("whole", "single"),
    [
        (lambda n: (n * 2 + 1).tanh(), lambda p, k: (p * 2 + 1).tanh()),
        (lambda n: n * ROWS - n, lambda p, k: p * ROWS[k] - p),
        (lambda n: F.linear(n, WEIGHT), lambda p, k: F.linear(p, WEIGHT)),
        (lambda n: n @ WEIGHT, lambda p, k: p @ WEIGHT),
        (lambda n: n.softmax(1), lambda p, k: p.softmax(0)),
        (lambda n: F.log_softmax(n, 1), lambda p, k: F.log_softmax(p, 0)),
        (lambda n: n.softmax(-1), lambda p, k: p.softmax(-1)),
        (lambda n: F.layer_norm(n, (4,)), lambda p, k: F.layer_norm(p, (4,))),
        (lambda n: torch.where(n > 0, n, 0.0), lambda p, k: torch.where(p > 0, p, 0.0)),
        (lambda n: torch.cat([n, n * 2], -1), lambda p, k: torch.cat([p, p * 2], -1)),
        (lambda n: n.chunk(2, -1)[1], lambda p, k: p.chunk(2, -1)[1]),
        (lambda n: n.sum(-1), lambda p, k: p.sum(-1)),
    ],
)
def test_functions_equal_loops(whole: Callable[[Any], Any], single: Callable[[Any, int], Any]) -> None:
    parts = [p.requires_grad_() for p in _parts(2, 5, 1)]
    found, wanted = whole(_nested(parts)), [single(p, k) for k, p in enumerate(parts)]
    _same(found, wanted)
    (found.values() ** 2).sum().backward()
    gradients = [p.grad for p in parts]
    for p in parts:
        p.grad = None
    sum((w**2).sum() for w in wanted).backward()
    for a, b in zip(gradients, parts, strict=True):
        np.testing.assert_allclose(a.numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_reductions_over_the_ragged_dimension() -> None:
    parts = [p.requires_grad_() for p in _parts(2, 5, 1)]
    nt = _nested(parts)
    for name in ("sum", "mean", "amax"):
        found = getattr(nt, name)(1)
        wanted = torch.stack([getattr(p, name)(0) for p in parts])
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
        for g, w in zip(torch.autograd.grad((found**2).sum(), parts), torch.autograd.grad((wanted**2).sum(), parts), strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-12)
    assert nt.to_padded_tensor(0.0).shape == (3, 5, 4) == nt.to_padded_tensor(0.0, (3, 5, 4)).shape
    assert nt.to_padded_tensor(-1.0)[2, 1:].unique().tolist() == [-1.0]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_within_each_tensor(causal: bool) -> None:
    parts = _parts(3, 6, 1)
    heads = _nested(parts).unflatten(-1, (2, 2)).transpose(1, 2)
    assert heads.shape[1] == 2 and repr(heads.shape[2]).startswith("j")
    found = F.scaled_dot_product_attention(heads, heads * 2, heads, is_causal=causal).transpose(1, 2).flatten(-2)
    wanted = []
    for p in parts:
        h = p.unflatten(-1, (2, 2)).transpose(0, 1)
        wanted.append(F.scaled_dot_product_attention(h, h * 2, h, is_causal=causal).transpose(0, 1).flatten(-2))
    _same(found, wanted)


def test_lengths_and_offsets() -> None:
    values = torch.arange(10.0).view(5, 2).requires_grad_()
    bounds = torch.tensor([0, 2, 5])
    a, b = (torch.nested.nested_tensor_from_jagged(values, bounds) for _ in range(2))
    assert (a + b).values().tolist() == (values * 2).tolist()  # the same lengths
    c = torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 3]))
    assert c.offsets().tolist() == [0, 2, 5] and a.size(1) is b.size(1) is not c.size(1)
    with pytest.raises(RuntimeError, match="lengths differ"):
        a + c
    assert [t.tolist() for t in pickle.loads(pickle.dumps(a.detach())).unbind()] == [t.tolist() for t in a.unbind()]
    leaf = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.values().tolist() == [2.0, 4.0, 6.0] and leaf.is_leaf


def test_layers_and_compiled_functions() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Dropout(0.0), torch.nn.Linear(8, 2))
    parts = [p.float() for p in _parts(2, 3)]
    for run in (model, torch.compile(model)):
        for a, b in zip(run(_nested(parts)).unbind(), parts, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), model(b).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda n: n.cumsum(1), NotImplementedError, r"cumsum is not implemented for nested \(jagged\)"),
        (lambda n: n.sum((1, 2)), RuntimeError, "not supported"),
        (lambda n: n.unbind(1), RuntimeError, "dim=0"),
        (lambda n: n[:, 0], NotImplementedError, "indexed by a number"),
        (lambda n: torch.ops.exp(n), RuntimeError, "sparse or nested"),
        (lambda n: torch.nested.nested_tensor([torch.ones(2)]), NotImplementedError, "layout=torch.jagged"),
        (lambda n: torch.nested.nested_tensor([], layout=torch.jagged), RuntimeError, "empty tensor list"),
        (lambda n: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 4)], layout=torch.jagged), RuntimeError, "first dimension"),
        (lambda n: torch.nested.nested_tensor_from_jagged(torch.ones(5)), RuntimeError, "offsets or lengths"),
        (lambda n: torch.nested.nested_tensor_from_jagged(torch.ones(5), torch.tensor([0, 4])), RuntimeError, "do not fit"),
        (lambda n: n.to_padded_tensor(0.0, (2, 1, 4)), RuntimeError, "does not hold"),
        (lambda n: torch.ones(2).to_padded_tensor(0.0), RuntimeError, "nested"),
    ],
)
def test_errors(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(_nested(_parts(2, 3)))


def test_parts_of_dense_tensors() -> None:
    x = torch.arange(24.0).view(3, 4, 2).requires_grad_()
    found = torch.nested.narrow(x, 1, torch.tensor([0, 1, 3]), torch.tensor([2, 3, 1]), layout=torch.jagged)
    _same(found, [x[0, :2], x[1, 1:4], x[2, 3:]])
    found.values().sum().backward()
    assert x.grad.sum().item() == 12.0
    _same(torch.nested.narrow(x, 1, 1, 2, layout=torch.jagged), list(x[:, 1:3]))
    mask = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
    _same(torch.nested.masked_select(x, mask), [x[k][mask[k]] for k in range(3)])
    with pytest.raises(RuntimeError, match="dim=1"):
        torch.nested.narrow(x, 0, 1, 2, layout=torch.jagged)
    with pytest.raises(RuntimeError, match="mask"):
        torch.nested.masked_select(x, mask[0])
