"""Every example in a docstring of the package runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import flambeau
from flambeau.compiler import backends

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(flambeau.__path__, "flambeau.") if not module.name.endswith("__main__")
)


@pytest.fixture(autouse=True)
def registry_of_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example registers must not show in the tests that follow in this process."""
    monkeypatch.setattr(backends, "_registered", dict(backends._registered))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0
