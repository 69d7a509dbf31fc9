"""Methods that multiply vectors and matrices. Each is the function of that name with the tensor first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.tensor import functions_linear as functions
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.functions_linear import Number

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class ProductMethods(TensorBase):
    """Methods of Tensor that multiply vectors and matrices."""

    __slots__ = ()

    def matmul(self, other: Any) -> Tensor:
        return ops.matmul(self, other)

    def mm(self, mat2: Any) -> Tensor:
        return ops.mm(self, mat2)

    def bmm(self, mat2: Any) -> Tensor:
        return ops.bmm(self, mat2)

    def mv(self, vec: Any) -> Tensor:
        return ops.mv(self, vec)

    def dot(self, tensor: Any) -> Tensor:
        return ops.dot(self, tensor)

    def vdot(self, other: Any) -> Tensor:
        return functions.vdot(self, other)

    def inner(self, other: Any) -> Tensor:
        return functions.inner(self, other)

    def outer(self, vec2: Any) -> Tensor:
        return ops.outer(self, vec2)

    ger = outer

    def addmm(self, mat1: Any, mat2: Any, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        return ops.addmm(self, mat1, mat2, beta, alpha)

    def addmm_(self, mat1: Any, mat2: Any, *, beta: Number = 1, alpha: Number = 1) -> Self:
        return call_into(ops.addmm, self, (self, mat1, mat2, beta, alpha), {})

    def addmv(self, mat: Any, vec: Any, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        return ops.addmv(self, mat, vec, beta, alpha)

    def addmv_(self, mat: Any, vec: Any, *, beta: Number = 1, alpha: Number = 1) -> Self:
        return call_into(ops.addmv, self, (self, mat, vec, beta, alpha), {})

    def addr(self, vec1: Any, vec2: Any, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        return ops.addr(self, vec1, vec2, beta, alpha)

    def addr_(self, vec1: Any, vec2: Any, *, beta: Number = 1, alpha: Number = 1) -> Self:
        return call_into(ops.addr, self, (self, vec1, vec2, beta, alpha), {})

    def baddbmm(self, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        return ops.baddbmm(self, batch1, batch2, beta, alpha)

    def baddbmm_(self, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1) -> Self:
        return call_into(ops.baddbmm, self, (self, batch1, batch2, beta, alpha), {})

    def addbmm(self, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        return ops.addbmm(self, batch1, batch2, beta, alpha)

    def addbmm_(self, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1) -> Self:
        return call_into(ops.addbmm, self, (self, batch1, batch2, beta, alpha), {})

    def kron(self, other: Any) -> Tensor:
        return ops.kron(self, other)

    def matrix_power(self, n: int) -> Tensor:
        return functions.matrix_power(self, n)

    def cross(self, other: Any, dim: int | None = None) -> Tensor:
        return functions.cross(self, other, dim)
