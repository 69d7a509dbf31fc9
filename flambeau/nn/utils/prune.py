"""Pruning: masks that set parts of parameters to zero, computed anew before each call by hooks."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from flambeau.nn.modules.module import Module
from flambeau.nn.utils.convert_parameters import parameters_to_vector
from flambeau.tensor import Tensor
from flambeau.tensor.creation import ones_like, zeros_like
from flambeau.tensor.functions_random import rand, rand_like

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer", "RandomStructured",
    "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """The hook that sets a parameter to ``name_mask * name_orig``. Subclasses compute the mask and say of what PRUNING_TYPE they are:
    "unstructured" (single elements), "structured" (slices along ``dim``) or "global"."""

    PRUNING_TYPE: str
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask like `t`, the tensor or scores of importance: `default_mask`, which holds what is pruned already, with more zeros."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor of now."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> BasePruningMethod:
        """Prune a parameter, after what pruned it before; `importance_scores` take its place in the choice of what is pruned."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        number, before = next(_hooks_of(module, name), (None, None))
        if before is not None:
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, got "
                                 f"{importance_scores.shape} vs {original.shape}")  # fmt: skip
        old_mask = ones_like(original) if before is None else getattr(module, name + "_mask").detach().clone()
        mask = method.compute_mask((original if importance_scores is None else importance_scores).detach(), default_mask=old_mask)
        if before is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        else:
            del module._forward_pre_hooks[number]
        module.register_buffer(name + "_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` pruned, without a Module."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError(f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the parameter one again, pruned for good."""
        name, weight = self._tensor_name, self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[name + "_orig"]
        original.data = weight.data
        delattr(module, name + "_orig")
        delattr(module, name + "_mask")
        setattr(module, name, original)


def _hooks_of(module: Module, name: str | None = None) -> Iterator[tuple[int, BasePruningMethod]]:
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name):
            yield number, hook


class PruningContainer(BasePruningMethod):
    """Methods that prune one tensor one after another, each only what is left."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self._tensor_name = self.__dict__.get("_tensor_name", method._tensor_name)
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same tensor."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None:
            if self._tensor_name != method._tensor_name:
                raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                                 f"{self}. Found '{method._tensor_name}'")  # fmt: skip
            self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            left: Any = default_mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            left = (slice(None),) * dim + (default_mask.sum([d for d in range(t.dim()) if d != dim]) != 0,)
        elif kind == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


class _Amount(BasePruningMethod):
    """A method that prunes a share or a number of what there is."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def _count(self, size: int) -> int:
        count = int(self.amount) if isinstance(self.amount, numbers.Integral) else round(self.amount * size)
        if count > size:
            raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
        return count

    def _slices(self, t: Tensor, dim: int) -> int:
        """How many of the slices along `dim` are pruned."""
        if t.dim() <= 1:
            raise ValueError(f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with "
                             f"{t.dim()} dims")  # fmt: skip
        if dim >= t.dim():
            raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
        return self._count(t.shape[dim])


class Identity(BasePruningMethod):
    """Prunes nothing, and makes ``name_orig`` and ``name_mask``."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name)  # type: ignore[return-value]


def _without(mask: Tensor, scores: Tensor, count: int, largest: bool) -> Tensor:
    """The mask with zeros where the `count` largest or smallest scores are."""
    if not count:
        return mask.clone()
    places = scores.reshape(-1).topk(count, largest=largest).indices
    return mask.reshape(-1).index_fill(0, places, 0).view_as(mask)


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        return _without(default_mask, rand_like(t) if count else t, count, True)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount)  # type: ignore[return-value]


class L1Unstructured(_Amount):
    """Prunes the elements of least size."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), self._count(t.numel()), False)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Self:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)  # type: ignore[return-value]


def _with_slices(t: Tensor, default_mask: Tensor, dim: int, kept: Tensor) -> Tensor:
    """The mask with zeros in the slices that are not kept, a mask or positions of them."""
    mask = zeros_like(t)
    mask[(slice(None),) * (dim % t.dim()) + (kept,)] = 1
    return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Amount):
    """Prunes slices along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._slices(t, self.dim)
        if not count:
            return default_mask
        chances = rand(t.shape[self.dim])
        return _with_slices(t, default_mask, self.dim, chances > chances.kthvalue(count).values)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Self:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, dim=dim)  # type: ignore[return-value]


class LnStructured(_Amount):
    """Prunes the slices along `dim` with the least `n`-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._slices(t, self.dim)
        if not count:
            return default_mask
        norms = t.norm(p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])
        return _with_slices(t, default_mask, self.dim, norms.topk(t.shape[self.dim] - count).indices)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> Self:
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)  # type: ignore[return-value]


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Self:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, mask=mask)  # type: ignore[return-value]


# -- functions --------------------------------------------------------------------------------------------
def identity(module: Module, name: str) -> Module:
    """Prune nothing, see `Identity`."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements at random: a share (float) or a number (int) of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of least size, or of least importance.

    >>> import flambeau as torch
    >>> layer = torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(2, 3), "weight", 2)
    >>> int(layer.weight_mask.sum())
    4
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None) -> Module:
    """Prune the slices along `dim` with the least `n`-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters together: what is left has the largest elements of all."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [(module, name, getattr(module, name)) for module, name in parameters]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
                        f"{method.PRUNING_TYPE}")  # fmt: skip
    method._tensor_name = "temp"
    values = parameters_to_vector([scores.get((module, name), value) for module, name, value in pairs]).detach()
    masks = parameters_to_vector([getattr(module, name + "_mask", ones_like(value)) for module, name, value in pairs]).detach()
    found = PruningContainer(method).compute_mask(values, masks)
    for (module, name, value), mask in zip(pairs, found.split([value.numel() for *_, value in pairs]), strict=True):
        custom_from_mask(module, name, mask.view_as(value))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter a plain one; ValueError where it is not pruned."""
    for number, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of this Module or of one below it is pruned."""
    return any(True for part in module.modules() for _ in _hooks_of(part))
