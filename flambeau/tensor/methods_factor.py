"""Methods that factor matrices. Each is the function of that name with the tensor first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import ops
from flambeau.tensor import functions_factor as functions
from flambeau.tensor.base import TensorBase

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class FactorMethods(TensorBase):
    """Methods of Tensor that factor matrices and solve systems."""

    __slots__ = ()

    def cholesky(self, upper: bool = False) -> Tensor:
        return ops.cholesky(self, upper, "cholesky")

    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        return ops.cholesky_inverse(self, upper)

    def cholesky_solve(self, input2: Any, upper: bool = False) -> Tensor:
        return ops.cholesky_solve(self, input2, upper)

    def inverse(self) -> Tensor:
        return ops.inverse(self)

    def pinverse(self, rcond: float = 1e-15) -> Tensor:
        return functions.pinverse(self, rcond)

    def det(self) -> Tensor:
        return ops.det(self)

    def logdet(self) -> Tensor:
        return ops.logdet(self)

    def slogdet(self) -> Any:
        return ops.slogdet(self)

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        return functions.lu(self, pivot, get_infos)

    def lu_solve(self, LU_data: Any, LU_pivots: Any) -> Tensor:
        return functions.lu_solve(self, LU_data, LU_pivots)

    def qr(self, some: bool = True) -> Any:
        return functions.qr(self, some)

    def geqrf(self) -> Any:
        return ops.geqrf(self)

    def orgqr(self, input2: Any) -> Tensor:
        return ops.householder_product(self, input2)

    def ormqr(self, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Tensor:
        return ops.ormqr(self, input2, input3, left, transpose)

    def svd(self, some: bool = True, compute_uv: bool = True) -> Any:
        return functions.svd(self, some, compute_uv)

    def triangular_solve(self, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
        return functions.triangular_solve(self, A, upper, transpose, unitriangular)

    def matrix_exp(self) -> Tensor:
        return ops.matrix_exp(self)
