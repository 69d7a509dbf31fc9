"""Eigenvalues, singular values, norms and determinants against numpy, derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of, samples_of, trace


def _symmetric(x: Any, uplo: str) -> Any:
    half = np.tril(x, -1) if uplo == "L" else np.swapaxes(np.triu(x, 1), -1, -2)
    return half + np.swapaxes(half, -1, -2) + x * np.eye(x.shape[-1])


def _singular_values(x: Any) -> Any:
    return np.linalg.svd(x, compute_uv=False)


def _cutoff(x: Any, atol: Any, rtol: Any) -> Any:
    if rtol is None:
        rtol = 0.0 if atol is not None and atol > 0 else max(x.shape[-2:]) * np.finfo(x.dtype).eps
    return np.maximum(atol or 0.0, rtol * _singular_values(x).max(-1, initial=0))


def _rank(x: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return (_singular_values(x) > _cutoff(x, atol, rtol)[..., None]).sum(-1)


def _matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    out = np.linalg.norm(np.moveaxis(x, dim, (-2, -1)), ord, (-2, -1))
    return np.expand_dims(out, tuple(d % x.ndim for d in dim)) if keepdim else out


def _norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    return np.sum(np.abs(x) ** (2 if p == "fro" else p), axis=dim, keepdims=keepdim) ** (1 / (2 if p == "fro" else p))


def _exponential(x: Any, squarings: int = 0) -> Any:
    """By a long series of a tiny fraction of x."""
    small, term = x / 2**20, np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    total = term
    for k in range(1, 8):
        term = term @ small / k
        total = total + term
    for _ in range(20):
        total = total @ total
    return total


ORACLES: dict[str, Callable[..., Any]] = {
    "eigvalsh": lambda x, UPLO="L": np.linalg.eigvalsh(_symmetric(x, UPLO)),
    "eigvals": np.linalg.eigvals,
    "svdvals": _singular_values,
    "matrix_rank": _rank,
    "pinv": lambda x, atol=None, rtol=None: np.linalg.pinv(x),
    "matrix_norm": _matrix_norm,
    "norm": _norm,
    "cond": lambda x, ord=None: np.linalg.cond(x, ord),
    "det": np.linalg.det,
    "slogdet": lambda x: tuple(np.linalg.slogdet(x)),
    "logdet": lambda x: np.log(np.linalg.det(x)),
    "matrix_exp": _exponential,
}


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    if name == "matrix_exp":  # the oracle squares its errors twenty times
        for (x,), _ in samples_of(ALL[name]):
            np.testing.assert_allclose(trace(ALL[name], ((x,), {})).run()[0], _exponential(x), rtol=1e-7)
        return
    check_against(ALL[name], ORACLES[name])


def test_eigenpairs() -> None:
    for (x, *rest), _ in samples_of(ALL["eigh"]):
        values, vectors = trace(ALL["eigh"], ((x, *rest), {})).run()
        np.testing.assert_allclose(_symmetric(x, rest[0] if rest else "L") @ vectors, vectors * values[..., None, :], atol=1e-12)


def test_any_eigenpairs() -> None:
    for (x,), _ in samples_of(ALL["eig"]):
        values, vectors = trace(ALL["eig"], ((x,), {})).run()
        np.testing.assert_allclose(x @ vectors, vectors * values[..., None, :], atol=1e-12)


def test_singular_vectors() -> None:
    for (x,), _ in samples_of(ALL["svd"]):
        u, values, v = trace(ALL["svd"], ((x, False), {})).run()
        np.testing.assert_allclose((u * values[..., None, :]) @ v, x, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in ORACLES if n not in ("eigvals", "eigvalsh", "matrix_rank")])
def test_gradient_equals_differences(name: str) -> None:
    assert check_gradient(ALL[name]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("spectral")} == {*ORACLES, "eig", "eigh", "svd"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.eigh(x, "A"), "Expected UPLO argument to be 'L' or 'U', but got A"),
        (lambda x: ops.matrix_norm(x, 3), "Order 3 not supported"),
        (lambda x: ops.matrix_norm(x, "fro", (0, 0)), "dims must be different"),
        (lambda x: ops.cond(x, 3), "got an invalid norm type: 3"),
        (lambda x: ops.norm(ops.unsqueeze(x, 0), "nuc"), "needs a 2-D tensor"),
    ],
)
def test_errors_are_as_torch(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(graph_input("x", Aval((3, 3), dtypes.float32)))
