"""Compiled kernels and programs travel as bytes: another process, with an empty cache, compiles nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch

SAVE = """
import sys, flambeau as torch
f = torch.compile(lambda x: (x * 3).tanh() + x.sum())
f(torch.ones(5))
data, info = torch.compiler.save_cache_artifacts()
open(sys.argv[1], "wb").write(data)
print(sum(map(len, info.artifacts.values())))
"""
LOAD = """
import sys, flambeau as torch
from flambeau.core.events import counters
info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
before = counters.snapshot().get("kernel_compiles", 0)
f = torch.compile(lambda x: (x * 3).tanh() + x.sum())
f(torch.ones(5))
print(sum(map(len, info.artifacts.values())), counters.snapshot().get("kernel_compiles", 0) - before)
"""


def run(program: str, path: Path, cache: Path) -> list[str]:
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, env={**os.environ, "FLAMBEAU_CACHE_DIR": str(cache)}, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_another_process_compiles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "artifacts"
    (saved,) = run(SAVE, path, tmp_path / "first")
    loaded, compiles = run(LOAD, path, tmp_path / "second")
    assert int(saved) > 0 and loaded == saved
    assert compiles == "0"


def test_other_bytes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="not artifacts that save_cache_artifacts made"):
        torch.compiler.load_cache_artifacts(b"something else")
