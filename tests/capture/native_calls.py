"""A table of calls of native code, of what they are given, and of the ways in which that gets there; each entry is a program.

``python -m tests.capture.native_calls [EVERY] [FIRST]`` goes through every so many of all entries, from one on, and says which differ.
"""

# ruff: noqa: F401 - the expressions use what is imported
from __future__ import annotations

import array
import bisect
import collections
import copy
import dataclasses
import functools
import heapq
import itertools
import json
import math
import operator
import pickle
import random
import re
import statistics
import struct
import sys
import types
import weakref
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import flambeau as torch
from tests.capture.corpus.harness import Program, call, compare, ramp


class Thing:
    """An object of the user's with a tensor in it."""

    def __init__(self, tensor, rank):
        self.tensor, self.rank = tensor, rank

    def __lt__(self, other):
        return self.rank < other.rank

    def __eq__(self, other):
        return isinstance(other, Thing) and self.rank % 2 == other.rank % 2

    def __hash__(self):
        return hash(self.rank % 2)

    def __len__(self):
        return int(self.rank)

    def __bool__(self):
        return self.rank > 1

    def __index__(self):
        return int(self.rank)

    def __int__(self):
        return int(self.rank) + 10

    def __float__(self):
        return self.rank + 0.5

    def __complex__(self):
        return complex(self.rank, 1)

    def __add__(self, other):
        return Thing(self.tensor + (other.tensor.sum() if isinstance(other, Thing) else other), self.rank)

    def __radd__(self, other):
        return Thing(self.tensor - other, self.rank)

    def __format__(self, spec):
        return f"<{self.rank:{spec or 'g'}}>"

    def __str__(self):
        return f"Thing {self.rank}"

    def __repr__(self):
        return f"Thing({self.rank})"

    def __contains__(self, item):
        return item == self.rank

    def __call__(self, t):
        return t * self.tensor.sum()

    def __round__(self, digits=0):
        return self.rank * 10 + digits

    def __trunc__(self):
        return int(self.rank)

    def __floor__(self):
        return int(self.rank) - 1

    def __ceil__(self):
        return int(self.rank) + 1

    def __abs__(self):
        return self.tensor.abs()

    def __reversed__(self):
        return iter([self.rank, self.tensor])

    def __iter__(self):
        return iter((self.tensor, self.rank))


def same(v):
    return v


