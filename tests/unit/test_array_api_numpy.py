"""The array API's functions against numpy's of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau.array_api as xp

RNG = np.random.default_rng(17)
A = RNG.standard_normal((2, 3, 4))
B = RNG.standard_normal((4,))
M = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
S = M @ M.T
N = RNG.integers(-5, 5, (3, 4))
T = N.astype(np.int8)

# Each gets a module and what makes its arrays of numpy's.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda m, a: m.arange(2, 10, 3), "arange end": lambda m, a: m.arange(4), "arange none": lambda m, a: m.arange(3, 1),
    "zeros": lambda m, a: m.zeros((2, 3)), "ones": lambda m, a: m.ones(3), "full": lambda m, a: m.full((2,), 3),
    "eye": lambda m, a: m.eye(3, 4, k=1),
    "eye beyond": lambda m, a: m.eye(2, k=5), "linspace": lambda m, a: m.linspace(0, 1, 5),
    "linspace open": lambda m, a: m.linspace(0, 1, 5, endpoint=False),
    "zeros_like": lambda m, a: m.zeros_like(a(N)), "ones_like": lambda m, a: m.ones_like(a(A)),
    "full_like": lambda m, a: m.full_like(a(N), 7), "meshgrid": lambda m, a: m.meshgrid(a(B), a(B[:2])),
    "tril": lambda m, a: m.tril(a(A), k=1), "triu": lambda m, a: m.triu(a(A), k=-1), "clip": lambda m, a: m.clip(a(A), -0.5, 0.5),
    "clip arrays": lambda m, a: m.clip(a(A), a(B) * 0, None),
    "clip nothing": lambda m, a: m.clip(a(A)), "round": lambda m, a: m.round(a(A * 3)),
    "round complex": lambda m, a: m.round(a(A[0] * (3 + 2j))), "sign": lambda m, a: m.sign(a(np.array([-2.0, 0.0, np.nan, 3.0]))),
    "where": lambda m, a: m.where(a(A > 0), a(A), a(N[:, :4] * 1.0)), "matmul": lambda m, a: m.matmul(a(A), a(A[0].T)),
    "tensordot": lambda m, a: m.tensordot(a(A), a(A), axes=((0, 1), (0, 1))),
    "vecdot": lambda m, a: m.vecdot(a(A), a(B)), "matrix_transpose": lambda m, a: m.matrix_transpose(a(A)),
    "permute": lambda m, a: m.permute_dims(a(A), (2, 0, 1)),
    "concat": lambda m, a: m.concat([a(T), a(N)], axis=1), "concat flat": lambda m, a: m.concat([a(N), a(B)], axis=None),
    "stack": lambda m, a: m.stack([a(T), a(N)], axis=-1), "unstack": lambda m, a: m.unstack(a(A), axis=1),
    "expand_dims": lambda m, a: m.expand_dims(a(A), axis=1), "squeeze": lambda m, a: m.squeeze(a(A[:1, :, :1]), axis=(0, 2)),
    "flip": lambda m, a: m.flip(a(A)), "flip one": lambda m, a: m.flip(a(A), axis=1),
    "moveaxis": lambda m, a: m.moveaxis(a(A), 0, -1), "reshape": lambda m, a: m.reshape(a(A), (4, 6)),
    "reshape copy": lambda m, a: m.reshape(a(A), (4, 6), copy=True), "roll": lambda m, a: m.roll(a(A), 2, axis=1),
    "roll all": lambda m, a: m.roll(a(A), 5),
    "repeat": lambda m, a: m.repeat(a(A), 2, axis=0), "tile": lambda m, a: m.tile(a(A), (2, 1)),
    "take": lambda m, a: m.take(a(A), a(np.array([2, 0])), axis=1), "take vector": lambda m, a: m.take(a(B), a(np.array([2, 0]))),
    "take_along_axis": lambda m, a: m.take_along_axis(a(A), a(np.argsort(A, 1)), axis=1),
    "broadcast_to": lambda m, a: m.broadcast_to(a(B), (3, 4)), "broadcast_arrays": lambda m, a: m.broadcast_arrays(a(B), a(N)),
    "sum": lambda m, a: m.sum(a(A), axis=(0, 2)), "sum small": lambda m, a: m.sum(a(T)),
    "prod": lambda m, a: m.prod(a(A), axis=1, keepdims=True), "max": lambda m, a: m.max(a(A), axis=0),
    "min": lambda m, a: m.min(a(A), axis=(0, 1)), "max all": lambda m, a: m.max(a(A)),
    "mean": lambda m, a: m.mean(a(A), axis=-1), "std": lambda m, a: m.std(a(A), axis=0, correction=1), "var": lambda m, a: m.var(a(A)),
    "all": lambda m, a: m.all(a(A > -1), axis=1), "any": lambda m, a: m.any(a(A > 1), axis=(0, 1)),
    "argmax": lambda m, a: m.argmax(a(A), axis=1), "argmin": lambda m, a: m.argmin(a(A)),
    "count_nonzero": lambda m, a: m.count_nonzero(a(N), axis=0), "nonzero": lambda m, a: m.nonzero(a(N)),
    "sort": lambda m, a: m.sort(a(A), axis=1), "argsort": lambda m, a: m.argsort(a(A), axis=0),
    "searchsorted": lambda m, a: m.searchsorted(a(np.sort(B)), a(A[0]), side="right"),
    "cumulative_sum": lambda m, a: m.cumulative_sum(a(A), axis=1, include_initial=True),
    "cumulative_prod": lambda m, a: m.cumulative_prod(a(B)),
    "unique_values": lambda m, a: m.sort(m.unique_values(a(N))), "unique_counts": lambda m, a: m.unique_counts(a(N)),
    "unique_inverse": lambda m, a: m.unique_inverse(a(N)), "unique_all": lambda m, a: m.unique_all(a(N)),
    "matrix_norm": lambda m, a: m.linalg.matrix_norm(a(A)), "vector_norm": lambda m, a: m.linalg.vector_norm(a(A), axis=1, ord=3),
    "vector_norm all": lambda m, a: m.linalg.vector_norm(a(A)), "trace": lambda m, a: m.linalg.trace(a(A), offset=1),
    "cholesky": lambda m, a: m.linalg.cholesky(a(S)), "cross": lambda m, a: m.linalg.cross(a(M), a(M[:1])),
    "det": lambda m, a: m.linalg.det(a(M)), "diagonal": lambda m, a: m.linalg.diagonal(a(A), offset=1),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a(S)),
    "eigh": lambda m, a: m.linalg.eigh(a(S))[0], "inv": lambda m, a: m.linalg.inv(a(M)),
    "matrix_power": lambda m, a: m.linalg.matrix_power(a(M), 3), "matrix_rank": lambda m, a: m.linalg.matrix_rank(a(A)),
    "outer": lambda m, a: m.linalg.outer(a(B), a(B)), "pinv": lambda m, a: m.linalg.pinv(a(A)),
    "qr": lambda m, a: m.matmul(*m.linalg.qr(a(M))), "slogdet": lambda m, a: m.linalg.slogdet(a(M)),
    "solve": lambda m, a: m.linalg.solve(a(M), a(A[0])), "solve vector": lambda m, a: m.linalg.solve(a(M), a(B[:3])),
    "svd": lambda m, a: m.linalg.svd(a(M))[1], "svdvals": lambda m, a: m.linalg.svdvals(a(A)),
    **{name: lambda m, a, name=name: getattr(m.fft, name)(a(A), axis=1) for name in ("fft", "ifft", "rfft", "hfft", "ihfft")},
    "irfft": lambda m, a: m.fft.irfft(a(A), n=5, axis=-1),
    **{name: lambda m, a, name=name: getattr(m.fft, name)(a(A), s=(3, 4), axes=(1, 2)) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fftfreq": lambda m, a: m.fft.fftfreq(5, d=0.5), "rfftfreq": lambda m, a: m.fft.rfftfreq(6),
    "fftshift": lambda m, a: m.fft.fftshift(a(A), axes=1), "ifftshift": lambda m, a: m.fft.ifftshift(a(A)),
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    return [np.asarray(v) for v in value] if isinstance(value, (tuple, list)) else [np.asarray(value)]


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy_does(name: str) -> None:
    try:
        theirs = flat(CALLS[name](np, np.asarray))
    except (AttributeError, TypeError) as error:
        pytest.skip(f"this numpy has not that form: {error}")
    ours = flat(CALLS[name](xp, xp.asarray))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape and one.dtype.kind == other.dtype.kind
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)  # arrays made of numbers are float32 here


def test_types_and_devices() -> None:
    assert xp.isdtype(xp.float32, "real floating") and xp.isdtype(xp.int8, ("bool", "integral")) and not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(xp.int8, xp.int8) and xp.astype(xp.asarray([1.5]), xp.int64).tolist() == [1] and xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.asarray([1.0]), xp.int8) and xp.result_type(xp.asarray([1]), xp.float64) is xp.float64
    with pytest.raises(ValueError, match="isdtype"):
        xp.isdtype(xp.int8, "wide")
    with pytest.raises(ValueError, match="result_type"):
        xp.result_type(1, 2)
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and str(info.default_device()) == "cpu" and [str(d) for d in info.devices()] == ["cpu"]
    x = xp.asarray([1.0, 2.0])
    assert x.to_device("cpu").tolist() == [1, 2] and xp.from_dlpack(x).tolist() == [1, 2] and xp.empty((2, 0)).shape == (2, 0)
    assert xp.empty_like(x).shape == (2,) and xp.from_dlpack(x, copy=True).tolist() == [1, 2]
    y = xp.asarray([1, 2])
    y += 1
    y[0] = 5
    assert y.tolist() == [5, 3] and (x @ x).item() == 5 and x.__matmul__(3) is NotImplemented and x.__add__("a") is NotImplemented


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: xp.matrix_transpose(xp.ones(3)), ValueError), (lambda: xp.vecdot(xp.ones(3), xp.ones(3), axis=0), ValueError),
        (lambda: xp.vecdot(xp.ones(3), xp.ones(2)), ValueError), (lambda: xp.squeeze(xp.ones((1, 2)), axis=4), IndexError),
        (lambda: xp.squeeze(xp.ones((1, 2)), axis=1), ValueError), (lambda: xp.take(xp.ones((2, 2)), xp.asarray([0])), ValueError),
        (lambda: xp.take(xp.ones(2), xp.asarray([0]), axis=2), IndexError), (lambda: xp.cumulative_sum(xp.ones((2, 2))), ValueError),
        (lambda: xp.nonzero(xp.asarray(1)), ValueError), (lambda: xp.reshape(xp.ones((2, 3)).mT, (6,), copy=False), RuntimeError),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
