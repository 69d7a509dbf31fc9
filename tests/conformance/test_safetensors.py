"""The safetensors library under ``flambeau run``: its PyTorch and numpy front ends, and files of both libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.command_line import answer, flambeau, script

pytest.importorskip("safetensors")

KINDS = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")

PROGRAM = """
    import json, os, sys
    import torch
    import safetensors.numpy
    from safetensors import safe_open
    from safetensors.torch import load, load_file, load_model, save, save_file, save_model

    kinds = %r
    def make(kind):
        return torch.arange(-3, 9).reshape(3, 4).to(getattr(torch, kind))

    tensors = {kind: make(kind) for kind in kinds} | {"empty": torch.zeros(0, 3), "number": torch.tensor(1.5)}
    save_file(tensors, "ours.safetensors", metadata={"key": "value"})
    seen = {}
    for found in (load_file("ours.safetensors"), load(save(tensors)), load_file("theirs.safetensors")):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(found[name], tensor) and found[name].dtype is tensor.dtype
    with safe_open("ours.safetensors", framework="pt", device="cpu") as file:
        part = file.get_slice("float32")
        seen["open"] = [sorted(file.keys()), file.metadata(), part[1:, 2].tolist(), part.get_shape(), str(part.get_dtype())]
        assert torch.equal(file.get_tensor("bfloat16"), tensors["bfloat16"])

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            self.second.weight = self.first.weight

    model, other = Tied(), Tied()
    save_model(model, "model.safetensors")
    seen["missing"] = list(map(list, load_model(other, "model.safetensors")))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
    seen["errors"] = []
    for bad in (model.state_dict(), {"turned": torch.ones(3, 4).t()}, {"number": 1}):
        try:
            save_file(bad, "bad.safetensors")
        except (RuntimeError, ValueError) as error:
            seen["errors"].append([type(error).__name__, str(error).split(":")[0].strip()[:30]])
    arrays = safetensors.numpy.load_file("model.safetensors")
    safetensors.numpy.save_file(arrays, "arrays.safetensors")
    assert torch.equal(load_file("arrays.safetensors")["first.weight"], model.first.weight)
    assert torch.__spec__.name == "flambeau"
    print(json.dumps(seen))
"""


def test_programs_run_and_share_files(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    expected = {kind: torch.arange(-3, 9).reshape(3, 4).to(getattr(torch, kind)) for kind in KINDS}
    expected |= {"empty": torch.zeros(0, 3), "number": torch.tensor(1.5)}
    save_file(expected, tmp_path / "theirs.safetensors")
    script(tmp_path, PROGRAM % (KINDS,))
    seen = answer(flambeau(tmp_path, "run", "program.py"))
    assert seen == {
        "open": [sorted(expected), {"key": "value"}, [3.0, 7.0], [3, 4], "F32"],
        "missing": [[], []],
        "errors": [["RuntimeError", "Some tensors share memory, thi"], ["ValueError", "You are trying to save a non c"],
                   ["ValueError", "Key `number` is invalid, expec"]],
    }  # fmt: skip
    found = load_file(tmp_path / "ours.safetensors")
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name].to(torch.complex128).numpy(), tensor.to(torch.complex128).numpy())
        assert found[name].dtype is tensor.dtype
