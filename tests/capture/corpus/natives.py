"""Objects of the user's and of the library that native code asks, calls or fills: with other contents at each call."""

import collections
import contextlib
import contextvars
import copy
import dataclasses
import functools
import heapq
import io
import itertools
import math
import operator
import queue
import random
import threading
import types
import typing

import numpy as np

import flambeau as torch
from tests.capture.corpus.harness import call, program, ramp


@program()
def default_factories_that_compute():
    gains = [ramp(2)]
    outside = collections.defaultdict(lambda: gains[0] * 2)

    def f(x, key):
        inside = collections.defaultdict(lambda: x + gains[0])
        inside["a"] = inside["a"] + 1
        counts = collections.defaultdict(int)
        for k in (key, "b", key):
            counts[k] += len(k)
        groups = collections.defaultdict(list)
        groups[key].append(x)
        groups["a"].append(outside[key])
        return inside["a"], inside["z"], dict(counts), {k: [t * 2 for t in v] for k, v in groups.items()}, len(outside)

    def change():
        gains[0] = ramp(2) * 5

    return f, [(ramp(2), "a"), (ramp(2) * 2, "b"), change, (ramp(2), "c"), (ramp(2), "a"), (ramp(2), "dd")], lambda: dict(outside)


@program()
def missing_keys_made_by_the_class():
    class Lazy(dict):
        def __init__(self, base):
            super().__init__()
            self.base = base

        def __missing__(self, key):
            made = self[key] = self.base * len(key)
            return made

    held = Lazy(ramp(2))

    def f(x, key):
        own = Lazy(x)
        return held[key] + own[key], own["abc"], list(own), held.get("nothing", x) * 2

    def change():
        held.base = ramp(2) * 3

    return f, [(ramp(2), "a"), (ramp(2) * 2, "bb"), change, (ramp(2), "a"), (ramp(2), "cc"), (ramp(2), "d")], lambda: list(held.items())


@program()
def generator_driven_from_several_calls():
    def averages():
        total, count, sent = 0, 0, None
        try:
            while True:
                try:
                    sent = yield (total / count if count else None)
                except KeyError as error:
                    total, count = error.args[0], 1
                    continue
                total, count = total + sent, count + 1
        finally:
            log.append(count)

    log = []
    held = {"g": averages()}
    next(held["g"])

    def f(x, what):
        g = held["g"]
        if what == "send":
            return g.send(x.sum())
        if what == "throw":
            return g.throw(KeyError(x.max()))
        if what == "close":
            g.close()
            held["g"] = averages()
            return next(held["g"])
        return [*itertools.islice(held["g"], 0)]

    whats = ["send", "send", "throw", "send", "close", "send", "send"]
    return f, [(ramp(3) * (i + 1), w) for i, w in enumerate(whats)], lambda: list(log)


@program()
def iterators_used_up_over_calls():
    streams = {"chain": itertools.chain([ramp(2), ramp(3)], (ramp(2) * k for k in range(9))), "count": itertools.count(3)}
    streams["cycle"] = itertools.cycle([ramp(2), ramp(2) * -1, ramp(1)])
    streams["zip"] = zip(itertools.count(), (ramp(2) + k for k in itertools.count()), strict=False)

    def f(x):
        first = next(streams["chain"]) * x.sum()
        number, pair = next(streams["count"]), next(streams["zip"])
        rest = [t + number for t in itertools.islice(streams["cycle"], 2)]
        best = max(itertools.islice(streams["chain"], 2), key=lambda t: float(t.sum()))
        return first, rest, pair[1] * pair[0], best * 2

    return f, [(ramp(2) * k,) for k in range(5)]


@program()
def functools_on_methods_and_attributes():
    class Layer:
        calls = 0

        def __init__(self, weight):
            self.weight = weight

        @functools.cached_property
        def norm(self):
            Layer.calls += 1
            return self.weight.square().sum()

        def scale(self, x, by, *, plus=0):
            return x * by * self.norm + plus

        double = functools.partialmethod(scale, by=2)

        @functools.singledispatchmethod
        def add(self, other):
            return self.weight + 1

        @add.register
        def _(self, other: float):
            return self.weight + other

        @add.register(list)
        def _(self, other):
            return [self.weight + v for v in other]

    layers = [Layer(ramp(2)), Layer(ramp(2) * 2)]

    def f(x, i, other):
        layer = layers[i]
        return layer.double(x), layer.double(x, plus=i), layer.add(other), layer.norm + 1, Layer.calls

    def change():
        layers[0] = Layer(ramp(2) * 7)

    calls = [(ramp(2), 0, 1.5), (ramp(2), 1, [1, 2]), (ramp(2) * 2, 0, "a"), change, (ramp(2), 0, 2.5), (ramp(2), 0, [3])]
    return f, calls, lambda: Layer.calls


