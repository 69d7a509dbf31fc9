"""Every public name takes the parameters that PyTorch documents: their names, order, kinds and defaults."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

from flambeau.cli.api import Name, find, missing, torch_names
from tools.call_forms import calls, parse_form

# Where flambeau differs on purpose, and why.
_REASONS = {
    "PyTorch itself refuses what its stub allows": (
        "torch.rsub", "torch.subtract", "torch.tensor", "torch.Tensor.new_tensor", "torch.Tensor.subtract", "torch.Tensor.subtract_",
        "torch.Tensor.requires_grad_",
    ),
    "PyTorch takes the name of the stub, not that of the documentation": ("torch.linalg.matrix_exp", "torch.linalg.matrix_power"),
    "PyTorch takes it though it is not documented": (
        "torch.spmm", "torch.no_grad", "torch.autograd.no_grad", "torch.linalg.matrix_rank", "torch.linalg.pinv", "torch.special.round",
    ),
    "PyTorch has the forms with out_dtype on CUDA alone": ("torch.addmm", "torch.baddbmm", "torch.bmm", "torch.mm"),
    "one parameter is there for all forms, which are told apart by the argument's type": (
        "torch.dsplit", "torch.hsplit", "torch.vsplit", "torch.tensor_split", "torch.Tensor.tensor_split", "torch.isin",
        "torch.result_type", "torch.scatter", "torch.Tensor.scatter", "torch.Tensor.scatter_", "torch.view_copy",
        "torch.repeat_interleave", "torch.nuclear_norm",
    ),
    "the documentation leaves the defaults out": ("torch.Stream",),
    "None stands for the False that is documented": ("torch.asarray",),
    "out= does no harm": ("torch.special.log_softmax", "torch.special.softmax"),
    "PyTorch's default acts as 0, for no reduction, whatever its stub says": (
        "torch.binary_cross_entropy_with_logits", "torch.kl_div", "torch.hinge_embedding_loss", "torch.margin_ranking_loss",
        "torch.cosine_embedding_loss", "torch.triplet_margin_loss", "torch.ctc_loss",
    ),
    "one function serves torch.func, torch.sparse and this name": ("torch.nn.utils.stateless.functional_call", "torch.smm"),
    "indices alone stand for ones, None for the strided layout": ("torch.sparse_coo_tensor", "torch.nested.narrow"),
    "programs read these, and do not make them": (
        "torch.autograd.profiler.FunctionEvent", "torch.utils.benchmark.Measurement", "torch.nn.attention.flex_attention.BlockMask",
    ),
    "the class of the CPU stands for that of any device": ("torch.Stream",),
    "programs do not make nodes of the tape": ("torch.autograd.graph.Node",),
}
ON_PURPOSE = {path for paths in _REASONS.values() for path in paths}
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
            unnamed = {p.name for p in documented.parameters.values() if p.kind is p.POSITIONAL_ONLY}
            known |= {n for n, v in bound.arguments.items() if v in unnamed}
            found |= {f"{form}: {v} is taken as {n}": None for n, v in bound.arguments.items() if v not in (n, *unnamed)}
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
        return str(own) == theirs


# What reads its arguments itself, as view and zeros do, has tests of its own.
SIGNATURES = {path: signature for path, name in NAMES.items() if path not in ABSENT and (signature := own_signature(name)) is not None}


@pytest.mark.parametrize("path", SIGNATURES)
def test_the_parameters_are_those_that_pytorch_documents(path: str) -> None:
    found = faults(SIGNATURES[path], NAMES[path].forms)
    assert bool(found) == (path in ON_PURPOSE), found or "it agrees, and can be taken off the list"


def test_the_comparison_finds_each_kind_of_difference() -> None:
    forms = ("(input, dim, keepdim=False, *, out=None)",)
    assert not faults(inspect.signature(lambda input, dim, keepdim=False, *, out=None: 0), forms)
    for differing in (
        lambda dim, input, keepdim=False, *, out=None: 0, lambda input, axis, keepdim=False, *, out=None: 0,
        lambda input, dim, keepdim=True, *, out=None: 0, lambda input, dim, *, keepdim=False, out=None: 0,
        lambda input, dim, keepdim=False: 0, lambda input, dim, keepdim=False, more=0, *, out=None: 0,
    ):  # fmt: skip
        assert faults(inspect.signature(differing), forms)
