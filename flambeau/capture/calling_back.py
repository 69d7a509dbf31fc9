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


def mapped(function: Any, *iterables: Any) -> Any:
    """``map``."""
    return _mapped(function, *[iter(i) for i in iterables])


def _mapped(function: Any, first: Any, *rest: Any) -> Any:
    if rest:
        for items in zip(first, *rest):  # noqa: B905 - to the end of the shortest
            yield function(*items)
    else:
        for item in first:
            yield function(item)


def starmapped(function: Any, iterable: Any) -> Any:
    """``itertools.starmap``."""
    for items in iterable:
        yield function(*items)


def filtered(function: Any, iterable: Any) -> Any:
    """``filter``."""
    for item in iterable:
        if item if function is None else function(item):
            yield item


def left_out(function: Any, iterable: Any) -> Any:
    """``itertools.filterfalse``."""
    for item in iterable:
        if not (item if function is None else function(item)):
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


def compressed(data: Any, selectors: Any) -> Any:
    """``itertools.compress``."""
    for item, wanted in zip(data, selectors):  # noqa: B905 - to the end of the shorter
        if wanted:
            yield item


def chained(iterables: Any) -> Any:
    """``itertools.chain.from_iterable``."""
    for iterable in iterables:
        yield from iterable


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


def largest(*values: Any, key: Any = None, **options: Any) -> Any:
    """``max``."""
    return _first(operator.gt, max, values, key, options)


def smallest(*values: Any, key: Any = None, **options: Any) -> Any:
    """``min``."""
    return _first(operator.lt, min, values, key, options)


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


def greatest(n: Any, iterable: Any, key: Any = None) -> Any:
    """``heapq.nlargest``."""
    return in_order(iterable, key=key, reverse=True)[: max(n, 0)]


def least(n: Any, iterable: Any, key: Any = None) -> Any:
    """``heapq.nsmallest``."""
    return in_order(iterable, key=key)[: max(n, 0)]


def item_getter(item: Any, *items: Any) -> Any:
    """``operator.itemgetter``."""
    return (lambda holder: tuple([holder[i] for i in (item, *items)])) if items else lambda holder: holder[item]


def attribute_getter(name: str, *names: str) -> Any:
    """``operator.attrgetter``."""
    return (lambda obj: tuple([_reached(obj, n) for n in (name, *names)])) if names else lambda obj: _reached(obj, name)


def _reached(obj: Any, name: str) -> Any:
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


def method_caller(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """``operator.methodcaller``."""
    return lambda obj: getattr(obj, name)(*args, **kwargs)


def count_of(iterable: Any, value: Any) -> int:
    """``operator.countOf``."""
    return sum([1 for item in iterable if item is value or item == value])


class Compared:
    """A key of `comparing`."""

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


def gathered_set(iterable: Any = ()) -> Any:
    """``set``."""
    return {*iterable}


def comparing(mycmp: Any) -> Any:
    """``functools.cmp_to_key``."""
    return functools.partial(Compared, mycmp)


for _part in (Compared, *(f for f in vars(Compared).values() if callable(f))):
    _part.__module__ = "functools"  # a class of Python's, which the interpreter enters

INSTEAD: dict[Any, Any] = {
    map: mapped, itertools.starmap: starmapped, filter: filtered, itertools.filterfalse: left_out, itertools.takewhile: taken,
    itertools.dropwhile: dropped, itertools.compress: compressed, itertools.chain.from_iterable: chained, itertools.accumulate: accumulated,
    itertools.groupby: grouped, functools.reduce: reduced, sum: total, max: largest, min: smallest, sorted: in_order,
    heapq.nlargest: greatest, heapq.nsmallest: least, operator.itemgetter: item_getter, operator.attrgetter: attribute_getter,
    operator.methodcaller: method_caller, operator.countOf: count_of, functools.cmp_to_key: comparing,
    dict: dictionary, set: gathered_set,
}  # fmt: skip
# Those that call what they are given, or hold it, in any case; the others are run so where something that calls back is among it.
ALWAYS = frozenset((
    itertools.compress, itertools.chain.from_iterable, heapq.nlargest, heapq.nsmallest, operator.itemgetter, operator.attrgetter,
    operator.methodcaller, functools.cmp_to_key, functools.reduce, itertools.groupby,
))  # fmt: skip
