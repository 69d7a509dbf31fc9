"""CPython's own tests of the language pass by the machine where they pass natively (all of them: tools/cpython_tests.py)."""

from __future__ import annotations

import importlib.util

import pytest

from tools.cpython_tests import run_apart

# What is known to fail: tests of tracing, of C functions that need Python's own generators and frames, of how long frames live, and of
# replaced builtins.
KNOWN = {
    "test_generators": {
        "GeneratorDeallocTest.test_frame_locals_outlive_generator",
        "GeneratorDeallocTest.test_frame_outlives_generator",
        "GeneratorTest.test_close_clears_frame",
        "GeneratorTest.test_name",
        "ModifyUnderlyingIterableTest.test_modify_f_locals",
        "SignalAndYieldFromTest.test_raise_and_yield_from",
        "__test__.coroutine",
        "__test__.email",
    },
    "test_iter": {"TestCase.test_reduce_mutating_builtins_iter"},
    "test_patma": {
        "TestTracing.test_default_capture",
        "TestTracing.test_default_wildcard",
        "TestTracing.test_no_default",
        "TestTracing.test_only_default_capture",
        "TestTracing.test_only_default_wildcard",
        "TestTracing.test_unreachable_code",
    },
    "test_raise": {"TestTracebackType.test_attrs", "TestTracebackType.test_constructor"},
    "test_yield_from": {"TestPEP380Operation.test_broken_getattr_handling"},
}
MODULES = (
    "test_contextlib",
    "test_except_star",
    "test_exception_variations",
    "test_extcall",
    "test_generators",
    "test_genexps",
    "test_grammar",
    "test_iter",
    "test_listcomps",
    "test_named_expressions",
    "test_patma",
    "test_positional_only_arg",
    "test_raise",
    "test_scope",
    "test_super",
    "test_unpack_ex",
    "test_with",
    "test_yield_from",
)


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="this Python is installed without its tests")
@pytest.mark.parametrize("module", MODULES)
def test_as_natively(module: str) -> None:
    result = run_apart(module, 120)
    assert result.get("native", 0) > 0, result
    failed = {name: text for name, text in result["bad"].items() if name.removeprefix(f"test.{module}.") not in KNOWN.get(module, ())}
    assert not failed, failed
    assert result["steps"] > 100
