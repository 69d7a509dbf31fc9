"""Fourier transforms against numpy, every kind of length, on vectors of every width."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core import dtypes
from flambeau.ops.declare import ALL
from flambeau.templates.fourier_plan import factors_of, padded_length
from tests.ops.operator_cases import check_against, operators_of

NORMS = {"backward": "backward", "ortho": "ortho", "forward": "forward"}


def _complex(x: Any, sizes: Any, dims: Any, norm: str = "backward", inverse: bool = False) -> Any:
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, sizes, dims, norm)


def _overlapped(x: Any, step: int) -> Any:
    *batch, count, n = x.shape
    out = np.zeros((*batch, n + step * (count - 1)))
    for k in range(count):
        out[..., k * step : k * step + n] += x[..., k, :]
    return out


ORACLES: dict[str, Any] = {
    "fft_complex": _complex, "fft_real": lambda x, s, dims, norm="backward": np.fft.rfftn(x, s, dims, norm),
    "fft_hermitian": lambda x, s, dims, norm="backward": np.fft.irfftn(x, s, dims, norm), "overlap_add": _overlapped,
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_body_equals_numpy(name: str) -> None:
    check_against(ALL[name], ORACLES[name])


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("fourier")} == set(ORACLES)


# Each radix alone and together, a tail of every kind, primes, and products of primes.
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 20, 25, 27, 30, 32, 36, 48, 60, 64, 77, 80, 96, 100, 101, 125, 128, 202, 243, 256,
           320, 360, 500, 625, 768, 997, 1000, 1024, 1994, 3000, 4096, 5003]  # fmt: skip


def _error(found: Any, wanted: Any) -> float:
    return float(np.abs(found.numpy() - wanted).max() / max(np.abs(wanted).max(), 1e-300))


@pytest.mark.parametrize("kind", [dtypes.complex64, dtypes.complex128])
def test_every_length(kind: Any) -> None:
    random = np.random.default_rng(3)
    limit = 8 * np.finfo(kind.numpy).eps
    for n in LENGTHS:
        z = (random.normal(size=(3, n)) + 1j * random.normal(size=(3, n))).astype(kind.numpy)
        x, wide = z.real.copy(), z.astype(np.complex128)
        bound = limit * (1 + np.log2(padded_length(n)))
        for norm in NORMS:
            tensor = torch.from_numpy(z)
            assert _error(torch.fft.fft(tensor, norm=norm), np.fft.fft(wide, norm=norm)) < bound, n
            assert _error(torch.fft.ifft(tensor, norm=norm), np.fft.ifft(wide, norm=norm)) < bound, n
            assert _error(torch.fft.rfft(torch.from_numpy(x), norm=norm), np.fft.rfft(x.astype(float), norm=norm)) < bound, n
            half = tensor[:, : n // 2 + 1]
            assert _error(torch.fft.irfft(half, n, norm=norm), np.fft.irfft(wide[:, : n // 2 + 1], n, norm=norm)) < bound, n


@pytest.mark.parametrize("bits", ["128", "256"])
def test_other_vectors(bits: str) -> None:
    program = "from tests.ops.test_reference_fourier import *; [test_every_length(k) for k in (dtypes.complex64, dtypes.complex128)]"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "FLAMBEAU_VECTOR_BITS": bits}, timeout=280)


def test_padded_lengths_hold_the_convolution_and_have_small_factors() -> None:
    for n in range(1, 600):
        length = padded_length(n)
        assert factors_of(length) is not None
        assert length == n if factors_of(n) is not None else 2 * n - 1 <= length < 4 * n + 32


def test_rows_do_not_depend_on_each_other_nor_on_layout() -> None:
    z = torch.randn(6, 40, dtype=torch.complex64)
    whole = torch.fft.fft(z)
    for k in range(6):
        assert torch.equal(torch.fft.fft(z[k]), whole[k])
    assert torch.equal(torch.fft.fft(z.t(), dim=0), whole.t())


@pytest.mark.parametrize("n", [12, 15, 77])
def test_gradients_are_those_of_the_sums(n: int) -> None:
    """Against products with the matrix of the transform, which is differentiated as any product."""
    place = torch.arange(n, dtype=torch.float64)
    matrix = torch.polar(torch.ones(n, n, dtype=torch.float64), -2 * np.pi / n * torch.outer(place, place).remainder(n))
    x = torch.randn(2, n, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, n // 2 + 1, dtype=torch.complex128)
    (found,) = torch.autograd.grad(torch.fft.rfft(x), x, weight)
    (wanted,) = torch.autograd.grad((x.to(torch.complex128) @ matrix)[:, : n // 2 + 1], x, weight)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-10)


def test_short_time_transforms_are_inverse_to_each_other() -> None:
    x = torch.randn(3, 200, dtype=torch.float64)
    window = torch.hann_window(32, dtype=torch.float64)
    spectra = torch.stft(x, 32, hop_length=8, window=window, return_complex=True)
    assert spectra.shape == (3, 17, 26)
    np.testing.assert_allclose(torch.istft(spectra, 32, hop_length=8, window=window, length=200).numpy(), x.numpy(), atol=1e-12)
    frame = np.pad(x[1].numpy(), 16, mode="reflect")[40:72] * window.numpy()
    np.testing.assert_allclose(spectra[1, :, 5].numpy(), np.fft.rfft(frame), atol=1e-12)


def test_errors_say_what_is_wrong() -> None:
    x = torch.randn(4)
    for call, text in (
        (lambda: torch.fft.fft(x, 0), r"Invalid number of data points \(0\)"), (lambda: torch.fft.fft(x, norm="half"), "normalization"),
        (lambda: torch.fft.rfft(x + 1j), "expects a real input"), (lambda: torch.fft.fftn(x, (2, 2)), "only has 1 dimensions"),
        (lambda: torch.fft.fft2(x.reshape(2, 2), dim=(0, 0)), "unique"), (lambda: torch.fft.fft(x.half()), "Unsupported dtype"),
        (lambda: torch.stft(x, 4), "return_complex"), (lambda: torch.istft(x.reshape(2, 2), 2), "complex-valued"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()
