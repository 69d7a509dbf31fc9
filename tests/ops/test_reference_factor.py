"""Factorizations and systems: bodies against what defines the results, derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, describe, operators_of, samples_of, trace


def _t(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _right(a: Any, b: Any) -> Any:
    """B as matrices: torch takes it for vectors where it has the shape of one for each matrix."""
    return (b[..., None], True) if b.ndim == 1 or b.shape == a.shape[:-1] else (b, False)


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    if not left:
        return _t(np.linalg.solve(_t(a), _t(b)))
    b, vector = _right(a, b)
    return np.linalg.solve(a, b)[..., 0] if vector else np.linalg.solve(a, b)


def _triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return _solve(a, b, left)


def _matrix_of(packed: Any, pivots: Any) -> Any:
    """P L U of packed factors."""
    return np.matmul(*_unpack(packed, pivots)[:2]) @ _unpack(packed, pivots)[2]


def _unpack(packed: Any, pivots: Any) -> list[Any]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    permutation = np.zeros((*packed.shape[:-2], m, m))
    for at in np.ndindex(packed.shape[:-2]):
        order = np.arange(m)
        for i, row in enumerate(pivots[at]):
            order[[i, row - 1]] = order[[row - 1, i]]
        permutation[at][order, np.arange(m)] = 1
    return [permutation, np.tril(packed, -1)[..., :k] + np.eye(m, k), np.triu(packed)[..., :k, :]]


def _lu_solve(packed: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    a = _matrix_of(packed, pivots)
    return _solve(_t(a) if adjoint else a, b, left)


def _qr(x: Any, mode: Any) -> Any:
    return np.linalg.qr(x, mode)


def _product_of_reflections(x: Any, tau: Any) -> Any:
    m = x.shape[-2]
    q = np.broadcast_to(np.eye(m), (*x.shape[:-2], m, m))
    for i in range(tau.shape[-1]):
        v = np.where(np.arange(m) > i, x[..., :, i], np.arange(m) == i)
        q = q @ (np.eye(m) - tau[..., i, None, None] * v[..., :, None] * v[..., None, :])
    return q


def _ormqr(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    q = _product_of_reflections(x, tau)
    q = _t(q) if transpose else q
    return q @ other if left else other @ q


ORACLES: dict[str, Callable[..., Any]] = {
    "cholesky": lambda x, upper=False: np.linalg.cholesky(x, upper=upper),
    "cholesky_ex": lambda x, upper=False: (np.linalg.cholesky(x, upper=upper), np.zeros(x.shape[:-2], int)),
    "cholesky_inverse": lambda f, upper=False: np.linalg.inv(_t(np.triu(f)) @ np.triu(f) if upper else np.tril(f) @ _t(np.tril(f))),
    "cholesky_solve": lambda b, f, upper=False: _solve(_t(np.triu(f)) @ np.triu(f) if upper else np.tril(f) @ _t(np.tril(f)), b),
    "householder_product": lambda x, tau: _product_of_reflections(x, tau)[..., : x.shape[-1]],
    "inverse": np.linalg.inv,
    "inverse_ex": lambda x: (np.linalg.inv(x), np.zeros(x.shape[:-2], int)),
    "lu_solve": _lu_solve,
    "lu_unpack": _unpack,
    "ormqr": _ormqr,
    "qr": lambda x, mode="reduced": (np.zeros(0), np.linalg.qr(x, "r")) if mode == "r" else tuple(_qr(x, mode)),
    "solve": _solve,
    "solve_ex": lambda a, b, left=True: (_solve(a, b, left), np.zeros(np.broadcast_shapes(a.shape[:-2], _right(a, b)[0].shape[:-2]), int)),
    "solve_triangular": _triangular,
}
# Of these the results are held against what they have to fulfil.
DEFINED = {"lu", "lu_factor", "lu_factor_ex", "geqrf", "ldl_factor", "ldl_factor_ex", "ldl_solve"}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


@pytest.mark.parametrize("name", ["lu", "lu_factor", "lu_factor_ex"])
def test_lu_multiplies_to_the_matrix(name: str) -> None:
    for call in samples_of(ALL[name]):
        results = trace(ALL[name], call).run()
        found = results[0] @ results[1] @ results[2] if name == "lu" else _matrix_of(results[0], results[1])
        np.testing.assert_allclose(found, call[0][0], atol=1e-12, err_msg=describe(call))


def test_reflections_multiply_to_the_matrix() -> None:
    for (x,), _ in samples_of(ALL["geqrf"]):
        packed, tau = trace(ALL["geqrf"], ((x,), {})).run()
        np.testing.assert_allclose(_product_of_reflections(packed, tau) @ np.triu(packed), x, atol=1e-12)


def test_symmetric_indefinite_systems() -> None:
    random = np.random.default_rng(3)
    for (x,), _ in samples_of(ALL["ldl_factor"]):
        b = random.normal(size=(*x.shape[:-1], 2))
        factors, pivots = trace(ALL["ldl_factor"], ((x,), {})).run()
        (found,) = trace(ALL["ldl_solve"], ((factors, pivots, b), {})).run()
        np.testing.assert_allclose(x @ found, b, atol=1e-9)


SYMMETRIC = ("cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve")


@pytest.mark.parametrize("name", [n for n in (*ORACLES, "lu", "lu_factor", "lu_factor_ex") if n not in SYMMETRIC])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("factor")} == {*ORACLES, *DEFINED}


def _input(*shape: int, kind: dtype = dtypes.float32) -> Any:
    return graph_input(f"x{shape}{kind}", Aval(shape, kind))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.cholesky(_input(2)), "linalg.cholesky: The input tensor A must have at least 2 dimensions"),
        (lambda: ops.cholesky(_input(2, 3)), "must be batches of square matrices, but they are 2 by 3 matrices"),
        (lambda: ops.inverse(_input(2, 2, kind=dtypes.int64)), "Expected a floating point or complex tensor as input. Got Long"),
        (lambda: ops.inverse(_input(2, 2, kind=dtypes.float16)), "Low precision dtypes not supported. Got Half"),
        (lambda: ops.solve(_input(2, 2), _input(3, 1)), "Incompatible shapes of A and B for the equation AX = B"),
        (lambda: ops.solve(_input(2, 2), _input(2, kind=dtypes.float64)), "Expected A and B to have the same dtype"),
        (lambda: ops.lu(_input(2, 2), pivot=False), "LU without pivoting is not implemented on the CPU"),
        (lambda: ops.qr(_input(2, 2), "full"), "qr received unrecognized mode 'full'"),
        (lambda: ops.householder_product(_input(2, 3), _input(2)), "must be greater than or equal to input.shape"),
        (lambda: ops.lu_solve(_input(2, 2), _input(2, kind=dtypes.int64), _input(2, 1)), "pivots should be a Tensor of scalar type"),
    ],
)
def test_errors_are_as_torch(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
