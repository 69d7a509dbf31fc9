"""torch.fft: discrete Fourier transforms.

``norm`` says what a transform is divided by: "backward" (the default) divides inverse transforms by n, "forward" forward ones, "ortho"
both by the square root of n, n being the product of the lengths. ``n`` and ``s`` are lengths to cut the input to, or to fill it up to
with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.core.context import context
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import default_float, normalize_dim
from flambeau.tensor import autocasting, overriding
from flambeau.tensor.arguments import write_out
from flambeau.tensor.creation import finished
from flambeau.tensor.functions_complex import conj

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _norm(norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in _OPPOSITE:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; use "backward", "ortho" or "forward"')
    return norm


def _check(operator: str, input: Any, real: bool = False) -> Any:
    if context.autocast:
        input = autocasting.apply("fft_complex", lambda x: x, input)
    kind = input.meta.dtype
    if real and kind.is_complex:
        raise RuntimeError(f"{operator} expects a real input tensor, but got {kind}")
    if kind.itemsize == 2 and kind.is_floating_point:
        raise RuntimeError(f"{operator}: Unsupported dtype {kind}; convert to float32")
    return input


def _one(operator: str, input: Any, n: int | None, dim: int, half: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The length and the dimension of a transform along one dimension; of ``half`` a spectrum comes a longer result."""
    if not input.meta.shape:
        raise IndexError(f"{operator}: Dimension specified as {dim} but tensor has no dimensions")
    axis = normalize_dim(dim, len(input.meta.shape), operator)
    length = n if n is not None else 2 * (input.meta.shape[axis] - 1) if half else input.meta.shape[axis]
    return _lengths(operator, (length,)), (axis,)


def _lengths(operator: str, sizes: Sequence[int]) -> tuple[int, ...]:
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"{operator}: Invalid number of data points ({n}) specified")
    return tuple(sizes)


