"""Products of vectors and matrices."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.tensor.arguments import write_out
from flambeau.tensor.base import TensorBase
from flambeau.tensor.functions_complex import conj

Number = bool | int | float


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """Products of vectors, matrices or broadcast batches of matrices, by the ranks of the operands.

    >>> import flambeau as torch
    >>> torch.matmul(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    return ops.matmul(input, other) if out is None else write_out(out, ops.matmul(input, other))


def mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """Matrix product: [n, k] x [k, m] -> [n, m]."""
    return ops.mm(input, mat2) if out is None else write_out(out, ops.mm(input, mat2))


def bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """A product for each pair of matrices: [b, n, k] x [b, k, m] -> [b, n, m]."""
    return ops.bmm(input, mat2) if out is None else write_out(out, ops.bmm(input, mat2))


def mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    """Matrix times vector: [n, k] x [k] -> [n]."""
    return ops.mv(input, vec) if out is None else write_out(out, ops.mv(input, vec))


def dot(input: Any, tensor: Any, *, out: Any = None) -> Any:
    """The sum of products of two vectors."""
    return ops.dot(input, tensor) if out is None else write_out(out, ops.dot(input, tensor))


def vdot(input: Any, other: Any, *, out: Any = None) -> Any:
    """The sum of products of two vectors, the first one conjugated."""
    result = ops.dot(conj(input), other)
    return result if out is None else write_out(out, result)


def inner(input: Any, other: Any, *, out: Any = None) -> Any:
    """Sums of products over the last dimensions."""
    if input.meta.shape and other.meta.shape:
        if input.meta.shape[-1] != other.meta.shape[-1]:
            raise RuntimeError(
                f"inner() the last dimension must match on both input tensors but got shapes {list(input.meta.shape)} and "
                f"{list(other.meta.shape)}"
            )
        result = ops.tensordot(input, other, ((len(input.meta.shape) - 1,), (len(other.meta.shape) - 1,)))
    else:
        result = ops.mul(input, other)
    return result if out is None else write_out(out, result)


def outer(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """Every product of an element of one vector and one of another: [n], [m] -> [n, m]."""
    return ops.outer(input, vec2) if out is None else write_out(out, ops.outer(input, vec2))


ger = outer


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Number = 1, alpha: Number = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    result = ops.addmm(input, mat1, mat2, beta, alpha)
    return result if out is None else write_out(out, result)


spmm = mm


def addmv(input: Any, mat: Any, vec: Any, *, beta: Number = 1, alpha: Number = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    result = ops.addmv(input, mat, vec, beta, alpha)
    return result if out is None else write_out(out, result)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Number = 1, alpha: Number = 1, out: Any = None) -> Any:
    """beta * input + alpha * outer(vec1, vec2)."""
    result = ops.addr(input, vec1, vec2, beta, alpha)
    return result if out is None else write_out(out, result)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1, out: Any = None) -> Any:
    """beta * input + alpha * bmm(batch1, batch2)."""
    result = ops.baddbmm(input, batch1, batch2, beta, alpha)
    return result if out is None else write_out(out, result)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1, out: Any = None) -> Any:
    """beta * input + alpha * the sum over the batch of bmm(batch1, batch2)."""
    result = ops.addbmm(input, batch1, batch2, beta, alpha)
    return result if out is None else write_out(out, result)


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Sum over the last ``dims`` dimensions of a and the first of b, or over the pairs of dimensions given."""
    if isinstance(dims, TensorBase):
        dims = dims.tolist()  # type: ignore[attr-defined]
    if not isinstance(dims, int):
        left, right = dims
        dims = (_dims(left), _dims(right))
    result = ops.tensordot(a, b, dims)
    return result if out is None else write_out(out, result)


def _dims(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """The Kronecker product: blocks of ``other``, each times one element of the input."""
    return ops.kron(input, other) if out is None else write_out(out, ops.kron(input, other))


def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of several matrices."""
    result = ops.chain_matmul(list(matrices))
    return result if out is None else write_out(out, result)


def einsum(equation: Any, *operands: Any) -> Any:
    """Sums of products by an equation such as ``"bij,bjk->bik"``, or by operands with lists of numbered dimensions.

    >>> import flambeau as torch
    >>> torch.einsum("ij->ji", torch.tensor([[1, 2]]))
    tensor([[1],
            [2]])
    """
    if not isinstance(equation, str):
        equation, operands = _numbered(equation, *operands)
    many = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return ops.einsum(equation, list(many))


def _numbered(*args: Any) -> tuple[str, tuple[Any, ...]]:
    """The equation of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def text(dims: Any) -> str:
        return "".join("..." if d is Ellipsis else letters[d] for d in dims)

    pairs = len(args) // 2
    equation = ",".join(text(args[2 * i + 1]) for i in range(pairs))
    return equation + ("->" + text(args[-1]) if len(args) % 2 else ""), tuple(args[0:2 * pairs:2])


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """out[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j], plus bias."""
    return ops.bilinear(input1, input2, weight, bias)


def matrix_power(input: Any, n: int, *, out: Any = None) -> Any:
    """The square matrix multiplied by itself ``n`` times."""
    shape = input.meta.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise RuntimeError(f"matrix_power: A must be batches of square matrices, got shape {list(shape)}")
    if n < 0:
        input, n = ops.inverse(input), -n
    result: Any = None
    square = input
    while n:
        if n & 1:
            result = square if result is None else ops.matmul(result, square)
        n >>= 1
        square = ops.matmul(square, square) if n else square
    if result is None:
        # As torch's, the result depends on the input, with a derivative of zero.
        result = ops.masked_fill(input, ops.full((), True), 0.0) + ops.eye(shape[-1], None, input.meta.dtype)
    result = ops.clone(result) if result is input else result
    return result if out is None else write_out(out, result)


def cross(input: Any, other: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """The cross product of vectors of 3 along ``dim`` (the first dimension of size 3 for None)."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.meta.shape) if n == 3), -1)
    result = ops.cross(input, other, dim)
    return result if out is None else write_out(out, result)


def _scaled_mm(
    input: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None, out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Any:  # fmt: skip
    """Product of matrices of eight-bit floats, each times its scale (a number, or one for each row and column), computed in float32.

    The result has ``out_dtype``, or the type of ``input``; as in PyTorch on the CPU ``scale_result`` does not count.

    >>> import flambeau as torch
    >>> a = torch.ones(2, 3).to(torch.float8_e4m3fn)
    >>> torch._scaled_mm(a, a.t(), torch.tensor(2.0), torch.tensor(0.5), out_dtype=torch.float32)
    tensor([[3., 3.],
            [3., 3.]])
    """
    for name, matrix in (("mat1", input), ("mat2", mat2)):
        if not matrix.meta.dtype.is_float8:
            raise RuntimeError(f"Expected {name} to be Float8 matrix got {matrix.meta.dtype.scalar_name}; convert it with .to(dtype)")
    wide = [ops.mul(ops.to_dtype(m, dtypes.float32), s) for m, s in ((input, scale_a), (mat2, scale_b))]
    product = ops.mm(*wide)
    product = product if bias is None else ops.add(product, bias)
    return ops.to_dtype(product, out_dtype or input.meta.dtype)
