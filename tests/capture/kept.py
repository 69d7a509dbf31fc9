"""The programs of the corpus and random ones with captures that are kept: ``python -m tests.capture.kept [EVERY] [SEEDS]``.

Prints as JSON which differ, which were captured and not kept as a whole, what was counted, and why captures were not kept. Run it
twice with one cache folder (``FLAMBEAU_CACHE_DIR``): the second time most programs are revived.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from flambeau.core import events
from tests.capture import fuzz
from tests.capture.corpus import PROGRAMS, compare

COUNTED = ("captures", "captures_revived", "captures_outdated", "captures_kept", "captures_not_kept", "cache_corrupt_entries")


def main(every: int = 1, seeds: int = 25) -> None:
    """Take every so many programs in all their forms, and the first seeds."""
    warnings.simplefilter("ignore")
    reasons: list[str] = []
    events.subscribe(lambda kind, fields: reasons.append(f"{fields['function']}: {fields['note']}"), "not_kept")
    differ: list[str] = []
    captured: list[str] = []
    unkept: list[str] = []

    def take(name: str, found: Any) -> None:
        """Note what one program did since the one before."""
        now = events.counters.snapshot()
        rose = {c for c in COUNTED if now.get(c, 0) > before.get(c, 0)}
        before.update(now)
        differ.extend([name] if found is not None else [])
        captured.extend([name] if "captures" in rose else [])
        unkept.extend([name] if rose & {"captures_not_kept", "captures_outdated"} else [])

    before = events.counters.snapshot()
    for name in list(PROGRAMS)[::every]:
        for form in PROGRAMS[name].forms:
            take(f"{name} {form}", compare(PROGRAMS[name], form)[0])
    for seed in range(seeds):
        take(f"seed {seed}", fuzz.run(seed))
    report: dict[str, Any] = {"differ": differ, "captured": captured, "unkept": unkept, "reasons": reasons}
    report |= {name: events.counters[name] for name in COUNTED}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
