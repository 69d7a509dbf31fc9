"""Checks that every relative link in the Markdown files points at a file, and at a heading of it, that exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(```|~~~)")
LINK = re.compile(r"!?\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(?P<title>.*?)\s*#*$")


@dataclass(frozen=True)
class Link:
    """A link of a Markdown file: the line it stands on (from 1), its text and its target."""

    line: int
    text: str
    target: str


def documents(root: Path) -> list[Path]:
    """The Markdown files of the repository that a reader meets."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("flambeau/**/*.md")])


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers and lines outside fenced code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line.lstrip()):
            fenced = not fenced
        elif not fenced:
            yield number, line


def links(text: str) -> Iterator[Link]:
    """The links of a Markdown text, code blocks apart."""
    for number, line in prose(text):
        for match in LINK.finditer(line):
            yield Link(number, match["text"], match["target"])


def anchors(text: str) -> set[str]:
    """The fragment of each heading, by the rule that the common hosts follow."""
    found: set[str] = set()
    for _, line in prose(text):
        if match := HEADING.match(line):
            title = re.sub(r"[^\w\- ]", "", match["title"].lower())
            found.add(title.replace(" ", "-"))
    return found


def faults(path: Path, root: Path) -> list[str]:
    """One line for each link of the file that leads nowhere."""
    text = path.read_text(encoding="utf-8")
    found: list[str] = []
    for link in links(text):
        if re.match(r"[a-z]+:", link.target):
            continue
        file, _, fragment = link.target.partition("#")
        target = (path.parent / file).resolve() if file else path
        where = f"{path.relative_to(root)}:{link.line}"
        if not target.exists():
            found.append(f"{where}: {link.target}: there is no such file")
        elif fragment and target.suffix == ".md" and fragment not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{where}: {link.target}: the file has no such heading")
    return found


def main() -> int:
    """Print each fault; the number 1 when there is one, else 0."""
    root = Path(__file__).resolve().parent.parent
    paths = documents(root)
    found = [fault for path in paths for fault in faults(path, root)]
    for fault in found:
        print(f"dead link: {fault}")
    print(f"{len(paths)} documents, {len(found)} dead links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
