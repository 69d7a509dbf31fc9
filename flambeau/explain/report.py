"""Writes a recording down: a table of the user's lines, the costliest kernels with their way from source to machine code, reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from flambeau.ir.graph import as_python
from flambeau.ir.kernel import as_python as kernel_as_python
from flambeau.schedule.schedule import Call

if TYPE_CHECKING:
    from flambeau.explain.recording import Recording, Version

# How many kernels the short report shows whole, and how many lines its tables have.
SHOWN_KERNELS = 3
SHOWN_ROWS = 20
SHOWN_TEXT_LINES = 40


def text_of(recording: Recording, full: bool) -> str:
    """The report; ``full`` leaves nothing out."""
    parts = [_summary(recording)]
    for version in recording.versions:
        parts.append(_version(version, full))
    eager = [f for f in recording.functions if f.eager_reason is not None]
    parts += [f"## {f.name} runs eagerly\n\n{f.eager_reason}\n" for f in eager]
    parts.append(_operators(recording, full))
    return "\n".join(parts)


def _summary(recording: Recording) -> str:
    lines = ["# What flambeau did", ""]
    compiled, loaded = recording.kernels["compiled"], recording.kernels["loaded"]
    lines.append(f"{len(recording.versions)} compiled versions of {len(recording.functions)} functions; {compiled} kernels compiled, "
                 f"{loaded} loaded from the cache.")  # fmt: skip
    if recording.milliseconds:
        spent = sorted(recording.milliseconds.items(), key=lambda item: -item[1])
        lines.append("Time: " + ", ".join(f"{stage} {milliseconds:.1f} ms" for stage, milliseconds in spent) + ".")
    counts = ", ".join(f"{name} {n}" for name, n in sorted(recording.counts().items()))
    lines += [f"Counters: {counts}.", ""] if counts else [""]
    lines += [f"- {note}" for note in recording.notes]
    return "\n".join(lines) + "\n"


# -- compiled functions ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Row:
    """A call of the program with its typical time in seconds."""

    number: int
    call: Call
    seconds: float

    @property
    def lines(self) -> str:
        """The user's lines behind it, each with its operators."""
        by_line: dict[str, list[str]] = {}
        for origin in self.call.origins:
            by_line.setdefault(origin.line, []).append(origin.operator)
        return "; ".join(f"{line} {', '.join(dict.fromkeys(operators))}" for line, operators in by_line.items()) or "(no line)"


def _version(version: Version, full: bool) -> str:
    program = version.bound.program
    calls = program.schedule.calls
    times = [median(run[i] for run in version.seconds) if version.seconds else 0.0 for i in range(len(calls))]
    rows = [_Row(i, call, seconds) for i, (call, seconds) in enumerate(zip(calls, times, strict=True))]
    total = sum(times)
    nodes = len(program.graph.nodes())
    waves = max((c.wave for c in calls), default=-1) + 1
    lines = [f"## {version.function.name}, version {version.number}", ""]
    lines.append(f"{nodes} graph nodes became {len(calls)} kernel calls in {waves} waves; {version.bound.arena_bytes:,} bytes for "
                 "temporaries.")  # fmt: skip
    if version.seconds:
        lines.append(f"Watched {len(version.seconds)} replays, {total * 1e3:.2f} ms in kernels (run one after another, median).")
    lines += ["", *_line_table(rows, total, full), "", *_kernel_table(rows, total, full), ""]
    costliest = sorted(rows, key=lambda row: -row.seconds)
    shown: dict[str, int] = {}
    for row in rows if full else costliest[:SHOWN_KERNELS]:
        lines += _kernel(version, row, full, shown)
    if full:
        lines += ["### Graph", "", as_python(program.graph, "graph")]
    return "\n".join(lines) + "\n"


