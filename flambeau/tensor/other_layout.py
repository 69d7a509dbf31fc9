"""Tensors of another layout: public functions that get one go by a table, and what is not in it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from flambeau.core.dtypes import dtype
from flambeau.interp.eager import allocate
from flambeau.runtime.storage import meta_of
from flambeau.tensor import overriding
from flambeau.tensor.base import fill_base
from flambeau.tensor.tensor_class import Tensor

__all__ = ["OtherLayout"]

# Metadata that is as of any tensor.
_PLAIN = frozenset((
    "shape", "size", "dtype", "device", "ndim", "dim", "ndimension", "is_floating_point", "is_complex", "is_cuda", "is_signed", "__len__",
    "element_size", "itemsize", "__hash__", "is_tensor", "is_storage", "typename", "get_device", "is_same_size",
))  # fmt: skip


class _NoMemory:
    """Stands for the contents of a tensor that has no elements of its own, so that no kernel ever reads them."""

    reason = (
        "an operand is sparse or nested, which this does not support; of gradients, take SparseAdam, SGD or Adagrad, or leave out "
        "sparse=True"
    )

    def __init__(self) -> None:
        self.viewers: list[Any] = []


class OtherLayout(Tensor):
    """A tensor that consists of others. ``table`` has for each public name what it does; ``called`` names the layout in errors.

    The functions named in ``elementwise`` are done by ``of_values``, which is given the function.

    Public functions are made to look for such tensors when the first one is made.
    """

    __slots__ = ()
    called = "of this layout"
    table: Mapping[str, Callable[..., Any]] = {}
    elementwise: frozenset[str] = frozenset()
    __torch_function__ = staticmethod(overriding.plain_function)  # type: ignore[assignment] - until there is an instance

    def __new__(cls, shape: Sequence[int], element: dtype, device: Any) -> Self:
        if OtherLayout.__torch_function__ is overriding.plain_function:
            OtherLayout.__torch_function__ = classmethod(_by_table)  # type: ignore[assignment, method-assign]
            overriding.arm()
        made = object.__new__(cls)
        memory = allocate(device, 0)
        memory.pending = _NoMemory()
        fill_base(made, memory, memory.address, meta_of(tuple(shape), element, None, device))
        return made

    @staticmethod
    def of_values(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """An elementwise function, by that of the values."""
        return NotImplemented

    def materialize(self) -> Any:
        raise NotImplementedError(f"the elements of a {self.called} tensor do not lie in one memory; call .to_dense() first")


def _by_table(
    cls: type[OtherLayout], func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    told = overriding.name_of(func) or getattr(func, "__qualname__", repr(func))
    name = told.removesuffix(".__get__").rpartition(".")[2]
    if name in _PLAIN:
        return overriding.plain_function(func, types, args, kwargs)
    found = cls.table.get(name)
    if found is None and name in cls.elementwise:
        found = partial(cls.of_values, func)
    result = NotImplemented if found is None else found(*args, **(kwargs or {}))
    if result is NotImplemented:
        layouts = ", ".join(sorted({k.called for k in types if issubclass(k, OtherLayout)}))
        raise NotImplementedError(
            f"{told} is not implemented for {layouts} tensors with these arguments; convert them with .to_dense(), or work on .values()"
        )
    return result
