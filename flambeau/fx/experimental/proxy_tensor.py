"""torch.fx.experimental.proxy_tensor: traces of operators, of which there are none here."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """None: nothing is traced so."""
    return None
