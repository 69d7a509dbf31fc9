"""Generators, iterators and comprehensions."""

import itertools

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def generator_of_rows():
    def rows(x):
        for i in range(x.shape[0]):
            yield x[i] * i

    def f(x):
        return torch.stack([r + 1 for r in rows(x)]), sum(r.sum() for r in rows(x))

    return f, [(ramp(3, 2),), (ramp(3, 2),), (ramp(4, 2),), (ramp(1, 2),)]


@program()
def generator_send_and_close():
    log = []

    def running():
        total = 0.0
        try:
            while True:
                got = yield total
                total = total + got
        finally:
            log.append("closed")

    def f(x):
        g = running()
        next(g)
        a = g.send(x)
        b = g.send(x * 2)
        g.close()
        return a, b

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: list(log)


@program()
def generator_throw():
    def body(x):
        try:
            yield x + 1
        except ValueError as error:
            yield x * len(str(error))

    def f(x, text):
        g = body(x)
        a = next(g)
        b = g.throw(ValueError(text))
        return a, b, list(g)

    return f, [(ramp(2), "abc"), (ramp(2), "ab"), (ramp(2), "abc")]


@program()
def generator_yield_from_with_result():
    def inner(x):
        yield x
        yield x + 1
        return x * 10

    def outer(x):
        last = yield from inner(x)
        yield last
        yield from (x, last)

    def f(x):
        return list(outer(x))

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def generator_across_needed_value():
    def f(x):
        def parts():
            for i in range(4):
                if (x * i).sum() > 4:
                    return
                yield x * i

        return [t + float(t.sum()) for t in parts()]

    return f, [(ramp(2) + 1,), (ramp(2) + 1,), (ramp(2) + 5,), (ramp(2) + 1,)]


@program()
def generator_leaks():
    kept = []

    def f(x):
        g = (x * i for i in range(3))
        next(g)
        kept.append(g)
        return x + 1

    return f, [(ramp(2),), (ramp(2) * 2,), (ramp(2),)], lambda: [next(g) for g in kept[-1:]]


@program()
def generator_from_outside_is_used_up():
    def numbers():
        yield from itertools.count(1)

    g = numbers()

    def f(x):
        return x * next(g) + next(g)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: next(g)


@program()
def generator_returned():
    def f(x):
        y = x * 2
        return (y + i for i in range(2))

    def drain(x):
        return list(f(x)), f(x)

    return drain, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def generator_with_state_in_closure():
    def f(x):
        seen = []

        def watch(items):
            for item in items:
                seen.append(len(seen))
                yield item

        total = x * 0
        for k in watch(range(3)):
            total = total + x * k
        first = next(watch("xyz"))
        return total, seen, first

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def own_iterator():
    class Halves:
        def __init__(self, x, n):
            self.x, self.n = x, n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            self.x = self.x / 2
            return self.x

    def f(x, n):
        out = x
        for h in Halves(x, n):
            out = out + h
        return out, list(Halves(x, 1))

    return f, [(ramp(2), 2), (ramp(2), 2), (ramp(2), 3), (ramp(2), 0)]


@program()
def sequence_protocol_iteration():
    class Rows:
        def __init__(self, x):
            self.x = x

        def __getitem__(self, i):
            if i >= 3:
                raise IndexError(i)
            return self.x * i

    def f(x):
        return [r + 1 for r in Rows(x)], list(reversed([*Rows(x)]))

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def iter_with_sentinel():
    def f(x, items):
        queue = list(items)
        return [x * k for k in iter(queue.pop, 0)], queue

    return f, [(ramp(2), (5, 0, 2, 3)), (ramp(2), (0, 1)), (ramp(2), (5, 0, 2, 3))]


@program()
def comprehensions():
    def f(x, n):
        a = [x * i for i in range(n) if i % 2 == 0]
        b = {i: t + 1 for i, t in enumerate(a)}
        c = {i * j for i in range(n) for j in range(i)}
        d = [[x + i + j for j in range(2)] for i in range(2)]
        return a, b, c, d, tuple(i for i in range(n)), [y for i in range(n) if (y := i * i) > 1]

    return f, [(ramp(2), 3), (ramp(2), 4), (ramp(2), 3)]


