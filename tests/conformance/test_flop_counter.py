"""Counts of floating-point operations, held against PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch as reference
from torch.utils.flop_counter import FlopCounterMode as ReferenceMode

import flambeau as torch
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula


def _programs(lib: Any) -> list[Any]:
    f = lib.nn.functional

    def of(*shape: int, grad: bool = True) -> Any:
        return lib.ones(*shape, requires_grad=grad)

    return [
        lambda: lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 2))(of(5, 3, grad=False)),
        lambda: f.conv2d(of(2, 4, 9, 9), of(6, 4, 3, 3), of(6), padding=1),
        lambda: f.conv_transpose1d(of(2, 4, 9), of(4, 3, 3)),
        lambda: lib.bmm(of(2, 3, 4), of(2, 4, 5, grad=False)),
        lambda: lib.addmm(of(5), of(3, 4), of(4, 5)),
        lambda: of(7, 2, 3) @ of(3, 4),
        lambda: lib.einsum("bij,bjk->bik", of(2, 3, 4), of(2, 4, 5)),
    ]


@pytest.mark.parametrize("number", range(7))
def test_counts(number: int) -> None:
    totals = []
    for lib, mode in ((torch, FlopCounterMode), (reference, ReferenceMode)):
        with mode(display=False) as counter:
            out = _programs(lib)[number]()
            forward = counter.get_total_flops()
            out.sum().backward()
        totals.append((forward, counter.get_total_flops()))
    assert totals[0] == totals[1]


def test_attention_own_formulas_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    register_flop_formula("erf")(lambda x, out_shape, **_: 10 * x[0])
    with FlopCounterMode(custom_mapping={"exp": lambda x, out_shape, **_: 3}) as counter:
        torch.nn.functional.scaled_dot_product_attention(torch.ones(1, 2, 5, 8), torch.ones(1, 2, 6, 8), torch.ones(1, 2, 6, 8))
        torch.ones(3).exp()
        torch.erf(torch.ones(7))
    assert counter.get_flop_counts() == {"Global": {"scaled_dot_product_attention": 2 * 10 * 6 * 16, "exp": 3, "erf": 70}}
    assert "exp" in capsys.readouterr().out
