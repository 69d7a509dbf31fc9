"""Holds the source to its size limits: lines of a file, lines of a function, lines of code of the package.

Budgets count lines that hold code; blank lines, comments and docstrings are free, so that nothing is gained by leaving them out.
The machinery (compiler, runtime, capture) has a fixed one. The surface that programs see grows with the names that it offers: there
the lines for each public function, method and class are bounded. Files and functions are measured as a reader meets them, with
everything.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 800
FUNCTION_LINES = 60
MACHINERY_CODE = 32_500
SURFACE_CODE = 12  # for each public definition
PACKAGE = "flambeau"
MACHINERY = frozenset((
    "autograd", "backends", "capture", "cli", "codegen", "compilation", "compiler", "core", "derivative", "explain", "interp", "ir",
    "passes", "prims", "runtime", "schedule", "templates",
))  # fmt: skip
FOLDERS = (PACKAGE, "tests", "tools", "examples", "benchmarks")


@dataclass(frozen=True)
class Function:
    """A function and its length in lines, docstring included."""

    where: str
    lines: int


@dataclass(frozen=True)
class File:
    """A source file, its length in lines, how many of them hold code, its functions, and how many public definitions it has."""

    path: Path
    lines: int
    code: int
    functions: tuple[Function, ...]
    public: int

    @property
    def room(self) -> str:
        """The subpackage that the file is in, or an empty name."""
        return self.path.parts[1] if len(self.path.parts) > 2 else ""


def measure(path: Path, root: Path) -> File:
    """Read one Python file; SyntaxError where it does not parse."""
    text = path.read_text(encoding="utf-8")
    relative = path.relative_to(root)
    nodes = list(ast.walk(ast.parse(text, str(path))))
    functions = tuple(
        Function(f"{relative}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    public = sum(isinstance(node, definitions) and not node.name.startswith("_") for node in nodes)
    return File(relative, len(text.splitlines()), code_lines(text), functions, public)


_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """How many lines hold code: neither blank, nor a comment or docstring alone."""
    held: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            if [t.type for t in statement] != [tokenize.STRING]:
                held.update(line for t in statement for line in range(t.start[0], t.end[0] + 1))
            statement = []
        elif token.type not in _NO_CODE:
            statement.append(token)
    return len(held)


def source_files(root: Path) -> Iterator[File]:
    """Every Python file under the checked folders, in a fixed order."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            yield measure(path, root)


def faults(files: list[File]) -> list[str]:
    """One line for each limit that is passed."""
    found = [f"{f.path}: {f.lines} lines, at most {FILE_LINES}" for f in files if f.lines > FILE_LINES]
    found += [
        f"{function.where}: {function.lines} lines, at most {FUNCTION_LINES}"
        for f in files
        for function in f.functions
        if function.lines > FUNCTION_LINES
    ]
    package = [f for f in files if f.path.parts[0] == PACKAGE]
    machinery = sum(f.code for f in package if f.room in MACHINERY)
    if machinery > MACHINERY_CODE:
        found.append(f"the machinery: {machinery} lines of code, at most {MACHINERY_CODE}")
    surface = [f for f in package if f.room not in MACHINERY]
    code, public = sum(f.code for f in surface), sum(f.public for f in surface)
    if code > SURFACE_CODE * public:
        found.append(f"the surface: {code} lines of code for {public} public definitions, at most {SURFACE_CODE} for each")
    return found


def table(files: list[File]) -> str:
    """Files, lines, longest file and longest function of each part of the tree."""
    groups: dict[str, list[File]] = {}
    for f in files:
        top, *inner = f.path.parts
        part = f"{top}/{inner[0]}" if top == PACKAGE and len(inner) > 1 else top
        groups.setdefault(part, []).append(f)
    rows = [f"{'part':28} {'files':>5} {'lines':>7} {'code':>7} {'longest file':>13} {'function':>9}"]
    for part, members in sorted(groups.items()):
        rows.append(_row(part, members))
    package = [f for f in files if f.path.parts[0] == PACKAGE]
    surface = [f for f in package if f.room not in MACHINERY]
    rows.append(_row("the machinery", [f for f in package if f.room in MACHINERY]))
    rows.append(_row(f"the surface, {sum(f.public for f in surface)} names", surface))
    rows.append(_row(f"{PACKAGE} in all", package))
    return "\n".join(rows)


def _row(name: str, members: list[File]) -> str:
    longest = max((function.lines for f in members for function in f.functions), default=0)
    file_lines = max((f.lines for f in members), default=0)
    return f"{name:28} {len(members):5} {sum(f.lines for f in members):7} {sum(f.code for f in members):7} {file_lines:13} {longest:9}"


def main() -> int:
    """Print the table and each fault; the number 1 when there is a fault, else 0."""
    files = list(source_files(ROOT))
    print(table(files))
    found = faults(files)
    for line in found:
        print(f"too long: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
