"""Along which axis the lanes of eager kernels run: along the wrong one they gather and scatter, many times slower and just as right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compilation.program import Program


def gradient(function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    inputs = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    outputs = function(*inputs)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    torch.autograd.grad(outputs, inputs, [torch.randn(*y.shape) for y in outputs])


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "stack": (lambda a, b: torch.stack([a, b]), [(3, 5, 7, 19), (3, 5, 7, 19)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(3, 5, 7, 19), (3, 6, 7, 19)]),
    "unbind": (lambda a: a.unbind(0), [(3, 5, 7, 19)]),
    "unbind of heads": (lambda a: a.view(3, 5, 3, 2, 19).permute(2, 0, 3, 1, 4).unbind(0), [(3, 5, 114)]),
    "split": (lambda a: a.split(2, 1), [(3, 5, 7, 19)]),
    "select": (lambda a: a[:, 1], [(3, 5, 7, 19)]),
    "slice": (lambda a: a[:, 1:4] * 2, [(3, 5, 7, 19)]),
    "pad": (lambda a: F.pad(a, (1, 2, 3, 4)), [(3, 5, 7, 19)]),
    "roll": (lambda a: a.roll(1, 0), [(3, 5, 7, 19)]),
    "sum of a leading axis": (lambda a: a.sum(0), [(3, 5, 7, 19)]),
    "sum of leading axes": (lambda a: a.sum((0, 1)), [(3, 5, 7, 19)]),
    "mean of a middle axis": (lambda a: a.mean(1), [(3, 5, 7, 19)]),
    "mean of each channel": (lambda a: a.mean((0, 2, 3)), [(3, 5, 7, 19)]),
    "softmax of channels": (lambda a: torch.softmax(a, 1), [(3, 5, 7, 19)]),
    "variance of a leading axis": (lambda a: a.var(0), [(3, 5, 7, 19)]),
    "group norm": (lambda a, w, b: F.group_norm(a, 2, w, b), [(3, 4, 7, 19), (4,), (4,)]),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (19,), w, b), [(3, 700, 19), (19,), (19,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_lanes_meet_neighbours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[Program] = []
    bind = Program.bind
    monkeypatch.setattr(Program, "bind", lambda self, sizes: (programs.append(self), bind(self, sizes))[1])
    function, shapes = CASES[name]
    gradient(function, *shapes)
    texts = [kernel.text.text for program in programs for kernel in program.emitted]
    assert texts
    for text in texts:
        assert "masked.scatter" not in text
        assert "masked.gather" not in text
        assert "floor.v" not in text  # a division for each lane
