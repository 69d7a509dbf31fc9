"""What programs of users are made of: settings that change, mixins, registries, searches, tables, reports."""

import contextlib
import enum
import functools
import heapq
import itertools
import logging
import operator
import random
import time
import typing
import warnings
import weakref
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, replace

import flambeau as torch
import flambeau.nn.functional as F
from tests.capture.corpus.harness import call, program, ramp


@program()
def mixins_with_super():
    class Scaled:
        def __init__(self, *args, scale=2.0, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = scale

        def transform(self, x):
            return super().transform(x) * self.scale

    class Shifted:
        def __init__(self, *args, shift=1.0, **kwargs):
            super().__init__(*args, **kwargs)
            self.shift = shift

        def transform(self, x):
            return super().transform(x) + self.shift

    class Base:
        def __init__(self, name):
            self.name = name
            self.used = 0

        def transform(self, x):
            self.used += 1
            return x.relu()

    class Both(Scaled, Shifted, Base):
        def transform(self, x):
            out = super().transform(x)
            return out if self.name == "plain" else -out

    one, two = Both("plain", scale=3.0), Both("minus", shift=0.5)

    def f(x, which):
        return (one, two)[which].transform(x)

    def change():
        one.scale = 5.0
        two.name = "plain"

    return f, [(ramp(3), 0), (ramp(3), 1), change, (ramp(3), 0), (ramp(3), 1), (ramp(3), 0)], lambda: (one.used, two.used)


@program()
def batches_from_a_generator():
    data = ramp(10, 2)

    def batches(x, size):
        for begin in range(0, len(x), size):
            yield begin, x[begin : begin + size]

    def f(x, size):
        total = x.new_zeros(2)
        seen = []
        for number, (begin, rows) in enumerate(batches(x, size)):
            total = total + rows.sum(0) * (number + 1)
            seen.append((begin, rows.shape[0]))
        return total, seen

    return f, [(data, 4), (data, 4), (data, 3), (data, 5), (ramp(7, 2), 3), (data, 3)]


@program()
def counters_in_nested_closures():
    def make():
        count, history = 0, []

        def outer(x):
            nonlocal count
            count += 1

            def inner(y):
                nonlocal count, history
                count += 10
                history = [*history[-2:], y.sum()]
                return y * count

            return inner(x) + inner(x)

        return outer, lambda: (count, list(history))

    outer, seen = make()
    return lambda x: outer(x), [(ramp(3),)] * 5, seen


@program()
def dataclass_settings_replaced():
    @dataclass(frozen=True)
    class Settings:
        hidden: int = 3
        slope: float = 0.1
        kind: str = "leaky"
        extras: tuple = ()

    held = {"settings": Settings()}

    def f(x):
        s = held["settings"]
        match s.kind:
            case "leaky":
                y = F.leaky_relu(x, s.slope)
            case "clip":
                y = x.clamp(-s.slope, s.slope)
            case other:
                raise ValueError(f"no kind {other!r}")
        for name in s.extras:
            y = getattr(torch, name)(y)
        return y[: s.hidden]

    def change(**settings):
        def act():
            held["settings"] = replace(held["settings"], **settings)

        return act

    x = ramp(5)
    return f, [
        (x,), (x,), change(slope=0.2), (x,), change(slope=0.3), (x,), change(kind="clip"), (x,), change(hidden=2), (x,),
        change(extras=("abs", "floor")), (x,), change(kind="gone"), (x,), change(kind="leaky"), (x,),
    ]  # fmt: skip


@program()
def errors_around_operators():
    log = []

    def f(x, y):
        try:
            out = x + y
        except RuntimeError as error:
            log.append(type(error).__name__)
            out = x.sum() + y.sum()
        else:
            log.append("fine")
        finally:
            log.append(len(log))
        try:
            return out.view(2, -1)
        except RuntimeError:
            return out

    return f, [(ramp(4), ramp(4)), (ramp(4), ramp(3)), (ramp(4), ramp(4)), (ramp(3), ramp(1)), (ramp(4), ramp(3))], lambda: list(log)


@program()
def contexts_by_generator_with_state():
    state = {"depth": 0, "names": []}

    @contextlib.contextmanager
    def scope(name):
        state["depth"] += 1
        state["names"].append(name)
        try:
            yield state["depth"]
        except ValueError:
            state["names"].append(f"error in {name}")
        finally:
            state["depth"] -= 1

    def f(x, fails):
        with scope("outer") as one, scope("inner") as two:
            x = x * one + two
            if fails:
                raise ValueError("no")
        return x, state["depth"]

    return f, [(ramp(2), False), (ramp(2), True), (ramp(2), False), (ramp(2), True)], lambda: (state["depth"], list(state["names"]))


@program()
def enum_dispatch_by_table_and_match():
    class Kind(enum.Enum):
        ADD = enum.auto()
        MUL = "mul"
        POW = 3

    class Flag(enum.IntFlag):
        RELU = 1
        NEG = 2
        BOTH = 3

    table = {Kind.ADD: operator.add, Kind.MUL: operator.mul}

    def f(x, kind, flag=Flag.RELU):
        match kind:
            case Kind.ADD | Kind.MUL:
                y = table[kind](x, 2)
            case Kind.POW:
                y = x**kind.value
            case _:
                y = x
        if flag & Flag.RELU:
            y = y.relu()
        if Flag.NEG in flag:
            y = -y
        return y, kind, flag.name

    x = ramp(4)
    return f, [(x, Kind.ADD), (x, Kind.MUL), (x, Kind.POW), (x, Kind.ADD, Flag.BOTH), (x, Kind.MUL, Flag.NEG), (x, None), (x, Kind.ADD)]


@program()
def star_arguments_and_walrus():
    def total(first, /, *rest, scale=1, **named):
        if (n := len(rest)) > 1:
            first = first * n
        for name, value in named.items():
            first = first + value * len(name)
        return sum(rest, first) * scale

    def f(*tensors, **options):
        head, *middle, last = tensors
        return total(last, *middle, head, **options), [t.shape for t in middle]

    a, b, c = ramp(3), ramp(3, start=1.0), ramp(3, step=0.5)
    return f, [(a, b), (a, b, c), call(a, b, c, scale=2), call(a, b, bias=c), call(a, b, scale=3, bias=c), (a, b, c, a)]


@program()
def default_list_and_class_counter():
    class Layer:
        made = 0
        calls = Counter()

        def __init__(self, name):
            type(self).made += 1
            self.name = name

        def __call__(self, x, seen=[]):  # noqa: B006
            Layer.calls[self.name] += 1
            seen.append(float(x[0]))
            return x + Layer.made + len(seen)

    layers = [Layer("a"), Layer("b")]

    def f(x):
        for layer in layers:
            x = layer(x)
        if Layer.calls["a"] == 3:
            layers.append(Layer("c"))
        return x

    return f, [(ramp(2),)] * 6, lambda: (Layer.made, dict(Layer.calls), len(layers))


@program()
def setters_that_rescale():
    class Gain:
        def __init__(self):
            self._db = 0.0
            self.changes = 0

        @property
        def db(self):
            return self._db

        @db.setter
        def db(self, value):
            if value != self._db:
                self.changes += 1
            self._db = max(-20.0, min(20.0, value))

        @property
        def factor(self):
            return 2.0 ** (self._db / 4)

    gain = Gain()

    def f(x, step):
        gain.db += step
        return x * gain.factor, gain.db

    return f, [(ramp(3), 4.0), (ramp(3), 4.0), (ramp(3), 40.0), (ramp(3), 0.0), (ramp(3), -8.0)], lambda: vars(gain)


@program()
def random_branch_and_shuffle():
    order = [0, 1, 2, 3]
    chosen = []

    def f(x):
        random.shuffle(order)
        y = x[order]
        if random.random() < 0.5:
            y = y.flip(0)
            chosen.append("flip")
        factor = random.choice([1.0, 2.0, 4.0])
        return y * factor + random.randint(0, 3)

    return f, [(ramp(4),)] * 6, lambda: (list(order), list(chosen))


@program()
def search_until_it_settles():
    def f(target, x, tolerance=1e-3):
        steps = 0
        while (error := (x * x - target).abs().max()).item() > tolerance:
            x = 0.5 * (x + target / x)
            steps += 1
            if steps >= 10:
                break
        else:
            return x, steps, "settled"
        return x, steps, f"stopped at {error:.3f}"

    two = torch.tensor([2.0, 3.0])
    return f, [(two, torch.ones(2)), (two, torch.ones(2)), (two, two * 8), (two, two), (two, two, 10.0), (two, torch.full((2,), 1e-4))]


@program()
def trees_of_tensors():
    class Node(typing.NamedTuple):
        value: object
        left: object = None
        right: object = None

    def depth(tree):
        return 0 if tree is None else 1 + max(depth(tree.left), depth(tree.right))

    def fold(tree, level=0):
        if tree is None:
            return 0
        return tree.value * (level + 1) + fold(tree.left, level + 1) + fold(tree.right, level + 1)

    def mapped(function, tree):
        if isinstance(tree, dict):
            return {k: mapped(function, v) for k, v in sorted(tree.items())}
        if isinstance(tree, (list, tuple)):
            return (
                type(tree)(mapped(function, v) for v in tree)
                if type(tree) in (list, tuple)
                else type(tree)(*(mapped(function, v) for v in tree))
            )
        return tree if tree is None else function(tree)

    def f(tree, other):
        return fold(tree), depth(tree), mapped(lambda t: t + 1, tree), mapped(torch.neg, other)

    leaf = Node(ramp(2))
    small, large = Node(ramp(2), leaf), Node(ramp(2), Node(ramp(2), leaf, leaf), leaf)
    other = {"b": [ramp(1), ramp(2)], "a": (ramp(3), {"x": ramp(1)})}
    return f, [(small, other), (large, other), (small, {"a": ramp(1)}), (small, other), (leaf, [])]


@program()
def sorted_by_python_keys():
    def f(named, reverse):
        by_size = sorted(named.items(), key=lambda pair: (pair[1].numel(), pair[0]), reverse=reverse)
        by_value = sorted(named, key=lambda k: named[k].sum().item())
        best = max(named, key=lambda k: float(named[k].max()))
        return torch.cat([t.flatten() for _, t in by_size]), by_value, best

    a = {"one": ramp(2), "two": ramp(3, step=1.0), "three": ramp(2, 2, start=-3.0)}
    b = {"one": ramp(2) * 9, "two": ramp(3), "three": ramp(2, 2)}
    return f, [(a, False), (b, False), (a, True), (b, True), (a, False)]


def _named(k):
    return {"one": ramp(2) * k, "two": ramp(3) * k, "three": ramp(4) * k}


def _size(t):
    return t.numel()


@program()
def native_code_that_calls_back_for_items_of_views():
    def f(named, queue):
        values = named.values()
        return (
            sorted(named.items(), key=lambda pair: pair[1].numel())[0][1] + 1, max(values, key=_size) * 2, min(set(values), key=_size),
            next(filter(lambda t: t.numel() > 2, values)), [*map(lambda t: t * 2, values)],
            functools.reduce(lambda a, b: a.sum() - b.sum(), values),
            [*itertools.starmap(lambda k, t: t * len(k), named.items())], [*itertools.takewhile(lambda t: t.numel() < 4, values)],
            [[t + 1 for t in group] for _, group in itertools.groupby(values, key=_size)], max(queue, key=_size) * 3,
            min(itertools.chain(values, queue), key=_size), functools.partial(max, values, key=_size)() - 1,
        )  # fmt: skip

    return f, [(_named(k), deque([ramp(1) * k, ramp(5) * k])) for k in (9.0, -9.0, 5.0)]


@program()
def containers_filled_from_views():
    def f(named, items):
        extended, grown, cut = [], [], [1, 2]
        extended.extend(named.values())
        grown += named.values()
        grown += items
        cut[1:] = named.values()
        cut[:1] = items
        table = {}
        table.update(named.items())
        table.update(zip(("a", "b"), items, strict=True))
        return [t * 2 for t in (*extended, *grown, *cut)], {k: t + 1 for k, t in table.items()}

    return f, [(_named(k), [ramp(2, 2) * k, ramp(1) + k]) for k in (9.0, -9.0, 5.0)]


@program()
def reports_written_as_text():
    lines = []
    logger = logging.getLogger("idioms")

    def f(x, step, verbose=True):
        loss = x.square().mean()
        if verbose:
            logger.info("step %d loss %.4f", step, loss.item())
        text = f"{step:>3d}|{tuple(x.shape)!s:<8}|{loss.item():.3e}|{x.dtype}|{'*' * (step % 3)}"
        lines.append(text)
        assert step < 4, f"too far: {text}"
        if loss > 5:
            warnings.warn(f"loss is {loss:.1f}", stacklevel=2)
        return loss, "; ".join(reversed(text.split("|")))

    return f, [(ramp(3), 0), (ramp(3) * 4, 1), (ramp(3), 2, False), (ramp(3), 3), (ramp(3), 4), (ramp(3), 2)], lambda: list(lines)


@program()
def timers_and_weak_references():
    registry = weakref.WeakValueDictionary()
    cache = weakref.WeakKeyDictionary()

    class Item:
        def __init__(self, name, value):
            self.name, self.value = name, value

    items = [Item("a", ramp(2)), Item("b", ramp(2) * 3)]
    for item in items:
        registry[item.name] = item

    def f(x, name):
        begin = time.perf_counter()
        item = registry.get(name)
        if item is None:
            return x, len(cache)
        if item not in cache:
            cache[item] = item.value * 2
        y = x + cache[item]
        assert time.perf_counter() - begin >= 0
        return y, len(cache)

    def drop():
        del registry["b"]

    return (
        f,
        [(ramp(2), "a"), (ramp(2), "b"), (ramp(2), "a"), drop, (ramp(2), "b"), (ramp(2), "a")],
        lambda: (len(cache), len(items), sorted(registry)),
    )


@program()
def tools_of_the_standard_library():
    heap = []

    def f(x):
        pairs = list(itertools.combinations(range(len(x)), 2))
        scores = [(x[i] * x[j]).item() for i, j in pairs]
        for score, pair in zip(scores, pairs, strict=True):
            heapq.heappush(heap, -score * pair[0])
        best = heapq.nsmallest(2, heap)
        groups = {k: [p for _, p in g] for k, g in itertools.groupby(sorted((i % 2, (i, j)) for i, j in pairs), key=operator.itemgetter(0))}
        running = functools.reduce(torch.maximum, x.unbind(), x[0])
        tally = Counter(v > 0 for v in scores)
        table = defaultdict(list)
        for i, v in enumerate(itertools.accumulate(scores)):
            table[i % 2].append(round(v, 3))
        return running, best, groups, tally.most_common(1), dict(table)

    return f, [(ramp(4),), (ramp(4) * -2,), (ramp(3),), (ramp(4),)], lambda: sorted(heap)


@program()
def sizes_slices_and_types():
    def f(x, window):
        shape = x.shape + torch.Size([1])
        rest = x.shape[1:].numel()
        part = slice(None, -1) if x.size(0) > 2 else slice(0, None, 2)
        y = x.reshape(shape)[part, ..., 0]
        kinds = (x.dtype == torch.float32, x.dtype in (torch.int64, torch.int32), x.device.type == "cpu", x.is_floating_point())
        index = (slice(*window), Ellipsis)
        return y.reshape(-1, rest), x[index], kinds, shape[:-1] == x.shape, len(shape)

    return f, [(ramp(4, 3), (0, 2)), (ramp(2, 3), (0, 1)), (ramp(4, 3).int(), (1, None)), (ramp(5, 2), (0, 2)), (ramp(6, 2), (0, 2))]


@program()
def closures_returned_and_called_later():
    made = []

    def f(x, k):
        scaled = x * k

        def later(y):
            return scaled + y * k

        made.append(later)
        return later

    def run(x, k):
        function = f(x, k)
        return function(x), made[0](x), len(made)

    return run, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 3), (ramp(2), 4)]


@program()
def generators_without_an_end():
    taken = []

    def numbers(x):
        n = 0
        while True:
            taken.append(n)
            yield x * n
            n += 1

    def f(x, k):
        first = []
        for i, value in enumerate(numbers(x), start=1):
            if i > k:
                break
            first.append(value)
        rest = numbers(x)
        pairs = list(zip(range(2), rest, strict=False))
        counted = Counter(n > 1 for n in range(k))
        return (
            first,
            pairs,
            next(rest),
            list(itertools.islice(rest, 1, 4, 2)),
            dict(counted),
            list(itertools.chain([x], (x * n for n in range(2)))),
        )

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 3), (ramp(2), 2)], lambda: list(taken)


@program()
def positions_in_lists_that_change():
    order, kept = [0, 1, 2, 3], {}

    def f(x, k):
        random.shuffle(order)
        y = x.clone()
        y[order[:2]] = 0.5 * k
        kept[k] = y[random.sample(range(4), 2)]
        return x[order], y, x.view(2, 2)[[0, 1], [order[0] % 2, 1]], len(kept)

    return f, [(ramp(4), k) for k in range(6)], lambda: (list(order), dict(kept))