@program()
def ordered_by_one_comparison():
    @functools.total_ordering
    class Version:
        def __init__(self, number, weight):
            self.number, self.weight = number, weight

        def __eq__(self, other):
            return self.number == other.number

        def __lt__(self, other):
            return self.number < other.number

        __hash__ = None

    def f(a, b, x):
        made = Version(2, x)
        ordered = sorted([a, made, b])
        heap = [b]
        heapq.heappush(heap, a)
        heapq.heappush(heap, made)
        best = a if a >= b else b
        return (
            best.weight * 2,
            [v.weight + 1 for v in ordered],
            heapq.heappop(heap).weight,
            a <= made,
            max(a, b, made).weight,
            made in [a, b],
        )

    versions = [Version(n, ramp(2) * n) for n in (1, 2, 3)]
    one, two, three = versions
    return f, [(one, three, ramp(2)), (three, one, ramp(2)), (two, two, ramp(2)), (two, one, ramp(2) * 2), (one, three, ramp(2))]


@program()
def caches_by_argument():
    @functools.lru_cache(maxsize=2)
    def table(n, scale):
        log.append(n)
        return ramp(n) * scale

    log = []

    def f(x, n, scale):
        found = table(n, scale)
        return x[:n] * found, table.cache_info().currsize

    return (
        f,
        [(ramp(4), 2, 1.0), (ramp(4), 2, 1.0), (ramp(4), 3, 1), (ramp(4), 2, 2.0), (ramp(4), 2, True), (ramp(4), 3, 1)],
        lambda: list(log),
    )


@program()
def descriptors_told_their_names():
    class Checked:
        def __set_name__(self, owner, name):
            self.name = name
            owner.fields = [*getattr(owner, "fields", ()), name]

        def __get__(self, obj, owner=None):
            return self if obj is None else obj.__dict__["_" + self.name] * obj.gain

        def __set__(self, obj, value):
            obj.__dict__["_" + self.name] = value
            obj.changes += 1

        def __delete__(self, obj):
            del obj.__dict__["_" + self.name]

    class Model:
        left, right = Checked(), Checked()

        def __init__(self, gain, value):
            self.gain, self.changes = gain, 0
            self.left, self.right = value, value * 2

        def __class_getitem__(cls, item):
            return lambda value: cls(item, value)

    outside = Model(2, ramp(2))

    def f(x, gain):
        own = Model[gain](x)
        outside.left = own.right + outside.left.sum()
        del own.left
        try:
            own.left
        except KeyError as error:
            name = error.args[0]
        return own.right, outside.left + outside.right, own.changes, outside.changes, Model.fields, name, hasattr(own, "right")

    def change():
        outside.gain = -1

    return f, [(ramp(2), 1), (ramp(2) * 2, 2), change, (ramp(2), 3), (ramp(2), 2.5)], lambda: dict(outside.__dict__)


@program()
def attributes_through_hooks():
    class Recorded:
        def __init__(self, **values):
            object.__setattr__(self, "store", dict(values))
            object.__setattr__(self, "log", [])

        def __getattr__(self, name):
            try:
                return self.store[name] * 2
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name, value):
            self.log.append(name)
            self.store[name] = value

        def __delattr__(self, name):
            self.log.append("-" + name)
            del self.store[name]

        def __dir__(self):
            return sorted(self.store)

    outside = Recorded(a=ramp(2), b=3)

    def f(x, name):
        own = Recorded(a=x)
        setattr(own, name, x + 1)
        setattr(outside, name, getattr(own, name) + outside.a.sum())
        had = hasattr(outside, "c")
        if had:
            delattr(outside, "c")
        return getattr(own, name), getattr(outside, "b"), getattr(own, "none", x), had, dir(own), own.log

    return f, [(ramp(2), "b"), (ramp(2) * 2, "c"), (ramp(2), "a"), (ramp(2), "c"), (ramp(2), "d")], lambda: (outside.store, outside.log)


