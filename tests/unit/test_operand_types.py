"""Operands and elements that operators refuse or treat specially, as torch does: bools, large integers, views outside of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

bools, ones, whole = torch.tensor([True, False]), torch.ones(2), torch.tensor([3, 4])


@pytest.mark.parametrize(
    "call",
    [
        lambda: bools - bools, lambda: 1 - bools, lambda: bools - 1, lambda: whole - bools, lambda: ones - True,
        lambda: ones - torch.tensor(True),
        lambda: ones.clone().sub_(bools), lambda: torch.rsub(bools, 1), lambda: torch.sub(bools, 1), lambda: bools.subtract(1),
    ],
)  # fmt: skip
def test_bools_are_not_subtracted(call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        call()


def test_powers_of_bools() -> None:
    for found, wanted in ((bools**2, torch.tensor([1, 0])), (bools.pow(3), torch.tensor([1, 0])), (bools**2.0, torch.tensor([1.0, 0.0]))):
        assert found.dtype is wanted.dtype and torch.equal(found, wanted)


@pytest.mark.parametrize("name", ["ceil", "floor", "trunc", "round", "fix"])
def test_bools_are_not_rounded(name: str) -> None:
    with pytest.raises(NotImplementedError, match="bool"):
        getattr(torch, name)(bools)
    assert torch.equal(getattr(torch, name)(whole), whole)


def test_integers_of_more_than_63_bits() -> None:
    big = 2**63
    assert (ones * big).tolist() == [2.0**63] * 2 and ones.clone().fill_(big).tolist() == [2.0**63] * 2
    assert (ones * -big).tolist() == [-(2.0**63)] * 2 and torch.full((1,), big, dtype=torch.float32).item() == 2.0**63
    assert (torch.tensor([1], dtype=torch.uint64) + big).item() == big + 1
    for call in (lambda: ones * 2**64, lambda: ones + 2**70, lambda: whole < -(2**63) - 1, lambda: torch.mul(ones, 2**70)):
        with pytest.raises(OverflowError, match="too big to convert"):
            call()


def test_conditions_of_bytes() -> None:
    assert torch.where(torch.tensor([2, 0], dtype=torch.uint8), 1, 2).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="bool tensor"):
        torch.where(whole, 1, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ones.float_power_(2), RuntimeError, "requires float64"), (lambda: (ones * 1j).abs_(), RuntimeError,
        "not supported for complex"),
        (lambda: ones @ 2, TypeError, "unsupported operand"), (lambda: 2 @ ones, TypeError, "unsupported operand"),
        (lambda: ~ones, TypeError, "Boolean-type"), (lambda: torch.bitwise_not(ones), NotImplementedError, "float32"),
        (lambda: int(ones), ValueError, "only one element"), (lambda: float(torch.ones(0)), ValueError, "only one element"),
        (lambda: complex(ones), ValueError, "only one element"), (lambda: ones.item(), RuntimeError, "2 elements"),
        (lambda: torch.equal(ones, 1), TypeError, "must be Tensor"), (lambda: torch.frexp(whole), RuntimeError, "floating-point"),
        (lambda: torch.isposinf(ones * 1j), RuntimeError, "complex"), (lambda: torch.isneginf(ones * 1j), RuntimeError, "complex"),
        (lambda: torch.isclose(ones, ones.double()), RuntimeError, "same dtype"), (lambda: torch.allclose(ones, whole), RuntimeError,
        "same dtype"),
        (lambda: whole.clone().igamma_(ones), RuntimeError, "can't be cast"), (lambda: whole.clone().igammac_(ones), RuntimeError,
        "can't be cast"),
        (lambda: torch.ones(1).igamma_(ones), RuntimeError, "doesn't match the broadcast shape"),
        (lambda: torch.ones(2, requires_grad=True).apply_(abs), RuntimeError, "apply_"),
        (lambda: torch.ones(2, requires_grad=True).map_(ones, max), RuntimeError, "map_"),
        (lambda: ones.as_strided((-2, 2), (1, 1)), RuntimeError, "0 or more"), (lambda: ones.as_strided((2,), (1,), -1), RuntimeError,
        "0 or more"),
        (lambda: ones.as_strided((2,), (-1,)), RuntimeError, "negative strides"), (lambda: ones.as_strided((3,), (1,)), RuntimeError,
        "out of bounds"),
        (lambda: ones[1:].as_strided((2,), (1,)), RuntimeError, "out of bounds"), (lambda: ones.as_strided((2,), ()), RuntimeError,
        "mismatch"),
        (lambda: torch.empty(0).set_(ones.untyped_storage(), 1, (2,)), NotImplementedError, "does not grow"),
        (lambda: torch.empty(0).set_(ones.untyped_storage(), -1, (2,)), RuntimeError, "0 or more"),
        (lambda: torch.empty(0).set_(ones.untyped_storage(), 0, (2,), (-1,)), RuntimeError, "0 or more"),
        (lambda: torch.empty(0).set_(ones.untyped_storage(), 0, (2,), ()), RuntimeError, "0 or more"),
        (lambda: torch.empty(0).set_(whole), RuntimeError, "could not set"), (lambda: ones.clone().resize_(-1), RuntimeError, "0 or more"),
        (lambda: torch.ones(2, requires_grad=True).resize_(1), RuntimeError, "require grad"),
        (lambda: torch.arange(9, dtype=torch.uint8)[1:9].view(torch.float32), RuntimeError, "storage_offset"),
        (lambda: torch.arange(6, dtype=torch.uint8).view(torch.float32), RuntimeError, "viewed as"),
        (lambda: ones.clone().fill_(ones), RuntimeError, "0-dimension"), (lambda: ones.clone().fill_(1j), RuntimeError, "complex"),
        (lambda: [1] in ones, RuntimeError, "__contains__"), (lambda: ones.type("foo"), ValueError, "invalid type"),
        (lambda: ones.pin_memory(), RuntimeError, "accelerator"), (lambda: ones.sum_to_size(3), RuntimeError, "not expandable"),
        (lambda: torch.zeros(3).fill_diagonal_(1), RuntimeError, "larger than 1"),
        (lambda: torch.zeros(2, 2, 3).fill_diagonal_(1), RuntimeError, "equal length"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (7, 2), (9, 3), (3, 3), (3, 3, 3), (2, 2, 2, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(shape: tuple[int, ...], wrap: bool) -> None:
    wanted = np.zeros(shape)
    np.fill_diagonal(wanted, 5, wrap) if wanted.size else None
    x = torch.zeros(shape)
    assert x.fill_diagonal_(5, wrap) is x and x.tolist() == wanted.tolist()
    if len(shape) == 2:  # the same through a transpose
        turned = torch.zeros(shape[::-1]).t()
        turned.fill_diagonal_(5, wrap)
        assert turned.tolist() == wanted.tolist()


def test_memory_shown_in_other_ways() -> None:
    x = torch.arange(6.0)
    assert x[2:].as_strided((2,), (1,)).tolist() == [2, 3] and x[2:].as_strided((2,), (1,), 0).tolist() == [0, 1]
    assert x.clone().as_strided_((2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]] and x.as_strided((0, 2), (100, 1), 2).shape == (0, 2)
    shown = torch.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    shown[0, 0] = 9
    assert x.tolist() == [0, 9, 2, 3, 4, 5] and torch.empty(0).set_(x).data_ptr() == x.data_ptr() and torch.ones(2).set_().numel() == 0
    assert torch.zeros(0, 3, dtype=torch.uint8).numel() == 0 and torch.zeros(0, 4, dtype=torch.int16).view(torch.uint8).shape == (0, 8)
    assert torch.arange(4, dtype=torch.int16).view(2, 2).view(torch.int32).tolist() == [[65536], [3 * 65536 + 2]]
    assert x.clone().resize_(2, 3).shape == (2, 3) and x.clone().resize_(2).tolist() == [0, 9]
    assert x.clone().resize_as_(torch.ones(3, 2)).shape == (3, 2)
    with pytest.warns(FutureWarning, match="deprecated"):
        assert x.resize(2, 3).tolist() == [[0, 9, 2], [3, 4, 5]] and x.resize_as(torch.ones(3, 2)).shape == (3, 2)
    y = torch.ones(2, 3)
    assert y.sum_to_size(3).tolist() == [2, 2, 2] and y.sum_to_size(2, 1).tolist() == [[3], [3]] and y.sum_to_size(()).item() == 6
    assert y.sum_to_size(2, 3) is y and torch.nn.functional.normalize(y, out=torch.empty(0)).shape == (2, 3)
    assert torch.arange(6).view(2, 3)[..., 1, ...].tolist() == [1, 4] and torch.combinations(whole, 0).shape == (0,)


@pytest.mark.parametrize("name", ["atan2", "fmax", "fmin", "heaviside", "hypot", "ldexp", "logaddexp", "logaddexp2", "maximum",
"minimum", "nextafter"])
def test_operands_that_must_be_tensors(name: str) -> None:
    x = torch.ones(2)
    for form in (getattr(torch, name), getattr(torch.Tensor, name), getattr(torch.Tensor, name + "_", None)):
        if form is not None:
            with pytest.raises(TypeError, match="must be Tensor, not float"):
                form(x, 1.0)


def test_conversions() -> None:
    x = torch.tensor([1.5, -2.0])
    for name, kind in (
        ("byte", torch.uint8), ("char", torch.int8), ("short", torch.int16), ("int", torch.int32), ("long", torch.int64),
        ("half", torch.float16),
        ("bfloat16", torch.bfloat16), ("float", torch.float32), ("double", torch.float64), ("cfloat", torch.complex64),
        ("cdouble", torch.complex128), ("bool", torch.bool),
    ):  # fmt: skip
        made = getattr(x, name)()
        assert made.dtype is kind and torch.equal(made, x.to(kind)) and torch.equal(made, x.type(kind))
    assert x.type() == "torch.FloatTensor" and x.type("torch.LongTensor").tolist() == [1, -2] and x.type_as(whole).dtype is torch.int64
    assert x.to(whole).dtype is torch.int64 and x.to("cpu", torch.int8).dtype is torch.int8 and x.to(x) is x
    assert x.to(torch.float32, copy=True) is not x
    assert 1.5 in x and torch.tensor(3.0) not in x and complex(torch.tensor([1j])) == 1j and int(torch.tensor([[3.7]])) == 3
    assert (1 | torch.tensor([2])).item() == 3 and (7 & torch.tensor([2])).item() == 2 and (1 ^ torch.tensor([3])).item() == 2
    assert (1 << torch.tensor([3])).item() == 8 and (16 >> torch.tensor([3])).item() == 2 and (7 // torch.tensor([2])).item() == 3
    assert (7 % torch.tensor([4])).item() == 3 and (2 ** torch.tensor([3])).item() == 8
    y = torch.tensor([6])
    for change in ("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__", "__ifloordiv__", "__imod__", "__ipow__"):
        z = y.clone()
        plain = getattr(y, change.replace("__i", "__"))(2)
        assert getattr(z, change)(2) is z and torch.equal(z, plain)
    assert y.__ipow__("a") is NotImplemented and y.__pow__("a") is NotImplemented and y.__add__("a") is NotImplemented
    assert torch.tensor([1.0, 2.0]).apply_(lambda v: v + 1).tolist() == [2, 3]
    assert torch.ones(2).map_(x, lambda a, b: a + b).tolist() == [2.5, -1]
