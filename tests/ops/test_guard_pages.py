"""No operator reads or writes past its operands, its results or its temporaries, in kernels without checks of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PARTS = 6


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "FLAMBEAU_CHECKED": "0", "PYTHONPATH": paths}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_operators_stay_inside_their_pages(part: int) -> None:
    done = run("-m", "tests.ops.guard_pages", str(part), str(PARTS))
    assert done.returncode == 0 and done.stdout.endswith("all of them\n"), done.stdout[-200:] + done.stderr[-3000:]


GUARDS = """
import ctypes
import numpy as np
import flambeau as torch
from tests.ops.guard_pages import GuardedAllocator, Paged, PagedAtStart
blocks = GuardedAllocator()
blocks.install()
"""


@pytest.mark.parametrize(("guarded", "distance"), [("Paged", 20), ("PagedAtStart", -1)])
def test_guards_end_the_process(guarded: str, distance: int) -> None:
    """The fault that the test above looks for, made on purpose."""
    done = run("-c", f"{GUARDS}g = {guarded}(np.zeros(5, np.float32))\nctypes.string_at(g.memory.address + {distance}, 1)")
    assert done.returncode == -signal.SIGSEGV


def test_damage_around_a_result_is_seen() -> None:
    program = "t = torch.ones(5) + 1\nctypes.memset(t.data_ptr() + 20, 7, 1)\ndel t\nprint(blocks.count > 0, blocks.damaged)"
    assert run("-c", GUARDS + program).stdout == "True [20]\n"