def _several(
    operator: str, input: Any, s: Sequence[int] | None, dim: int | Sequence[int] | None, half: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths and dimensions of a transform along several dimensions."""
    shape = input.meta.shape
    rank = len(shape)
    s = (s,) if isinstance(s, int) else s
    dim = (dim,) if isinstance(dim, int) else dim
    if s is not None and dim is not None and len(s) != len(dim):
        raise RuntimeError(f"{operator}: When given, dim and shape arguments must have the same length, got {list(dim)} and {list(s)}")
    if dim is None:
        if s is not None and len(s) > rank:
            raise RuntimeError(f"{operator}: Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
        dim = range(rank) if s is None else range(rank - len(s), rank)
    axes = tuple(normalize_dim(d, rank, operator) for d in dim)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"{operator}: FFT dims must be unique, got {tuple(dim)}")
    given = [-1] * len(axes) if s is None else list(s)
    sizes = [shape[a] if n == -1 else n for n, a in zip(given, axes, strict=True)]
    if half and sizes and given[-1] == -1:
        sizes[-1] = 2 * (shape[axes[-1]] - 1)
    return _lengths(operator, sizes), axes


def _complex(
    operator: str, input: Any, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str | None, inverse: bool, out: Any
) -> Any:  # fmt: skip
    found = ops.fft_complex(_check(operator, input), sizes, axes, _norm(norm), inverse)
    return found if out is None else write_out(out, found)


def _real(operator: str, input: Any, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str, out: Any, conjugate: bool = False) -> Any:
    if not axes:
        raise RuntimeError(f"{operator} must transform at least one axis")
    found = ops.fft_real(_check(operator, input, real=True), sizes, axes, norm)
    found = conj(found) if conjugate else found
    return found if out is None else write_out(out, found)


def _hermitian(operator: str, input: Any, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str, out: Any) -> Any:
    if not axes:
        raise RuntimeError(f"{operator} must transform at least one axis")
    found = ops.fft_hermitian(_check(operator, input), sizes, axes, norm)
    return found if out is None else write_out(out, found)


# -- along one dimension --------------------------------------------------------------------------------
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """X[k] = sum over j of x[j] * exp(-2 pi i j k / n) along ``dim``, complex.

    >>> import flambeau as torch
    >>> torch.fft.fft(torch.arange(4.0))
    tensor([ 6.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _complex("fft", input, *_one("fft", input, n, dim), norm, False, out)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``fft``."""
    return _complex("ifft", input, *_one("ifft", input, n, dim), norm, True, out)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The first n // 2 + 1 elements of the transform of a real input; the others are their conjugates.

    >>> import flambeau as torch
    >>> torch.fft.rfft(torch.arange(4.0))
    tensor([ 6.+0.j, -2.+2.j, -2.+0.j])
    """
    return _real("rfft", input, *_one("rfft", input, n, dim), _norm(norm), out)


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``rfft``: n real numbers, 2 * (m - 1) of an input of m unless given."""
    return _hermitian("irfft", input, *_one("irfft", input, n, dim, half=True), _norm(norm), out)


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The real transform of an input that stands for a Hermitian one, of which it is the first half."""
    return _hermitian("hfft", conj(input), *_one("hfft", input, n, dim, half=True), _OPPOSITE[_norm(norm)], out)


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``hfft``."""
    return _real("ihfft", input, *_one("ihfft", input, n, dim), _OPPOSITE[_norm(norm)], out, conjugate=True)


# -- along several dimensions ---------------------------------------------------------------------------
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """``fft`` along each of ``dim`` (all for None, or the last ones that ``s`` has lengths for)."""
    return _complex("fftn", input, *_several("fftn", input, s, dim), norm, False, out)


def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``fftn``."""
    return _complex("ifftn", input, *_several("ifftn", input, s, dim), norm, True, out)


def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """``rfft`` along the last of ``dim``, then ``fft`` along the others."""
    return _real("rfftn", input, *_several("rfftn", input, s, dim), _norm(norm), out)


def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``rfftn``."""
    return _hermitian("irfftn", input, *_several("irfftn", input, s, dim, half=True), _norm(norm), out)


def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """``fft`` along all of ``dim`` but the last, then ``hfft``."""
    return _hermitian("hfftn", conj(input), *_several("hfftn", input, s, dim, half=True), _OPPOSITE[_norm(norm)], out)


def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of ``hfftn``."""
    return _real("ihfftn", input, *_several("ihfftn", input, s, dim), _OPPOSITE[_norm(norm)], out, conjugate=True)


def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``fftn`` along two dimensions."""
    return fftn(input, s, dim, norm, out=out)


def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``ifftn`` along two dimensions."""
    return ifftn(input, s, dim, norm, out=out)


def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``rfftn`` along two dimensions."""
    return rfftn(input, s, dim, norm, out=out)


def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``irfftn`` along two dimensions."""
    return irfftn(input, s, dim, norm, out=out)


def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``hfftn`` along two dimensions."""
    return hfftn(input, s, dim, norm, out=out)


def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """``ihfftn`` along two dimensions."""
    return ihfftn(input, s, dim, norm, out=out)


# -- frequencies and their order ------------------------------------------------------------------------
def fftfreq(n: int, d: float = 1.0, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """The frequencies of the elements of a transform of n samples ``d`` apart: 0, 1, ..., -2, -1 over n * d.

    >>> import flambeau as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    kind = dtype or default_float()
    places = ops.arange(0, 1, n, kind)
    places = ops.where(ops.lt(places, (n + 1) // 2), places, ops.sub(places, n))
    return finished("fftfreq", ops.mul(places, 1.0 / (n * d)), requires_grad, **options)


def rfftfreq(n: int, d: float = 1.0, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """The frequencies of the n // 2 + 1 elements of ``rfft`` of n samples ``d`` apart: 0, 1, ... over n * d."""
    places = ops.arange(0, 1, n // 2 + 1, dtype or default_float())
    return finished("rfftfreq", ops.mul(places, 1.0 / (n * d)), requires_grad, **options)


def _shifted(input: Any, dim: int | Sequence[int] | None, inverse: bool) -> Any:
    shape = input.meta.shape
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = [normalize_dim(d, len(shape), "fftshift") for d in dims]
    return ops.roll(input, [(shape[a] + inverse) // 2 for a in axes], axes)


def fftshift(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """Negative frequencies first: along each of ``dim`` rolled by n // 2.

    >>> import flambeau as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(input, dim, False)


def ifftshift(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """The inverse of ``fftshift``."""
    return _shifted(input, dim, True)


overriding.publish("torch.fft", globals())
