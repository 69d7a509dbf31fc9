"""Holds the links of the tour to the lines of the symbols they name: [`name`](../flambeau/file.py#L10); --fix renumbers them."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "docs" / "tour.md"
SYMBOL_LINK = re.compile(r"\[`(?P<symbol>[\w.]+)`\]\((?P<file>[^)\s#]+\.py)#L(?P<line>\d+)\)")


def symbol_lines(source: str) -> dict[str, int]:
    """The line (from 1) of each class, function, method and assigned name, by its dotted name in the module."""
    found: dict[str, int] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.setdefault(prefix + node.name, node.lineno)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")
            for target in _assigned(node):
                found.setdefault(prefix + target, node.lineno)

    visit(ast.parse(source).body, "")
    return found


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def renumber(text: str, folder: Path) -> tuple[str, list[str]]:
    """The text with every symbol link at its symbol's line, and one line for each link that was wrong.

    A link whose file or symbol is gone stays as it is and is reported as well.
    """
    complaints: list[str] = []

    def right(match: re.Match[str]) -> str:
        file = folder / match["file"]
        if not file.exists():
            complaints.append(f"{match['symbol']}: there is no file {match['file']}")
            return match[0]
        line = symbol_lines(file.read_text(encoding="utf-8")).get(match["symbol"])
        if line is None:
            complaints.append(f"{match['symbol']}: not in {match['file']}")
            return match[0]
        if line != int(match["line"]):
            complaints.append(f"{match['symbol']}: in line {line} of {match['file']}, the link says {match['line']}")
        return f"[`{match['symbol']}`]({match['file']}#L{line})"

    return SYMBOL_LINK.sub(right, text), complaints


def main(arguments: list[str] | None = None) -> int:
    """Check or fix the tour; the number 1 when a link is wrong and was not fixed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="write the right line numbers into the tour")
    options = parser.parse_args(arguments)
    text = TOUR.read_text(encoding="utf-8")
    fixed, complaints = renumber(text, TOUR.parent)
    if options.fix and fixed != text:
        TOUR.write_text(fixed, encoding="utf-8")
        _, complaints = renumber(fixed, TOUR.parent)
    for complaint in complaints:
        print(f"tour: {complaint}")
    print(f"{len(SYMBOL_LINK.findall(text))} links into the source, {len(complaints)} wrong")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
