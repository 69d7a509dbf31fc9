"""``python -m tests.capture.corpus [NAME ...] [--flush] [--exit] [--apart]``: a table of the programs, or what differs in those named.

``--flush`` runs what is recorded after every operator, ``--exit`` leaves the recorded program at every check.
"""

from __future__ import annotations

import argparse
import os
import signal
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


def run(name: str, form: str, flush: bool, leave: bool, verbose: bool) -> bool:
    """Run a program in one form and print its line; whether it is right."""
    found, report = None, None
    try:
        with stressed(flush=flush, leave=leave):
            found, report = compare(PROGRAMS[name], form)
        verdict = "differs" if found else "ok"
    except Exception as error:
        verdict, found = "error", f"{type(error).__name__}: {error}"
        if verbose:
            traceback.print_exc()
    told = figures(report) if report is not None else ""
    tell(name, form, verdict, found or told, verbose)
    if verbose and report is not None:
        print(report.explain(), flush=True)
    return verdict == "ok"


def tell(name: str, form: str, verdict: str, text: str, verbose: bool) -> None:
    print(f"{name:40s} {form:9s} {verdict:8s} {text}"[: None if verbose else 200], flush=True)


def apart(name: str, form: str, flush: bool, leave: bool) -> bool:
    """As `run`, in a process of its own."""
    child = os.fork()
    if child == 0:
        os._exit(0 if run(name, form, flush, leave, False) else 1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        tell(name, form, "crashed", f"by {signal.Signals(os.WTERMSIG(status)).name}", False)
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.capture.corpus", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--flush", action="store_true")
    parser.add_argument("--exit", action="store_true")
    parser.add_argument("--apart", action="store_true", help="run each program in a process of its own, which may crash")
    options = parser.parse_args()
    bad = 0
    for name in options.names or PROGRAMS:
        for form in PROGRAMS[name].forms:
            if options.apart:
                bad += not apart(name, form, options.flush, options.exit)
            else:
                bad += not run(name, form, options.flush, options.exit, bool(options.names))
    print(f"{len(PROGRAMS)} programs, {bad} runs differ or fail; Python {sys.version.split()[0]}, {torch.__name__} {torch.__version__}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
