"""The programs of the corpus and random ones with captures that are kept: ``python -m tests.capture.kept [EVERY] [SEEDS]``.

Prints as JSON which differ, what was counted, and why captures were not kept. Run it twice with one cache folder
(``FLAMBEAU_CACHE_DIR``): the second time most programs are revived.
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
    differ = [f"{n} {form}" for n in list(PROGRAMS)[::every] for form in PROGRAMS[n].forms if compare(PROGRAMS[n], form)[0] is not None]
    differ += [f"seed {seed}" for seed in range(seeds) if fuzz.run(seed) is not None]
    report: dict[str, Any] = {"differ": differ, "reasons": reasons, **{name: events.counters[name] for name in COUNTED}}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
