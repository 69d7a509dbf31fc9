"""Runs a Python script, folder, archive or module as ``__main__``, the way the interpreter itself would."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
import zipfile
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from flambeau.cli import run_alias

__all__ = ["run_module", "run_script"]


def run_script(path: str, arguments: list[str]) -> None:
    """Run a file, or a folder or zip archive that holds ``__main__.py``, with ``sys.argv`` set to its path and arguments.

    What the script raises, SystemExit included, goes on to the caller. A path that cannot be opened raises SystemExit with
    status 2, a folder or archive without ``__main__.py`` with status 1, as the interpreter does.
    """
    sys.argv[:] = [path, *arguments]
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        _set_first_path(path)
        # Found by hand: in sys.modules the name stands for the command itself.
        spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
        _execute_module(spec, missing=f"can't find '__main__' module in {path!r}")
        return
    full = os.path.abspath(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        _refuse(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}", status=2)
    _set_first_path(os.path.dirname(os.path.realpath(full)))
    _execute(source, __file__=full, __cached__=None, __loader__=SourceFileLoader("__main__", full), __package__=None, __spec__=None)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module, or the ``__main__`` module of a package, as ``python -m name`` does; errors as in `run_script`."""
    sys.argv[:] = ["-m", *arguments]
    _set_first_path(os.getcwd())
    spec = _find_module(run_alias.target_name(name))
    if spec is not None and spec.submodule_search_locations is not None:
        missing = f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed"
        _execute_module(_find_module(f"{spec.name}.__main__"), missing)
    else:
        _execute_module(spec, missing=f"No module named {name}")


def _find_module(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        _refuse(f"Error while finding module specification for {name!r} (ModuleNotFoundError: {error})")


def _execute_module(spec: ModuleSpec | None, missing: str) -> None:
    if spec is None:
        _refuse(missing)
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name)
    if code is None:
        _refuse(f"No code object available for {spec.name}")
    if spec.name != "__main__":
        sys.argv[0] = spec.origin or spec.name
    _execute(code, __file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader, __package__=spec.parent, __spec__=spec)


def _refuse(message: str, status: int = 1) -> NoReturn:
    print(f"flambeau: {message}", file=sys.stderr)
    raise SystemExit(status)


def _set_first_path(folder: str) -> None:
    # In safe-path mode (-P) the interpreter puts no folder of the program's on the path, so there is none to replace.
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _execute(program: bytes | CodeType, **attributes: Any) -> None:
    """Run the program in a fresh ``__main__``, which stays in place: threads, exit handlers and child processes look there."""
    module = ModuleType("__main__")
    vars(module).update(attributes, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    try:
        code = program if isinstance(program, CodeType) else compile(program, attributes["__file__"], "exec", dont_inherit=True)
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException:
        _hide_our_frames()
        raise


def _hide_our_frames() -> None:
    """Let whatever hook the program has set see the traceback from the program's own first line."""
    hook = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code is not _execute.__code__:
            trace = trace.tb_next
        trace = trace.tb_next if trace is not None else None
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
