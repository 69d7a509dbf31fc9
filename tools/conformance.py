"""Holds the operators listed in conformance_operators.txt against PyTorch's own operator database, all samples of each."""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

LIST = Path(__file__).resolve().parent / "conformance_operators.txt"
MODES = ("eager", "grad", "compile", "errors")


@dataclass(frozen=True)
class Section:
    """Operators that must pass in one mode, on samples of one element type (``-`` in the mode errors)."""

    mode: str
    dtype: str
    operators: tuple[str, ...]


def sections(text: str) -> list[Section]:
    """Read the list: a heading ``[mode dtype]`` and the names under it, divided by blanks; # begins a comment.

    Raises ValueError for an unknown mode, a name before the first heading or a name that stands twice in a section.
    """
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        words = line.partition("#")[0].strip()
        if heading := re.fullmatch(r"\[(\w+)(?: +(\w+))?\]", words):
            mode, dtype = heading[1], heading[2] or "-"
            if mode not in MODES or (dtype == "-") != (mode == "errors"):
                raise ValueError(f"{words}: needs [errors], or one of {', '.join(MODES[:-1])} and a dtype, as in [eager float32]")
            found.append((mode, dtype, []))
        elif words and not found:
            raise ValueError(f"{words}: stands before the first heading")
        elif words:
            found[-1][2].extend(words.split())
    for mode, dtype, names in found:
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"[{mode} {dtype}] names twice: {', '.join(twice)}")
    return [Section(mode, dtype, tuple(names)) for mode, dtype, names in found]


def share(section: Section, shares: int, day: int) -> Section:
    """Every ``shares``-th operator of a section, others on each day, and all of them in as many days."""
    return replace(section, operators=section.operators[day % shares :: shares])


def check(section: Section, program: Path) -> list[str]:
    """Run the conformance program on a section; one line for each operator that failed or was not judged at all."""
    pattern = f"^(?:{'|'.join(re.escape(name) for name in section.operators)})$"
    with tempfile.TemporaryDirectory() as folder:
        results_file = Path(folder) / "results.json"
        options = ["--module", "flambeau", "--ops", pattern, "--modes", section.mode, "--json", str(results_file)]
        if section.dtype != "-":
            options += ["--dtypes", section.dtype]
        run = subprocess.run([sys.executable, str(program), *options])
        if run.returncode:
            return [f"{program.name} ended with status {run.returncode}"]
        results = json.loads(results_file.read_text(encoding="utf-8"))
    judged = {result["op"].partition("[")[0] for result in results}
    found = [f"{result['op']}: {result['why']}" for result in results if result["why"] or result["passed"] != result["total"]]
    return found + [f"{name}: the database has no such case" for name in section.operators if name not in judged]


def main(arguments: list[str] | None = None) -> int:
    """Check every section of the list; the number 1 when an operator failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="the conformance program, opinfo.py")
    parser.add_argument("--list", type=Path, default=LIST, help="the list of operators")
    parser.add_argument("--jobs", type=int, default=2, help="sections that run at once")
    parser.add_argument("--shares", type=int, default=1, help="run one of so many parts of every section, another one each day")
    options = parser.parse_args(arguments)
    day = datetime.date.today().toordinal()
    listed = [share(section, options.shares, day) for section in sections(options.list.read_text(encoding="utf-8"))]
    listed = [section for section in listed if section.operators]
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda section: check(section, options.program), listed))
    for section, found in zip(listed, results, strict=True):
        failed += len(found)
        for line in found:
            print(f"conformance: {section.mode} {section.dtype}: {line}")
    cases = sum(len(section.operators) for section in listed)
    print(f"conformance: {len(listed)} sections, {cases} cases required, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
