"""The link checks find dead files, dead headings and moved symbols, and put line numbers right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import doc_links, tour_links


def test_dead_links_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `title`, here\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[good](other.md) [far](https://example.org/x)\n"
        "[heading](other.md#a-title-here) [none](other.md#nothing)\n"
        "```\n[in code](gone.md)\n```\n"
        "[gone](gone.md)\n",
        encoding="utf-8",
    )
    assert doc_links.faults(page, tmp_path) == [
        "page.md:2: other.md#nothing: the file has no such heading",
        "page.md:6: gone.md: there is no such file",
    ]


SOURCE = '''"""A module."""
LIMIT: int = 3
size = 4


class Node:
    """A node."""

    @property
    def name(self) -> str:
        return ""


def node() -> Node:
    return Node()
'''


def test_symbols_are_found_at_their_lines() -> None:
    assert tour_links.symbol_lines(SOURCE) == {"LIMIT": 2, "size": 3, "Node": 6, "Node.name": 10, "node": 14}


def test_wrong_lines_are_named_and_put_right(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(SOURCE, encoding="utf-8")
    text = "[`Node`](code.py#L6) [`Node.name`](code.py#L1) [`lost`](code.py#L2) [`x`](none.py#L3)"
    fixed, complaints = tour_links.renumber(text, tmp_path)
    assert fixed == "[`Node`](code.py#L6) [`Node.name`](code.py#L10) [`lost`](code.py#L2) [`x`](none.py#L3)"
    assert complaints == [
        "Node.name: in line 10 of code.py, the link says 1",
        "lost: not in code.py",
        "x: there is no file none.py",
    ]


def test_fix_writes_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code.py").write_text(SOURCE, encoding="utf-8")
    tour = tmp_path / "tour.md"
    tour.write_text("[`node`](code.py#L1)\n", encoding="utf-8")
    monkeypatch.setattr(tour_links, "TOUR", tour)
    assert tour_links.main([]) == 1
    assert tour_links.main(["--fix"]) == 0
    assert tour.read_text(encoding="utf-8") == "[`node`](code.py#L14)\n"
    assert tour_links.main([]) == 0