@program()
def contexts_that_swallow_and_give():
    events = []

    class Swallows:
        def __init__(self, *kinds):
            self.kinds = kinds

        def __enter__(self):
            events.append("in")
            return self

        def __exit__(self, kind, error, trace):
            events.append(kind and kind.__name__)
            self.error = error
            return kind is not None and issubclass(kind, self.kinds)

    @contextlib.contextmanager
    def scaled(x, by):
        events.append(by)
        try:
            yield x * by
        except ValueError as error:
            events.append(str(error))
        finally:
            events.append("out")

    def f(x, what):
        got = [x]
        with Swallows(KeyError, IndexError) as guard, contextlib.ExitStack() as stack:
            stack.callback(events.append, "callback")
            y = stack.enter_context(scaled(x, 2))
            got.append(y + 1)
            if what == "key":
                raise KeyError(y.sum())
            if what == "value":
                raise ValueError(what)
            got.append(y - 1)
        with contextlib.suppress(ZeroDivisionError):
            got.append(x * (1 / (what != "zero")))
        with contextlib.closing(io.StringIO(what)) as text, contextlib.nullcontext(x) as same:
            got.append(same * len(text.read()))
        return got, type(guard.error).__name__

    return f, [(ramp(2) * (i + 1), w) for i, w in enumerate(["", "key", "value", "zero", "key", ""])], lambda: list(events)


@program()
def grouped_errors_with_tensors():
    def part(x, k):
        if k > 2:
            raise ExceptionGroup("inner", [ValueError(k), TypeError(str(k))])
        if k > 1:
            raise ValueError(x.sum().item())
        return x * k

    def f(x, ks):
        errors, results = [], []
        for k in ks:
            try:
                results.append(part(x, k))
            except Exception as error:
                error.add_note(f"part {k}")
                errors.append(error)
        try:
            if errors:
                raise ExceptionGroup("some", errors)
        except* ValueError as group:
            results.append(x + len(group.exceptions))
        except* TypeError as group:
            results.append(x - len(group.exceptions))
        return results, [n for e in errors for n in e.__notes__]

    return f, [(ramp(2), [1, 2]), (ramp(2), [1]), (ramp(2), [3, 2, 1]), (ramp(2) * 2, [2, 2]), (ramp(2), [3])]


@program()
def variables_of_contexts_and_threads():
    gain = contextvars.ContextVar("gain", default=1)
    local = threading.local()
    local.shift = ramp(2)
    waiting = queue.Queue()

    def f(x):
        token = gain.set(gain.get() + 1)
        y = x * gain.get() + local.shift
        local.shift = local.shift + 1
        waiting.put(y)
        if waiting.qsize() > 2:
            y = y - waiting.get()
        gain.reset(token)
        return y, gain.get(), getattr(local, "none", x)

    def change():
        gain.set(10)
        local.shift = ramp(2) * 2

    return f, [(ramp(2),), (ramp(2) * 2,), change, (ramp(2),), (ramp(2),), (ramp(2) * 3,)], lambda: (waiting.qsize(), local.shift)


@program()
def copies_of_objects_with_tensors():
    class Node:
        def __init__(self, value, children=()):
            self.value, self.children, self.extra = value, list(children), {"n": len(children)}

        def __copy__(self):
            return Node(self.value * 2, self.children)

    class Plain:
        pass

    def f(x, node, plain):
        shallow, deep = copy.copy(node), copy.deepcopy(plain)
        own = Plain()
        own.t, own.others = x, [node.value, x]
        again = copy.copy(own)
        again.others.append(x * 2)
        made = copy.deepcopy([own.others, own.others])
        deep.t.add_(1)
        return (
            shallow.value,
            shallow.children is node.children,
            deep.t,
            deep.again is deep,
            len(own.others),
            made[0] is made[1],
            made[0][0] * 2,
        )

    def plain(k):
        made = Plain()
        made.t, made.again = ramp(2) * k, made
        return made

    calls = [(ramp(2) * k, Node(ramp(2) + k, [Node(ramp(1))] * k), plain(k)) for k in (1, 2, 0, 3)]
    return f, calls


