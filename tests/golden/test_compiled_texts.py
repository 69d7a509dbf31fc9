"""Graphs and kernels of small functions as Python text, compared with texts read by a person.

After an intended change run ``pytest tests/golden --update-golden`` and read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F

TEXTS = Path(__file__).parent / "texts"


def mean_square_gradient(w: Any, x: Any) -> Any:
    w = w.detach().requires_grad_()
    ((x @ w) ** 2).mean().backward()
    return w.grad


def overlapping_windows(x: Any) -> Any:
    return x.as_strided((6, 5), (2, 1)).sum(1)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "pointwise": (lambda x, b, y: F.gelu(x + b) * y, [(8, 96), (96,), (8, 96)]),
    "softmax": (lambda x: torch.softmax(x, -1), [(8, 96)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (96,), w, b), [(8, 96), (96,), (96,)]),
    "linear_relu": (lambda x, w, b: torch.relu(F.linear(x, w, b)), [(8, 96), (32, 96), (32,)]),
    "views": (lambda x: x.t()[3:].reshape(-1)[::2] + 1, [(8, 96)]),
    "sum_of_nothing": (lambda x: x[:, :0].sum(1) + 1, [(8, 96)]),
    "overlapping_windows": (overlapping_windows, [(20,)]),
    "mean_square_gradient": (mean_square_gradient, [(16, 4), (8, 16)]),
}


@pytest.mark.parametrize("name", CASES)
def test_text_is_as_read(name: str, request: pytest.FixtureRequest) -> None:
    function, shapes = CASES[name]
    compiled = torch.compile(function)
    arguments = [torch.randn(*shape) for shape in shapes]
    compiled(*arguments)
    explanation = compiled.explain()
    assert explanation.eager_reason is None
    text = "\n".join([explanation.graphs[0].rstrip(), "", explanation.kernels[0].rstrip(), explanation.memory[0], ""])
    path = TEXTS / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text, f"if this change is intended: pytest {Path(__file__).parent} --update-golden, and read the diff"


def test_every_text_has_its_case() -> None:
    assert {path.stem for path in TEXTS.glob("*.txt")} == CASES.keys()