class Items:
    """Iterates in Python."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        yield from self.items

    def __len__(self):
        return len(self.items)


class Sequence:
    """Is gone through by position."""

    def __init__(self, items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


class Next:
    """An iterator written in Python."""

    def __init__(self, items):
        self.items, self.i = items, -1

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i >= len(self.items):
            raise StopIteration
        return self.items[self.i]


class OwnList(list):
    pass


class OwnTuple(tuple):
    pass


class OwnDict(dict):
    pass


Triple = collections.namedtuple("Triple", "a b c d e", defaults=[None] * 5)


@dataclasses.dataclass
class Data:
    items: object
    factor: float = 2.0


# What holds the items. Each is made of a list anew at each call.
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "deque": lambda v: collections.deque(v, maxlen=6),
    "dict": lambda v: {f"k{i}": t for i, t in enumerate(v)},
    "values": lambda v: dict(enumerate(v)).values(),
    "items": lambda v: {f"k{i}": t for i, t in enumerate(v)}.items(),
    "generator": lambda v: (t for t in v),
    "iterator": iter,
    "map": lambda v: map(same, v),
    "chain": lambda v: itertools.chain(v[:1], v[1:]),
    "enumerate": enumerate,
    "reversed": lambda v: reversed(v),
    "Items": Items,
    "Sequence": Sequence,
    "Next": Next,
    "UserList": collections.UserList,
    "OwnList": OwnList,
    "OwnTuple": OwnTuple,
    "OwnDict": lambda v: OwnDict((f"k{i}", t) for i, t in enumerate(v)),
    "OrderedDict": lambda v: collections.OrderedDict((f"k{i}", t) for i, t in enumerate(v)),
    "proxy": lambda v: types.MappingProxyType({f"k{i}": t for i, t in enumerate(v)}),
    "ChainMap": lambda v: collections.ChainMap({f"k{i}": t for i, t in enumerate(v[:2])}, {f"k{i}": t for i, t in enumerate(v)}),
    "UserDict": lambda v: collections.UserDict({f"k{i}": t for i, t in enumerate(v)}),
    "namedtuple": lambda v: Triple(*v, *v[-1:] * (5 - len(v))),
    "nested": lambda v: [(t, [t]) for t in v],
    "namespace": lambda v: types.SimpleNamespace(items=list(v)),
    "dataclass": lambda v: Data(list(v)),
    "set": lambda v: set(v) if all(isinstance(t, (str, int, float, Thing)) for t in v) else {1},
    "frozenset": lambda v: frozenset(v) if all(isinstance(t, (str, int, float, Thing)) for t in v) else frozenset((1, 2)),
    "object array": lambda v: [*v, np.arange(len(v))],
    "array": lambda v: np.arange(len(v)) * 1.5,
}


def tensors(i):
    a, b, c = ramp(2) + i, ramp(3) * (i + 1), ramp(1) - i
    return [[a, b, c], [c, b, a], [b, a], [a, b, c, ramp(4) + i], [c, a, b]][i % 5]


def things(i):
    return [Thing(t, rank) for t, rank in zip(tensors(i), [[1, 2, 3], [3, 1, 2], [2, 2], [4, 1, 0, 2], [2.0, 0, 1]][i % 5], strict=True)]


def numbers(i):
    return [[1, 2.5, 3], [1.0, 2, 3], [True, 5], [2**60, -0.0, 7, 8], [math.inf, 0.0, 1.5]][i % 5]


def integers(i):
    return [[3, 1, 2], [1, 2, 3], [5, 300], [2**60, 0, 7, 1000], [-1, True, 2]][i % 5]


def words(i):
    return [["ab", "c", "d"], ["c", "ab", "d"], ["x", "y"], ["q", "ww", "e", "r"], ["", "ab", "c"]][i % 5]


def pairs(i):
    return [(w, t) for w, t in zip(words(i), tensors(i), strict=True)]


CONTENTS = {"tensors": tensors, "things": things, "numbers": numbers, "integers": integers, "words": words, "pairs": pairs}


def rank(v):
    """A key for anything."""
    if isinstance(v, torch.Tensor):
        return v.numel()
    if isinstance(v, Thing):
        return v.rank
    if isinstance(v, tuple):
        return rank(v[-1])
    if isinstance(v, list):
        return rank(v[0])
    return len(v) if isinstance(v, str) else v


def twice(v, *rest):
    if isinstance(v, Thing):
        return v.tensor * 2
    if isinstance(v, tuple):
        return tuple([twice(u) for u in v])
    return v * 2 if isinstance(v, (torch.Tensor, str, int, float)) else v


def weight(v):
    """A number of anything."""
    if isinstance(v, torch.Tensor):
        return v.sum()
    if isinstance(v, Thing):
        return v.tensor.sum()
    if isinstance(v, (tuple, list)):
        return sum((weight(u) for u in v), 0)
    return len(v) if isinstance(v, str) else v


def both(a, b):
    return weight(a) * 0.5 + weight(b)


def large(v):
    return rank(v) > 1


def use(r, depth=4):
    """Computes with what a call gave."""
    if isinstance(r, torch.Tensor):
        return r * 2 + 1
    if isinstance(r, Thing):
        return r.tensor * 3, r.rank
    if isinstance(r, (str, int, float, complex, bytes, type(None), type)) or not depth:
        return r
    if isinstance(r, dict):
        return [(k, use(v, depth - 1)) for k, v in r.items()]
    if isinstance(r, (list, tuple, collections.deque, set, frozenset, collections.UserList)) or hasattr(r, "__next__"):
        return [use(v, depth - 1) for v in itertools.islice(r, 12)]
    if hasattr(r, "__dict__"):
        return use(vars(r), depth - 1)
    return str(type(r))


def a_b(a, b):
    return a * 2, b


def listed(text: str) -> list[str]:
    """Expressions with semicolons between."""
    return [e.strip() for e in text.strip().split(";") if e.strip()]


# Calls by what they may be given: something that is gone through, a number, a text, an object of the user's.
THROUGH = listed("""
list(x); tuple(x); [*x]; (*x,); {**dict(enumerate(x))}; list(reversed(list(x))); sorted(x, key=rank);
sorted(x, key=rank, reverse=True); sorted(x); max(x, key=rank); min(x, key=rank); max(x, key=rank, default=None); max(x); min(*x);
max(*x, key=rank); sum(x); sum(x, t); sum(map(weight, x)); any(x); all(x); any(map(large, x)); all(large(v) for v in x); len(x);
bool(x); next(iter(x)); next(iter(x), None); list(enumerate(x)); list(enumerate(x, 2));
[(i, twice(v)) for i, v in enumerate(x, start=3)]; list(zip(x, range(9))); list(zip(range(3), x, strict=True));
[(a, twice(b)) for a, b in zip("abcdef", x)]; list(map(twice, x)); list(map(both, x, [t, t, t])); list(map(operator.not_, x));
list(filter(large, x)); list(filter(None, x)); dict(enumerate(x)); dict(zip("abcdef", x)); dict(x); dict.fromkeys("ab", x);
dict.fromkeys(map(rank, x), t); collections.OrderedDict(enumerate(x)); collections.defaultdict(list, enumerate(x));
collections.deque(x); collections.deque(x, 2); collections.deque(x, maxlen=1); collections.Counter(map(rank, x));
collections.ChainMap(dict(enumerate(x)), {9: t}); collections.UserList(x); collections.UserDict(enumerate(x)); set(map(rank, x));
frozenset(map(rank, x)); functools.reduce(both, x); functools.reduce(both, x, t); functools.partial(max, key=rank)(x);
functools.partial(list, x)(); functools.partial(twice, *x)(); list(itertools.accumulate(x, both));
list(itertools.accumulate(x, both, initial=t)); list(itertools.accumulate(map(weight, x))); list(itertools.chain(x, [t]));
list(itertools.chain.from_iterable([x, [t]])); list(itertools.chain.from_iterable(x)); list(itertools.islice(x, 2));
list(itertools.islice(x, 1, None, 2)); list(itertools.islice(itertools.cycle(x), 5)); list(itertools.pairwise(x));
list(itertools.product(x, repeat=2))[:3]; list(itertools.product(x, "ab")); list(itertools.permutations(x, 2));
list(itertools.combinations(x, 2)); list(itertools.combinations_with_replacement(x, 2));
list(itertools.zip_longest(x, [t, t, t, t], fillvalue=t)); list(itertools.compress(x, [1, 0, 1, 1]));
list(itertools.compress("abcd", x)); list(itertools.dropwhile(large, x)); list(itertools.takewhile(large, x));
list(itertools.filterfalse(large, x)); [(k, list(g)) for k, g in itertools.groupby(x, rank)]; [list(v) for v in itertools.tee(x)];
[next(v) for v in itertools.tee(x, 3)]; list(itertools.starmap(both, zip(x, x))); list(itertools.repeat(x, 2));
heapq.nlargest(2, x, key=rank); heapq.nsmallest(2, x, key=rank); list(heapq.merge(x, [t], key=rank)); operator.countOf(x, t);
operator.length_hint(x); operator.itemgetter(0)(x); operator.itemgetter(0, 1)(x); operator.itemgetter(slice(1, None))(x);
operator.methodcaller("__len__")(x); operator.methodcaller("copy")(x); operator.attrgetter("items")(x); operator.concat(x, x);
operator.contains(x, 3); operator.getitem(x, 0); operator.truth(x); 3 in x; "ab" in x; copy.copy(x); copy.deepcopy(x); x == x;
x != []; x + x; [t] + x; x * 2; x[0]; x[-1]; x[1:]; x[::-1]; x["k0"]; x.get("k1"); x.get("zz", t); x.pop(); x.pop("k0"); x.popitem();
x.popleft(); x.copy(); list(x.values()); list(x.keys()); list(x.items()); max(x.items(), key=rank); sorted(x.values(), key=rank);
x.items[0]; max(x.items, key=rank); x.append(t); x.extend([t, t]); x.extend(x); x.insert(0, t); x.reverse(); x.sort(key=rank);
x.sort(key=rank, reverse=True); x.clear(); x.rotate(1); x.appendleft(t); x.extendleft([t]); x.update({"k0": t}); x.update(k1=t);
x.update([("k2", t)]); x.setdefault("k1", t); x.setdefault("new", t); x.move_to_end("k0"); x.index(3); x.count(2); x.remove(3);
x | {"k1": t}; {"k1": t} | x; x._asdict(); x._replace(a=t); vars(x); dataclasses.asdict(x); dataclasses.astuple(x);
dataclasses.replace(x, factor=3.0); torch.stack([weight(v) for v in x]); torch.cat([v for v in x if isinstance(v, torch.Tensor)]);
torch.stack(list(map(weight, x))); torch.tensor(list(map(rank, x))); torch.cat(list(x)); torch.cat(tuple(x)); torch.block_diag(*x);
torch.tensor(list(x)); torch.broadcast_tensors(*map(weight, x)); print(*map(rank, x)); print(x if len(x) > 9 else "short");
"{} {}".format(*x); "{0!r} {1!s}".format(*map(rank, x)); "%s-%s" % tuple(map(rank, x))[:2]; f"{[rank(v) for v in x]}";
", ".join(map(str, map(rank, x))); "".join(str(rank(v)) for v in x); str(list(map(rank, x))); json.dumps(list(map(rank, x)));
statistics.mean(map(rank, x)); math.fsum(map(rank, x)); math.prod(map(rank, x)); statistics.median(rank(v) for v in x);
bisect.bisect(sorted(map(rank, x)), 2); bisect.bisect_left(x, 2, key=rank); np.array(list(map(rank, x)), dtype=float);
np.sum(list(map(rank, x))); np.asarray(list(map(float, map(rank, x)))); array.array("d", map(rank, x)); bytes(map(operator.index, x));
(lambda *a, **k: [twice(v) for v in a])(*x); (lambda *a, **k: [twice(v) for v in k.values()])(**x);
(lambda a, *b: (twice(a), len(b)))(*x); isinstance(x, collections.abc.Sequence); iter(x) is x; id(x) == id(x); range(len(x))[-1];
slice(None, len(x)); [v for v in x if large(v)]; {i: v for i, v in enumerate(x)}; {rank(v) for v in x};
[u for v in x for u in (v, v)]; tuple(v for v in x); max((v for v in x), key=lambda v: -rank(v));
sorted(((rank(v), i) for i, v in enumerate(x))); sorted(enumerate(x), key=lambda p: (rank(p[1]), p[0]));
list(zip(*[(v, v) for v in x])); list(zip(*[x, x])); types.SimpleNamespace(items=x).items; dict(a=x)["a"]; [x, x][1];
(lambda y=x: y)(); list(iter(lambda it=iter(x): next(it, None), None)); list(types.MappingProxyType(dict(enumerate(x))).values());
pickle.loads(pickle.dumps(list(map(rank, x)))); re.sub("a", lambda m: str(len(list(x))), "banana");
random.Random(3).sample(list(map(rank, x)), 2); random.Random(3).choice(list(x)); functools.reduce(lambda a, b: a + weight(b), x, 0);
list(map(functools.partial(both, t), x)); list(map(lambda v, i: (v, i), x, itertools.count())); list(map(list, zip(x, x)));
list(map(dict, [zip("ab", x)])); list(map(max, [list(map(rank, x))])); list(map(sum, [map(weight, x)]));
list(map(operator.itemgetter(0), zip(x))); list(map(x.__class__, [()]));
list(map(str.upper, filter(lambda v: isinstance(v, str), x))); sum((weight(v) for v in x), start=t); sum([[v] for v in x], []);
sum(((v,) for v in x), ()); sorted(x, key=lambda v: -float(weight(v))); min(x, key=lambda v: float(weight(v)));
next(filter(large, x)); next(map(twice, x)); next(zip(x, x));
collections.Counter({i: rank(v) for i, v in enumerate(x)}).most_common(2)
""")
SCALARS = listed("""
x + 1; 1 + x; x * t; t * x; t + x; t - x; x - t; t ** x; x ** 2; -x; abs(x); x // 2; x % 3; divmod(x, 3); divmod(7, x); pow(x, 2, 5);
round(x); round(x, 1); int(x); float(x); bool(x); complex(x); str(x); repr(x); hash(x); format(x, "5"); format(x); f"{x}";
f"{x!r:>8}"; f"{x:>7}"; "%s" % x; "%s %d" % (x, x); "{:6}".format(x); "{0} {0!r}".format(x); x == 1; x < 3; x is True; x in (1, 2, 3);
x in [0, 1.5, "ab"]; x in {1: 2, 2.0: 3}; {1: "one", 2: "two", 3: "three"}.get(x); {x: t}; {x: t}[x]; {x, 1, 2}; [1, 2, 3].index(x);
[1, 2, 3].count(x); [x] * 2; (x, x); max(x, 2); min(x, 2); sum([x, 1]); math.floor(x); math.sqrt(x); math.isnan(x);
math.copysign(1, x); math.gcd(x, 6); operator.add(x, 1); operator.index(x); operator.neg(x); range(x); list(range(x))[:4];
[10, 20, 30][x]; "abcdef"[x]; t[x]; t[:x]; t.view(-1)[slice(x)]; torch.full((2,), x); torch.tensor(x); torch.tensor([x, x]);
torch.zeros(2) + x; torch.clamp(t, x); torch.where(t > x, t, x); isinstance(x, int); isinstance(x, (int, float)) and t * x; type(x);
type(x).__name__; np.float64(x); np.array(x) * 2; Fraction(x); Decimal(x); struct.pack("d", x); json.dumps(x); json.dumps({"a": [x]});
x.bit_length(); x.is_integer(); x.hex(); x.real; x.conjugate(); bin(x); hex(x); chr(x); ~x; x << 2; x & 3; x | 8; x ^ 1; True and x;
x or t; not x; t if x else t * 2; x if x is None else t; [i for i in range(3) if i == x]; sorted([x, 2, 1]);
collections.Counter([x, 1, x]); dict.fromkeys([x, 1]); list(itertools.repeat(t, x)); list(itertools.islice(itertools.count(x), 2));
list(itertools.islice(itertools.count(x, x), 3)); itertools.chain([x], [t]).__next__(); copy.copy(x); copy.deepcopy([x, t]);
pickle.loads(pickle.dumps(x)); functools.partial(operator.mul, x)(t); operator.methodcaller("add", x)(t);
operator.itemgetter(x)([t, t * 2, t * 3]); getattr(t, "add")(x); bytes([1, 2])[x]; random.Random(x).random();
statistics.fmean([x, 2]); array.array("d", [x])[0]; torch.arange(x); torch.ones(x); t.repeat(x); t.sum(x); t.unsqueeze(x)
""")
WORDS = listed("""
x + "a"; x * 2; x.upper(); x.split("a"); x.join(["1", "2"]); x.replace("a", "b"); x.format(1); x % (); x[0]; x[::-1]; len(x);
x in "abc"; "a" in x; x == "ab"; x is x; {"ab": t, "c": t * 2}.get(x, t * 3); {"ab": t}[x]; getattr(t, x); getattr(math, x, 7);
list(x); sorted(x); max(x); [*x]; dict.fromkeys(x, 1); re.match("a", x); re.findall("[a-c]", x); x.encode(); int(x, 36); f"{x:>5}";
f"{x!r}"; "%5s" % x; x < "b"; hash(x) == hash(x); json.dumps(x); x.count("a"); x.startswith(("a", "c")); x.partition("b");
x.isalpha(); x.translate({97: 98}); str.upper(x); "".join(map(str.upper, x)); "".join(reversed(x)); "-".join(c for c in x);
[ord(c) for c in x]; [i for i, c in enumerate(x)]; list(zip(x, range(3))); collections.Counter(x); set(x) == {"a", "b"};
eval("t * 2", {"t": t}); setattr(holder_of(t), x or "a", t); type("Made", (), {x or "a": t}).__dict__[x or "a"]
""")
THINGS = listed("""
x.tensor * x.rank; x + 1; 1 + x; x + x; x < x; x == 3; x != x; x in [x]; [x].index(x); [x, x].count(x); [1, x].remove(x); {x: t}[x];
{x: 1, 3: 2}; {x, 1}; {x}; len(x); bool(x); not x; int(x); float(x); complex(x); hash(x); str(x); repr(x); f"{x}"; f"{x:4}"; f"{x!r}";
f"{x!s:>9}"; format(x, "3"); "{}".format(x); "{:5}".format(x); "{0.rank} {0.tensor.shape}".format(x); "%s" % x; "%s %r" % (x, x);
"%d" % int(x); "".join([str(x), "a"]); str([x]); repr({"a": x}); print(x); print([x]); operator.index(x);
operator.attrgetter("rank")(x); operator.attrgetter("tensor", "rank")(x); operator.methodcaller("__abs__")(x); operator.add(x, 2);
operator.lt(x, x); operator.eq(x, x); operator.contains(x, 2); operator.truth(x); operator.not_(x); range(x); list(range(x));
[1, 2, 3, 4, 5][x]; [1, 2, 3, 4, 5][:x]; "abcdef"[x]; t[x - 1 if isinstance(x, int) else 0]; torch.zeros(3)[:x]; hex(x); round(x);
round(x, 2); math.floor(x); math.ceil(x); math.trunc(x); math.sqrt(x); math.isclose(x, 2); abs(x); 2 in x; x(t); list(map(x, [t, t]));
sorted([t, t * 2], key=x.__call__)[0]; list(x); [*x]; a_b(*x); dict([x]); list(reversed(x)); iter(x); max(x, key=rank); zip(x, x);
list(zip(x, x)); list(enumerate(x)); list(map(twice, x)); tuple(x); sum(x); vars(x); vars(x).copy(); dict(vars(x)); {**vars(x)};
x.__dict__; x.__dict__["tensor"]; list(x.__dict__.values()); dir(x); getattr(x, "tensor"); getattr(x, "ten" + "sor");
getattr(x, "none", t); hasattr(x, "rank"); x.__class__; type(x)(t, 1); isinstance(x, Thing); issubclass(type(x), Thing); callable(x);
copy.copy(x); copy.deepcopy(x); sum([x], 0); sum([x, x], x); sorted([x, Thing(t, 2)]); min(x, Thing(t, 2)); max([x, Thing(t, 2)]);
bisect.insort([Thing(t, 0)], x); bisect.bisect([Thing(t, 0), Thing(t, 2)], x); heapq.heappush([Thing(t, 0)], x);
heapq.heappushpop([Thing(t, 0), Thing(t, 2)], x); heapq.nsmallest(1, [x, Thing(t, 2)]); collections.Counter([x, x]);
collections.deque([x, 1]).count(x); collections.deque([1, x]).index(x); (x, 1) == (Thing(t, 3), 1); [x, 1] < [Thing(t, 2), 1];
(x, 1) < (Thing(t, 2), 1); {"a": x} == {"a": Thing(t, 1)}; any([x]); all([x, x]); any(map(bool, [x])); list(filter(None, [x, 1]));
list(itertools.compress([t], [x])); functools.reduce(operator.add, [x, x]); functools.reduce(operator.add, [x], 3);
list(itertools.accumulate([x, x])); list(itertools.accumulate([x, x], operator.add)); functools.partial(x, t)();
functools.partial(getattr, x)("tensor"); random.Random(1).choice([x, x]); dict.fromkeys([x, x], t); set([x]) | {1};
{x} == {Thing(t, 1)}; {1: t}.get(x, t * 2); {x: 1}.pop(x); {Thing(t, 1): t}.get(x); {Thing(t, 1): t}.setdefault(x, t * 2);
x in {Thing(t, 1): t}; x in (Thing(t, 1), 2); x in {Thing(t, 1)}; [Thing(t, 1), x].index(Thing(t, 2)) if x.rank % 2 == 0 else 0;
np.float64(x); torch.full((2,), float(x)); torch.tensor(x); torch.tensor([float(x)]); t * float(x); t + x; t * x.rank;
json.dumps([x], default=lambda v: v.rank); re.sub("a", lambda m: str(x), "banana"); "a".join(map(str, [x, x])); "a" * x; [t] * x;
weakref.ref(x)() is x; weakref.proxy(x).rank; functools.lru_cache(lambda v: v.rank)(x);
functools.cmp_to_key(lambda a, b: a.rank - b.rank)(x) < functools.cmp_to_key(lambda a, b: a.rank - b.rank)(x);
sorted([x, Thing(t, 2)], key=functools.cmp_to_key(lambda a, b: a.rank - b.rank));
sorted([x, Thing(t, 2)], key=operator.attrgetter("rank")); max([x, Thing(t, 2)], key=operator.attrgetter("rank"));
list(map(operator.attrgetter("tensor"), [x, x])); list(map(operator.methodcaller("__abs__"), [x])); list(map(float, [x, x]));
list(map(len, [x])); list(map(str, [x])); list(map(abs, [x]))
""")


# -- ways in which x gets to the call -------------------------------------------------------------------
SOURCE = """
def make():
    first = fresh(0)
    {before}
    t0 = ramp(3)
    def f(t{parameters}):
        {get}
        r = {expression}
        return r, use(r)
    {after}
    return f, calls, lambda: {state}
