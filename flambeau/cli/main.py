"""The command ``flambeau``: its arguments and what each of its commands does."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import platform

from flambeau.cli import run_alias, script

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status. What a program under ``run`` raises goes on to the caller."""
    options = _parser().parse_args(arguments)
    return options.action(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flambeau", description="PyTorch's programming model, written in Python.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a PyTorch program with flambeau as its torch")
    _add_program(run)
    run.set_defaults(action=_run)

    explain = commands.add_parser("explain", help="run a program and report what was captured, compiled and run")
    _add_program(explain)
    explain.set_defaults(action=_explain)
    return parser


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="is_module", action="store_true", help="the program is a module's name, as in python -m")
    parser.add_argument("program", help="a script, folder or archive; with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the program")


def _run(options: argparse.Namespace) -> int:
    run_alias.install()
    run_alias.share_with_children()
    execute = script.run_module if options.is_module else script.run_script
    execute(options.program, options.arguments)
    return 0


def _explain(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("flambeau.explain") is None:
        raise NotImplementedError(
            "flambeau explain: this version has no report; FLAMBEAU_DEBUG=1 to 6 with `flambeau run` prints compiles, timings, "
            "graphs, kernel source, pass differences and assembly."
        )
    with importlib.import_module("flambeau.explain").recording() as recording:
        try:
            return _run(options)
        finally:
            print(recording.report())


def _version() -> str:
    try:
        own = importlib.metadata.version("flambeau")
    except importlib.metadata.PackageNotFoundError:
        own = "(source tree, not installed)"
    return f"flambeau {own} (torch {run_alias.TORCH_VERSION}, Python {platform.python_version()})"
