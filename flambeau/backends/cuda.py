"""torch.backends.cuda: there is no CUDA; ``matmul.allow_tf32`` and the like can be set and have no effect."""


class _Products:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Products()


def is_built() -> bool:
    """False."""
    return False