"""
# before, further parameters, what gets x, what is called, what is looked at
WAYS = {
    "argument": ("", ", x", "pass", "calls = [(t0 + i, fresh(i)) for i in range(N)]", "None"),
    "keyword": ("", ", *, x", "pass", "calls = [call(t0 + i, x=fresh(i)) for i in range(N)]", "None"),
    "attribute": (
        "holder = types.SimpleNamespace(x=first)", "", "x = holder.x",
        "calls = each([lambda i=i: setattr(holder, 'x', fresh(i)) for i in range(N)], t0)", "holder.x",
    ),
    "closure": (
        "y = first\n    def put(v):\n        nonlocal y\n        y = v", "", "x = y",
        "calls = each([lambda i=i: put(fresh(i)) for i in range(N)], t0)", "y",
    ),
    "global": (
        "globals()['GIVEN'] = first", "", "x = GIVEN", "calls = each([lambda i=i: globals().update(GIVEN=fresh(i)) for i in range(N)], t0)",
        "GIVEN",
    ),
    "item": ("", ", d", "x = d['a'][0]", "calls = [(t0 + i, {'a': [fresh(i)]}) for i in range(N)]", "None"),
    "default": (
        "", ", x=first", "pass", "calls = each([lambda i=i: setattr(f, '__defaults__', (fresh(i),)) for i in range(N)], t0)", "None",
    ),
    "returned": ("", ", g", "x = g()", "calls = [(t0 + i, lambda i=i: fresh(i)) for i in range(N)]", "None"),
    "property": (
        "class H:\n        i = 0\n        @property\n        def x(self):\n            return self.held\n    h = H()", "", "x = h.x",
        "calls = each([lambda i=i: setattr(h, 'held', fresh(i)) for i in range(N)], t0)", "h.held",
    ),
    "class": (
        "class H:\n        x = first", "", "x = H.x", "calls = each([lambda i=i: setattr(H, 'x', fresh(i)) for i in range(N)], t0)", "None",
    ),
}  # fmt: skip
N = 5


def each(changes, t0):
    return [entry for i, change in enumerate(changes) for entry in (change, (t0 + i,))]


TABLES = ((SCALARS, ("numbers", "integers", "words")), (WORDS, ("words",)), (THINGS, ("things",)))
Entry = tuple[str, "str | None", str, str]


def program_of(expression: str, container: str | None, contents: str, way: str) -> Program:
    """The program for an entry of the table."""
    before, parameters, get, after, state = WAYS[way]
    source = SOURCE.format(before=before, parameters=parameters, get=get, after=after, state=state, expression=expression)
    items = CONTENTS[contents]

    def fresh(i):
        return items(i % 5)[i // 5] if container is None else CONTAINERS[container](items(i))

    space = {**globals(), "fresh": fresh}
    exec(compile(source, f"<{expression}>", "exec"), space)
    return Program(f"{expression} | {container} of {contents} | {way}", space["make"], 0.0, False, False, ())


def differs(entry: Entry) -> str | None:
    """The first thing in which the compiled program of an entry differs."""
    try:
        return compare(program_of(*entry))[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def entries() -> Iterator[Entry]:
    """All entries: each call with everything that it may be given, which comes in one way or another."""
    ways, n = list(WAYS), 0
    for expression, container, contents in itertools.product(THROUGH, CONTAINERS, CONTENTS):
        yield expression, container, contents, ways[n % len(ways)]
        n += 1
    for table, kinds in TABLES:
        for expression, contents, way in itertools.product(table, kinds, ways):
            yield expression, None, contents, way


def sample() -> list[Entry]:
    """One entry for each call."""
    ways, containers, contents = list(WAYS), list(CONTAINERS), list(CONTENTS)
    found: list[Entry] = []
    for n, expression in enumerate(THROUGH):
        kind = contents[n % len(contents)]
        found.append((expression, containers[n * 7 % len(containers)], kind, ways[n * 3 % len(ways)]))
    for table, kinds in TABLES:
        found += [(e, None, kinds[n % len(kinds)], ways[n * 3 % len(ways)]) for n, e in enumerate(table)]
    return found


def main(every: int = 1, first: int = 0) -> None:
    """Go through the table."""
    met = list(entries())[first::every]
    found = [(entry, difference) for entry in met if (difference := differs(entry))]
    for entry, difference in found:
        print(*entry, "::", difference[:300])
    print(f"{len(met)} entries, {len(found)} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
