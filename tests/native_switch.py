"""Switches native entries off, to compare them with the Python path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flambeau.runtime.native import library

loaded = library.load()


@contextmanager
def python_path() -> Iterator[None]:
    """Inside, native entries leave everything to Python."""
    assert loaded is not None
    loaded.set("enabled", 0)
    try:
        yield
    finally:
        loaded.set("enabled", 1)
