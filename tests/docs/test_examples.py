"""The examples run as they stand, short."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "flambeau", "run", str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_char_lstm() -> None:
    out = run("char_lstm.py", "--steps", "4", "--width", "16", "--length", "8", "--batch", "4", "--sample", "20", "--no-compile")
    losses = [float(line.split()[3]) for line in out.splitlines() if line.startswith("step")]
    assert len(losses) == 2 and losses[1] < losses[0] and "Return the " in out


def test_softmax_three_ways(tmp_path: Path) -> None:
    sizes = ("--elements", "4096", "--lengths", "64", "256", "--seconds", "0.01")
    out = run("softmax_three_ways.py", *sizes, "--plot", str(tmp_path / "x.svg"))
    assert out.count("GB/s") == 6 and (tmp_path / "x.svg").read_text().startswith("<svg")


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn")
def test_digits() -> None:
    out = run("digits.py", "--epochs", "3")
    assert float(out.rsplit(" images, ", 1)[1].split()[0]) > 95


def test_eigh_batched() -> None:
    out = run("eigh_batched.py", "--sizes", "2", "5", "--most", "100", "--seconds", "0.01")
    assert out.splitlines()[1].split()[:2] == ["2", "100"] and "x numpy" in out
