"""The size check counts files, functions and the package, and names what is too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import size


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def function_of(lines: int) -> str:
    return "def long():\n" + "    x = 1\n" * (lines - 1)


def test_a_tree_within_the_limits_has_no_fault(tmp_path: Path) -> None:
    write(tmp_path, "flambeau/core/a.py", "x = 1\n" * size.FILE_LINES)
    write(tmp_path, "flambeau/ir/c.py", function_of(size.FUNCTION_LINES))
    assert size.faults(list(size.source_files(tmp_path))) == []


def test_a_long_file_and_a_long_function_are_named(tmp_path: Path) -> None:
    write(tmp_path, "flambeau/core/a.py", "x = 1\n" * (size.FILE_LINES + 1))
    write(tmp_path, "tests/b.py", "class C:\n" + "".join("    " + line + "\n" for line in function_of(61).splitlines()))
    found = size.faults(list(size.source_files(tmp_path)))
    assert found == ["flambeau/core/a.py: 801 lines, at most 800", "tests/b.py:2 long: 61 lines, at most 60"]


def test_the_machinery_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "MACHINERY_CODE", 5)
    write(tmp_path, "flambeau/core/a.py", "x = 1\n" * 3)
    write(tmp_path, "flambeau/ir/b.py", "x = 1\n" * 3)
    write(tmp_path, "tests/c.py", "x = 1\n" * 30)
    assert size.faults(list(size.source_files(tmp_path))) == ["the machinery: 6 lines of code, at most 5"]


def test_the_surface_is_limited_by_what_it_offers(tmp_path: Path) -> None:
    write(tmp_path, "flambeau/nn/a.py", "def f():\n" + "    x = 1\n" * 11 + "def _g():\n" + "    x = 1\n" * 2)
    found = size.faults(list(size.source_files(tmp_path)))
    assert found == ["the surface: 15 lines of code for 1 public definitions, at most 12 for each"]
    write(tmp_path, "flambeau/nn/b.py", "def h(): ...\n")
    assert size.faults(list(size.source_files(tmp_path))) == []


def test_blank_lines_comments_and_docstrings_are_free() -> None:
    text = '''"""Doc
of two lines."""

# a comment
x = 1  # code with a comment


def f(a,
      b):
    """Doc."""
    return """text
of two lines"""
'''
    assert size.code_lines(text) == 5


def test_the_table_has_a_row_for_each_part(tmp_path: Path) -> None:
    write(tmp_path, "flambeau/a.py", "x = 1\n")
    write(tmp_path, "flambeau/core/b.py", function_of(7))
    rows = [line.split() for line in size.table(list(size.source_files(tmp_path))).splitlines()]
    assert rows[1:] == [
        ["flambeau", "1", "1", "1", "1", "0"],
        ["flambeau/core", "1", "7", "7", "7", "7"],
        ["the", "machinery", "1", "7", "7", "7", "7"],
        ["the", "surface,", "0", "names", "1", "1", "1", "1", "0"],
        ["flambeau", "in", "all", "2", "8", "8", "7", "7"],
    ]


def test_main_exits_with_one_on_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(size, "ROOT", tmp_path)
    write(tmp_path, "flambeau/core/a.py", function_of(size.FUNCTION_LINES))
    assert size.main() == 0
    write(tmp_path, "flambeau/core/a.py", function_of(size.FUNCTION_LINES + 1))
    assert size.main() == 1
    assert "too long: flambeau/core/a.py:1 long: 61 lines" in capsys.readouterr().out
