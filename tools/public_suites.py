"""Runs test suites that others publish, with flambeau as the library under test, and prints which share of their tests pass.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests; pip install pytest hypothesis ndindex
    python tools/public_suites.py array-api array-api-tests [pytest's arguments]
    git clone https://github.com/arogozhnikov/einops
    python tools/public_suites.py einops einops [pytest's arguments]

The suites stay outside this repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What is run in the suite's folder, and the environment of it.
SUITES = {
    "array-api": (
        ["-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider", "--disable-deadline"],
        {"ARRAY_API_TESTS_MODULE": "flambeau.array_api"},
    ),
    "einops": (
        ["-m", "flambeau", "run", "-m", "pytest", "einops/tests", "-q", "-p", "no:cacheprovider"], {"EINOPS_TEST_BACKENDS": "numpy,torch"}
    ),
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run one suite; its exit status."""
    if len(arguments) < 2 or arguments[0] not in SUITES:
        print(__doc__)
        return 2
    command, settings = SUITES[arguments[0]]
    path = os.pathsep.join([str(ROOT), str(Path(arguments[1]).resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | settings | {"PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, *command, *arguments[2:]], cwd=arguments[1], env=environment, text=True, stdout=subprocess.PIPE, check=False
    )
    print(done.stdout, end="")
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|error)", done.stdout.splitlines()[-1])}
    passed, whole = counts.get("passed", 0), sum(counts.values())
    print(f"{arguments[0]}: {passed} of {whole} passed, {100 * passed / max(whole, 1):.1f} %")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
