"""Small programs give by the machine what they give natively: value, exception, context and traceback."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from flambeau.capture.machine import Machine, Semantics

from . import programs, suspended_programs

FILES = (programs.__file__, suspended_programs.__file__)


def outcome(run: Any) -> Any:
    """What a call returns or raises, with everything that a program could see of the exception."""
    try:
        return "returned", repr(run())
    except BaseException as error:
        return "raised", describe(error)


def describe(error: BaseException | None) -> Any:
    if error is None:
        return None
    lines = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.filename in FILES]
    parts = [describe(part) for part in getattr(error, "exceptions", ())]
    return type(error), str(error), lines, error.__suppress_context__, describe(error.__cause__), describe(error.__context__), parts


@pytest.mark.parametrize("function", programs.PROGRAMS + suspended_programs.PROGRAMS, ids=lambda function: function.__name__)
def test_as_natively(function: Any) -> None:
    expected = outcome(function)
    machine = Machine(Semantics())
    assert outcome(lambda: machine.call_function(function, (), {})) == expected
    assert machine.steps > 0
    assert machine.frames == []
