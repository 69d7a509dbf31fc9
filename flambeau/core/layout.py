"""Names for how elements lie in memory: ``torch.strided`` and the memory formats."""

from __future__ import annotations

__all__ = [
    "Layout", "MemoryFormat", "channels_last", "channels_last_3d", "check_layout", "contiguous_format", "jagged", "memory_order",
    "preserve_format", "sparse_coo", "sparse_csr", "strided",
]  # fmt: skip


class _Named:
    """A value that is its name; instances are unique."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)


class Layout(_Named):
    """How elements are stored: all of them at their strides, or only some with their places."""

    __slots__ = ()


class MemoryFormat(_Named):
    """An order of dimensions in memory."""

    __slots__ = ()


strided = Layout("strided")
sparse_coo = Layout("sparse_coo")
sparse_csr = Layout("sparse_csr")
jagged = Layout("jagged")
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")

_LAYOUTS = (strided, sparse_coo, sparse_csr, jagged)
_NAMED = {value.name: value for value in (*_LAYOUTS, contiguous_format, preserve_format, channels_last, channels_last_3d)}


def by_name(name: str) -> _Named:
    """The layout or memory format called ``name``."""
    return _NAMED[name]


_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def memory_order(operator: str, memory_format: object, rank: int) -> tuple[int, ...] | None:
    """The order that dimensions have in memory, outermost first; None for formats that do not change it.

    RuntimeError for a tensor of another rank than the format is for, TypeError for what is no format.
    """
    if memory_format is None or memory_format is contiguous_format or memory_format is preserve_format:
        return None
    if not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"{operator}(): argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}")
    order = _ORDERS[memory_format]
    if len(order) != rank:
        raise RuntimeError(f"{operator}: required rank {len(order)} tensor to use {memory_format.name} format, got rank {rank}")
    return order


def check_layout(operator: str, layout: object) -> None:
    """NotImplementedError for other layouts than ``strided``."""
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"{operator}: layout {layout} is not supported; use torch.strided")
