"""The command ``flambeau``: its arguments and what each of its commands does."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import platform
from pathlib import Path

from flambeau.cli import api, run_alias, script
from flambeau.core.config import config
from flambeau.runtime import disk_cache

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
    explain.add_argument("--output", metavar="FILE", type=Path, help="write the report there, with every graph and all source")
    _add_program(explain)
    explain.set_defaults(action=_explain)

    cache = commands.add_parser("cache", help="look at or empty the folder of compiled code")
    cache.add_argument("task", choices=["info", "clear"], help="info: where it is and what it holds; clear: remove every entry")
    cache.set_defaults(action=_cache)

    names = commands.add_parser("api", help="count PyTorch's public names that are here, by module")
    names.add_argument("--missing", action="store_true", help="print the names that are missing, the most used first")
    names.add_argument("--module", metavar="NAME", help="only the names of this module, as torch.nn.functional")
    names.set_defaults(action=_api)
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
    output: Path | None = options.output and options.output.absolute()
    # Not at the top: `run` and `cache` do without it.
    with importlib.import_module("flambeau.explain").recording() as recording:
        try:
            return _run(options)
        finally:
            print(recording.report())
            if output is not None:
                output.parent.mkdir(parents=True, exist_ok=True)
                output.write_text(recording.report(full=True), encoding="utf-8")
                print(f"The whole report, with every graph and all kernel source: {output}")


def _cache(options: argparse.Namespace) -> int:
    entries = disk_cache.entries()
    size = sum(size for _, size, _ in entries) / 2**20
    if options.task == "info":
        state = "" if config.cache else " (switched off by FLAMBEAU_CACHE)"
        print(f"{config.cache_dir}{state}: {len(entries)} entries, {size:.1f} of at most {config.cache_mebibytes} MiB")
        return 0
    disk_cache.clear()
    left = len(disk_cache.entries())
    print(f"{config.cache_dir}: removed {len(entries) - left} entries, {size:.1f} MiB" + (f"; {left} could not be removed" if left else ""))
    return 1 if left else 0


def _api(options: argparse.Namespace) -> int:
    print(api.report(options.module, options.missing))
    return 0


def _version() -> str:
    try:
        own = importlib.metadata.version("flambeau")
    except importlib.metadata.PackageNotFoundError:
        own = "(source tree, not installed)"
    return f"flambeau {own} (torch {run_alias.TORCH_VERSION}, Python {platform.python_version()})"
