"""Names for how elements lie in memory: ``torch.strided`` and the memory formats."""

from __future__ import annotations

__all__ = [
    "Layout", "MemoryFormat", "channels_last", "channels_last_3d", "check_layout", "check_memory_format", "contiguous_format",
    "preserve_format", "strided",
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
    """How elements are stored; ``strided`` is the one there is."""

    __slots__ = ()


class MemoryFormat(_Named):
    """An order of dimensions in memory."""

    __slots__ = ()


strided = Layout("strided")
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")

_NAMED = {value.name: value for value in (strided, contiguous_format, preserve_format, channels_last, channels_last_3d)}


def by_name(name: str) -> _Named:
    """The layout or memory format called ``name``."""
    return _NAMED[name]


def check_memory_format(operator: str, memory_format: object) -> None:
    """NotImplementedError for the formats with channels last; TypeError for what is no format."""
    if memory_format is None or memory_format is contiguous_format or memory_format is preserve_format:
        return
    if not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"{operator}(): argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}")
    raise NotImplementedError(f"{operator}: memory_format={memory_format} is not supported; leave it out to keep rows together")


def check_layout(operator: str, layout: object) -> None:
    """NotImplementedError for other layouts than ``strided``."""
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"{operator}: layout {layout} is not supported; use torch.strided")
