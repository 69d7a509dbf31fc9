"""Runs CPython's own tests by the bytecode machine and tells which share of what passes natively passes there too.

Each test method is entered by the machine, and with it every Python function that it calls; the examples of doctests likewise.
Works with every Python that the machine knows, without this package's dependencies:

    python tools/cpython_tests.py                        all modules, one line each
    python tools/cpython_tests.py test_patma test_with   these modules, with the failures
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import functools
import importlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = """
test_augassign test_baseexception test_binop test_bool test_builtin test_call test_class test_compare test_contains test_contextlib
test_dataclasses test_decorators test_defaultdict test_descr test_dict test_dictcomps test_dictviews test_dynamicclassattribute
test_enum test_enumerate test_except_star test_exception_group test_exception_hierarchy test_exception_variations test_exceptions
test_extcall test_fstring test_funcattrs test_functools test_generator_stop test_generators test_genericclass test_genexps
test_global test_grammar test_int test_isinstance test_iter test_iterlen test_keywordonlyarg test_list test_listcomps test_metaclass
test_named_expressions test_opcodes test_operator test_ordered_dict test_patma test_pep646_syntax test_positional_only_arg
test_property test_raise test_reprlib test_richcmp test_scope test_set test_setcomps test_slice test_string test_string_literals
test_subclassinit test_super test_traceback test_tuple test_type_params test_type_aliases test_type_annotations test_typechecks
test_types test_unary test_unpack test_unpack_ex test_userdict test_userlist test_weakset test_with test_yield_from
""".split()
# The seconds that one test may take.
LIMIT = 60
# They replace builtin functions under the feet of the machine, which is Python itself; they count as not passed.
LEFT_OUT = ("test_reduce_mutating_builtins_iter", "test_lru_reentrancy_with_len", "test_all_any_tuple_optimization")


def import_machine() -> Any:
    """The machine's package, without running the package's root, which needs numpy and llvmlite."""
    for name in ("flambeau", "flambeau.capture"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__path__ = [str(ROOT.joinpath(*name.split(".")))]  # type: ignore[attr-defined]
            sys.modules[name] = module
    return importlib.import_module("flambeau.capture.machine")


class Outcome(unittest.TestResult):
    """Remembers which tests passed, and stops one that runs too long."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []
        self.bad: dict[str, str] = {}
        self._clean = True

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._clean = True
        signal.alarm(LIMIT)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        if self._clean:
            self.passed.append(test.id())

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._fail(test, err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._fail(test, err)

    addFailure = addError  # noqa: N815

    def _fail(self, test: Any, error: Any) -> None:
        self._clean = False
        self.bad[test.id()] = self._exc_info_to_string(error, test)  # type: ignore[attr-defined]


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    """The single tests of a suite."""
    if isinstance(suite, unittest.TestSuite):
        for part in suite:
            yield from cases(part)
    else:
        yield suite


def load(name: str) -> unittest.TestSuite:
    """All tests of a module of CPython's test package; test packages bring several modules."""
    module = importlib.import_module(f"test.{name}")
    if hasattr(module, "__path__"):
        return unittest.defaultTestLoader.discover(module.__path__[0], top_level_dir=str(Path(module.__path__[0]).parent.parent))
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def interpret(machine: Any, case: unittest.TestCase) -> None:
    """Let the machine enter a test's method."""
    if isinstance(case, doctest.DocTestCase | unittest.IsolatedAsyncioTestCase):
        return
    name = case._testMethodName
    method = getattr(case, name)
    if isinstance(method, types.MethodType) and isinstance(method.__func__, types.FunctionType):

        @functools.wraps(method)
        def interpreted() -> Any:
            if name in LEFT_OUT:
                case.skipTest("replaces builtin functions")
            return machine.semantics.call(method, (), {})

        setattr(case, name, interpreted)


def run(name: str) -> dict[str, Any]:
    """Run a module's tests natively and by the machine."""
    package = import_machine()
    machine = package.Machine(package.Semantics())

    def execute(code: types.CodeType, names: dict[str, Any]) -> None:
        machine.call_function(types.FunctionType(code, names), (), {}, names)

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {LIMIT} s")

    signal.signal(signal.SIGALRM, stop)
    sys.setrecursionlimit(1000)
    native, interpreted = Outcome(), Outcome()
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        load(name).run(native)
        between = time.perf_counter()
        suite = load(name)
        for case in cases(suite):
            interpret(machine, case)
        doctest.exec = execute  # type: ignore[attr-defined]
        suite.run(interpreted)
    expected = set(native.passed)
    return {
        "native": len(expected),
        "interpreted": len(expected & set(interpreted.passed)),
        "steps": machine.steps,
        "seconds": (round(between - started, 1), round(time.perf_counter() - between, 1)),
        "bad": {test: interpreted.bad.get(test, "did not pass") for test in sorted(expected - set(interpreted.passed))},
    }


def run_apart(name: str, seconds: float) -> dict[str, Any]:
    """The same in a process of its own; a crash or a missing module counts as no result."""
    command = [sys.executable, str(Path(__file__).resolve()), "--in-process", name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=folder)
        except subprocess.TimeoutExpired:
            return {"fault": f"more than {seconds} s"}
    last = done.stdout.strip().splitlines()[-1:] or [""]
    return json.loads(last[0]) if last[0].startswith("{") else {"fault": (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--in-process", help="run this one module here and print its result as JSON")
    parser.add_argument("--seconds", type=float, default=900, help="the time that one module may take")
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(run(options.in_process)))
        return
    native = interpreted = 0
    print(f"{'module':<28} {'native':>7} {'machine':>8}")
    for name in options.modules or MODULES:
        result = run_apart(name, options.seconds)
        if "fault" in result:
            print(f"{name:<28} {result['fault']}")
            continue
        native += result["native"]
        interpreted += result["interpreted"]
        print(f"{name:<28} {result['native']:>7} {result['interpreted']:>8}  {result['steps']:>10} steps {result['seconds']}", flush=True)
        for test, text in result["bad"].items():
            print("    " + test + ("\n" + text if options.modules else ""))
    print(f"{'in all':<28} {native:>7} {interpreted:>8}  {interpreted / max(native, 1):.2%}")


if __name__ == "__main__":
    main()
