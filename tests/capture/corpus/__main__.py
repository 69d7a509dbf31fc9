"""``python -m tests.capture.corpus [NAME ...] [--flush] [--exit]``: a table of the programs, or what differs in those named.

``--flush`` runs what is recorded after every operator, ``--exit`` leaves the recorded program at every check.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import Any

import flambeau as torch
from tests.capture.corpus import PROGRAMS, compare, stressed

COLUMNS = ("segments", "checks", "captures")


def figures(report: Any) -> str:
    """What the compiled function's report counts, where it does; else why it runs eagerly."""
    told = report.explain()
    reason = getattr(told, "eager_reason", None)
    counts = [(c, getattr(told, c, None)) for c in COLUMNS]
    text = ", ".join(f"{n if isinstance(n, int) else len(n)} {c}" for c, n in counts if n is not None)
    return f"{text} eager: {reason}" if reason else text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.capture.corpus", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--flush", action="store_true")
    parser.add_argument("--exit", action="store_true")
    options = parser.parse_args()
    bad = 0
    for name, program in PROGRAMS.items():
        if options.names and name not in options.names:
            continue
        for form in program.forms:
            found, report = None, None
            try:
                with stressed(flush=options.flush, leave=options.exit):
                    found, report = compare(program, form)
                verdict = "differs" if found else "ok"
            except Exception as error:
                verdict, found = "error", f"{type(error).__name__}: {error}"
                if options.names:
                    traceback.print_exc()
            bad += verdict != "ok"
            told = figures(report) if report is not None else ""
            print(f"{name:34s} {form:9s} {verdict:8s} {found if found else told}"[: None if options.names else 200], flush=True)
            if options.names and report is not None:
                print(report.explain())
    print(f"{len(PROGRAMS)} programs, {bad} runs differ or fail; Python {sys.version.split()[0]}, {torch.__name__} {torch.__version__}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
