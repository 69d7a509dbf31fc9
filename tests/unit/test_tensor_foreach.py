"""Operations on lists of tensors, and the old names of tensors' types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch

RNG = np.random.default_rng()


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    return [torch.tensor(RNG.uniform(0.5, 2.0, shape).astype(np.float32)) for shape in shapes]


SHAPES = (3,), (2, 4), ()
TWO = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "maximum": torch.maximum, "minimum": torch.minimum, "pow": lambda x, y: x**y,
}  # fmt: skip
ONE = {name: getattr(torch, name) for name in ("abs", "exp", "neg", "reciprocal", "sqrt", "rsqrt", "sign")}


@pytest.mark.parametrize("name", TWO)
def test_of_two(name: str) -> None:
    x, y = tensors(*SHAPES), tensors(*SHAPES)
    function, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    for made, a, b in zip(function(x, y), x, y, strict=True):
        assert made.equal(TWO[name](a, b))
    for made, a, b in zip(function(x, [1.5, 2.5, 0.5]), x, (1.5, 2.5, 0.5), strict=True):
        assert made.equal(TWO[name](a, b if name not in ("maximum", "minimum") else torch.tensor(b)))
    expected = function(x, 1.5)
    assert in_place(x, 1.5) is None
    assert all(a.equal(b) for a, b in zip(x, expected, strict=True))


@pytest.mark.parametrize("name", ONE)
def test_of_one(name: str) -> None:
    x = tensors(*SHAPES)
    expected = [ONE[name](t) for t in x]
    assert all(a.equal(b) for a, b in zip(getattr(torch, f"_foreach_{name}")(x), expected, strict=True))
    getattr(torch, f"_foreach_{name}_")(x)
    assert all(a.equal(b) for a, b in zip(x, expected, strict=True))


def test_of_three() -> None:
    x, a, b = tensors(*SHAPES), tensors(*SHAPES), tensors(*SHAPES)
    expected = [torch.addcmul(t, u, v, value=k) for t, u, v, k in zip(x, a, b, (1.0, 2.0, 3.0), strict=True)]
    for values in ([1.0, 2.0, 3.0], torch.tensor([1.0, 2.0, 3.0])):
        assert all(m.equal(e) for m, e in zip(torch._foreach_addcmul(x, a, b, values), expected, strict=True))
    torch._foreach_addcmul_(x, a, b, [1.0, 2.0, 3.0])
    assert all(t.equal(e) for t, e in zip(x, expected, strict=True))
    expected = [torch.lerp(torch.addcdiv(t, u, v, value=0.5), u, 0.3) for t, u, v in zip(x, a, b, strict=True)]
    torch._foreach_addcdiv_(x, a, b, 0.5)
    torch._foreach_lerp_(x, a, 0.3)
    assert all(t.equal(e) for t, e in zip(x, expected, strict=True))
    torch._foreach_copy_(x, a)
    assert all(t.equal(u) for t, u in zip(x, a, strict=True))
    assert all(n.equal(u.norm()) for n, u in zip(torch._foreach_norm(a), a, strict=True))
    torch._foreach_zero_(x)
    assert not any(t.any() for t in x)


def test_lists_must_fit() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(tensors((2,), (3,)), tensors((2,)))
    with pytest.raises(RuntimeError, match="at least one"):
        torch._foreach_sqrt([])


def test_old_names_of_types() -> None:
    x = torch.LongTensor([1, 2])
    assert x.dtype is torch.int64 and x.tolist() == [1, 2] and tuple(torch.FloatTensor(2, 3).shape) == (2, 3)
    assert isinstance(x, torch.LongTensor) and not isinstance(x, torch.FloatTensor) and not isinstance([1], torch.LongTensor)
    try:
        torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.ones(1).dtype is torch.float64
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.ones(1).dtype is torch.float32
    with pytest.raises(TypeError, match="floating"):
        torch.set_default_tensor_type("torch.LongTensor")
    assert x.type(torch.FloatTensor).dtype is torch.float32 and torch.BoolTensor([0, 1]).tolist() == [False, True]
