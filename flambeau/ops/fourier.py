"""Discrete Fourier transforms."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.core.symbolic import Dim, specialize
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Sizes, Value, op
from flambeau.ops.rearrange import constant_padded
from flambeau.ops.view import cut

BACKWARD, ORTHOGONAL, FORWARD = "backward", "ortho", "forward"


def _sized(x: Node, axis: int, n: Dim) -> Node:
    """x cut to ``n`` elements along an axis, or filled up with zeros."""
    have = x.shape[axis]
    if have == n:
        return x
    return cut(x, axis, 0, n) if have > n else constant_padded(x, {axis: (0, n - have)}, 0.0)


def _moved(x: Node, source: int, target: int) -> Node:
    order = [a for a in range(x.rank) if a != source]
    order.insert(target, source)
    return p.permute(x, axes=tuple(order)) if source != target else x


def _divided(norm: str, inverse: bool) -> str:
    return "root" if norm == ORTHOGONAL else "length" if norm == (BACKWARD if inverse else FORWARD) else "none"


def _transformed(x: Node, axis: int, norm: str, inverse: bool) -> Node:
    """The sums along one axis of a complex x, divided as ``norm`` says."""
    last = x.rank - 1
    out = p.fourier(p.as_real(_moved(x, axis, last)), axis=last, inverse=inverse, norm=_divided(norm, inverse))
    return _moved(p.as_complex(out), last, axis)


def _as_complex(x: Node) -> Node:
    return x if x.dtype.is_complex else p.cast(x, to=x.dtype.to_complex())


def _samples(m: SampleMaker) -> Calls:
    out = [case(m.complex(3, 8), (8,), (1,)), case(m.float(6, 4), (5, 7), (0, 1), norm=ORTHOGONAL), case(m.complex(2, 30), (30,), (1,))]
    return [*out, case(m.complex(35, 2), (40,), (0,), inverse=True), case(m.complex(2, 77), (77,), (1,), norm=FORWARD, inverse=True)]


@op(promote="float", samples=_samples)
def fft_complex(x: Value, sizes: Sizes, dims: tuple[int, ...], norm: str = BACKWARD, inverse: bool = False) -> Node:
    """The transform along ``dims``, of x cut or filled up with zeros to ``sizes`` there."""
    for axis, n in zip(dims, sizes, strict=True):
        x = _sized(x, axis, n)
    x = _as_complex(x)
    for axis in reversed(dims):
        x = _transformed(x, axis, norm, inverse)
    return x


@op(promote="float", samples=lambda m: [case(m.float(3, 8), (8,), (1,)), case(m.float(4, 7), (6, 9), (1, 0), norm=ORTHOGONAL)])
def fft_real(x: Value, sizes: Sizes, dims: tuple[int, ...], norm: str = BACKWARD) -> Node:
    """The transform of a real x; along the last of ``dims`` only the first n // 2 + 1 elements, the others are their conjugates."""
    *rest, last = dims
    for axis, n in zip(dims, sizes, strict=True):
        x = _sized(x, axis, n)
    end = x.rank - 1
    out = _moved(p.as_complex(p.fourier_real(_moved(x, last, end), axis=end, norm=_divided(norm, False))), end, last)
    for axis in reversed(rest):
        out = _transformed(out, axis, norm, False)
    return out


@op(promote="float", samples=lambda m: [case(m.complex(3, 5), (8,), (1,)), case(m.complex(4, 7), (6, 9), (1, 0), norm=FORWARD)])
def fft_hermitian(x: Value, sizes: Sizes, dims: tuple[int, ...], norm: str = BACKWARD) -> Node:
    """The inverse of ``fft_real``: real, from half a spectrum along the last of ``dims``, where the result has ``sizes[-1]`` elements."""
    *rest, last = dims
    n = sizes[-1]
    for axis, size in zip(rest, sizes[:-1], strict=True):
        x = _sized(x, axis, size)
    x = _sized(x, last, n // 2 + 1)
    x = _as_complex(x)
    for axis in reversed(rest):
        x = _transformed(x, axis, norm, True)
    end = x.rank - 1
    pairs = p.as_real(_moved(x, last, end))
    return _moved(p.fourier_hermitian(pairs, axis=end, n=n, norm=_divided(norm, True)), end, last)


@op(promote="arithmetic", samples=lambda m: [case(m.float(2, 5, 4), 1), case(m.float(3, 4), 2), case(m.float(3, 4), 6)])
def overlap_add(x: Value, step: int) -> Node:
    """The sum of rows [..., count, n] that begin ``step`` elements after one another: [..., n + step * (count - 1)]."""
    *_, count, n = (*x.shape[:-1], specialize(x.shape[-1]))
    return p.fold_windows(x, x.rank - 2, n + step * (count - 1), n, step, 1)
