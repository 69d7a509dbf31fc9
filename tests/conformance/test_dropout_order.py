"""Dropout of tensors that are not row-major drops what PyTorch drops: it decides in the order of memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import flambeau


def losses(library: Any, batch_first: bool) -> list[float]:
    library.manual_seed(0)
    layer = library.nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)
    model = library.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = library.optim.AdamW(model.parameters(), 1e-2)
    x = library.randn(3, 5, 16)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("batch_first", [False, True])
def test_encoders_train_alike(batch_first: bool) -> None:
    assert losses(flambeau, batch_first) == pytest.approx(losses(torch, batch_first), abs=2e-5)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_the_same_elements_are_dropped(order: tuple[int, ...]) -> None:
    found = []
    for library in (flambeau, torch):
        library.manual_seed(1)
        found.append(library.nn.functional.dropout(library.ones(4, 5, 6).permute(order), 0.5).tolist())
    assert found[0] == found[1]
