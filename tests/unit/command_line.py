"""Runs the flambeau command on small programs, for the tests of the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def flambeau(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    paths = [environment.pop("PYTHONPATH", ""), str(ROOT)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | environment
    command = [sys.executable, "-m", "flambeau", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def script(folder: Path, text: str, name: str = "program.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return name


def answer(run: subprocess.CompletedProcess[str]) -> object:
    """What the program printed, read as JSON."""
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
