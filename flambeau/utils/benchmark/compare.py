"""Tables of measurements: a row for each statement, a column for each description."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.utils.benchmark.measurement import Measurement

__all__ = ["Compare"]


class Compare:
    """Puts measurements of the same label side by side."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Take in more; ValueError for what is no measurement."""
        found = list(results)
        for result in found:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result).__name__}")
        self._results += found

    def trim_significant_figures(self) -> None:
        """Accepted: times have as many digits as fit."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted: tables have no colors."""

    def highlight_warnings(self) -> None:
        """Accepted: tables have no colors."""

    def _tables(self) -> Iterable[str]:
        for label in dict.fromkeys(r.label for r in self._results):
            mine = [r for r in self._results if r.label == label]
            columns = list(dict.fromkeys(r.description or "" for r in mine))
            scale, unit = next((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns")) if min(r.median for r in mine) >= s)
            rows = list(dict.fromkeys((r.num_threads, r.env or "", r.sub_label or r.stmt) for r in mine))
            cells = [["", *columns]]
            for threads, env, name in rows:
                here = {r.description or "": r for r in mine if (r.num_threads, r.env or "", r.sub_label or r.stmt) == (threads, env, name)}
                times = [f"{here[c].median / (scale or 1e-9):.1f}" if c in here else "" for c in columns]
                cells.append([f"{threads} threads: {f'({env}) ' if env else ''}{name}", *times])
            widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
            body = [" | ".join(c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))) for r in cells]
            yield "\n".join([f"[ {label or ''} ]".center(len(body[0]), "-"), *body, "", f"Times are in {unit}."])

    def __str__(self) -> str:
        return "\n\n".join(self._tables())

    def print(self) -> None:
        """Print the tables."""
        print(str(self))
