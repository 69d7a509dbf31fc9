"""Files of torch.save between the two libraries, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import flambeau


def state(library: Any) -> dict[str, Any]:
    library.manual_seed(5)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
    optimizer = library.optim.AdamW(model.parameters())
    model(library.randn(5, 3)).sum().backward()
    optimizer.step()
    base = library.arange(12.0).reshape(3, 4)
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "turned": base.t(), "part": base[1:], "weight": model[0].weight,
        "half": library.ones(2, dtype=library.bfloat16), "mask": library.tensor([True, False]), "size": library.Size([1, 2]),
        "type": library.float16, "empty": library.zeros(0, 3), "number": library.tensor(3.5),
    }  # fmt: skip


def check(found: dict[str, Any], library: Any) -> None:
    assert found["size"] == library.Size([1, 2]) and found["type"] is library.float16
    assert type(found["weight"]) is library.nn.Parameter and found["weight"].requires_grad
    assert tuple(found["empty"].shape) == (0, 3) and found["number"].item() == 3.5 and found["half"].dtype is library.bfloat16
    found["part"][0, 0] = 99
    assert found["turned"][0, 1].item() == 99
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
    model.load_state_dict(found["model"])
    optimizer = library.optim.AdamW(model.parameters())
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.state_dict()["state"][0]["step"].item() == 1


def test_each_reads_what_the_other_writes(tmp_path: Path) -> None:
    flambeau.save(state(flambeau), tmp_path / "ours.pt")
    torch.save(state(torch), tmp_path / "theirs.pt")
    check(torch.load(tmp_path / "ours.pt"), torch)
    check(flambeau.load(tmp_path / "theirs.pt"), flambeau)


def test_a_module_of_torch_becomes_one_of_ours(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    torch.save(model, tmp_path / "model.pt")
    ours = flambeau.load(tmp_path / "model.pt", weights_only=False)
    x = np.random.randn(2, 1, 4, 4).astype(np.float32)
    expected = model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(flambeau.from_numpy(x)).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
