"""Every public form of an operator gives what the operator gives: functions, keywords, methods, ``out=``, and in place.

The operators themselves are held to numpy by the tests beside this one; here their samples go through the names that programs use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.lazy_names import LAZY
from flambeau.ops.declare import ALL, Operator
from flambeau.runtime.generator import default_generator
from tests.ops.operator_cases import describe, samples_of
from tests.ops.pipeline_cases import Run, leaves

MODULES = {"torch": torch, "special": torch.special, "linalg": torch.linalg, "functional": torch.nn.functional}
# Names whose parameters or results are not the operator's: they are tested by themselves.
OTHERWISE = frozenset((
    "arange", "batch_norm", "bernoulli", "chain_matmul", "dropout", "embedding", "embedding_bag", "feature_dropout", "lu", "lu_solve",
    "nonzero_static", "normal", "svd", "tril_indices", "triu_indices", "unfold", "vander", "where",
))  # fmt: skip
# Public names of an operator beside its own.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "clip": "clamp", "concat": "cat", "concatenate": "cat", "divide": "div", "fix": "trunc", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "row_stack": "vstack", "ger": "outer", "inverse": "inverse",
    "true_divide": "true_divide", "expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma", "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1", "t": "t", "det": "det",
}  # fmt: skip


def equal(found: Any, wanted: Any, what: str) -> None:
    """The same tensors in the same order, and everything else equal."""
    ours, theirs = list(leaves(found)), list(leaves(wanted))
    assert len(ours) == len(theirs), what
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            assert one.dtype is other.dtype and one.shape == other.shape, what
            np.testing.assert_array_equal(one.detach().array(), other.detach().array(), err_msg=what)
        else:
            assert one == other, what


def calls(operator: Operator) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The first sample: a description, and what makes the arguments anew."""
    for call in samples_of(operator)[:1]:
        yield operator.name + describe(call), lambda call=call: Run(operator, call).tensors


def seeded(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    default_generator.manual_seed(0)
    return function(*args, **kwargs)


def function_forms() -> Iterator[tuple[str, str]]:
    """Functions by module and name; those that the package loads at first use are other functions of the same name."""
    present = {m: {n for n, f in vars(module).items() if callable(f) and (m != "torch" or n not in LAZY)} for m, module in MODULES.items()}
    for name, operator in ALL.items():
        if operator.samples is not None and name not in OTHERWISE and not name.endswith("_"):
            yield from ((m, name) for m, names in present.items() if name in names)
    for alias, name in ALIASES.items():
        yield from ((m, alias) for m, names in present.items() if alias in names and alias != name)


FUNCTIONS = sorted(set(function_forms()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_functions(module: str, name: str) -> None:
    function = vars(MODULES[module])[name]
    operator = ALL[ALIASES.get(name, name)]
    parameters = inspect.signature(function).parameters
    for what, make in calls(operator):
        args, kwargs = make()
        wanted = seeded(operator, args, kwargs)
        args, kwargs = make()
        equal(seeded(function, args, kwargs), wanted, what)
        names = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if len(names) >= len(args) and not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
            args, kwargs = make()
            equal(seeded(function, (), {**dict(zip(names, args, strict=False)), **kwargs}), wanted, f"{what} by keywords")
        if "out" in parameters:
            args, kwargs = make()
            single = isinstance(wanted, torch.Tensor)
            out = tuple(torch.empty(0, dtype=w.dtype) for w in leaves(wanted))
            found = seeded(function, args, {**kwargs, "out": out[0] if single else out})
            equal(found, wanted, f"{what} with out=")
            assert all(f is o for f, o in zip(leaves(found), out, strict=True)), what
            if single and wanted.dim() > 1:  # into memory with gaps
                apart = torch.full((*wanted.shape[:-1], 2 * wanted.shape[-1]), 7, dtype=wanted.dtype)
                args, kwargs = make()
                seeded(function, args, {**kwargs, "out": apart[..., ::2]})
                equal(apart[..., ::2].contiguous(), wanted, f"{what} with out= of strides")
                assert torch.equal(apart[..., 1::2], torch.full_like(apart[..., 1::2], 7)), what


def method_forms() -> Iterator[tuple[str, str]]:
    for name in (*ALL, *ALIASES):
        operator = ALL[ALIASES.get(name, name)]
        if operator.samples is not None and name not in OTHERWISE and operator.roles[:1] == ("value",):
            yield from ((form, name) for form in (name, name + "_") if callable(getattr(torch.Tensor, form, None)))


METHODS = sorted(set(method_forms()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("form", "name"), METHODS)
def test_methods(form: str, name: str) -> None:
    operator, in_place = ALL[ALIASES.get(name, name)], form != name and not name.endswith("_")
    method = getattr(torch.Tensor, form)
    for what, make in calls(operator):
        args, kwargs = make()
        if not (args and isinstance(args[0], torch.Tensor)):
            continue
        wanted = seeded(operator, args, kwargs)
        args, kwargs = make()
        if not in_place:
            equal(seeded(method, args, kwargs), wanted, what)
            continue
        if operator.kind == "view":
            assert method(*args, **kwargs) is args[0], what
            equal(args[0].contiguous(), wanted.contiguous(), what)
            continue
        fits = torch.can_cast(wanted.dtype, args[0].dtype) and wanted.shape == args[0].shape
        functions = [method] + [f for f in (vars(torch).get(form), vars(torch.nn.functional).get(form)) if callable(f)]
        for function in functions:
            args, kwargs = make()
            before, version = args[0].clone(), args[0]._version
            if not fits:
                with pytest.raises(RuntimeError):
                    seeded(function, args, kwargs)
                assert torch.equal(args[0].nan_to_num(), before.nan_to_num()), what
                continue
            assert seeded(function, args, kwargs) is args[0] and args[0]._version > version, what
            equal(args[0], wanted.to(args[0].dtype), what)


def test_no_method_is_defined_twice() -> None:
    """A class further up would hide the second one, which nobody would ever run."""
    owners: dict[str, list[str]] = {}
    for kind in torch.Tensor.__mro__[:-3]:
        for name, value in vars(kind).items():
            if inspect.isfunction(value) and name != "__hash__":  # which goes where __eq__ is defined
                owners.setdefault(name, []).append(kind.__name__)
    twice = {name: kinds for name, kinds in owners.items() if len(kinds) > 1}
    assert not twice


def test_the_list_of_exceptions_is_needed() -> None:
    known = {name for _, name in (*FUNCTIONS, *METHODS)}
    assert not OTHERWISE & known and OTHERWISE <= ALL.keys()
