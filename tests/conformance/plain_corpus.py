"""Runs the programs of tests/capture/corpus, uncompiled, on PyTorch under flambeau's names; pickles what they do into the file named."""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop

import flambeau._higher_order_ops

FOREACH_MAP = flambeau._higher_order_ops.foreach_map


def take_names() -> None:
    """Let ``import flambeau`` give PyTorch from now on."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "flambeau"]:
        del sys.modules[name]
    library: Any = torch
    loops: Any = types.ModuleType("flambeau._higher_order_ops")
    loops.while_loop, loops.foreach_map = while_loop, FOREACH_MAP  # PyTorch's own foreach_map runs compiled only
    library.capture = types.ModuleType("flambeau.capture")
    sys.modules |= {"flambeau" + n[len("torch") :]: m for n, m in sys.modules.items() if n.partition(".")[0] == "torch"}
    sys.modules |= {"flambeau._higher_order_ops": loops, "flambeau.capture": library.capture}
    library.compile = lambda function, **_: function  # PyTorch uses it in cond


def main() -> None:
    take_names()
    import tests.capture.corpus  # noqa: F401 - declares the programs
    from tests.capture.corpus.harness import PROGRAMS, Side

    found = {name: Side(program, "function", lambda f: f).run() for name, program in PROGRAMS.items()}
    with open(sys.argv[1], "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main()
