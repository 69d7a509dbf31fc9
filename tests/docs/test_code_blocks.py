"""Every Python block of the documents runs, every command in them exists, and every link leads somewhere."""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from flambeau.cli.main import main as flambeau
from tools import doc_links, tour_links

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = doc_links.documents(ROOT)
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its language, its text and the line (from 1) on which the text begins."""

    language: str
    code: str
    line: int


def blocks(text: str) -> list[CodeBlock]:
    """The fenced blocks of a Markdown text that name a language."""
    return [CodeBlock(m["language"], m["code"], text.count("\n", 0, m.start("code")) + 1) for m in BLOCK.finditer(text)]


def run(text: str, name: str) -> int:
    """Run the Python blocks of a document in order, in one namespace; how many there were."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    python = [block for block in blocks(text) if block.language == "python"]
    for block in python:
        if ">>>" in block.code:
            examples = doctest.DocTestParser().get_doctest(block.code, namespace, name, name, block.line - 1)
            report: list[str] = []
            doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            namespace.update(examples.globs)
        else:
            # Empty lines in front put the document's own line numbers into a traceback.
            exec(compile("\n" * (block.line - 1) + block.code, name, "exec"), namespace)
    return len(python)


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_python_blocks_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run(text, str(path)) == text.count("```python\n")


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(path: Path) -> None:
    assert doc_links.faults(path, ROOT) == []


def test_the_tour_names_the_right_lines() -> None:
    _, complaints = tour_links.renumber(tour_links.TOUR.read_text(encoding="utf-8"), tour_links.TOUR.parent)
    assert complaints == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_commands_exist(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shell = "".join(block.code for block in blocks(path.read_text(encoding="utf-8")) if block.language == "sh")
    assert set(re.findall(r"^make ([\w-]+)", shell, re.MULTILINE)) <= targets
    for command in re.findall(r"^flambeau (\w+)", shell, re.MULTILINE):
        with pytest.raises(SystemExit) as ended:
            flambeau([command, "--help"])
        assert ended.value.code == 0
        assert command in capsys.readouterr().out


def test_blocks_are_found_with_their_lines_and_share_names() -> None:
    text = "# t\n```python\nx = 1\n```\n```sh\nmake x\n```\n\n```python\n>>> x + 1\n2\n```\n"
    assert [(block.language, block.line) for block in blocks(text)] == [("python", 3), ("sh", 6), ("python", 10)]
    assert run(text, "t.md") == 2


def test_a_wrong_block_fails_on_its_line() -> None:
    with pytest.raises(AssertionError, match=r'File "t.md", line 3'):
        run("# t\n```python\n>>> 1 + 1\n3\n```\n", "t.md")
    with pytest.raises(NameError) as raised:
        run("# t\n```python\nunknown\n```\n", "t.md")
    assert raised.traceback[-1].lineno == 2
