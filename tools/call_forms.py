"""Parameter lists as text, ``(input, dim, keepdim=False, *, out=None)``: parsing them, and whether one takes every call of another."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache

__all__ = ["calls", "covers", "parse_form"]

_KINDS = inspect.Parameter


@cache
def parse_form(form: str) -> inspect.Signature | None:
    """The signature that a text stands for, its defaults as texts; None where it is none."""
    try:
        arguments = ast.parse(f"lambda {form[1:-1]}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    except SyntaxError:
        return None
    parameters = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for number, (argument, default) in enumerate(zip(plain, defaults, strict=True)):
        kind = _KINDS.POSITIONAL_ONLY if number < len(arguments.posonlyargs) else _KINDS.POSITIONAL_OR_KEYWORD
        parameters.append(_parameter(argument.arg, kind, default))
    if arguments.vararg:
        parameters.append(_parameter(arguments.vararg.arg, _KINDS.VAR_POSITIONAL, None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(_parameter(argument.arg, _KINDS.KEYWORD_ONLY, default))
    if arguments.kwarg:
        parameters.append(_parameter(arguments.kwarg.arg, _KINDS.VAR_KEYWORD, None))
    return inspect.Signature(parameters)


def _parameter(name: str, kind: inspect._ParameterKind, default: ast.expr | None) -> inspect.Parameter:
    return inspect.Parameter(name, kind, default=_KINDS.empty if default is None else ast.unparse(default))


def calls(signature: inspect.Signature) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Calls that a signature takes, each argument the name of its parameter: the shortest, the longest, and all by name."""
    plain = [p for p in signature.parameters.values() if p.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)]
    named = [p for p in signature.parameters.values() if p.kind is _KINDS.KEYWORD_ONLY]
    needed_names = {p.name: p.name for p in named if p.default is p.empty}
    yield tuple(p.name for p in plain if p.default is p.empty), needed_names
    yield tuple(p.name for p in plain), {p.name: p.name for p in named}
    fixed = [p for p in plain if p.kind is _KINDS.POSITIONAL_ONLY]
    yield tuple(p.name for p in fixed), {p.name: p.name for p in plain[len(fixed) :] + named}


def covers(longer: str, form: str) -> bool:
    """Whether a function with the parameters `longer` takes every call of one with `form`, each argument under its own name."""
    wide, narrow = parse_form(longer), parse_form(form)
    if wide is None or narrow is None:
        return False
    ends = {p.kind for p in narrow.parameters.values()} & {_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD}
    if not ends <= {p.kind for p in wide.parameters.values()}:
        return False
    for args, kwargs in calls(narrow):
        try:
            bound = wide.bind(*args, **kwargs)
        except TypeError:
            return False
        if any(value != name for name, value in bound.arguments.items() if isinstance(value, str)):
            return False
    return True
