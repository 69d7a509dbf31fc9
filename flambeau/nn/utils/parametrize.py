"""Parametrizations: a parameter computed by Modules from others that are learned in its place."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cached: dict[tuple[int, str], Tensor] = {}
_caching = 0


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cached.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _need_tensor(value: Any, subject: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{subject} must return a tensor. Got {type(value).__name__}.")


def _need_same(new: Tensor, old: Tensor, labels: tuple[str, str], start: str = "") -> None:
    """ValueError where a parametrization changes the dtype or shape."""
    for kind in ("dtype", "shape"):
        a, b = getattr(old, kind), getattr(new, kind)
        if a != b:
            text = start or f"Registering a parametrization may not change the {kind} of the tensor, unless `unsafe` flag is enabled."
            raise ValueError(f"{text}\n{labels[0].format(kind)}: {a}\n{labels[1].format(kind)}: {b}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after another to `original` (or to `original0`, `original1`, ...).

    What is learned comes from the ``right_inverse`` of the Modules, where they have one, of the tensor as it was.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach().clone()
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                try:
                    new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
                except NotImplementedError:
                    pass  # the tensor itself is learned
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new) if isinstance(new, Sequence) else 0
        if self.is_tensor:
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            result = self()
            _need_tensor(result, "A parametrization")
            _need_same(result, before, ("unparametrized {}", "parametrized {}"))

    def _keep_one(self, original: Tensor, new: Any) -> None:
        for kind in ("dtype", "device"):
            if getattr(original, kind) != getattr(new, kind):
                raise ValueError(f"When `right_inverse` outputs one tensor, it may not change the {kind}.\noriginal.{kind}: "
                                 f"{getattr(original, kind)}\nright_inverse(original).{kind}: {getattr(new, kind)}")  # fmt: skip
        _set(original, new)
        _register(self, "original", original)

    def _keep_several(self, original: Tensor, new: Any) -> None:
        if not isinstance(new, Sequence):
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}")
        for number, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                                 f"{number} of the sequence with type {type(part).__name__}.")  # fmt: skip
            part = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part
            _register(self, f"original{number}", part.requires_grad_(original.requires_grad))

    @property
    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{number}") for number in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set what is learned so that the tensor becomes `value`, as far as the parametrizations allow."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor and not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if not self.is_tensor and not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            parts = [value] if self.is_tensor else value
            if len(parts) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                                 f"{len(parts)}.")  # fmt: skip
            for own, part in zip(self._originals, parts, strict=True):
                if own.dtype != part.dtype:
                    raise ValueError(f"The tensor returned by `right_inverse` has dtype {part.dtype} "
                                     f"while `original` has dtype {own.dtype}")  # fmt: skip
                _set(own, part)

    def forward(self) -> Tensor:
        """The tensor of now."""
        first, *others = self
        value = first(*self._originals)
        for module in others:
            value = module(value)
        return value


def _set(tensor: Tensor, value: Tensor) -> None:
    with no_grad():
        tensor.set_(value.detach())


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Compute a parameter or buffer by ``parametrization(original)`` whenever it is read; returns `module`.

    The class of `module` becomes one of its own, ``Parametrized...``. Several parametrizations of a tensor are composed. Unless `unsafe`
    they may change neither dtype nor shape: ValueError.

    >>> import flambeau as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(getattr(module, tensor_name), parametrization, tensor_name)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _parametrized_class(type(module))
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _computed(tensor_name))
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def _check_next(now: Tensor, parametrization: Any, name: str) -> None:
    value = parametrization(now)
    _need_tensor(value, "A parametrization")
    _need_same(value, now, (f"module.{name}.{{}}", f"parametrization(module.{name}).{{}}"))
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(value)
        except NotImplementedError:
            return
        if not isinstance(back, Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
        start = f"The tensor returned by parametrization.right_inverse must be like module.{name}, unless the `unsafe` flag is enabled."
        _need_same(back, now, (f"module.{name}.{{}}", "returned {}"), start)


def _computed(name: str) -> property:
    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _caching:
            return parametrization()
        key = (id(self), name)
        if key not in _cached:
            _cached[key] = parametrization()
        return _cached[key]

    return property(get, lambda self, value: self.parametrizations[name].right_inverse(value))


def _parametrized_class(cls: type) -> type:
    """A class for one Module, which gets properties of its own."""

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            replica = memo[id(self)] = self.__new__(type(self))
            replica.__dict__ = deepcopy(self.__dict__, memo)
            for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
                if hasattr(self, slot):
                    setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return memo[id(self)]

    def refused(self: Any) -> Any:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")

    members = {"__getstate__": refused} | ({} if hasattr(cls, "__deepcopy__") else {"__deepcopy__": copied})
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor, or any without a name, is parametrized."""
    found = getattr(module, "parametrizations", None)
    return isinstance(found, ModuleDict) and (len(found) > 0 if tensor_name is None else tensor_name in found)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a plain one again: with its value of now, or with the one that was learned."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if not parametrizations.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of "
                         "tensors.")  # fmt: skip
    value = getattr(module, tensor_name)
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            _set(original, value)
    else:
        original = Parameter(value.detach()) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the Module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Parametrize `to_module` as `from_module` is, with the same learned tensors; one tensor or all of them."""
    if is_parametrized(from_module):
        for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
            if not hasattr(to_module, name):
                setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
            source = from_module.parametrizations[name]
            for parametrization in source:
                register_parametrization(to_module, name, parametrization)
            for own in ("original", *(f"original{number}" for number in range(source.ntensors))):
                if hasattr(source, own):
                    setattr(to_module.parametrizations[name], own, getattr(source, own))
    return to_module
