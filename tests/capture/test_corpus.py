"""The programs of the corpus do the same plainly and compiled, call by call."""

from __future__ import annotations

import datetime
import os
from contextlib import nullcontext

import pytest

from tests.capture.corpus import PROGRAMS, compare, stressed
from tests.capture.corpus.harness import FORMS
from tests.native_switch import loaded, python_path

PYTHON = () if loaded is None else ("python",)

# Where programs differ today: in a form, or as a function with a segment for each operator (flush), an exit at each check (leave), or
# replayed in Python (python).
# Each is a fault: whatever makes one right takes it off the list.
DIFFER: dict[str, str] = {"evolution_of_a_flat_vector": "flush"}


# One of so many parts of the programs is put under stress, another one each day; every program is compiled in its forms.
SHARES = int(os.environ.get("FLAMBEAU_TEST_SHARES", "1"))


def cases() -> list[object]:
    fault = pytest.mark.xfail(strict=True, reason="a known fault of capture")
    day = datetime.date.today().toordinal()
    ways = [
        (name, way)
        for number, (name, program) in enumerate(PROGRAMS.items())
        for way in (*program.forms, *(("flush", "leave", *PYTHON) if (number + day) % SHARES == 0 else ()))
    ]
    return [pytest.param(n, w, id=f"{n}-{w}", marks=[fault] if w in DIFFER.get(n, "").split() else []) for n, w in ways]


@pytest.mark.parametrize(("name", "way"), cases())
def test_program_does_the_same_compiled(name: str, way: str) -> None:
    with stressed(flush=way == "flush", leave=way == "leave"), python_path() if way == "python" else nullcontext():
        found, _ = compare(PROGRAMS[name], way if way in FORMS else "function")
    assert found is None, found


def test_known_differences_are_programs() -> None:
    assert set(DIFFER) <= set(PROGRAMS)
    assert len(PROGRAMS) >= 150
