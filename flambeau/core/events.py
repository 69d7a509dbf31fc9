"""Records and counters that low layers emit and that `explain`, tests and ``FLAMBEAU_DEBUG`` read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from flambeau.core.config import config

__all__ = ["Event", "Subscriber", "counters", "emit", "enabled", "print_level", "subscribe"]

Event = dict[str, Any]
Subscriber = Callable[[str, Event], None]

# With the kinds that each wants to see.
_subscribers: list[tuple[Subscriber, frozenset[str]]] = []

# From which FLAMBEAU_DEBUG level on a kind is printed; a kind that is not named here is never printed.
_LEVELS = {
    "kernel_compile": 1, "program_compile": 1, "compile": 1, "recompile": 1, "runs_eagerly": 1, "cache_warning": 1, "threads": 1,
    "not_kept": 1, "graph_break": 1,
    "capture_load": 2, "timing": 2, "kernel_load": 2, "program_load": 2,
    "graph": 3,
    "kernel_text": 4,
    "pass_diff": 5,
    "assembly": 6,
}


class _Counters(Counter[str]):
    """Named counts that any module may raise; a name nobody raised counts zero. Some are kept elsewhere and read from there."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[str, Callable[[], int]] = {}
        self._before: dict[str, int] = {}

    def watch(self, name: str, read: Callable[[], int]) -> None:
        """Let ``read()`` say how often ``name`` was counted since the process began."""
        self._watched[name] = read
        self._before[name] = read()

    def __missing__(self, name: str) -> int:
        read = self._watched.get(name)
        return 0 if read is None else read() - self._before[name]

    def snapshot(self) -> dict[str, int]:
        """A copy of the counts as they are now."""
        return {**self, **{name: self[name] for name in self._watched}}

    def reset(self) -> None:
        """Forget all counts."""
        self.clear()
        self._before = {name: read() for name, read in self._watched.items()}


counters = _Counters()


def print_level(kind: str) -> int | None:
    """The ``FLAMBEAU_DEBUG`` level from which events of `kind` are printed; None when they never are."""
    return _LEVELS.get(kind)


def enabled(kind: str) -> bool:
    """Whether anybody would see an event of `kind`; ask before making costly fields."""
    return config.debug >= _LEVELS.get(kind, 99) or any(not kinds or kind in kinds for _, kinds in _subscribers)


def emit(kind: str, **fields: Any) -> None:
    """Tell all subscribers that something of `kind` happened, described by `fields`."""
    for subscriber, kinds in tuple(_subscribers):
        if not kinds or kind in kinds:
            subscriber(kind, fields)
    if config.debug and config.debug >= _LEVELS.get(kind, 99):
        _print(kind, fields)


def subscribe(subscriber: Subscriber, *kinds: str) -> Callable[[], None]:
    """Call ``subscriber(kind, fields)`` for each event of these kinds (of all by default); the result ends the subscription.

    >>> from flambeau.core import events
    >>> seen = []
    >>> unsubscribe = events.subscribe(lambda kind, fields: seen.append((kind, fields)))
    >>> events.emit("timing", stage="schedule", milliseconds=1.5)
    >>> unsubscribe()
    >>> seen
    [('timing', {'stage': 'schedule', 'milliseconds': 1.5})]
    """
    entry = (subscriber, frozenset(kinds))
    _subscribers.append(entry)

    def unsubscribe() -> None:
        if entry in _subscribers:
            _subscribers.remove(entry)

    return unsubscribe


def _print(kind: str, fields: Event) -> None:
    long = {name: value for name, value in fields.items() if isinstance(value, str) and "\n" in value}
    short = " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in fields.items() if name not in long
    )
    print(f"[flambeau] {kind}: {short}", file=sys.stderr)
    for name, value in long.items():
        print(f"--- {name}\n{value}", file=sys.stderr)
