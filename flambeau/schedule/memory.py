"""Memory plan: temporaries whose lives do not meet share one arena."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.symbolic import Dim
from flambeau.schedule.schedule import Schedule

ALIGNMENT = 64


def plan_memory(schedule: Schedule, resolve: Callable[[Dim], int]) -> tuple[dict[int, int], int]:
    """The byte offset of each temporary buffer and the size of the arena, for resolved sizes.

    Largest first, each at the lowest offset that no buffer alive at the same time covers.
    """
    lives: dict[int, list[int]] = {}
    for call in schedule.calls:
        for number in (*call.writes, *call.reads):
            buffer = schedule.buffers[number].index if schedule.buffers[number].role == "part" else number
            if schedule.buffers[buffer].role == "temporary":
                life = lives.setdefault(buffer, [call.wave, call.wave])
                life[0], life[1] = min(life[0], call.wave), max(life[1], call.wave)
    sizes = {b: _aligned(resolve(schedule.buffers[b].numel) * schedule.buffers[b].dtype.itemsize) for b in lives}
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[int, int] = {}
    total = 0
    for buffer in sorted(lives, key=lambda b: (-sizes[b], b)):
        first, last = lives[buffer]
        size = sizes[buffer]
        at = 0
        for start, end, born, dead in placed:  # sorted by start
            if born > last or dead < first or end <= at:
                continue
            if start >= at + size:
                break
            at = end
        offsets[buffer] = at
        entry = (at, at + size, first, last)
        index = len(placed)
        while index and placed[index - 1][0] > at:
            index -= 1
        placed.insert(index, entry)
        total = max(total, at + size)
    return offsets, total


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
