"""What errors of tensors say: the operator, what was got, what is needed, what to do; torch's exception types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("broadcast", lambda: torch.ones(2, 3) + torch.ones(2, 4), RuntimeError, r"add.*tensor a \(3\).*tensor b \(4\).*dimension 1"),
    ("in place broadcast", lambda: torch.ones(3).add_(torch.ones(2, 3)), RuntimeError, r"output with shape \[3\].*shape \[2, 3\]"),
    ("matmul", lambda: torch.ones(2, 3) @ torch.ones(4, 2), RuntimeError, r"2x3 and 4x2"),
    ("types of matmul", lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.int64), RuntimeError, "same dtype|dtype"),
    ("dimension", lambda: torch.ones(2, 3).sum(2), IndexError, r"Dimension out of range.*\[-2, 1\], but got 2"),
    ("cat", lambda: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]), RuntimeError, "Sizes of tensors must match except in dimension 0"),
    ("cat of nothing", lambda: torch.cat([]), ValueError, "non-empty list"),
    ("cat of a tensor", lambda: torch.cat(torch.ones(2)), TypeError, "tuple of Tensors"),
    ("exp of a number", lambda: torch.exp(2.0), TypeError, r"exp\(\): argument 'input' \(position 1\) must be Tensor, not float"),
    ("flatten of a number", lambda: torch.flatten(3), TypeError, "must be Tensor, not int"),
    ("clamp of numbers", lambda: torch.clamp(3, 0, 1), TypeError, "must be Tensor, not int"),
    ("where of numbers", lambda: torch.where(True, 1, 2), TypeError, "must be Tensor, not bool"),
    ("cat of numbers", lambda: torch.cat([1, 2]), TypeError, "element 0.*int"),
    ("index", lambda: torch.ones(3)[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ("too many indices", lambda: torch.ones(3)[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    ("index tensor", lambda: torch.ones(3)[torch.tensor([0, 5])], IndexError, "index 5 is out of bounds.*size 3"),
    ("index by floats", lambda: torch.ones(3)[torch.tensor([0.5])], IndexError, "must be long, int, byte or bool"),
    ("mask", lambda: torch.ones(3)[torch.tensor([True, False])], IndexError, "shape of the mask"),
    ("negative step", lambda: torch.ones(3)[::-1], ValueError, "step must be greater than zero.*flip"),
    ("iteration", lambda: iter(torch.tensor(1)), TypeError, "0-d tensor"),
    ("length", lambda: len(torch.tensor(1)), TypeError, "0-d tensor"),
    ("truth", lambda: bool(torch.ones(2)), RuntimeError, "more than one value is ambiguous"),
    ("item", lambda: torch.ones(2).item(), RuntimeError, "2 elements cannot be converted to Scalar"),
    ("view", lambda: torch.ones(6).view(4), RuntimeError, r"shape '\[4\]' is invalid for input of size 6"),
    ("two unknown sizes", lambda: torch.ones(6).view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    ("expand", lambda: torch.ones(3).expand(4), RuntimeError, r"expanded size of the tensor \(4\) must match the existing size \(3\)"),
    ("numpy", lambda: torch.ones(1, requires_grad=True).numpy(), RuntimeError, "detach"),
    ("numpy of bfloat16", lambda: torch.ones(1, dtype=torch.bfloat16).numpy(), TypeError, "BFloat16"),
    ("cuda", lambda: torch.ones(1).cuda(99), RuntimeError, "Found no NVIDIA driver|invalid device ordinal"),
    ("device", lambda: torch.ones(1, device="cuda:99"), RuntimeError, "Found no NVIDIA driver|invalid device ordinal"),
    ("unknown device", lambda: torch.device("quantum"), RuntimeError, "device type.*quantum"),
    ("integer powers", lambda: torch.tensor([2]) ** -1, RuntimeError, "negative integer powers.*float"),
    ("other integer powers", lambda: torch.tensor([2]) ** -5, RuntimeError, "negative integer powers.*float"),
    ("in place narrowing", lambda: torch.tensor([1]).add_(1.5), RuntimeError, "can't be cast"),
    ("out narrowing", lambda: torch.exp(torch.ones(1), out=torch.tensor([1])), RuntimeError, "can't be cast"),
    ("out with gradients", lambda: torch.exp(torch.ones(1, requires_grad=True), out=torch.ones(1)), RuntimeError, "differentiation"),
    ("no tensor", lambda: torch.exp("a"), TypeError, "must be Tensor or Number, not str"),
    ("mean of integers", lambda: torch.tensor([1]).mean(), RuntimeError, "mean.*floating point.*int64"),
    ("none", lambda: torch.tensor(None), RuntimeError, "Could not infer dtype of NoneType"),
    ("uneven data", lambda: torch.tensor([[1, 2], [3]]), ValueError, "equal lengths"),
    ("strings", lambda: torch.tensor(np.array(["a"])), TypeError, "only supported types"),
    ("negative size", lambda: torch.ones(-1), RuntimeError, "negative dimension -1"),
    ("backward without history", lambda: torch.ones(1).backward(), RuntimeError, "does not require grad"),
    ("arange", lambda: torch.arange(0, 5, -1), RuntimeError, "inconsistent with step sign"),
    ("randint", lambda: torch.randint(5, 5, (1,)), RuntimeError, "less than"),
    ("uniform", lambda: torch.ones(1).uniform_(2, 1), RuntimeError, "from=2 > to=1"),
    ("channels last", lambda: torch.ones(1, 1).contiguous(memory_format=torch.channels_last), RuntimeError, "rank 4.*channels_last"),
    ("state", lambda: torch.Generator().set_state(torch.zeros(3, dtype=torch.uint8)), RuntimeError, "bytes"),
    ("item assignment", lambda: torch.ones(2).__setitem__(0, torch.ones(3)), RuntimeError, "shape|expand"),
    ("deepcopy", lambda: __import__("copy").deepcopy(torch.ones(1, requires_grad=True) * 2), RuntimeError, "graph leaves"),
    ("quantile", lambda: torch.quantile(torch.ones(2), 1.5), RuntimeError, r"\[0, 1\]"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "kind", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_errors(function: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        function()


def test_a_failed_call_changes_nothing() -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(2))
    with pytest.raises(IndexError):
        x[torch.tensor([7])] = 2.0
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("call", [
    lambda: torch.ones(2).fill_(1j), lambda: torch.full((2,), 1j, dtype=torch.float32), lambda: torch.ones(2).add_(1j),
    lambda: torch.ones(2).masked_fill(torch.tensor([True, False]), 1j), lambda: torch.ones(2).__setitem__(0, 1j),
])  # fmt: skip
def test_complex_numbers_do_not_become_real_in_silence(call: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot be converted|can't be cast"):
        call()
