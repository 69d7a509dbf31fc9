"""The class Tensor, put together from its chapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.core.shape import Size
from flambeau.ops.declare import default_float
from flambeau.tensor import dispatch, native, overriding
from flambeau.tensor.creation import legacy_tensor
from flambeau.tensor.foreign import counterpart
from flambeau.tensor.functions_complex import ComplexMethods
from flambeau.tensor.functions_fourier import FourierMethods
from flambeau.tensor.indexing import ItemMethods
from flambeau.tensor.methods_factor import FactorMethods
from flambeau.tensor.methods_index import IndexMethods
from flambeau.tensor.methods_linear import ProductMethods
from flambeau.tensor.methods_math import MathMethods
from flambeau.tensor.methods_memory import MemoryMethods
from flambeau.tensor.methods_operators import OperatorMethods
from flambeau.tensor.methods_pointwise import PointwiseMethods
from flambeau.tensor.methods_queries import QueryMethods
from flambeau.tensor.methods_reduce import ReductionMethods
from flambeau.tensor.methods_shape import ShapeMethods
from flambeau.tensor.tensor import TensorCore


class Tensor(
    OperatorMethods, PointwiseMethods, ShapeMethods, ItemMethods, MemoryMethods, ReductionMethods, ProductMethods, IndexMethods,
    MathMethods, FactorMethods, QueryMethods, ComplexMethods, FourierMethods, TensorCore,
):  # fmt: skip
    """A multi-dimensional array with one element type, that may take part in autograd.

    Made by ``torch.tensor``, ``torch.zeros`` and the like. Its methods are torch's; most are the function of the same name
    with the tensor as first argument, and those with a name that ends in ``_`` work in place.

    >>> import flambeau as torch
    >>> x = torch.tensor([[1., -1.], [2., 0.]], requires_grad=True)
    >>> x.relu().sum().backward()
    >>> x.grad
    tensor([[1., 0.],
            [1., 0.]])
    """

    __slots__ = ()

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        made = legacy_tensor(args, default_float())
        return made if cls is Tensor else made.as_subclass(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if overriding.overrides(cls):
            overriding.arm()

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What calls of public functions with an instance of a subclass do: run, and give tensors as instances of ``cls``.

        ``func`` is the function, ``types`` the classes of arguments that override. NotImplemented for classes that ``cls`` is not of.
        """
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with overriding.without_overriding():
            found = counterpart(func)(*args, **(kwargs or {}))
            return found if func in overriding.unchanged() else _converted(found, cls)

    def as_subclass(self, cls: type[Any]) -> Any:
        """The same memory and history as an instance of a subclass.

        >>> import flambeau as torch
        >>> class Samples(torch.Tensor):
        ...     pass
        >>> type(torch.ones(2).as_subclass(Samples) + 1).__name__
        'Samples'
        """
        seen = self.view(self.shape) if self._requires_grad and context.grad_enabled else self
        out = dispatch.another(self, cls)
        out.entry, out.output, out._requires_grad = seen.entry, seen.output, seen._requires_grad
        out.view_of, out.seen_version = seen.view_of, max(seen.seen_version, 0)
        return out

    @staticmethod
    def _make_subclass(subclass: type[Any], data: Any, require_grad: bool = False) -> Any:
        """A leaf of class ``subclass`` that shares the memory of ``data``."""
        out = dispatch.another(data, subclass)
        return out.requires_grad_() if require_grad else out


def _converted(value: Any, cls: type[Any]) -> Any:
    """Tensors as instances of ``cls``, also those in tuples and lists."""
    if isinstance(value, Tensor):
        return value if cls is Tensor or isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, (tuple, list)) and type(value) is not Size:
        items = [_converted(v, cls) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


dispatch.set_tensor_class(Tensor)
overriding.set_tensor_class(Tensor)
native.install(Tensor)
