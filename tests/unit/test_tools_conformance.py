"""The conformance list is read strictly, and an operator that fails or is not in the database fails the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import conformance
from tools.conformance import Section

STAND_IN = """
import argparse, json, re
parser = argparse.ArgumentParser()
for name in ("--module", "--ops", "--modes", "--json", "--dtypes"):
    parser.add_argument(name)
options = parser.parse_args()
known = {"add": None, "nn.relu": None, "mul": "AssertionError: wrong"}
results = [
    {"op": f"{name}[variant]", "mode": options.modes, "dtype": options.dtypes, "passed": 3, "total": 3, "why": why}
    for name, why in known.items() if re.search(options.ops, name)
]
json.dump(results, open(options.json, "w"))
"""


def test_the_list_is_read() -> None:
    text = "# head\n[eager float32]\nadd  nn.relu # why\nmul\n\n[errors]\nadd\n"
    assert conformance.sections(text) == [Section("eager", "float32", ("add", "nn.relu", "mul")), Section("errors", "-", ("add",))]


def test_shares_are_the_whole_list_in_as_many_days() -> None:
    whole = Section("eager", "float32", tuple("abcdefgh"))
    parts = [conformance.share(whole, 3, day).operators for day in range(730000, 730003)]
    assert sorted(name for part in parts for name in part) == list(whole.operators)
    assert all(len(part) in (2, 3) for part in parts)
    assert conformance.share(whole, 1, 730001) == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add\n", "before the first heading"),
        ("[fast float32]\n", "needs"),
        ("[eager]\n", "needs"),
        ("[errors float32]\n", "needs"),
        ("[eager int64]\nadd mul\nadd\n", "twice: add"),
    ],
)
def test_a_wrong_list_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        conformance.sections(text)


def test_failed_and_unknown_operators_are_named(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STAND_IN, encoding="utf-8")
    assert conformance.check(Section("eager", "float32", ("add", "nn.relu")), program) == []
    assert conformance.check(Section("errors", "-", ("add", "mul", "nnxrelu")), program) == [
        "mul[variant]: AssertionError: wrong",
        "nnxrelu: the database has no such case",
    ]


def test_a_broken_program_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(7)", encoding="utf-8")
    names = tmp_path / "names.txt"
    names.write_text("[eager float32]\nadd\n", encoding="utf-8")
    assert conformance.main([str(program), "--list", str(names)]) == 1
    assert "program.py ended with status 7" in capsys.readouterr().out


def test_the_checked_in_list_is_well_formed() -> None:
    listed = conformance.sections(conformance.LIST.read_text(encoding="utf-8"))
    assert all(section.operators for section in listed)
