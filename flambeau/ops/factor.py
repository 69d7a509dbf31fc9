"""Factorizations of matrices; every dimension before the last two is a batch."""

from __future__ import annotations

from typing import NamedTuple

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, broadcast_shapes, broadcast_to, op

TYPE_NAMES = {
    "float16": "Half", "bfloat16": "BFloat16", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint8": "Byte",
    "bool": "Bool",
}  # fmt: skip


# -- checks and samples -------------------------------------------------------------------------------------
def require_matrices(operator: str, x: Node, name: str = "A") -> None:
    """torch's errors for what is no batch of matrices of a type that can be factored."""
    if x.rank < 2:
        raise RuntimeError(f"{operator}: The input tensor {name} must have at least 2 dimensions.")
    require_factorable(operator, x)


def require_factorable(operator: str, x: Node) -> None:
    """torch's errors for integers and for types with too few digits."""
    kind = TYPE_NAMES.get(x.dtype.name, x.dtype.name)
    if x.dtype.is_complex:
        raise NotImplementedError(f"{operator}: complex matrices are not supported yet; factor the real form [[re, -im], [im, re]]")
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"{operator}: Expected a floating point or complex tensor as input. Got {kind}")
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{operator}: Low precision dtypes not supported. Got {kind}")


def require_square(operator: str, x: Node, name: str = "A") -> None:
    """As ``require_matrices``; they are square too."""
    require_matrices(operator, x, name)
    if not x.shape[-1] == x.shape[-2]:
        rows, columns = x.shape[-2:]
        raise RuntimeError(f"{operator}: {name} must be batches of square matrices, but they are {rows} by {columns} matrices")


def is_wide(x: Node) -> bool:
    return x.shape[-2] < x.shape[-1]


def least(x: Node) -> Dim:
    """The smaller size of a matrix."""
    return x.shape[-2] if is_wide(x) else x.shape[-1]


def regular(m: SampleMaker, *shape: int) -> object:
    """Random matrices with a strong diagonal."""
    x = m.float(*shape)
    for i in range(min(shape[-2:])):
        x[..., i, i] += 3 + i
    return x


def positive(m: SampleMaker, *shape: int) -> object:
    """Random symmetric positive definite matrices."""
    x = m.float(*shape)
    return x @ x.swapaxes(-1, -2) + shape[-1] * (x[..., :1, :1] * 0 + 1) * (m.float(shape[-1]) * 0 + 1)[:, None] * _eye(shape[-1])


def _eye(n: int) -> object:
    import numpy as np  # noqa: PLC0415

    return np.eye(n)


# -- Cholesky -----------------------------------------------------------------------------------------------
class CholeskyInfo(NamedTuple):
    """The factor, and the order of the first leading minor that is not positive, or 0 (int32)."""

    L: Node
    info: Node


def _positive_samples(m: SampleMaker) -> Calls:
    return [case(positive(m, 4, 4)), case(positive(m, 2, 3, 3), True), case(m.float(0, 0)), case(m.float(2, 0, 3, 3))]


@op(samples=_positive_samples)
def cholesky(x: Value, upper: bool = False, operator: str = "linalg.cholesky") -> Node:
    """L with x = L L' of symmetric positive definite matrices, from their lower triangles; ``upper``: U with x = U' U."""
    require_square(operator, x)
    return p.cholesky(x, upper=upper, part=0, operator=operator)


@op(samples=_positive_samples)
def cholesky_ex(x: Value, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """``cholesky`` that tells of matrices that are not positive definite instead of raising."""
    require_square("linalg.cholesky_ex", x)
    operator = "linalg.cholesky_ex" if check_errors else ""
    return CholeskyInfo(*(p.cholesky(x, upper=upper, part=i, operator=operator) for i in (0, 1)))


# -- systems ------------------------------------------------------------------------------------------------
class SolveInfo(NamedTuple):
    """The solution, and where elimination met a zero, or 0 (int32)."""

    result: Node
    info: Node


def is_vector_side(a: Node, b: Node) -> bool:
    """Whether torch takes ``b`` for one vector for each matrix."""
    return b.rank == 1 or (a.rank - 1 == b.rank and all(x == y for x, y in zip(a.shape[:-1], b.shape, strict=True)))


def _system(operator: str, a: Node, b: Node, left: bool) -> tuple[Node, Node, bool]:
    """A and B with equal batches, and whether B was a vector; of X A = B the transposed system."""
    require_square(operator, a)
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{operator}: Expected A and B to have the same dtype, but found A of type {a.dtype} and B of type {b.dtype}")
    vector = is_vector_side(a, b)
    if not left and vector:
        raise RuntimeError(f"{operator}: Vector broadcasting of the left hand side is not supported for left=False.")
    b = p.reshape(b, shape=(*b.shape, 1)) if vector else b
    if b.rank < 2:
        raise RuntimeError(f"{operator}: The input tensor B must have at least 2 dimensions.")
    a, b = (a, b) if left else (p.transpose(a), p.transpose(b))
    if not a.shape[-1] == b.shape[-2]:
        given = b.shape[-2:] if left else (b.shape[-1], b.shape[-2])
        form = "AX = B" if left else "XA = B"
        sizes = f"({a.shape[-2]}x{a.shape[-1]} and {given[0]}x{given[1]})"
        raise RuntimeError(f"{operator}: Incompatible shapes of A and B for the equation {form} {sizes}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], operator=operator)
    return broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:])), vector


def _system_samples(m: SampleMaker) -> Calls:
    a = regular(m, 4, 4)
    return [
        case(a, m.float(4, 2)), case(a, m.float(4)), case(regular(m, 2, 1, 3, 3), m.float(4, 3, 2)), case(a, m.float(3, 4), left=False),
        case(regular(m, 2, 3, 3), m.float(2, 3)), case(m.float(0, 0), m.float(0, 2)),
    ]  # fmt: skip


def _solved(operator: str, a: Node, b: Node, left: bool, part: int, check: bool) -> Node:
    a, b, vector = _system(operator, a, b, left)
    out = p.solve(a, b, part=part, operator=operator if check else "")
    if part:
        return out
    return p.reshape(out, shape=out.shape[:-1]) if vector else out if left else p.transpose(out)


@op(samples=_system_samples)
def solve(a: Value, b: Value, *, left: bool = True) -> Node:
    """X with a X = b, or X a = b where not ``left``; b may be a vector for each matrix."""
    return _solved("linalg.solve", a, b, left, 0, True)


@op(samples=_system_samples)
def solve_ex(a: Value, b: Value, *, left: bool = True, check_errors: bool = False) -> SolveInfo:
    """``solve`` that tells of singular matrices instead of raising."""
    return SolveInfo(*(_solved("linalg.solve_ex", a, b, left, part, check_errors) for part in (0, 1)))
