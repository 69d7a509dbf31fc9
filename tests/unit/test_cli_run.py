"""``flambeau run`` runs programs the way the interpreter does, with torch standing for flambeau."""

from __future__ import annotations

import signal
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.unit.command_line import answer, flambeau, script

STATE = """
    import json, sys
    print(json.dumps([__name__, __file__, __package__, sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals()]))
"""


def test_a_script_is_main(tmp_path: Path) -> None:
    script(tmp_path, STATE, "inner/program.py")
    got = answer(flambeau(tmp_path, "run", "inner/program.py", "--help", "-m", "x"))
    full = str(tmp_path / "inner" / "program.py")
    assert got == ["__main__", full, None, ["inner/program.py", "--help", "-m", "x"], str(tmp_path / "inner"), True]


def test_a_module_is_main_and_has_its_package(tmp_path: Path) -> None:
    script(tmp_path, "value = 5", "package/__init__.py")
    script(tmp_path, "from . import value\nassert value == 5" + textwrap.dedent(STATE), "package/tool.py")
    got = answer(flambeau(tmp_path, "run", "-m", "package.tool", "-q"))
    full = str(tmp_path / "package" / "tool.py")
    assert got == ["__main__", full, "package", [full, "-q"], str(tmp_path), True]


@pytest.mark.parametrize("packed", [False, True])
def test_folders_and_archives_run_their_main(tmp_path: Path, packed: bool) -> None:
    script(tmp_path, "value = 7", "program/beside.py")
    script(tmp_path, "import beside, sys, torch\nprint(beside.value, sys.argv, __name__)", "program/__main__.py")
    if packed:
        with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
            for file in (tmp_path / "program").iterdir():
                archive.write(file, file.name)
    name = "program.zip" if packed else "program"
    run = flambeau(tmp_path, "run", name, "a")
    assert run.stdout == f"7 [{name!r}, 'a'] __main__\n", run.stderr


@pytest.mark.parametrize(("ending", "status"), [("pass", 0), ("sys.exit(3)", 3), ("sys.exit('bad')", 1), ("raise ValueError", 1)])
def test_exit_statuses_are_the_interpreters(tmp_path: Path, ending: str, status: int) -> None:
    assert flambeau(tmp_path, "run", script(tmp_path, f"import sys\n{ending}")).returncode == status


def test_an_interrupt_ends_the_process_by_its_signal(tmp_path: Path) -> None:
    assert flambeau(tmp_path, "run", script(tmp_path, "raise KeyboardInterrupt")).returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["none.py"], 2, "can't open file"),
        (["."], 1, "can't find '__main__' module in '.'"),
        (["-m", "no_such_module"], 1, "No module named no_such_module"),
        (["-m", "no_such_package.inner"], 1, "Error while finding module specification for 'no_such_package.inner'"),
        (["-m", "json"], 1, "No module named json.__main__; 'json' is a package and cannot be directly executed"),
    ],
)
def test_programs_that_cannot_be_found(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    run = flambeau(tmp_path, "run", *arguments)
    assert (run.returncode, run.stderr.count("\n")) == (status, 1)
    assert message in run.stderr


def test_tracebacks_hold_only_the_programs_frames(tmp_path: Path) -> None:
    name = script(tmp_path, "def f():\n    raise ValueError('x')\n\nf()\n")
    lines = flambeau(tmp_path, "run", name).stderr.splitlines()
    frames = [line.split(",")[1:] for line in lines if line.startswith("  File ")]
    assert frames == [[" line 4", " in <module>"], [" line 2", " in f"]]
    assert lines[-1] == "ValueError: x"


def test_a_syntax_error_shows_the_line_alone(tmp_path: Path) -> None:
    lines = flambeau(tmp_path, "run", script(tmp_path, "x = (\n")).stderr.splitlines()
    assert lines[0].startswith("  File ") and "program.py" in lines[0]
    assert lines[-1].startswith("SyntaxError: ")


def test_the_programs_own_hook_sees_the_programs_frames(tmp_path: Path) -> None:
    text = """
        import sys, traceback
        def hook(kind, error, trace):
            print(kind.__name__, [frame.name for frame in traceback.extract_tb(trace)])
        sys.excepthook = hook
        def f():
            raise ValueError
        f()
    """
    assert flambeau(tmp_path, "run", script(tmp_path, text)).stdout == "ValueError ['<module>', 'f']\n"


def test_explain_prints_a_report_and_writes_the_whole_one(tmp_path: Path) -> None:
    program = script(tmp_path, """
        import torch

        @torch.compile
        def scaled(x, y):
            return (x * y).sum()

        for _ in range(3):
            print(float(scaled(torch.ones(4), torch.ones(4))))
        """)
    # What an earlier process captured is known without the lines that a report shows.
    flambeau(tmp_path, "run", program)
    run = flambeau(tmp_path, "explain", "--output", "out/report.txt", program)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("4.0\n4.0\n4.0\n# What flambeau did")
    assert "## scaled, version 0" in run.stdout and "program.py:6" in run.stdout
    whole = (tmp_path / "out" / "report.txt").read_text(encoding="utf-8")
    assert "prims.reduce" in whole and "define void @" in whole and "Watched 2 replays" in whole


def test_version(tmp_path: Path) -> None:
    run = flambeau(tmp_path, "--version")
    assert run.returncode == 0
    assert run.stdout.startswith("flambeau ") and "2.13.0+flambeau" in run.stdout