@program()
def data_classes_of_all_sorts():
    @dataclasses.dataclass(frozen=True, order=True)
    class Key:
        rank: int
        name: str = "x"

    @dataclasses.dataclass(slots=True, kw_only=True)
    class Slotted:
        weight: typing.Any
        keys: list = dataclasses.field(default_factory=list)
        total: typing.Any = dataclasses.field(init=False, repr=False)

        def __post_init__(self):
            self.total = self.weight.sum() + len(self.keys)

    def f(x, key, slotted):
        own = Slotted(weight=x, keys=[key])
        changed = dataclasses.replace(slotted, weight=slotted.weight * 2)
        table = {key: x, Key(1): x * 2}
        names = [n.name for n in dataclasses.fields(slotted)]
        frozen = False
        try:
            key.rank = 5
        except dataclasses.FrozenInstanceError:
            frozen = True
        larger = max(key, Key(1, "y"))
        return (
            own.total,
            changed.total,
            table[Key(1)],
            len(table),
            names,
            frozen,
            larger.name,
            key == Key(1),
            hash(key) == hash(Key(1)),
            str(key),
        )

    return f, [
        (ramp(2) * (i + 1), Key(*k), Slotted(weight=ramp(3) + i, keys=[0] * i))
        for i, k in enumerate([(1,), (2,), (1, "z"), (1,), (0, "x")])
    ]


@program(backward=False)
def containers_that_hold_themselves():
    loop = [ramp(2)]
    loop.append(loop)
    table = {"x": ramp(2)}
    table["self"] = table

    def f(x):
        own = [x]
        own.append(own)
        inner = {"t": x}
        inner["me"] = inner
        loop[0] = loop[1][1][0] + x
        table["self"]["x"] = table["self"]["self"]["x"] * 2
        return own, inner["me"]["me"]["t"] * 3, own[1][1] is own, loop[1] is loop, table["x"] + 0

    return f, [(ramp(2) * k,) for k in (1, 2, 3, 4)], lambda: (loop, table)


@program()
def keys_that_are_nearly_the_same():
    table = {1: ramp(2), "1": ramp(2) * 2, (1,): ramp(2) * 3, None: ramp(2) * 4, 0.5: ramp(2) * 5}
    nan = math.nan
    table[nan] = ramp(2) * 6

    def f(x, key):
        own = {key: x, 1: x * 2, 0: x * 3}
        return table.get(key, x) * 2, key in table, len(own), [type(k).__name__ for k in own], own.get(key), {True: 1, 0.0: 2}.get(key)

    keys = [1, True, 1.0, "1", nan, float("nan"), 0.0, -0.0, None, (1,), (1.0,), (True,), 2**64, 0, False, 1 + 0j]
    return f, [(ramp(2) * (i + 1), k) for i, k in enumerate(keys)]


@program()
def special_floats_as_arguments():
    def f(x, value):
        return x * value, math.copysign(1, value), value == value, value != value, [value] == [value], {value: 1} == {value: 1}, str(value)

    return f, [(ramp(2), v) for v in (0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0, math.nan)]


@program()
def names_and_classes_made_at_run_time():
    class Base:
        made: typing.ClassVar = []

        def __init_subclass__(cls, /, gain=1, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.gain = gain
            Base.made.append(cls.__name__)

        def run(self, x):
            return x * self.gain + self.shift

    def f(x, name, gain):
        made = type(name, (Base,), {"shift": x.sum(), "extra": lambda self, v: v - self.gain}, gain=gain)
        obj = made()
        space = {"x": x, "gain": gain}
        exec(f"def {name}(v):\n    return v * gain + x\nresult = {name}(x)", space)
        return obj.run(x), obj.extra(x), space["result"], eval("x + gain", {"x": x}, {"gain": gain}), getattr(made, "__name__"), vars(obj)

    return f, [(ramp(2), "A", 2), (ramp(2), "B", 3), (ramp(2) * 2, "A", 2), (ramp(2), "A", -1)], lambda: list(Base.made)


@program()
def arrays_from_objects():
    class Wrapped:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.values, dtype=dtype)

        def __len__(self):
            return len(self.values)

        def __getitem__(self, i):
            return self.values[i]

    def f(x, wrapped):
        own = Wrapped([float(len(wrapped)), 2.0])
        a, b = np.asarray(wrapped), np.array(own) * 2
        return x + torch.from_numpy(np.float32(a[:2])), torch.tensor(b), np.add(a, 1).sum(), np.max(x.numpy()), x * float(np.mean(wrapped))

    wrapped = Wrapped([1.0, 2.0])

    def change():
        wrapped.values = [5.0, 6.0, 7.0]

    return f, [(ramp(2), wrapped), change, (ramp(2), wrapped), (ramp(2), Wrapped([3.0, 4.0])), (ramp(2) * 2, wrapped)]


