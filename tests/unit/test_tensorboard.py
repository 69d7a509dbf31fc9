"""SummaryWriter's files, read back by the tensorboard package where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch
from flambeau.utils.tensorboard import SummaryWriter


def test_scalars_and_texts(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path / "run") as writer:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
        writer.add_scalars("both", {"a": 1, "b": 2.5}, 7)
        writer.add_text("note", "*hello*")
        with pytest.raises(NotImplementedError, match="add_image is not there yet"):
            writer.add_image("picture", torch.zeros(3, 2, 2))
    found = reader.EventAccumulator(str(tmp_path / "run"))
    found.Reload()
    assert [(e.step, round(e.value, 4)) for e in found.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, 0.3333)]
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"*hello*"]
    other = reader.EventAccumulator(str(tmp_path / "run" / "both_b"))
    other.Reload()
    assert [(e.step, e.value) for e in other.Scalars("both")] == [(7, 2.5)]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        SummaryWriter(tmp_path)
