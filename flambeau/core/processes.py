"""The group of processes that this one belongs to; so far it is alone in it."""

from __future__ import annotations

__all__ = ["group", "need_group"]

# The backend's name of a group that was initialized.
group: dict[str, str] = {}


def need_group() -> None:
    """ValueError as PyTorch's before ``init_process_group``."""
    if not group:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
