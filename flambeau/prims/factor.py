"""Primitives that factor matrices and solve systems with them; every axis before the last two is a batch.

A factorization has several results, its *parts*: one node each, told apart by the attribute ``part``. The schedule computes all parts of
one factorization in one call. Where ``operator`` is not empty, that operator raises when a matrix cannot be factored.
Derivatives: Giles, An extended collection of matrix derivative results (2008); Seeger et al., Auto-differentiating linear algebra (2017).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, differs
from flambeau.ir.node import Node
from flambeau.prims import complex as c
from flambeau.prims import pointwise as p
from flambeau.prims import structure as s
from flambeau.prims.declare import Gradients, Rule, prim, require
from flambeau.prims.indexing import take
from flambeau.prims.reduction import argsort, matmul, transpose

Shape = tuple[Dim, ...]


# -- helpers ------------------------------------------------------------------------------------------------
def triangle(x: Node, upper: bool, strict: bool = False) -> Node:
    """x with zeros on the other side of the diagonal, and on it if ``strict``."""
    row, column = (s.iota(shape=x.shape, axis=x.rank - 2 + i, dtype=dtypes.int64) for i in (0, 1))
    low, high = (row, column) if upper else (column, row)
    return p.where(p.lt(low, high) if strict else p.le(low, high), x, p.number(0, x))


def on_diagonal(d: Node, rows: Dim, columns: Dim) -> Node:
    """Matrices of zeros with ``d`` on the diagonal."""
    shape = (*d.shape[:-1], rows, columns)
    row, column = (s.iota(shape=shape, axis=len(shape) - 2 + i, dtype=dtypes.int64) for i in (0, 1))
    spread = columns_of(d, rows) if not differs(d.shape[-1], columns) else rows_of(d, columns)
    return p.where(p.eq(row, column), spread, p.number(0, spread))


def columns_of(d: Node, rows: Dim) -> Node:
    """``d`` as every row of a matrix: column j holds d[j]."""
    return s.expand(s.reshape(d, shape=(*d.shape[:-1], 1, d.shape[-1])), shape=(*d.shape[:-1], rows, d.shape[-1]))


def rows_of(d: Node, columns: Dim) -> Node:
    """``d`` as every column of a matrix: row i holds d[i]."""
    return s.expand(s.reshape(d, shape=(*d.shape, 1)), shape=(*d.shape, columns))


def first_columns(x: Node, count: Dim) -> Node:
    return s.slice_(x, **s.select_index(x.rank - 1, 0, count, 1, x.shape))


def last_columns(x: Node, start: Dim) -> Node:
    return s.slice_(x, **s.select_index(x.rank - 1, start, x.shape[-1] - start, 1, x.shape))


def first_rows(x: Node, count: Dim) -> Node:
    return s.slice_(x, **s.select_index(x.rank - 2, 0, count, 1, x.shape))


def last_rows(x: Node, start: Dim) -> Node:
    return s.slice_(x, **s.select_index(x.rank - 2, start, x.shape[-2] - start, 1, x.shape))


def beside(x: Node, y: Node) -> Node:
    """Columns of y after those of x."""
    return s.cat(x, y, axis=x.rank - 1)


def identity(like: Node) -> Node:
    """Identity matrices of the type and shape of square matrices."""
    return triangle(triangle(s.constant(1, like.shape, like.dtype), False), True)


def adjoint(x: Node) -> Node:
    """The transposed matrices, conjugated where they are complex."""
    return c.conj(transpose(x)) if x.dtype.is_complex else transpose(x)


def _skew(x: Node) -> Node:
    return p.sub(x, adjoint(x))


def _least(x: Aval | Node, wide: bool) -> Dim:
    """The smaller size of a matrix, of which ``wide`` says that it has more columns than rows."""
    return x.shape[-2] if wide else x.shape[-1]


def _parts(name: str, *shapes: Callable[..., tuple[Shape, dtypes.dtype | None]]) -> Rule:
    """The rule of a factorization: part i has the shape and type (None: the operand's) that ``shapes[i]`` tells."""

    def rule(x: Aval, *others: Aval, part: int, **attributes: Any) -> Aval:
        require(len(x.shape) >= 2 and x.dtype in (dtypes.float32, dtypes.float64), name, f"needs float32 or float64 matrices, got {x}")
        shape, kind = shapes[part](x, *others, **attributes)
        return Aval(shape, x.dtype if kind is None else kind)

    return rule


def _same(x: Aval, *_: Any, **__: Any) -> tuple[Shape, None]:
    return x.shape, None


def _batch(x: Aval, **_: Any) -> tuple[Shape, None]:
    return x.shape[:-2], None


def _row_numbers(x: Aval, **_: Any) -> tuple[Shape, dtypes.dtype]:
    return x.shape[:-1], dtypes.int32


def _info(x: Aval, *_: Any, **__: Any) -> tuple[Shape, dtypes.dtype]:
    return x.shape[:-2], dtypes.int32


def _each(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """The meaning in numpy of a factorization, from that for one matrix: ``function(*matrices, **attributes)`` gives all parts."""

    def reference(*arrays: Any, part: int, operator: str = "", **attributes: Any) -> Any:
        batch: tuple[int, ...] = arrays[0].shape[:-2]
        # Of no matrices, one of ones tells what a result would be.
        given = [np.ones(a.shape[len(batch) :], a.dtype)[(None,) * len(batch)] if 0 in batch else a for a in arrays]
        places = [(0,) * len(batch)] if 0 in batch else list(np.ndindex(batch))
        with np.errstate(all="ignore"):
            found = [np.asarray(function(*(a[at] for a in given), **attributes)[part]) for at in places]
        shape = (*batch, *found[0].shape)
        return np.empty(shape, found[0].dtype) if 0 in batch else np.stack(found).reshape(shape)

    return reference


# -- Cholesky -----------------------------------------------------------------------------------------------
def _cholesky_reference(x: Any, upper: bool) -> tuple[Any, ...]:
    n = len(x)
    x = np.triu(x).conj().T.copy() if upper else np.tril(x)
    info = 0
    for j in range(n):
        pivot = np.real(x[j, j] - x[j, :j] @ x[j, :j].conj())
        if not pivot > 0:
            info = j + 1
            break
        x[j, j] = np.sqrt(pivot)
        x[j + 1 :, j] = (x[j + 1 :, j] - x[j + 1 :, :j] @ x[j, :j].conj()) / x[j, j]
    return x.conj().T if upper else x, np.int32(info)


cholesky = prim(
    "cholesky", "factor", _parts("cholesky", _same, _info), _each(_cholesky_reference),
    "parts: L with A = L L' (``upper``: U with A = U' U) of the matrices' lower (upper) triangles; the order of the first leading minor "
    "that is not positive, or 0",
)  # fmt: skip


@cholesky.differentiate
def _cholesky_derivative(g: Node, out: Node, x: Node, upper: bool, part: int, operator: str) -> Gradients:
    lower, g = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = matmul(adjoint(lower), triangle(g, False))
    inner = p.add(triangle(inner, False), adjoint(triangle(inner, False, True)))
    inner = p.mul(inner, p.number(0.5, inner))
    half = triangular_solve(adjoint(lower), inner, upper=True, unit=False)
    return (adjoint(triangular_solve(adjoint(lower), adjoint(half), upper=True, unit=False)),)


# -- triangular systems -------------------------------------------------------------------------------------
def _triangular_rule(a: Aval, b: Aval, upper: bool, unit: bool) -> Aval:
    fits = len(a.shape) == len(b.shape) >= 2 and a.dtype is b.dtype and not differs(a.shape[-1], b.shape[-2])
    require(fits, "triangular_solve", f"cannot solve {a} for {b}")
    return b


def _triangular_reference(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    a = np.triu(a) if upper else np.tril(a)
    out, n = b.copy(), a.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(n - 1, -1, -1) if upper else range(n):
            if not unit:
                out[..., i, :] = out[..., i, :] / a[..., i, i, None]
            rest = slice(0, i) if upper else slice(i + 1, n)
            out[..., rest, :] -= a[..., rest, i, None] * out[..., i : i + 1, :]
    return out


triangular_solve = prim(
    "triangular_solve", "factor", _triangular_rule, _triangular_reference,
    "X with A X = B, from A's lower (upper) triangle; ``unit``: with ones on its diagonal",
)  # fmt: skip


@triangular_solve.differentiate
def _triangular_derivative(g: Node, out: Node, a: Node, b: Node, upper: bool, unit: bool) -> Gradients:
    for_b = triangular_solve(adjoint(a), g, upper=not upper, unit=unit)
    return triangle(p.neg(matmul(for_b, adjoint(out))), upper, unit), for_b


# -- LU -----------------------------------------------------------------------------------------------------
def _size(x: Any) -> Any:
    """What LAPACK compares when it looks for a pivot."""
    return np.abs(x.real) + np.abs(x.imag)


def _eliminated(x: Any) -> tuple[Any, Any, int]:
    """The packed factors, the rows swapped (from 1 on) and the first zero on the diagonal of U (from 1 on), or 0."""
    x = x.copy()
    pivots, info = np.zeros(min(x.shape), np.int32), 0
    for k in range(len(pivots)):
        row = k + int(np.argmax(_size(x[k:, k])))
        pivots[k] = row + 1
        x[[k, row]] = x[[row, k]]
        if x[k, k] == 0:
            info = info or k + 1
            continue
        x[k + 1 :, k] /= x[k, k]
        x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return x, pivots, info


def _lu_reference(x: Any, wide: bool) -> tuple[Any, ...]:
    packed, pivots, info = _eliminated(x)
    odd = (pivots != np.arange(1, len(pivots) + 1)).sum() % 2
    return packed, pivots, np.int32(info), (-1 if odd else 1) * np.prod(np.diag(packed))


def _pivots(x: Aval, wide: bool, **_: Any) -> tuple[Shape, dtypes.dtype]:
    return (*x.shape[:-2], _least(x, wide)), dtypes.int32


lu = prim(
    "lu", "factor", _parts("lu", _same, _pivots, _info, _batch), _each(_lu_reference),
    "parts: L below and U above the diagonal with A = P L U; the row that each row was swapped with in turn, from 1 on; the first zero "
    "of U's diagonal, from 1 on, or 0; the determinant. ``wide``: there are more columns than rows",
)  # fmt: skip


def _permutation_reference(pivots: Any, rows: int) -> Any:
    shape: tuple[int, ...] = pivots.shape
    flat = pivots.reshape(int(np.prod(shape[:-1])), shape[-1])
    out = np.tile(np.arange(rows), (len(flat), 1))
    for order, swaps in zip(out, flat, strict=True):
        for k, row in enumerate(swaps):
            order[[k, row - 1]] = order[[row - 1, k]]
    return out.reshape(*pivots.shape[:-1], rows)


permutation = prim(
    "permutation", "factor", lambda pivots, rows: Aval((*pivots.shape[:-1], rows), dtypes.int64), _permutation_reference,
    "the row of A that each of ``rows`` rows comes from after the swaps of `lu`",
)  # fmt: skip


def permuted(x: Node, order: Node) -> Node:
    """Row i of the result is row ``order[i]`` of x."""
    batches = (s.iota(shape=order.shape, axis=a, dtype=dtypes.int64) for a in range(order.rank - 1))
    return take(x, *batches, order)


@lu.differentiate
def _lu_derivative(g: Node, out: Node, x: Node, wide: bool, part: int, operator: str = "") -> Gradients:
    """With A = P L [U V] or P [L; M] U, and inner = L' dA1 U' for the square part A1."""
    if part != 0:
        return (None,)
    m, n, k = *x.shape[-2:], _least(x, wide)
    square = not differs(m, n)
    lead, g_lead = (v if square else first_columns(v, k) if wide else first_rows(v, k) for v in (out, g))
    lower, upper = p.add(triangle(lead, False, True), identity(lead)), triangle(lead, True)
    below = matmul(adjoint(lower), triangle(g_lead, False, True))
    above = matmul(triangle(g_lead, True), adjoint(upper))
    rest, g_rest = (v if square else last_columns(v, k) if wide else last_rows(v, k) for v in (out, g))
    if wide and not square:
        below = p.sub(below, matmul(g_rest, adjoint(rest)))
    elif not square:
        above = p.sub(above, matmul(adjoint(rest), g_rest))
    inner = p.add(triangle(below, False, True), triangle(above, True))
    found = divided_right(triangular_solve(adjoint(lower), inner, upper=True, unit=True), upper)
    if wide and not square:
        found = beside(found, triangular_solve(adjoint(lower), g_rest, upper=True, unit=True))
    elif not square:
        found = s.cat(found, divided_right(g_rest, upper), axis=x.rank - 2)
    named = {"operator": operator} if operator else {}
    order = permutation(lu(x, wide=wide, part=1, **named), rows=m)
    return (permuted(found, inverse_order(order)),)


def divided_right(x: Node, upper: Node) -> Node:
    """x times the inverse of U', of an upper triangle U."""
    return adjoint(triangular_solve(upper, adjoint(x), upper=True, unit=False))


def inverse_order(order: Node) -> Node:
    """The permutation that undoes ``order``."""
    return argsort(order, axis=order.rank - 1, descending=False)


# -- systems and inverses -----------------------------------------------------------------------------------
def _solve_reference(a: Any, b: Any) -> tuple[Any, ...]:
    packed, pivots, info = _eliminated(a)
    order = _permutation_reference(pivots, len(a))
    half = _triangular_reference(packed, b[order], False, True)
    return _triangular_reference(packed, half, True, False), np.int32(info)


def _second(x: Aval, y: Aval, **_: Any) -> tuple[Shape, None]:
    fits = len(x.shape) == len(y.shape) and x.dtype is y.dtype and not differs(x.shape[-1], y.shape[-2])
    require(fits, "solve", f"cannot solve {x} for {y}")
    return y.shape, None


solve = prim(
    "solve", "factor", _parts("solve", _second, _info), _each(_solve_reference),
    "parts: X with A X = B; the first zero of U's diagonal in A = P L U, from 1 on, or 0",
)  # fmt: skip


@solve.differentiate
def _solve_derivative(g: Node, out: Node, a: Node, b: Node, part: int, operator: str) -> Gradients:
    for_b = solve(adjoint(a), g, part=0, operator=operator)
    return p.neg(matmul(for_b, adjoint(out))), for_b


def _inverse_reference(a: Any) -> tuple[Any, ...]:
    return _solve_reference(a, np.eye(len(a), dtype=a.dtype))


inverse = prim(
    "inverse", "factor", _parts("inverse", _same, _info), _each(_inverse_reference),
    "parts: the inverse matrix; the first zero of U's diagonal in A = P L U, from 1 on, or 0",
)  # fmt: skip


@inverse.differentiate
def _inverse_derivative(g: Node, out: Node, a: Node, part: int, operator: str) -> Gradients:
    turned = adjoint(out)
    return (p.neg(matmul(matmul(turned, g), turned)),)


# -- eigenvalues of symmetric matrices ----------------------------------------------------------------------
def _line(x: Aval, **_: Any) -> tuple[Shape, None]:
    return x.shape[:-1], None


def _eigh_reference(x: Any, lower: bool) -> Any:
    return np.linalg.eigh(x, "L" if lower else "U")


eigh = prim(
    "eigh", "factor", _parts("eigh", _line, _same), _each(_eigh_reference),
    "parts: the eigenvalues in ascending order, the eigenvectors as columns; of the matrices' lower or upper triangles",
)  # fmt: skip


@eigh.differentiate
def _eigh_derivative(g: Node, out: Node, x: Node, lower: bool, part: int, operator: str) -> Gradients:
    values, vectors = (eigh(x, lower=lower, part=i, operator=operator) for i in (0, 1))
    turned = adjoint(vectors)
    if part == 0:
        return (matmul(p.mul(vectors, like(columns_of(g, x.shape[-1]), vectors)), turned),)
    inner = _skew(matmul(turned, g))  # a symmetric part of the gradient would only turn eigenvectors of equal values
    inner = over_gaps(p.mul(inner, p.number(0.5, inner)), values)
    return (matmul(matmul(vectors, inner), turned),)


def over_gaps(x: Node, values: Node) -> Node:
    """x[i, j] / (values[j] - values[i]), zero on the diagonal."""
    n = values.shape[-1]
    gaps = p.sub(columns_of(values, n), rows_of(values, n))
    one = identity(gaps)
    on = p.ne(one, p.number(0, one))
    return p.where(on, p.number(0, x), p.div(x, like(p.where(on, one, gaps), x)))


def like(x: Node, other: Node) -> Node:
    """Real numbers as complex ones where ``other`` is complex."""
    return x if x.dtype is other.dtype else c.pair(x, p.number(0, x))


# -- eigenvalues of any square matrices ---------------------------------------------------------------------
def _eig_reference(x: Any) -> tuple[Any, ...]:
    values, vectors = np.linalg.eig(x)
    if np.iscomplexobj(x):
        return values, None, vectors
    return np.real(values), np.imag(values), np.real(vectors), np.imag(vectors)


eig = prim(
    "eig", "factor", _parts("eig", _line, _line, _same, _same), _each(_eig_reference),
    "parts: the eigenvalues' real and imaginary parts, those of the eigenvectors, which are columns of length 1; of complex matrices "
    "part 0 is the eigenvalues and part 2 the eigenvectors",
)  # fmt: skip


@eig.differentiate
def _eig_derivative(g: Node, out: Node, x: Node, part: int, operator: str) -> Gradients:
    zero = p.number(0, g)
    given = g if x.dtype.is_complex else c.pair(g, zero) if part % 2 == 0 else c.pair(zero, g)
    found = _eig_gradient(given, x, part < 2, operator)
    return (found if x.dtype.is_complex else c.part(found, index=0),)


def eigenpairs(x: Node, operator: str) -> tuple[Node, Node]:
    """Eigenvalues and eigenvectors, complex."""
    if x.dtype.is_complex:
        return eig(x, part=0, operator=operator), eig(x, part=2, operator=operator)
    found = [eig(x, part=i, operator=operator) for i in range(4)]
    return c.pair(*found[:2]), c.pair(*found[2:])


def _eig_gradient(g: Node, x: Node, of_values: bool, operator: str) -> Node:
    """V'^-1 (diag(gL) + (V' gV - V' V diag(Re(V' gV))) / conj(E)) V' with E[i, j] = w[j] - w[i]; ' also conjugates."""
    values, vectors = eigenpairs(x, operator)
    turned, n = adjoint(vectors), x.shape[-1]
    if of_values:
        inner = p.mul(rows_of(g, n), turned)
    else:
        mixed = matmul(turned, g)
        lengths = columns_of(s.diagonal(c.part(mixed, index=0)), n)
        mixed = p.sub(mixed, p.mul(matmul(turned, vectors), like(lengths, vectors)))
        inner = matmul(over_gaps(mixed, c.conj(values)), turned)
    return solve(turned, inner, part=0, operator=operator)


# -- singular values ----------------------------------------------------------------------------------------
def _left(x: Aval, wide: bool, full: bool, **_: Any) -> tuple[Shape, None]:
    return (*x.shape[:-1], x.shape[-2] if full else _least(x, wide)), None


def _values(x: Aval, wide: bool, **_: Any) -> tuple[Shape, None]:
    return (*x.shape[:-2], _least(x, wide)), None


def _right(x: Aval, wide: bool, full: bool, **_: Any) -> tuple[Shape, None]:
    return (*x.shape[:-2], x.shape[-1] if full else _least(x, wide), x.shape[-1]), None


def _svd_reference(x: Any, wide: bool, full: bool) -> Any:
    return np.linalg.svd(x, full_matrices=full)


svd = prim(
    "svd", "factor", _parts("svd", _left, _values, _right), _each(_svd_reference),
    "parts: U, the singular values in descending order and V' with A = U S V'; ``full``: U and V are square",
)  # fmt: skip


@svd.differentiate
def _svd_derivative(g: Node, out: Node, x: Node, wide: bool, full: bool, part: int, operator: str) -> Gradients:
    u, values, v = (svd(x, wide=wide, full=full, part=i, operator=operator) for i in range(3))
    k = _least(x, wide)
    u, v = first_columns(u, k), first_columns(adjoint(v), k)
    if part == 1:
        return (matmul(p.mul(u, like(columns_of(g, x.shape[-2]), u)), adjoint(v)),)
    # V's part is U's of the transposed matrix. What turns the columns of both U and V counts once, for U.
    g = first_columns(g if part == 0 else adjoint(g), k)
    found = _left_derivative(g, *((u, values, v) if part == 0 else (v, values, u)), part == 0)
    return (found if part == 0 else adjoint(found),)


def _left_derivative(g: Node, u: Node, values: Node, v: Node, turns: bool) -> Node:
    """U (skew(U' g) / E S + i Im(diag(U' g)) / S) V' + (1 - U U') g S^-1 V' with E[i, j] = s[j]^2 - s[i]^2."""
    inner = matmul(adjoint(u), g)
    spread = like(columns_of(values, inner.shape[-2]), inner)
    middle = p.mul(over_gaps(_skew(inner), p.mul(values, values)), spread)
    if u.dtype.is_complex and turns:
        angle = p.div(c.part(s.diagonal(inner), index=1), values)
        middle = p.add(middle, on_diagonal(c.pair(p.number(0, angle), angle), *inner.shape[-2:]))
    found = matmul(u, middle)
    if differs(u.shape[-2], u.shape[-1]):
        found = p.add(found, p.div(p.sub(g, matmul(u, inner)), like(columns_of(values, u.shape[-2]), u)))
    return matmul(found, adjoint(v))


# -- QR -----------------------------------------------------------------------------------------------------
def _qr_reference(x: Any, wide: bool, complete: bool) -> Any:
    return np.linalg.qr(x, "complete" if complete else "reduced")


def _orthogonal(x: Aval, wide: bool, complete: bool) -> tuple[Shape, None]:
    return _left(x, wide, complete)


def _triangle_of(x: Aval, wide: bool, complete: bool) -> tuple[Shape, None]:
    return (*x.shape[:-2], x.shape[-2] if complete else _least(x, wide), x.shape[-1]), None


qr = prim(
    "qr", "factor", _parts("qr", _orthogonal, _triangle_of), _each(_qr_reference),
    "parts: Q, R with A = Q R by Householder's reflections; ``complete``: Q is square",
)  # fmt: skip


@qr.differentiate
def _qr_derivative(g: Node, out: Node, x: Node, wide: bool, complete: bool, part: int) -> Gradients:
    m, n = x.shape[-2:]
    if complete and differs(m, n) and not wide:
        raise RuntimeError("qr: the derivative is not implemented for mode='complete' with more rows than columns; use mode='reduced'")
    q, r = (qr(x, wide=wide, complete=complete, part=i) for i in (0, 1))
    if not (wide and differs(m, n)):
        return (_square_derivative(q, r, g if part == 0 else None, g if part == 1 else None),)
    # A = [X Y] with X = Q U and Y = Q V, where V = Q' Y.
    lead = first_columns(r, m)
    if part == 0:
        found = _square_derivative(q, lead, g, None)
        return (beside(found, s.constant(0, (*x.shape[:-1], n - m), x.dtype)),)
    g_rest = last_columns(g, m)
    found = _square_derivative(q, lead, matmul(last_columns(x, m), adjoint(g_rest)), first_columns(g, m))
    return (beside(found, matmul(q, g_rest)),)


def _square_derivative(q: Node, r: Node, g_q: Node | None, g_r: Node | None) -> Node:
    """(gQ + Q sym(triu(gR R' - Q' gQ))) R'^-1, where sym mirrors the upper triangle."""
    inner = None if g_r is None else matmul(triangle(g_r, True), adjoint(r))
    if g_q is not None:
        turned = matmul(adjoint(q), g_q)
        inner = p.neg(turned) if inner is None else p.sub(inner, turned)
    assert inner is not None
    upper = triangle(inner, True, True)
    diagonal = c.parts(s.diagonal(inner))[0]
    middle = p.add(like(on_diagonal(diagonal, *inner.shape[-2:]), inner), p.add(upper, adjoint(upper)))
    found = matmul(q, middle)
    return divided_right(found if g_q is None else p.add(g_q, found), r)


def _reflections_reference(x: Any, wide: bool) -> Any:
    """Householder's reflections one after another, as LAPACK chooses them."""
    x, k = x.copy(), min(x.shape)
    tau = np.zeros(k, x.dtype)
    for j in range(k):
        column = x[j:, j]
        length = np.linalg.norm(column)
        if np.linalg.norm(column[1:]) == column[0].imag == 0:
            continue
        beta = -np.copysign(length, column[0].real)
        tau[j] = (beta - column[0]) / beta
        v = column / (column[0] - beta)
        v[0] = 1
        x[j:, j + 1 :] -= tau[j].conj() * np.outer(v, v.conj() @ x[j:, j + 1 :])
        x[j:, j] = v
        x[j, j] = beta
    return x, tau


geqrf = prim(
    "geqrf", "factor", _parts("geqrf", _same, _values), _each(_reflections_reference),
    "parts: R above and the vectors of Householder's reflections below the diagonal; their factors",
)  # fmt: skip


# -- symmetric indefinite systems ---------------------------------------------------------------------------
def _solved(a: Any, b: Any) -> Any:
    return _solve_reference(a, b)[0]


def _bunch_kaufman(x: Any, hermitian: bool) -> tuple[Any, Any, int]:
    """The packed factors of A = P L D L' P' (Bunch and Kaufman 1977), the pivots as LAPACK tells them, the first zero of D."""
    x, n, k, info = np.tril(x), len(x), 0, 0
    if hermitian:
        np.fill_diagonal(x, x.diagonal().real)
    pivots, alpha = np.zeros(n, np.int32), (1 + np.sqrt(17)) / 8
    while k < n:
        full = np.tril(x[k:, k:]) + _turned(np.tril(x[k:, k:], -1), hermitian)
        size, row = _pivot_block(full, alpha)
        at = size - 1
        if not full[:, 0].any():
            info, size, row, at = info or k + 1, 1, 0, 0
        order = np.arange(n - k)
        order[[at, row]] = order[[row, at]]
        full = full[np.ix_(order, order)]
        block, below = full[:size, :size], full[size:, :size]
        multipliers = _solved(block.T, below.T).T if block.any() else below
        x[k:, k:] = np.tril(full)
        x[k + size :, k : k + size] = multipliers
        x[k + size :, k + size :] = np.tril(full[size:, size:] - multipliers @ _turned(below, hermitian))
        pivots[k : k + size] = (k + row + 1) * (1 if size == 1 else -1)
        k += size
    return x, pivots, info


def _turned(x: Any, hermitian: bool) -> Any:
    return x.conj().T if hermitian else x.T


def _pivot_block(full: Any, alpha: float) -> tuple[int, int]:
    """The size of the next diagonal block, and the row that takes the place of its last one."""
    column, first = _size(full[1:, 0]), _size(full[0, 0])
    if not len(column) or first >= alpha * column.max():
        return 1, 0
    row = 1 + int(np.argmax(column))
    others = _size(np.delete(full[row], row)).max()
    if first * others >= alpha * column.max() ** 2:
        return 1, 0
    return (1, row) if _size(full[row, row]) >= alpha * others else (2, row)


def _ldl_reference(x: Any, hermitian: bool) -> tuple[Any, ...]:
    packed, pivots, info = _bunch_kaufman(x, hermitian)
    return packed, pivots, np.int32(info)


ldl = prim(
    "ldl", "factor", _parts("ldl", _same, _row_numbers, _info), _each(_ldl_reference),
    "parts: L and the blocks of D with A = P L D L' P' of the lower triangle; LAPACK's pivots; the first zero of D, from 1 on, or 0; "
    "``hermitian``: L' also conjugates",
)  # fmt: skip


def _ldl_solve_reference(packed: Any, b: Any, pivots: Any, hermitian: bool) -> tuple[Any, ...]:
    """Undo row swaps, L, D, L' and the swaps again."""
    n, b, k = len(packed), b.copy(), 0
    swaps: list[tuple[int, int]] = []
    unit, d = np.tril(packed, -1) + np.eye(n, dtype=packed.dtype), np.diag(np.diag(packed))
    while k < n:
        pair = pivots[k] < 0
        if pair:
            d[k + 1, k] = packed[k + 1, k]
            d[k, k + 1] = packed[k + 1, k].conj() if hermitian else packed[k + 1, k]
            unit[k + 1, k] = 0
        swaps.append((k + pair, abs(pivots[k]) - 1))
        k += 1 + pair
    # LAPACK leaves the earlier columns of L unswapped.
    ends = [k for k, _ in swaps]
    for number, (k, row) in enumerate(swaps):
        before = 0 if number == 0 else ends[number - 1] + 1
        unit[[k, row], :before] = unit[[row, k], :before]
    for k, row in swaps:
        b[[k, row]] = b[[row, k]]
    x = _solved(_turned(unit, hermitian), _solved(d, _solved(unit, b)))
    for k, row in reversed(swaps):
        x[[k, row]] = x[[row, k]]
    return (x,)


def _ldl_solve_rule(x: Aval, b: Aval, pivots: Aval, hermitian: bool) -> Aval:
    require(not differs(x.shape[-1], b.shape[-2]) and pivots.dtype is dtypes.int32, "ldl_solve", f"cannot solve {x}, {pivots} for {b}")
    return b


ldl_solve = prim(
    "ldl_solve", "factor", _ldl_solve_rule, functools.partial(_each(_ldl_solve_reference), part=0),
    "X with A X = B from the parts of `ldl`",
)  # fmt: skip


@ldl_solve.differentiate
def _ldl_solve_derivative(g: Node, out: Node, x: Node, b: Node, pivots: Node, hermitian: bool) -> Gradients:
    if hermitian or not x.dtype.is_complex:
        return None, ldl_solve(x, g, pivots, hermitian=hermitian), None
    return None, c.conj(ldl_solve(x, c.conj(g), pivots, hermitian=False)), None
