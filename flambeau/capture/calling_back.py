"""Functions of Python that call back, or ask what objects of the program say, in Python: the interpreter runs these in their place."""

from __future__ import annotations

import functools
import heapq
import itertools
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["ALWAYS", "INSTEAD", "order"]

NOTHING: Any = object()


def each(iterable: Any) -> Any:
    """The items of something that is iterated in Python."""
    yield from iterable


def by_position(value: Any) -> Any:
    """``iter`` of something with items and no iterator of its own."""
    i = 0
    while True:
        try:
            item = value[i]
        except IndexError:
            return
        yield item
        i += 1


def until(function: Callable[[], Any], sentinel: Any) -> Any:
    """``iter(function, sentinel)``."""
    while (item := function()) != sentinel:
        yield item


def taken(function: Any, iterable: Any) -> Any:
    """``itertools.takewhile``."""
    for item in iterable:
        if not function(item):
            return
        yield item


def dropped(function: Any, iterable: Any) -> Any:
    """``itertools.dropwhile``."""
    rest = iter(iterable)
    for item in rest:
        if not function(item):
            yield item
            yield from rest


def accumulated(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    """``itertools.accumulate``."""
    rest = iter(iterable)
    value = next(rest, NOTHING) if initial is None else initial
    if value is NOTHING:
        return
    yield value
    for item in rest:
        value = value + item if func is None else func(value, item)
        yield value


def grouped(iterable: Any, key: Any = None) -> Any:
    """``itertools.groupby``."""
    rest, value, rank, target, number = iter(iterable), NOTHING, NOTHING, NOTHING, 0

    def forward() -> bool:
        nonlocal value, rank
        value = next(rest, NOTHING)
        if value is not NOTHING:
            rank = value if key is None else key(value)
        return value is not NOTHING

    def items(mine: int) -> Any:
        nonlocal value
        while mine == number and (value is not NOTHING or forward()) and target == rank:
            item, value = value, NOTHING
            yield item

    while True:
        while rank is NOTHING or (number and target == rank):
            if not forward():
                return
        target, number = rank, number + 1
        yield rank, items(number)


def reduced(function: Any, iterable: Any, *initial: Any) -> Any:
    """``functools.reduce``."""
    rest = iter(iterable)
    value = initial[0] if initial else next(rest, NOTHING)
    if value is NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for item in rest:
        value = function(value, item)
    return value


def total(iterable: Any, /, start: Any = 0) -> Any:
    """``sum``."""
    for item in iterable:
        start = start + item
    return start


def _first(better: Any, native: Any, values: Any, key: Any, options: dict[str, Any]) -> Any:
    if not values or (len(values) > 1 and options):
        return native(*values[:1], *values[:1], **options)  # raises
    found = best = NOTHING
    for item in values[0] if len(values) == 1 else values:
        rank = item if key is None else key(item)
        if found is NOTHING or better(rank, best):
            found, best = item, rank
    return native((), **options) if found is NOTHING else found


def order(keys: list[Any], reverse: Any) -> list[int]:
    """The positions of keys when they are sorted; means something else to the interpreter."""
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def in_order(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    """``sorted``."""
    items = list(iterable)
    keys = items if key is None else [key(v) for v in items]
    return [items[i] for i in order(keys, reverse)]


def _reached(obj: Any, name: str) -> Any:
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


class Compared:
    """A key of ``functools.cmp_to_key``."""

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) == 0

    __hash__ = None  # type: ignore[assignment]


def dictionary(*pairs: Any, **named: Any) -> Any:
    """``dict``."""
    made: dict[Any, Any] = {}
    for holder in pairs:
        if hasattr(holder, "keys"):
            for key in holder.keys():  # noqa: SIM118
                made[key] = holder[key]
        else:
            for key, value in holder:
                made[key] = value
    return {**made, **named} if named else made


for _part in (Compared, *(f for f in vars(Compared).values() if callable(f))):
    _part.__module__ = "functools"  # a class of Python's, which the interpreter enters

INSTEAD: dict[Any, Any] = {
    map: lambda function, first, *rest: (function(*v) for v in zip(first, *rest)) if rest else (function(v) for v in first),  # noqa: B905
    itertools.starmap: lambda function, iterable: (function(*items) for items in iterable),
    filter: lambda function, iterable: (v for v in iterable if (v if function is None else function(v))),
    itertools.filterfalse: lambda function, iterable: (v for v in iterable if not (v if function is None else function(v))),
    itertools.takewhile: taken, itertools.dropwhile: dropped, itertools.accumulate: accumulated, itertools.groupby: grouped,
    itertools.compress: lambda data, selectors: (v for v, wanted in zip(data, selectors) if wanted),  # noqa: B905
    itertools.chain.from_iterable: lambda iterables: (v for iterable in iterables for v in iterable),
    functools.reduce: reduced, sum: total, sorted: in_order, dict: dictionary, set: lambda iterable=(): {*iterable},
    max: lambda *values, key=None, **options: _first(operator.gt, max, values, key, options),
    min: lambda *values, key=None, **options: _first(operator.lt, min, values, key, options),
    heapq.nlargest: lambda n, iterable, key=None: in_order(iterable, key=key, reverse=True)[: max(n, 0)],
    heapq.nsmallest: lambda n, iterable, key=None: in_order(iterable, key=key)[: max(n, 0)],
    operator.itemgetter: lambda item, *more: lambda v: tuple([v[i] for i in (item, *more)]) if more else v[item],
    operator.attrgetter: lambda name, *more: lambda v: tuple([_reached(v, n) for n in (name, *more)]) if more else _reached(v, name),
    operator.methodcaller: lambda name, /, *args, **kwargs: lambda v: getattr(v, name)(*args, **kwargs),
    functools.cmp_to_key: lambda mycmp: functools.partial(Compared, mycmp),
}  # fmt: skip
# Those that call what they are given, or hold it, in any case; the others are run so where something that calls back is among it.
ALWAYS = frozenset((
    itertools.compress, itertools.chain.from_iterable, heapq.nlargest, heapq.nsmallest, operator.itemgetter, operator.attrgetter,
    operator.methodcaller, functools.cmp_to_key, functools.reduce, itertools.groupby,
))  # fmt: skip