@program()
def mutated_behind_its_back():
    items, table, holder = [ramp(2), ramp(2) * 2], {"a": ramp(2)}, types.SimpleNamespace(t=ramp(2))
    views = table.values(), table.items(), iter(items)
    bound = items.__getitem__, table.get, functools.partial(getattr, holder, "t")

    def f(x):
        return (
            [v * 2 for v in views[0]], max(views[1], key=operator.itemgetter(0))[1] + 1, bound[0](0) + x, bound[1]("a") * x, bound[2]() - x,
            sum(items), len(views[1]), next(views[2], x), operator.attrgetter("t")(holder), [*map(bound[0], range(len(items)))],
        )  # fmt: skip

    def change():
        items.insert(0, ramp(2) * 9)
        table["b"] = ramp(2) * 7
        table["a"] = ramp(2) - 1
        holder.t = ramp(2) * 3

    def less():
        del items[1:], table["b"]
        holder.t = ramp(2) * -1

    return f, [(ramp(2),), change, (ramp(2),), less, (ramp(2) * 2,), (ramp(2),)]


@program()
def patterns_with_values_inside():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

        @property
        def size(self):
            return self.x.numel()

    def f(p):
        match p:
            case Point(x, 0):
                return x * 2
            case Point(x, y) if p.size > 2:
                return x + y
            case Point(x=x, y=[first, *rest]):
                return x * first, rest
            case Point(size=2, y=str() as name):
                return p.x - len(name)
            case {"t": t, "k": 1 | 2 as k, **rest}:
                return t * k, rest
            case [a, (b, c), *_] if a is not b:
                return a + b + c
            case None | True:
                return "constant"
        return "nothing"

    points = [Point(ramp(2), 0), Point(ramp(3), 1), Point(ramp(2), [ramp(2), 2, 3]), Point(ramp(2), "abc"), {"t": ramp(2), "k": 2, "z": 1}]
    more = [[ramp(2), (ramp(2), 1)], None, Point(ramp(2) * 2, 0), {"t": ramp(2), "k": 3}, Point(ramp(2), "z"), True, 1]
    return f, [(p,) for p in [*points, *more]]


@program()
def unpacked_in_all_places():
    def g(*args, a=1, **kwargs):
        return sum(args) * a, sorted(kwargs)

    def f(x, items, options):
        first, *middle, last = items
        (a, b), c = (first, last), [*middle, x]
        table = {**options, "a": 2}
        if (n := len(middle)) > 1:
            x = x * n
        return g(*items, *c, **options), g(x, **table), {*range(n)}, a - b, [y for y, *_ in zip(c, items, strict=False)], (*c, *items)[-1]

    calls = [
        (ramp(2), [ramp(2), ramp(2) * 2, 3], {}), (ramp(2), (1, 2, ramp(2), 4.0), {"b": 1}), (ramp(2), [ramp(2), ramp(2)], {"a": 3}),
        call(ramp(2), iter([ramp(2), 2]), {"c": 1}), (ramp(2), [ramp(2) * 5, ramp(2), 3], {}),
    ]  # fmt: skip
    return f, calls


class Money(int):
    def __add__(self, other):
        return Money(int(self) + int(other) + 1)

    __radd__ = __add__

    def __format__(self, spec):
        return f"{int(self)}$"


class Ratio(float):
    @property
    def percent(self):
        return self * 100


@program()
def numbers_of_own_classes():
    def f(x, money, ratio):
        sums = money + 1, 2 + money, sum([money, money]), max(money, 1), type(money * 2).__name__
        return x * money, x + ratio, sums, f"{money:>5}", ratio.percent, [10, 20, 30][money], {1: "one"}.get(money), round(ratio, 1)

    return f, [(ramp(2), Money(i), Ratio(i / 3)) for i in (1, 2, 0, 1)]


@program()
def random_streams_of_own():
    streams = [random.Random(1), np.random.default_rng(2)]

    def f(x, n):
        a, b = streams
        picked = a.sample(range(10), n)
        a.shuffle(picked)
        return (
            x * a.random(),
            picked,
            float(b.standard_normal()),
            a.choice([x, x * 2, x * 3]),
            b.permutation(n).tolist(),
            a.choices("ab", k=n),
        )

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 2), (ramp(2) * 2, 2)]
