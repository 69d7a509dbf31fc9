"""torch.backends.cudnn: there is no cuDNN; its settings can be set and have no effect."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None: there is none."""
    return None
