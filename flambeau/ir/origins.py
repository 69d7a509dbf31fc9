"""Where nodes come from: the user's line and the operator, kept beside the graph while somebody wants to know."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flambeau.ir.node import Node

__all__ = ["Origin", "keep_origins", "note_origin", "origins_of", "pass_on", "wanted"]


class Origin(NamedTuple):
    """An operator call of the user's program: ``line`` is ``file.py:17``."""

    line: str
    operator: str


_origins: weakref.WeakKeyDictionary[Node, Origin] = weakref.WeakKeyDictionary()
_keepers = 0
_any = False


@contextmanager
def keep_origins() -> Generator[None]:
    """Note origins inside this block; what was noted is known as long as the nodes live."""
    global _keepers
    _keepers += 1
    try:
        yield
    finally:
        _keepers -= 1


def wanted() -> bool:
    """Whether anybody keeps origins now."""
    return _keepers > 0


def note_origin(nodes: Iterable[Node], origin: Origin) -> None:
    """Say where nodes come from, and with them every node behind them of which that is not known yet."""
    global _any
    _any = True
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in _origins and node.op.name != "input":
            _origins[node] = origin
            stack.extend(node.sources)


def pass_on(old: Node, new: Node) -> None:
    """A pass has put ``new`` in place of ``old``: it comes from the same place."""
    origin = _origins.get(old) if _any else None
    if origin is not None:
        note_origin((new,), origin)


def origins_of(nodes: Iterable[Node]) -> tuple[Origin, ...]:
    """The different origins of nodes, in their order; nothing where none were kept."""
    found = (_origins.get(node) for node in (nodes if _any else ()))
    return tuple(dict.fromkeys(origin for origin in found if origin is not None))
