"""torch.backends.cuda: settings of GPU libraries, none of which is used; they can be set, and have no effect.

Attention is one operator with kernels of its own: which of PyTorch's kernels are allowed changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any


class _Products:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "ieee"


matmul = _Products()
_allowed = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """False."""
    return False


def flash_sdp_enabled() -> bool:
    """What was set."""
    return _allowed["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted."""
    _allowed["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What was set."""
    return _allowed["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accepted."""
    _allowed["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """What was set."""
    return _allowed["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accepted."""
    _allowed["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What was set."""
    return _allowed["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accepted."""
    _allowed["cudnn"] = enabled


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Generator[dict[str, Any]]:
    """Accepted; inside, the functions above tell these settings."""
    before = dict(_allowed)
    _allowed.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _allowed.update(before)
