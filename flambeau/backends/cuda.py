"""torch.backends.cuda: there is no CUDA; ``matmul.allow_tf32`` and the like can be set and have no effect."""

import contextlib
from collections.abc import Iterator


class _Products:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Products()


def is_built() -> bool:
    """False."""
    return False


_attention = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """A ``with`` block that allows ways to compute attention; there is one, whatever is allowed."""
    chosen = {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient, "cudnn": enable_cudnn}
    before = dict(_attention)
    _attention.update(chosen)
    try:
        yield
    finally:
        _attention.update(before)


def enable_flash_sdp(enabled: bool) -> None:
    """Allow a way to compute attention; there is one, whatever is allowed."""
    _attention["flash"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """As `enable_flash_sdp`."""
    _attention["math"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """As `enable_flash_sdp`."""
    _attention["mem_efficient"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """As `enable_flash_sdp`."""
    _attention["cudnn"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was given."""
    return _attention["flash"]


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was given."""
    return _attention["math"]


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was given."""
    return _attention["mem_efficient"]


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was given."""
    return _attention["cudnn"]


def is_flash_attention_available() -> bool:
    """False: that library is not used."""
    return False