def _line_table(rows: list[_Row], total: float, full: bool) -> list[str]:
    """The share of time of each user line; a kernel of several lines counts for them in equal parts."""
    seconds: Counter[str] = Counter()
    kernels: dict[str, list[int]] = {}
    operators: dict[str, list[str]] = {}
    for row in rows:
        found = list(dict.fromkeys(origin.line for origin in row.call.origins))
        for line in found:
            seconds[line] += row.seconds / len(found)  # type: ignore[assignment]
            kernels.setdefault(line, []).append(row.number)
        for origin in row.call.origins:
            operators.setdefault(origin.line, []).append(origin.operator)
    ranked = sorted(kernels, key=lambda line: -seconds[line])
    table = [f"{'line':28} {'time':>6} {'kernels':>8}  operators"]
    for line in ranked if full else ranked[:SHOWN_ROWS]:
        names = ", ".join(dict.fromkeys(operators[line]))
        table.append(f"{line:28} {_share(seconds[line], total):>6} {len(kernels[line]):8}  {names if full else names[:90]}")
    return [*table, *_left_out(len(ranked), full)]


def _kernel_table(rows: list[_Row], total: float, full: bool) -> list[str]:
    table = [f"{'kernel':>6} {'wave':>5} {'kind':8} {'time':>6} {'us':>9}  from"]
    ranked = sorted(rows, key=lambda row: -row.seconds)
    for row in ranked if full else ranked[:SHOWN_ROWS]:
        where = row.lines if full else row.lines[:100]
        share = _share(row.seconds, total)
        table.append(f"{row.number:6} {row.call.wave:5} {row.call.kind:8} {share:>6} {row.seconds * 1e6:9.1f}  {where}")
    return [*table, *_left_out(len(ranked), full)]


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}%" if total else "-"


def _left_out(count: int, full: bool) -> list[str]:
    return [f"... and {count - SHOWN_ROWS} more"] if count > SHOWN_ROWS and not full else []


def _kernel(version: Version, row: _Row, full: bool, shown: dict[str, int]) -> list[str]:
    """A kernel with its way: lines and operators, the loop nest, the LLVM IR. ``shown`` holds the kernels of texts seen before."""
    call = row.call
    lines = [f"### Kernel {row.number}: {call.kind}, {row.seconds * 1e6:.1f} us", "", f"From {row.lines}", ""]
    lines.append(f"reads buffers {list(call.reads)}, writes {list(call.writes)}")
    if call.operands is not None:
        o = call.operands
        lines.append(f"product [{o.batch}, {o.rows}, {o.depth}] x [{o.batch}, {o.depth}, {o.columns}], then for each element:")
    if call.built is not None:
        lines += ["", *_cut(kernel_as_python(call.built.kernel, f"kernel_{row.number}"), full)]
    text = version.bound.program.emitted[row.number].text
    same = shown.setdefault(text.text, row.number)
    if same != row.number:
        return [*lines, "", f"LLVM IR as of kernel {same}", ""]
    return [*lines, "", f"LLVM IR of {text.name}:", "", *_cut(text.text, full), ""]


def _cut(text: str, full: bool) -> list[str]:
    lines = text.rstrip("\n").split("\n")
    if full or len(lines) <= SHOWN_TEXT_LINES:
        return lines
    return [*lines[:SHOWN_TEXT_LINES], f"... and {len(lines) - SHOWN_TEXT_LINES} lines more"]


# -- eager operators ------------------------------------------------------------------------------------
def _operators(recording: Recording, full: bool) -> str:
    """The programs of eager operators, by name, with the line that first needed each."""
    names = {f.name for f in recording.functions}
    programs = [p for p in recording.programs if p.name not in names]
    if not programs:
        return "## Operators that ran on their own\n\nnone was planned anew\n"
    counts = Counter(p.name for p in programs)
    first = {p.name: p for p in reversed(programs)}
    lines = ["## Operators that ran on their own", ""]
    lines.append(f"{len(programs)} programs of {len(counts)} operators, {sum(p.compiled for p in programs)} made and the others loaded.")
    lines += ["", f"{'operator':32} {'programs':>8} {'kernels':>8}  first needed by"]
    for name, count in counts.most_common(None if full else SHOWN_ROWS):
        lines.append(f"{name:32} {count:8} {first[name].calls:8}  {first[name].line}")
    return "\n".join([*lines, *_left_out(len(counts), full)]) + "\n"
