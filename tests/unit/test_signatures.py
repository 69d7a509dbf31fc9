"""Every public name takes the parameters that PyTorch documents: their names, order, kinds and defaults."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

from flambeau.cli.api import Name, find, missing, torch_names
from tools.call_forms import calls, parse_form

# Where flambeau differs on purpose, and why.
ON_PURPOSE: dict[str, str] = {}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
NAMES = {name.path: name for name in torch_names() if name.forms}
ABSENT = {name.path for name in missing(NAMES.values())}


def own_signature(name: Name) -> inspect.Signature | None:
    """The parameters of what is here under a name, without ``self``; None for what takes any arguments and reads them itself."""
    value = find(name.path)
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    owner = name.section.rpartition(".")[2]
    if owner[0].isupper() and isinstance(inspect.getattr_static(find(name.section), name.name), type(own_signature)):
        parameters = parameters[1:]
    if any(p.kind in _VARIADIC for p in parameters):
        return None
    return inspect.Signature(parameters)


def faults(signature: inspect.Signature, forms: tuple[str, ...]) -> list[str]:
    """What of PyTorch's documented calls a signature does not take, or takes as something else."""
    found: dict[str, None] = {}
    known: set[str] = set()
    for form in forms:
        documented = parse_form(form)
        assert documented is not None, form
        known |= set(documented.parameters)
        if any(p.kind in _VARIADIC for p in documented.parameters.values()):
            return []
        for args, kwargs in calls(documented):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                found[f"{form}: {error}"] = None
                continue
            found |= {f"{form}: {v} is taken as {n}": None for n, v in bound.arguments.items() if v != n and v not in ("_random_samples",)}
    single = parse_form(forms[0])
    for own in signature.parameters.values():
        if own.name not in known:
            found[f"{own.name} is not PyTorch's"] = None
        elif len(forms) == 1 and own.name in single.parameters:
            theirs = single.parameters[own.name].default
            if not same_default(own.default, theirs):
                found[f"{own.name}={own.default!r} instead of {theirs}"] = None
    return list(found)


def same_default(own: Any, theirs: Any) -> bool:
    if theirs == "..." or inspect.Parameter.empty in (own, theirs):
        return own is theirs or theirs == "..."
    try:
        return own == ast.literal_eval(theirs)
    except (ValueError, TypeError):
        return str(own).removeprefix("flambeau.") == theirs.removeprefix("torch.")


@pytest.mark.parametrize("path", [path for path in NAMES if path not in ABSENT])
def test_the_parameters_are_those_that_pytorch_documents(path: str) -> None:
    signature = own_signature(NAMES[path])
    if signature is None:
        pytest.skip("reads its arguments itself")
    found = faults(signature, NAMES[path].forms)
    assert bool(found) == (path in ON_PURPOSE), found
