"""Short-time Fourier transforms."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import ops
from flambeau.tensor.autocasting import as_one
from flambeau.tensor.base import TensorBase


def _window(operator: str, window: Any, n_fft: int, win_length: int | None, like: Any) -> Any:
    """The window in the middle of ``n_fft`` places; ones where none is given."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{operator}: expected 0 < win_length <= n_fft, but got win_length={length} and n_fft={n_fft}")
    if window is None:
        window = ops.ones((length,), like.meta.dtype.to_real())
    elif window.meta.shape != (length,):
        raise RuntimeError(f"{operator}: expected a 1D window of size win_length={length}, but got shape {list(window.meta.shape)}")
    left = (n_fft - length) // 2
    return ops.pad(window, (left, n_fft - length - left)) if length < n_fft else window


def _hop(operator: str, hop_length: int | None, n_fft: int) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise RuntimeError(f"{operator}: expected hop_length > 0, but got hop_length={hop}")
    return hop


@as_one
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None, center: bool = True,
    pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """Transforms of windows that begin every ``hop_length`` elements of [..., L]: complex [..., n_fft // 2 + 1 (or n_fft), windows].

    ``center`` fills the input up on both sides, so that window t lies around element t * hop_length. ``onesided`` (default: of real
    input) leaves out what the conjugates say already. ``normalized`` divides by the square root of n_fft.

    >>> import flambeau as torch
    >>> torch.stft(torch.ones(8), 4, window=torch.ones(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    del align_to_window  # only where center is False, and the same there
    real = not input.meta.dtype.is_complex and not (window is not None and window.meta.dtype.is_complex)
    if return_complex is None:
        if real:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True "
                "in a future PyTorch release."
            )
        return_complex = True
    if len(input.meta.shape) not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got shape {list(input.meta.shape)}")
    if not input.meta.dtype.is_inexact:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.meta.dtype}")
    onesided = real if onesided is None else onesided
    if onesided and not real:
        raise RuntimeError("stft: cannot have onesided output if window or input is complex")
    x = ops.unsqueeze(input, 0) if len(input.meta.shape) == 1 else input
    if center:
        x = ops.reshape(ops.pad(ops.unsqueeze(x, 1), (n_fft // 2, n_fft // 2), pad_mode), (x.meta.shape[0], -1))
    if not 0 < n_fft <= x.meta.shape[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.meta.shape[1]}, but got n_fft={n_fft}")
    hop = _hop("stft", hop_length, n_fft)
    frames = ops.mul(ops.unfold(x, 1, n_fft, hop), _window("stft", window, n_fft, win_length, x))
    norm = "ortho" if normalized else "backward"
    transform = ops.fft_real if onesided else ops.fft_complex
    out = ops.transpose(transform(frames, (n_fft,), (2,), norm), 1, 2)
    out = ops.reshape(out, out.meta.shape[1:]) if len(input.meta.shape) == 1 else out
    return out if return_complex else ops.view_as_real(out)


def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None, center: bool = True,
    normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The inverse of ``stft``: windows added where they overlap, over the sum of their squares there.

    ``length`` cuts the result or fills it up with zeros. RuntimeError where the windows leave out elements.
    """
    if not input.meta.dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if len(input.meta.shape) not in (2, 3) or not input.meta.numel:
        raise RuntimeError(f"istft: expected a tensor of 2 or 3 dimensions that is not empty, but got shape {list(input.meta.shape)}")
    hop = _hop("istft", hop_length, n_fft)
    x = ops.unsqueeze(input, 0) if len(input.meta.shape) == 2 else input
    have = x.meta.shape[1]
    onesided = have != n_fft if onesided is None else onesided
    if have != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(f"istft: expected the frequency dimension (2nd to the last) to match n_fft={n_fft}, but got {have}")
    if return_complex and onesided:
        raise RuntimeError("istft: cannot have onesided output if window or input is complex: set onesided=False for return_complex")
    weights = _window("istft", window, n_fft, win_length, x)
    if weights.meta.dtype.is_complex and not return_complex:
        raise RuntimeError("istft: complex windows need return_complex=True")
    norm = "ortho" if normalized else "backward"
    spectra = ops.transpose(x, 1, 2)
    if return_complex:
        frames = ops.fft_complex(spectra, (n_fft,), (2,), norm, True)
    else:  # the first half says all of a real result
        frames = ops.fft_hermitian(spectra, (n_fft,), (2,), norm)
    count = frames.meta.shape[1]
    squares = ops.expand(ops.reshape(ops.mul(weights, weights), (1, 1, n_fft)), (1, count, n_fft))
    total, envelope = ops.overlap_add(ops.mul(frames, weights), hop), ops.overlap_add(squares, hop)
    start = n_fft // 2 if center else 0
    filled = n_fft + hop * (count - 1)
    end = min(start + length, filled) if length is not None else filled - n_fft // 2 if center else filled
    total, envelope = (ops.slice_(v, 1, start, end) for v in (total, envelope))
    if not ops.amin(ops.abs(envelope)).item() > 1e-11:
        raise RuntimeError("istft: window overlap add min: some elements lie in no window; use a longer window or a shorter hop_length")
    out = ops.true_divide(total, envelope)
    if length is not None and end - start < length:
        text = "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail."
        warnings.warn(text, stacklevel=2)
        out = ops.pad(out, (0, length - (end - start)))
    return ops.reshape(out, out.meta.shape[1:]) if len(input.meta.shape) == 2 else out


class FourierMethods(TensorBase):
    """Methods of Tensor for short-time Fourier transforms."""

    __slots__ = ()

    def stft(self, n_fft: int, *args: Any, **names: Any) -> Any:
        return stft(self, n_fft, *args, **names)

    def istft(self, n_fft: int, *args: Any, **names: Any) -> Any:
        return istft(self, n_fft, *args, **names)
