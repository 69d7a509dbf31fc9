"""What native code is given, and what it asks of that, is what it is at each call."""

from __future__ import annotations

import pytest

from tests.capture.native_calls import Entry, differs, sample


@pytest.mark.parametrize("entry", sample(), ids=str)
def test_native_call(entry: Entry) -> None:
    assert differs(entry) is None