@program()
def comprehension_scopes():
    def f(x):
        i = 100
        rows = [i + x for i in range(2)]
        outer = [lambda: i for _ in range(1)]
        return rows, i, outer[0](), [x * j for j in (lambda n: range(n))(2)]

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def zip_map_filter_enumerate():
    def f(xs, ys):
        a = [x * y for x, y in zip(xs, ys, strict=False)]
        b = list(map(lambda x, k: x + k, xs, (1, 2, 3)))
        c = list(filter(None, [0, 1, "", "a"]))
        d = [i * x for i, x in enumerate(xs, start=2)]
        return a, b, c, d, list(zip(*[(1, 2), (3, 4)], strict=True)), dict(zip("ab", xs, strict=False))

    x = ramp(2)
    return f, [([x, x], [x, 2.0]), ([x], [3, 4]), ([x, x, x], [1, 2, 3]), ([x, x], [x, 2.0])]


@program()
def zip_strict_raises():
    def f(xs, ys):
        try:
            return [x + y for x, y in zip(xs, ys, strict=True)]
        except ValueError as error:
            return str(error)

    x = ramp(2)
    return f, [([x], [x]), ([x, x], [x]), ([x], [x, x]), ([x], [x])]


@program()
def any_all_sum_min_max():
    def f(xs, limits):
        total = sum(xs)
        flags = [k > 1 for k in limits]
        return total, any(flags), all(flags), sum(limits), min(limits), max(limits, key=lambda k: -k), max(limits, default=None)

    x = ramp(2)
    return f, [([x, x], (1, 2)), ([x], (2, 3)), ([x, x, x], (0, 0)), ([x, x], (1, 2))]


@program()
def any_over_tensor_values():
    def f(xs):
        return any(x.sum() > 2 for x in xs), all((x > 0).all() for x in xs), max(xs, key=lambda x: x.sum().item())

    return f, [([ramp(2), ramp(2) + 5],), ([ramp(2)],), ([ramp(2) + 5, ramp(2)],), ([ramp(2) + 9],)]


@program()
def itertools_many():
    def f(xs):
        pairs = [a * b for a, b in itertools.combinations(xs, 2)]
        chained = list(itertools.chain(xs, (x + 1 for x in xs)))
        rolling = list(itertools.accumulate(xs, lambda a, b: a * 0.5 + b))
        product = [a - k for a, k in itertools.product(xs, (1, 2))]
        sliced = list(itertools.islice(itertools.cycle(xs), 1, 4))
        taken = list(itertools.takewhile(lambda x: x.shape[0] < 3, xs))
        groups = {k: len(list(g)) for k, g in itertools.groupby([1, 1, 2, 1])}
        grown = list(itertools.starmap(lambda a, b: a * b, zip(xs, (2, 3), strict=False)))
        return pairs, chained, rolling, product, sliced, taken, groups, grown

    x = ramp(2)
    return f, [([x, x + 1],), ([x, x + 1],), ([x, x * 2, x + 1],)]


@program()
def itertools_tee_and_zip_longest():
    def f(xs):
        a, b = itertools.tee(iter(xs))
        next(b, None)
        steps = [v - u for u, v in zip(a, b, strict=False)]
        return steps, list(itertools.zip_longest(xs, [1], fillvalue=0)), list(itertools.repeat(7, 2))

    x = ramp(2)
    return f, [([x, x * 2, x],), ([x],), ([x, x * 2, x],)]


@program()
def counter_from_outside():
    ids = itertools.count()

    def f(x):
        return x + next(ids)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: next(ids)


@program()
def iterator_argument():
    def f(x, items):
        first = next(items)
        return x * first, sum(items)

    return f, [(ramp(2), iter([1, 2, 3])), (ramp(2), iter([4])), (ramp(2), iter(range(5)))]


@program()
def loop_over_tensor_rows():
    def f(x):
        total = 0
        for i, row in enumerate(x):
            total = total + row * i
        a, *rest = x
        return total, a, rest, len(x), list(x.unbind(1))

    return f, [(ramp(3, 2),), (ramp(3, 2),), (ramp(2, 2),)]
