"""A Module called with other parameters and buffers than its own."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.tensor.base import TensorBase

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a Module with tensors in place of the parameters and buffers of these names; others stay its own.

    ``args`` is a tuple of arguments, or one. Parameters that are one tensor under several names are all replaced by what is given for one
    of them, unless ``tie_weights`` is False. With ``strict`` every name must be given. RuntimeError for a name that the Module lacks.
    What the Module writes into a buffer that was given goes into that.

    >>> import flambeau as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, torch.tensor([1., 2.]))
    tensor([3.])
    """
    given: dict[str, Any] = {}
    many = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, Mapping) else list(parameter_and_buffer_dicts)
    for state in many:
        repeated = given.keys() & state.keys()
        if repeated:
            raise ValueError(f"functional_call: {sorted(repeated)} appeared in multiple dictionaries; give each name once")
        given.update(state)
    values = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*values, **(kwargs or {}))


def _own(module: Module) -> dict[str, Any]:
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def _tied(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, also under the other names of the same tensors."""
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for group in names.values():
        values = {id(given[n]): given[n] for n in group if n in given}
        if len(values) > 1:
            raise ValueError(f"functional_call: the tied parameters {group} got different values; pass tie_weights=False, or one of them")
        for name in group if values else ():
            found[name] = next(iter(values.values()))
    return found


@contextmanager
def _replaced(module: Module, given: Mapping[str, Any], tie_weights: bool, strict: bool) -> Generator[None]:
    own = _own(module)
    unexpected = sorted(given.keys() - own.keys())
    if unexpected:
        raise RuntimeError(f"functional_call: Unexpected key(s): {', '.join(unexpected)}; the module has {', '.join(own)}")
    if tie_weights:
        given = _tied(own, given)
    missing = sorted(own.keys() - given.keys())
    if strict and missing:
        raise RuntimeError(f"functional_call: Missing key(s): {', '.join(missing)}.")
    places: list[tuple[Any, str, Any]] = []
    for name, value in given.items():
        if not isinstance(value, TensorBase):
            raise TypeError(f"functional_call: {name} must be a tensor, got {type(value).__name__}")
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        registry = owner._parameters if last in owner._parameters else owner._buffers
        places.append((registry, last, registry[last]))
    try:
        for (registry, last, _), value in zip(places, given.values(), strict=True):
            registry[last] = value
        yield
    finally:
        for registry, last, before in reversed(places):
            registry[last] = before
