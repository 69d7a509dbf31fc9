"""Which implementation of scaled dot-product attention a program asks for."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's names of implementations. Here one implementation serves all of them."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Generator[None]:
    """A block in which attention may use only these implementations: any choice gives the same results.

    Raises TypeError for other values and ValueError for an empty choice.

    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
    ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen:
        raise ValueError("sdpa_kernel: got no backend; name at least one SDPBackend")
    if not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise TypeError(f"sdpa_kernel: backends must be SDPBackend or a list of them, got {backends!r}")
    yield
