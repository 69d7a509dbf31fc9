"""Files of torch.save: what they hold, what is shared, what is refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
import flambeau.multiprocessing  # noqa: F401 - says how tensors go to other processes


class Settings:
    """Something that a file of weights must not name."""


def again(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_tensors_of_every_type(kind: str) -> None:
    x = (torch.arange(12).reshape(3, 4) % 5).to(getattr(torch, kind))
    for part in (x, x.t(), x[1:, ::2], x[0, 0], x[:0], x.expand(2, 3, 4)):
        found = again(part)
        assert found.dtype is part.dtype and found.stride() == part.stride() and torch.equal(found, part)


def test_what_shares_memory_shares_it_again() -> None:
    x = torch.zeros(3, 4)
    found = again({"whole": x, "row": x[1], "turned": x.t()})
    found["row"].fill_(7)
    assert found["whole"][1].tolist() == [7.0] * 4 and found["turned"][2, 1].item() == 7.0
    assert x.sum().item() == 0


def test_containers_and_names_of_torch() -> None:
    made = {"size": torch.Size([1, 2]), "type": torch.float16, "device": torch.device("cpu"), "set": {1}, "none": None,
            "ordered": OrderedDict(a=1), "list": [1.5, "x", (True,)]}  # fmt: skip
    found = again(made)
    assert found == made and type(found["size"]) is torch.Size and type(found["ordered"]) is OrderedDict


def test_training_goes_on_from_a_file(tmp_path: Path) -> None:
    def make() -> tuple[Any, Any]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        return model, torch.optim.AdamW(model.parameters(), 0.1)

    def train(model: Any, optimizer: Any, steps: int) -> list[float]:
        x = torch.linspace(-1, 1, 18).reshape(6, 3)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model, optimizer = make()
    expected = train(model, optimizer, 6)
    model, optimizer = make()
    train(model, optimizer, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    model, optimizer = make()
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert train(model, optimizer, 3) == expected[3:]


def test_parameters_and_whole_modules() -> None:
    model = torch.nn.Linear(3, 2)
    model.weight.note = "kept"
    weight = again(model.weight)
    assert type(weight) is torch.nn.Parameter and weight.requires_grad and weight.note == "kept"
    found = again(model, weights_only=False)
    assert torch.equal(found(torch.ones(1, 3)), model(torch.ones(1, 3)))


def test_weights_alone_name_nothing_else() -> None:
    with pytest.raises(pickle.UnpicklingError, match="test_serialization.Settings.*weights_only=False"):
        again(Settings())
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        again(torch.nn.Linear(1, 1))
    with torch.serialization.safe_globals([Settings]):
        assert isinstance(again(Settings()), Settings)
    assert torch.serialization.get_safe_globals() == []
    torch.serialization.add_safe_globals([Settings])
    try:
        assert isinstance(again(Settings()), Settings) and torch.serialization.get_safe_globals() == [Settings]
    finally:
        torch.serialization.clear_safe_globals()


def test_the_environment_says_what_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert isinstance(again(Settings()), Settings)
    with pytest.raises(pickle.UnpicklingError):
        again(Settings(), weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "true")
    with pytest.raises(RuntimeError, match="only one of"):
        again(Settings())
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        again(Settings(), weights_only=False)


def test_places() -> None:
    x = torch.ones(2)
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert torch.equal(again(x, map_location=place), x)


def test_what_has_a_history_becomes_a_leaf(tmp_path: Path) -> None:
    """As in PyTorch, whose checkpoints often hold a loss; to other processes it does not go."""
    loss = (torch.ones(2, requires_grad=True) * 2).sum()
    torch.save({"loss": loss}, tmp_path / "history.pt")
    for found in (torch.load(tmp_path / "history.pt")["loss"], pickle.loads(pickle.dumps(loss))):
        assert found.item() == 4.0 and found.requires_grad and found.is_leaf
    with pytest.raises(RuntimeError, match="detach"):
        ForkingPickler.dumps(loss)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "absent.pt")
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(RuntimeError, match="no file of PyTorch's zip format"):
        torch.load(tmp_path / "text.pt")
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(RuntimeError, match=r"without data\.pkl"):
        torch.load(tmp_path / "other.pt")
    with pytest.raises(AttributeError, match="expected a path or a file"):
        torch.load(3)


def test_a_tensor_that_leaves_its_storage_is_refused(tmp_path: Path) -> None:
    torch.save(torch.ones(4), tmp_path / "whole.pt")
    with zipfile.ZipFile(tmp_path / "whole.pt") as source, zipfile.ZipFile(tmp_path / "short.pt", "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data[:8] if name.endswith("data/0") else data)
    with pytest.raises(RuntimeError, match="corrupt.*leaves its storage of 8 bytes"):
        torch.load(tmp_path / "short.pt")
