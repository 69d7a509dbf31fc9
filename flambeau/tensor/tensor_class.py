"""The class Tensor, put together from its chapters."""

from __future__ import annotations

from typing import Any

from flambeau.ops.declare import default_float
from flambeau.tensor import dispatch, native
from flambeau.tensor.creation import legacy_tensor
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
from flambeau.tensor.tensor import TensorCore, from_memory


class Tensor(
    OperatorMethods, PointwiseMethods, ShapeMethods, ItemMethods, MemoryMethods, ReductionMethods, ProductMethods, IndexMethods,
    MathMethods, FactorMethods, QueryMethods, TensorCore,
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

    def as_subclass(self, cls: type[Any]) -> Any:
        """The same memory as an instance of a subclass."""
        out = from_memory(self.memory, self.address, self.meta, cls)
        out.entry, out.output, out._requires_grad = self.entry, self.output, self._requires_grad
        return out

    @staticmethod
    def _make_subclass(subclass: type[Any], data: Any, require_grad: bool = False) -> Any:
        """A leaf of class ``subclass`` that shares the memory of ``data``."""
        out = from_memory(data.memory, data.address, data.meta, subclass)
        return out.requires_grad_() if require_grad else out


dispatch.set_tensor_class(Tensor)
native.install(Tensor)
