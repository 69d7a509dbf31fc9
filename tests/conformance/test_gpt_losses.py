"""The GPT example's first losses, eager and compiled, are those that PyTorch gave for the same seed and text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = json.loads((Path(__file__).parent / "gpt_losses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("mode", ["--no-compile", "--compile"])
def test_losses_are_pytorchs(mode: str, tmp_path: Path) -> None:
    script, *options, _ = EXPECTED["command"]
    options = [mode if option == "--no-compile" else option for option in options]
    results = tmp_path / "losses.json"
    command = [sys.executable, "-m", "flambeau", "run", script, *options, str(results)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stderr
    got = json.loads(results.read_text(encoding="utf-8"))
    assert got["torch"] != EXPECTED["torch"], "the run used PyTorch itself"
    np.testing.assert_allclose(got["runs"][0]["losses"], EXPECTED["runs"][0]["losses"], rtol=2e-5)
    np.testing.assert_allclose(got["runs"][0]["validation_loss"], EXPECTED["runs"][0]["validation_loss"], rtol=2e-5)
