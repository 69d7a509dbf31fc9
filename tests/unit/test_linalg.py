"""torch.linalg on tensors: factorizations by LAPACK and by lanes, whatever the batch; derivatives, errors, forms of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.compilation.emission import lapack_kernel
from flambeau.core import dtypes
from flambeau.templates.factor_kernel import FactorSpec, Sizes
from flambeau.templates.lane_kernels import lane_kernel

L = torch.linalg
RANDOM = np.random.default_rng(5)
BATCHES = (1, 15, 16, 17, 1000)
TYPES = (np.float32, np.float64)


def spectral(x: Any) -> Any:
    """The largest singular value of each matrix."""
    return np.linalg.norm(x, 2, axis=(-2, -1))


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def exact(*tensors: Any) -> list[Any]:
    return [t.numpy().astype(np.float64) for t in tensors]


def symmetric(batch: int, n: int, kind: Any) -> Any:
    x = RANDOM.standard_normal((batch, n, n))
    return (x + transposed(x)).astype(kind)


def hard(n: int, kind: Any) -> Any:
    """Symmetric matrices that are zero, repeated, singular, tiny, huge, graded or tridiagonal already, among ordinary ones."""
    x = symmetric(40, n, np.float64)
    v = RANDOM.standard_normal((n, 1))
    steps = np.arange(n)
    graded = 10.0**-steps
    neighbours = (np.abs(steps[:, None] - steps) == 1) * 1.0
    for i, matrix in enumerate(
        [0 * np.eye(n), np.eye(n), -np.eye(n), np.ones((n, n)), np.diag(steps[::-1]), np.diag(graded), v @ v.T, np.eye(n) + 1e-7 * x[9],
         neighbours, 2 * np.eye(n) - neighbours, np.minimum.outer(steps, steps) + 1.0, x[10] * graded[:, None] * graded, x[11] * 1e-30,
         x[12] * 1e30]
    ):  # fmt: skip
        x[i] = matrix
    return x.astype(kind)


def check_eigenpairs(x: Any, uplo: str = "L") -> None:
    """Residuals and orthonormality within a few rounding errors, ascending order, the same values without vectors."""
    n = x.shape[-1]
    values, vectors = exact(*L.eigh(torch.from_numpy(x), uplo))
    a, limit = x.astype(np.float64), 4 * n * np.finfo(x.dtype).eps
    assert (spectral(a @ vectors - vectors * values[..., None, :]) <= limit * spectral(a) + np.finfo(x.dtype).tiny).all()
    assert (spectral(transposed(vectors) @ vectors - np.eye(n)) <= limit).all()
    assert (np.diff(values) >= 0).all()
    (alone,) = exact(L.eigvalsh(torch.from_numpy(x), uplo))
    assert (np.abs(alone - values).max(-1) <= limit * spectral(a) + np.finfo(x.dtype).tiny).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 20, 21, 33, 64])
def test_eigenpairs(n: int, kind: Any) -> None:
    for batch in BATCHES if n < 17 else BATCHES[:-1]:
        x = symmetric(batch, n, kind)
        check_eigenpairs(x)
        upper = np.triu(x) + np.tril(np.full_like(x, np.nan), -1)
        np.testing.assert_array_equal(L.eigvalsh(torch.from_numpy(upper), "U").numpy(), L.eigvalsh(torch.from_numpy(x), "U").numpy())


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 21, 40])
def test_eigenpairs_of_hard_matrices(n: int, kind: Any) -> None:
    check_eigenpairs(hard(n, kind))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 21, 40])
def test_singular_values(n: int, kind: Any) -> None:
    for x in (hard(n, kind), RANDOM.standard_normal((17, n, n)).astype(kind), RANDOM.standard_normal((3, n, n)).astype(kind)):
        u, values, v = exact(*L.svd(torch.from_numpy(x)))
        a, limit = x.astype(np.float64), 6 * max(n, 2) * np.finfo(kind).eps
        assert (spectral((u * values[..., None, :]) @ v - a) <= limit * spectral(a) + np.finfo(kind).tiny).all()
        assert all((spectral(transposed(q) @ q - np.eye(n)) <= limit).all() for q in (u, v))
        assert (np.diff(values) <= 0).all() and (values >= 0).all()
        np.testing.assert_allclose(exact(L.svdvals(torch.from_numpy(x)))[0], values, atol=limit * spectral(a).max())


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 20, 21, 32, 33])
def test_systems(n: int, kind: Any) -> None:
    """Every solver's answer against numpy's in float64."""
    for batch in BATCHES[:-1]:
        x = (RANDOM.standard_normal((batch, n, n)) + 2 * np.eye(n)).astype(kind)
        b = RANDOM.standard_normal((batch, n, 3)).astype(kind)
        a, positive, right = torch.from_numpy(x), x @ transposed(x) + np.eye(n, dtype=kind), torch.from_numpy(b)
        inverse = np.linalg.inv(x.astype(np.float64))
        # What an answer may be off: by rounding errors times the condition number.
        limit = 40 * n * np.finfo(kind).eps * (spectral(x) * spectral(inverse))[:, None, None]
        for found, wanted in (
            (L.inv(a), inverse), (L.solve(a, right), inverse @ b), (L.solve(a, right.mT, left=False), transposed(transposed(inverse) @ b)),
            (L.lu_solve(*L.lu_factor(a), right), inverse @ b), (L.lu_solve(*L.lu_factor(a), right, adjoint=True), transposed(inverse) @ b),
        ):  # fmt: skip
            assert (np.abs(exact(found)[0] - wanted) <= limit * (np.abs(wanted).max() + 1)).all()
        (factor,) = exact(L.cholesky(torch.from_numpy(positive)))
        assert (spectral(factor @ transposed(factor) - positive) <= 4 * n * np.finfo(kind).eps * spectral(positive)).all()
        assert (np.triu(factor, 1) == 0).all()
        (upper,) = exact(L.cholesky(torch.from_numpy(positive), upper=True))
        np.testing.assert_allclose(transposed(upper), factor, rtol=1e-3 if kind is np.float32 else 1e-9, atol=1e-3 if n > 20 else 1e-5)
        np.testing.assert_allclose(exact(L.slogdet(a)[1])[0], np.linalg.slogdet(x.astype(np.float64))[1], rtol=1e-3, atol=1e-3)
        product = exact(torch.det(a))[0] * np.linalg.det(inverse)
        assert (np.abs(product - 1) <= limit.reshape(-1)).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_systems(kind: Any, upper: bool) -> None:
    for n, batch in ((1, 3), (4, 40), (20, 17), (40, 3)):
        x = RANDOM.standard_normal((batch, n, n)).astype(kind) / n + np.eye(n, dtype=kind)
        b = RANDOM.standard_normal((batch, n, 2)).astype(kind)
        half = np.triu(x) if upper else np.tril(x)
        for unit in (False, True):
            whole = half - half * np.eye(n) + np.eye(n) if unit else half
            found = L.solve_triangular(torch.from_numpy(x), torch.from_numpy(b), upper=upper, unitriangular=unit)
            np.testing.assert_allclose(whole @ exact(found)[0], b, atol=1e-4 if kind is np.float32 else 1e-10)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(4, 4), (8, 3), (3, 8), (16, 16), (30, 20), (40, 40)])
def test_qr(shape: tuple[int, int], kind: Any) -> None:
    x = RANDOM.standard_normal((20, *shape))
    x[:5] = [np.zeros(shape), np.ones(shape), x[2] * 1e-30, x[3] * 1e30, x[4] * 10.0 ** -np.arange(shape[1])]
    x, limit = x.astype(kind), 4 * max(shape) * np.finfo(kind).eps
    for mode in ("reduced", "complete"):
        q, r = exact(*L.qr(torch.from_numpy(x), mode))
        assert (spectral(q @ r - x) <= limit * spectral(x.astype(np.float64)) + np.finfo(kind).tiny).all()
        assert (spectral(transposed(q) @ q - np.eye(q.shape[-1])) <= limit).all()
        assert (np.tril(r, -1) == 0).all()
        # As LAPACK's, so that the signs are those of every other library.
        wanted: Any = np.linalg.qr(x[5:].astype(np.float64), mode)[0]  # type: ignore[call-overload]
        np.testing.assert_array_equal(np.sign(q[5:]), np.sign(wanted))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda x: L.eigh(x + x.mT)[1], "svd": lambda x: L.svd(x)[0], "cholesky": lambda x: L.cholesky(x @ x.mT + torch.eye(5)),
    "inv": L.inv, "solve": lambda x: L.solve(x, torch.ones(5, 2)), "qr": lambda x: L.qr(x)[0], "lu": lambda x: L.lu_factor(x)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_matrix_does_not_depend_on_its_company(name: str) -> None:
    x = torch.from_numpy(RANDOM.standard_normal((1000, 5, 5)).astype(np.float32))
    whole = FUNCTIONS[name](x).numpy()
    for first, last in ((0, 40), (123, 200), (960, 1000)):
        np.testing.assert_array_equal(FUNCTIONS[name](x[first:last]).numpy(), whole[first:last])


def test_small_matrices_are_worked_on_by_lanes() -> None:
    for kind, largest in (("eigh", 144), ("svd", 32), ("solve", 32)):
        attributes = {"eigh": (("lower", True),), "svd": (("wide", False), ("full", False)), "solve": ()}[kind]
        spec = FactorSpec(kind, dtypes.float32, 2 if kind == "solve" else 1, (0, 1), attributes, 512, frozenset({"avx512f", "fma"}))
        usual = lapack_kernel(spec)
        chosen = {n: lane_kernel(spec, Sizes(1000, n, n, int(kind == "solve")), usual) is not usual for n in (2, 8, largest, largest + 1)}
        assert chosen == {2: True, 8: True, largest: True, largest + 1: False}
        assert lane_kernel(spec, Sizes(1, largest, largest, int(kind == "solve")), usual) is usual


# -- derivatives ----------------------------------------------------------------------------------------------
def positive(x: Any) -> Any:
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: L.cholesky(positive(x)), "cholesky upper": lambda x: L.cholesky(positive(x), upper=True),
    "cholesky_solve": lambda x: torch.cholesky_solve(x, L.cholesky(positive(x))),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(L.cholesky(positive(x))),
    "eigh": lambda x: [v.abs() for v in L.eigh(x + x.mT)], "eigvalsh": lambda x: L.eigvalsh(x + x.mT, "U"),
    "svd": lambda x: [v.abs() for v in L.svd(x, full_matrices=False)], "svdvals": L.svdvals, "qr": lambda x: tuple(L.qr(x)),
    "lu": lambda x: tuple(L.lu(x))[1:], "inv": L.inv, "solve": lambda x: L.solve(x, x[..., :1]), "det": L.det,
    "slogdet": lambda x: L.slogdet(x)[1], "pinv": L.pinv, "pinv hermitian": lambda x: L.pinv(x + x.mT, hermitian=True),
    "lstsq": lambda x: L.lstsq(x, x[..., :1]).solution, "matrix_exp": torch.matrix_exp,
    "householder": lambda x: torch.orgqr(x, x[..., 0, :]),
    "eig": lambda x: [v.abs() for v in L.eig(x + 5 * torch.tensor([[0, 1, 0], [-1, 0, 0], [0, 0, 0]]).to(x.dtype))],
    "eigvals": lambda x: L.eigvals(x).real, "matrix_power": lambda x: L.matrix_power(x, -2), "cond": L.cond,
    "nuclear": lambda x: L.matrix_norm(x, "nuc"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_and_gradients_of_gradients(name: str, batch: tuple[int, ...]) -> None:
    def flat(x: Any) -> Any:
        found = DIFFERENTIABLE[name](x)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return sum(((i + 1.5) * f * torch.linspace(0.5, 1.5, f.numel(), dtype=f.dtype).reshape(f.shape)).sum() for i, f in enumerate(found))

    def slope(x: Any) -> Any:
        (found,) = torch.autograd.grad(flat(x), x, create_graph=True)
        return (found * torch.linspace(-1, 1, found.numel(), dtype=found.dtype).reshape(found.shape)).sum()

    start = np.random.default_rng(3).standard_normal((*batch, 3, 3)) + np.diag([3.0, 1.0, -2.0])
    x = torch.tensor(start, requires_grad=True)
    assert torch.autograd.gradcheck(flat, (x,), atol=1e-4)
    (second,) = torch.autograd.grad(slope(x), x)
    probe = np.random.default_rng(4).uniform(-1, 1, start.shape)
    near = [slope(torch.tensor(start + step * probe, requires_grad=True)).item() for step in (1e-5, -1e-5)]
    np.testing.assert_allclose((second.numpy() * probe).sum(), (near[0] - near[1]) / 2e-5, rtol=1e-4, atol=1e-4)


def test_derivative_of_a_singular_determinant() -> None:
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    torch.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-9)


def test_compiled_with_derivative() -> None:
    def program(a: Any, b: Any) -> Any:
        factor = L.cholesky(positive(a))
        values, vectors = L.eigh(factor + factor.mT)
        return (L.solve(a, b) * (vectors.abs() @ values.unsqueeze(-1))).sum()

    a, b = (torch.from_numpy(RANDOM.standard_normal((3, 4, n)).astype(np.float32)) + torch.eye(4, n) * 3 for n in (4, 1))
    a.requires_grad_()
    compiled = torch.compile(program, fullgraph=True)
    for _ in range(2):
        (wanted,) = torch.autograd.grad(program(a, b), a)
        (found,) = torch.autograd.grad(compiled(a, b), a)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)


# -- errors -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [3, 40])
def test_matrices_without_factors(n: int) -> None:
    x = torch.eye(n).repeat(20, 1, 1)
    x[17, 1, 1] = 0
    for function, message in (
        (L.inv, r"linalg.inv: \(Batch element 17\): The diagonal element 2 is zero"),
        (lambda v: L.solve(v, v), r"linalg.solve: \(Batch element 17\): The solver failed because the input matrix is singular"),
        (L.cholesky, r"linalg.cholesky: \(Batch element 17\): .* leading minor of order 2 is not positive-definite"),
        (lambda v: L.inv(v[17]), "linalg.inv: The diagonal element 2 is zero"),
        (lambda v: L.cholesky_ex(v, check_errors=True), "Batch element 17"),
        (lambda v: L.inv_ex(v, check_errors=True), "Batch element 17"),
        (lambda v: L.lu_factor_ex(v, check_errors=True), r"U\[2,2\] is zero"),
    ):
        with pytest.raises(L.LinAlgError, match=message):
            function(x)
    for infos in (L.cholesky_ex(x).info, L.inv_ex(x).info, L.solve_ex(x, x).info, L.lu_factor_ex(x).info):
        assert infos.dtype is torch.int32 and infos.tolist() == [0] * 17 + [2, 0, 0]
    assert issubclass(L.LinAlgError, RuntimeError) and torch._C._LinAlgError is L.LinAlgError


@pytest.mark.parametrize("n", [3, 130])
@pytest.mark.parametrize("function", [L.eigh, L.eigvalsh, L.svd, L.svdvals])
def test_matrices_that_are_not_finite(function: Callable[[Any], Any], n: int) -> None:
    x = torch.eye(n).repeat(4, 1, 1)
    x[2, 1, 1] = torch.nan
    with pytest.raises(L.LinAlgError, match=r"linalg\.\w+: \(Batch element 2\): The algorithm failed to converge"):
        function(x)


# -- forms of calls -----------------------------------------------------------------------------------------
def test_named_results_and_out() -> None:
    x = torch.from_numpy(symmetric(2, 3, np.float32))
    assert L.eigh(x).eigenvalues.shape == (2, 3) and L.svd(x).Vh.shape == (2, 3, 3) and L.slogdet(x).logabsdet.shape == (2,)
    assert L.inv_ex(x).inverse.shape == x.shape and L.solve_ex(x, x).result.shape == x.shape and torch.svd(x).V.shape == x.shape
    values, vectors = torch.empty(0), torch.empty(0)
    L.eigh(x, out=(values, vectors))
    np.testing.assert_array_equal(values.numpy(), L.eigh(x).eigenvalues.numpy())
    assert vectors.shape == x.shape


def test_older_names_and_methods() -> None:
    x = torch.from_numpy(RANDOM.standard_normal((2, 4, 4)).astype(np.float64))
    b = torch.from_numpy(RANDOM.standard_normal((2, 4, 1)))
    identity = np.broadcast_to(np.eye(4), (2, 4, 4))
    spd = positive(x)
    for found, wanted in (
        (x.inverse() @ x, identity), (x.pinverse() @ x, identity), (x.slogdet()[1].exp(), x.det().abs()),
        (x.svd().U @ x.svd().S.diag_embed() @ x.svd().V.mT, x), (x.qr()[0] @ x.qr()[1], x), (x @ b.lu_solve(*x.lu()), b),
        (spd @ b.cholesky_solve(spd.cholesky()), b), (spd @ spd.cholesky().cholesky_inverse(), identity),
        (x.triu() @ b.triangular_solve(x).solution, b), (x.tril().mT @ torch.triangular_solve(b, x, False, True).solution, b),
        (torch.orgqr(*x.geqrf()), x.qr()[0]), (x.geqrf()[0].ormqr(x.geqrf()[1], x.geqrf()[0].triu()), x), (spd.logdet().exp(), spd.det()),
        ((x * 0).matrix_exp(), identity), (x.matrix_power(-1) @ x, identity), (torch.lu_unpack(*torch.lu(x)).L.tril(), L.lu(x).L),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted if isinstance(wanted, np.ndarray) else wanted.numpy(), atol=1e-9)


def test_products() -> None:
    a, b, c = (RANDOM.standard_normal(shape) for shape in ((7, 3), (3, 9), (9, 2)))
    np.testing.assert_allclose(L.multi_dot([torch.from_numpy(v) for v in (a, b, c)]).numpy(), a @ b @ c)
    np.testing.assert_allclose(L.multi_dot([torch.from_numpy(v) for v in (a[0], b, c[:, 0])]).numpy(), a[0] @ b @ c[:, 0])
    x = RANDOM.standard_normal((4, 6, 8, 3))
    np.testing.assert_allclose(L.tensorinv(torch.from_numpy(x), 2).numpy(), np.linalg.tensorinv(x, 2))
    y = RANDOM.standard_normal((4, 6))
    np.testing.assert_allclose(L.tensorsolve(torch.from_numpy(x), torch.from_numpy(y)).numpy(), np.linalg.tensorsolve(x, y))
    with pytest.raises(RuntimeError, match="tensors 0 and 1 with shapes"):
        L.multi_dot([torch.ones(2, 3), torch.ones(2, 3)])


def test_least_squares() -> None:
    a, b = RANDOM.standard_normal((6, 3)), RANDOM.standard_normal((6, 2))
    wanted = np.linalg.lstsq(a, b)
    found = L.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver="gelsd")
    for part, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part.numpy(), value)
    assert L.lstsq(torch.from_numpy(a), torch.from_numpy(b)).singular_values.numel() == 0


def test_low_rank_approximations() -> None:
    x = torch.from_numpy(RANDOM.standard_normal((30, 4)) @ RANDOM.standard_normal((4, 20)))
    for factors in (torch.svd_lowrank(x, 5), torch.pca_lowrank(x, 5, center=False), torch.svd_lowrank(x.mT, 5)[::-1]):
        u, s, v = factors
        np.testing.assert_allclose((u * s @ v.mT).numpy(), x.numpy(), atol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_eigenvalues_of_any_matrices(kind: Any) -> None:
    for n in (1, 2, 5, 20, 40):
        x = RANDOM.standard_normal((3, n, n)).astype(kind)
        values, vectors = (v.numpy() for v in L.eig(torch.from_numpy(x)))
        assert np.abs(x @ vectors - vectors * values[..., None, :]).max() <= 20 * n * np.finfo(kind).eps * spectral(x).max()
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=1e-5)
        np.testing.assert_allclose(L.eigvals(torch.from_numpy(x)).numpy(), values, atol=1e-3 if kind is np.float32 else 1e-10)


def complex_numbers(*shape: int, kind: Any = np.complex128) -> Any:
    return (RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)).astype(kind)


def adjoint(x: Any) -> Any:
    return np.conj(transposed(x))


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (40, 40)])
def test_complex_factors(shape: tuple[int, int], kind: Any) -> None:
    """What the factors of complex matrices have to fulfil; those that are determined are numpy's."""
    x = complex_numbers(5, *shape, kind=kind)
    t, limit = torch.from_numpy(x), 30 * max(shape) * float(np.finfo(kind).eps)
    identity = np.eye(min(shape))

    def near(found: Any, wanted: Any, condition: float = 1.0) -> None:
        found = found.numpy() if isinstance(found, torch.Tensor) else found
        assert np.abs(found - wanted).max() <= limit * condition * max(1.0, np.abs(wanted).max())

    for some in (True, False):
        u, s, vh = (v.numpy() for v in L.svd(t, full_matrices=not some))
        k = min(shape)
        near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
        near((adjoint(u) @ u)[..., :k, :k], identity)
        assert s.dtype == np.finfo(kind).dtype and (np.diff(s) <= 0).all()
    near(L.svdvals(t), s)
    near(torch.svd(t).V.mH, L.svd(t, False).Vh.numpy())
    q, r = L.qr(t)
    near(q, np.linalg.qr(x)[0])
    near(q @ r, x)
    near(torch.orgqr(*torch.geqrf(t))[..., : min(shape)], q.numpy()) if shape[0] >= shape[1] else None
    p, lower, upper = L.lu(t)
    near(p @ lower @ upper, x)
    packed = torch.lu_unpack(*L.lu_factor(t))
    near(packed.P @ packed.L @ packed.U, x)
    near(x @ L.pinv(t).numpy() @ x, x, np.linalg.cond(x).max())
    if shape[0] != shape[1]:
        return
    hermitian = x @ adjoint(x) + 10 * identity.astype(kind)
    h = torch.from_numpy(hermitian)
    near(L.cholesky(h), np.linalg.cholesky(hermitian))
    near(L.cholesky(h, upper=True).mH @ L.cholesky(h, upper=True), hermitian)
    near(h @ torch.cholesky_inverse(L.cholesky(h)), identity)
    near(h @ torch.cholesky_solve(t, L.cholesky(h)), x)
    for uplo, half in (("L", np.tril), ("U", np.triu)):
        values, vectors = L.eigh(torch.from_numpy(half(hermitian)), uplo)
        near(vectors * values.unsqueeze(-2) @ vectors.mH, hermitian)
        near(L.eigvalsh(h, uplo), values.numpy())
    values, vectors = L.eig(t)
    near(t @ vectors, (vectors * values.unsqueeze(-2)).numpy())
    near(np.linalg.norm(vectors.numpy(), axis=-2), 1.0)
    sign, size = L.slogdet(t)
    near(sign, np.linalg.slogdet(x)[0])
    near(size, np.linalg.slogdet(x)[1])
    near(L.det(t / 3), np.linalg.det(x / 3))
    b = torch.from_numpy(complex_numbers(5, *shape, kind=kind))
    for flag, matrix in ((True, hermitian - 12 * identity), (False, x + transposed(x))):
        m = torch.from_numpy(matrix.astype(kind))
        near(m @ L.ldl_solve(*L.ldl_factor(m, hermitian=flag), b, hermitian=flag), b.numpy(), np.linalg.cond(m).max())


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_complex_systems(kind: Any) -> None:
    x, b = complex_numbers(6, 5, 5, kind=kind) + 3 * np.eye(5, dtype=kind), complex_numbers(6, 5, 2, kind=kind)
    a, right, limit = torch.from_numpy(x), torch.from_numpy(b), 1e3 * float(np.finfo(kind).eps)
    packed, tau = torch.geqrf(a)
    for found, wanted in (
        (L.inv(a), np.linalg.inv(x)), (L.solve(a, right), np.linalg.solve(x, b)),
        (L.lu_solve(*L.lu_factor(a), right), np.linalg.solve(x, b)),
        (L.lu_solve(*L.lu_factor(a), right, adjoint=True), np.linalg.solve(adjoint(x), b)),
        (L.lu_solve(*L.lu_factor(a), right.mT, left=False), transposed(np.linalg.solve(transposed(x), b))),
        (L.lu_solve(*L.lu_factor(a), right.mT, left=False, adjoint=True), transposed(np.linalg.solve(np.conj(x), b))),
        (L.solve_triangular(a, right, upper=True), np.linalg.solve(np.triu(x), b)),
        (L.solve_triangular(a, right, upper=False), np.linalg.solve(np.tril(x), b)),
        (L.lstsq(a, right).solution, np.linalg.solve(x, b)), (torch.ormqr(packed, tau, right), np.linalg.qr(x)[0] @ b),
        (torch.ormqr(packed, tau, right, transpose=True), adjoint(np.linalg.qr(x)[0]) @ b),
        (torch.ormqr(packed, tau, right.mT, left=False), transposed(b) @ np.linalg.qr(x)[0]),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=limit, atol=limit)
    with pytest.raises(L.LinAlgError, match="singular"):
        L.inv(torch.zeros(2, 2, dtype=a.dtype))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: L.cholesky(x @ x.mH + 2), "cholesky upper": lambda x: L.cholesky(x @ x.mH + torch.eye(3), upper=True),
    "cholesky_solve": lambda x: torch.cholesky_solve(x, L.cholesky(x @ x.mH + torch.eye(3))),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(L.cholesky(x @ x.mH + torch.eye(3))),
    "eigh": lambda x: [v.abs() for v in L.eigh(x + x.mH)], "eigvalsh": lambda x: L.eigvalsh(x + x.mH, "U"),
    "svd": lambda x: [v.abs() for v in L.svd(x, full_matrices=False)], "svdvals": L.svdvals,
    "svd both": lambda x: L.svd(x[..., :2], False).U @ L.svd(x[..., :2], False).Vh, "qr": lambda x: tuple(L.qr(x[..., :2])),
    "qr wide": lambda x: tuple(L.qr(x[..., :2, :])), "lu": lambda x: tuple(L.lu(x))[1:], "inv": L.inv, "det": L.det,
    "solve": lambda x: L.solve(x, x[..., :1]), "solve_triangular": lambda x: L.solve_triangular(x, x[..., :1], upper=True),
    "slogdet": lambda x: tuple(L.slogdet(x)), "pinv": L.pinv, "pinv of rank 2": lambda x: L.pinv(x[..., :2] @ x[..., :2].mH),
    "pinv hermitian": lambda x: L.pinv(x + x.mH, hermitian=True), "lstsq": lambda x: L.lstsq(x, x[..., :1]).solution,
    "householder": lambda x: torch.orgqr(x, x[..., 0, :]), "ormqr": lambda x: torch.ormqr(x, x[..., 0, :], x, transpose=True),
    "eig": lambda x: [v.abs() for v in L.eig(x)], "eigvals": L.eigvals, "matrix_exp": torch.matrix_exp,
    "nuclear": lambda x: L.matrix_norm(x, "nuc"), "lu_solve": lambda x: L.lu_solve(*L.lu_factor(x), x[..., :1], adjoint=True),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_matrices(name: str) -> None:
    """First and second derivatives against differences in a direction of the complex plane."""

    def flat(x: Any) -> Any:
        found = COMPLEX[name](x)
        found = found if isinstance(found, (tuple, list)) else (found,)
        weights = (torch.linspace(0.5, 1.5, f.numel(), dtype=torch.float64).reshape(f.shape) for f in found)
        values = (f.real - 0.7 * f.imag if f.is_complex() else f for f in found)
        return sum(((i + 1.5) * w * v).sum() for i, (v, w) in enumerate(zip(values, weights, strict=True)))

    def slope(x: Any) -> Any:
        (found,) = torch.autograd.grad(flat(x), x, create_graph=True)
        return (torch.linspace(-1, 1, 9, dtype=torch.float64).reshape(3, 3) * (found.real + 0.3 * found.imag)).sum()

    random = np.random.default_rng(3)
    start, probe = (random.standard_normal((3, 3)) + 1j * random.standard_normal((3, 3)) for _ in range(2))
    start += np.diag([3.0, 1.0, -2.0])
    x = torch.tensor(start, requires_grad=True)
    for function in (flat, slope):
        (found,) = torch.autograd.grad(function(x), x)
        near = [function(torch.tensor(start + step * probe, requires_grad=True)).item() for step in (1e-5, -1e-5)]
        wanted = (near[0] - near[1]) / 2e-5
        np.testing.assert_allclose((found.numpy().conj() * probe).sum().real, wanted, rtol=1e-4, atol=1e-4, err_msg=function.__name__)
