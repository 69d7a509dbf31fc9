"""torch.distributed.rpc: calls in other processes, of which there are none."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"]


def init_rpc(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """NotImplementedError: there is one process; call functions directly."""
    raise NotImplementedError("torch.distributed.rpc: groups have one process so far; call the function directly")


rpc_sync = rpc_async = remote = init_rpc


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Nothing: no calls are under way."""
