"""Functions: closures, decorators, arguments, recursion, functools."""

import functools
import operator

import flambeau as torch
from tests.capture.corpus.harness import call, program, ramp

SCALE = 2.0
COUNT = 0


@program()
def closure_reads():
    k = 3

    def f(x):
        return x * k + SCALE

    return f, [(ramp(3),), (ramp(3) * 2,), (ramp(4),)]


@program()
def closure_cell_changes_between_calls():
    k = 1.5

    def set_k(value):
        nonlocal k
        k = value

    def f(x):
        return x * k

    return f, [(ramp(3),), (ramp(3),), lambda: set_k(2.5), (ramp(3),), lambda: set_k(4), (ramp(3),)]


@program()
def closure_writes_nonlocal():
    total, last = 0, None

    def f(x):
        nonlocal total, last
        total += 1
        last = x * total
        return last + 1

    return f, [(ramp(3),), (ramp(3),), (ramp(2),), (ramp(3),)], lambda: (total, last)


@program()
def closure_made_inside():
    def f(x):
        def scaled(by):
            def g(y):
                return y * by + x

            return g

        return scaled(2)(x) + scaled(3)(x * 2)

    return f, [(ramp(3),), (ramp(3, grad=True),), (ramp(2, 2),)]


@program()
def closure_leaks():
    kept = []

    def f(x):
        y = x * 2
        kept.append(lambda: y + 1)
        return x

    return f, [(ramp(2),), (ramp(2) * 2,), (ramp(3),)], lambda: [k() for k in kept]


@program()
def closure_shared_by_two_functions():
    def f(x):
        n = 0

        def up():
            nonlocal n
            n += 1
            return x * n

        def read():
            return n

        a = up()
        b = up()
        return a + b, read()

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def closure_in_loop_binds_late():
    def f(x):
        late = [lambda: x * i for i in range(3)]
        early = [lambda i=i: x * i for i in range(3)]
        return [g() for g in late], [g() for g in early]

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def global_read_and_written():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT += 1
        return x + COUNT

    return f, [(ramp(3),), (ramp(3),), (ramp(3),), (ramp(3),)], lambda: COUNT


@program()
def global_deleted_and_made_again():
    names = globals()
    names.pop("PASSING", None)

    def f(x):
        global PASSING
        try:
            y = x * PASSING  # noqa: F821 - it comes and goes
            del PASSING
        except NameError as error:
            PASSING = 2.0
            y = x + len(str(error))
        return y

    return f, [(ramp(3),), (ramp(3),), (ramp(3),), (ramp(3),)], lambda: "PASSING" in names


@program()
def args_and_kwargs():
    def h(a, *rest, scale=1.0, **more):
        out = a * scale
        for r in rest:
            out = out + r
        for _, v in sorted(more.items()):
            out = out - v
        return out

    def f(*xs, **kw):
        first, *others = xs
        return h(first, *others, **{**kw, "scale": 3.0})

    x = ramp(2)
    return f, [(x, x), (x, x * 0), (x, x, 4.0), call(x, x, bias=2.0), call(x, 5.0, bias=x, other=1)]


@program()
def keyword_only_and_defaults():
    def f(x, /, y=2, *, z=0.5, w=None):
        return x * y + z if w is None else x * w

    x = ramp(3)
    return f, [(x,), (x, 3), call(x, z=1), call(x, w=2.0), call(x, y=x), call(x, 3, z=x)]


@program()
def mutable_default_keeps():
    def f(x, seen=[]):  # noqa: B006 - the point of it
        seen.append(x + 1)
        return x * len(seen)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: f.__defaults__


@program()
def missing_argument():
    def g(x, y):
        return x + y

    def f(x, give):
        return g(x, x) if give else g(x)

    return f, [(ramp(2), True), (ramp(2), False), (ramp(2), True)]


@program()
def recursion():
    def power(x, n):
        if n == 0:
            return torch.ones_like(x)
        half = power(x, n // 2)
        return half * half * x if n % 2 else half * half

    return power, [(ramp(3), 5), (ramp(3), 5), (ramp(3), 2), (ramp(3, grad=True), 9)]


@program()
def mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return x * 10 if n == 0 else even(x * 2, n - 1)

    return even, [(ramp(2), 4), (ramp(2), 3), (ramp(2), 4), (ramp(2), 0)]


@program()
def too_deep_recursion_is_caught():
    def forever(n):
        return forever(n + 1) + 1

    def f(x):
        try:
            return x * forever(0)
        except RecursionError:
            return x - 1

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)]


@program()
def decorator_with_wraps():
    calls = []

    def counted(g):
        @functools.wraps(g)
        def wrapper(*args, **kwargs):
            calls.append(g.__name__)
            return g(*args, **kwargs) + len(calls)

        return wrapper

    @counted
    @counted
    def f(x, k=1):
        """Doc."""
        return x * k

    return f, [(ramp(2),), call(ramp(2), k=3), (ramp(2),)], lambda: (calls, f.__name__, f.__doc__)


@program()
def decorator_with_arguments_made_inside():
    def repeat(times):
        def decorate(g):
            def wrapper(x):
                for _ in range(times):
                    x = g(x)
                return x

            return wrapper

        return decorate

    def f(x, times):
        @repeat(times)
        def step(y):
            return y * 1.5 - 1

        return step(x)

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 2), (ramp(2), 0)]


@program()
def partial_functions():
    def affine(x, a, b):
        return x * a + b

    twice = functools.partial(affine, a=2.0)

    def f(x):
        local = functools.partial(affine, x, b=1.0)
        return twice(x, b=x), local(3.0), twice.func is affine, twice.keywords["a"]

    return f, [(ramp(3),), (ramp(3),), (ramp(2),)]


@program()
def lru_cached():
    calls = []

    @functools.lru_cache(maxsize=None)
    def table(n):
        calls.append(n)
        return torch.arange(n, dtype=torch.float32)

    def f(x):
        return x + table(x.shape[0])

    return f, [(ramp(3),), (ramp(3),), (ramp(4),), (ramp(3),)], lambda: (calls, table.cache_info().hits)


@program()
def reduce_over_tensors():
    def f(xs):
        return functools.reduce(operator.mul, xs), functools.reduce(lambda a, b: a * 0.5 + b, xs, 1.0)

    return f, [([ramp(2), ramp(2)],), ([ramp(2), ramp(2), ramp(2)],), ([ramp(2)],)]


@program()
def single_dispatch():
    @functools.singledispatch
    def take(v, x):
        return x * 0

    @take.register
    def _(v: int, x):
        return x * v

    @take.register(str)
    def _(v, x):
        return x + len(v)

    def f(v, x):
        return take(v, x)

    return f, [(2, ramp(2)), ("abc", ramp(2)), (None, ramp(2)), (3, ramp(2)), ("ab", ramp(2))]


@program()
def cached_property():
    class Table:
        def __init__(self, x):
            self.x = x
            self.made = 0

        @functools.cached_property
        def doubled(self):
            self.made += 1
            return self.x * 2

    kept = Table(ramp(3))

    def f(x):
        own = Table(x)
        return own.doubled + own.doubled + kept.doubled, own.made

    return f, [(ramp(3),), (ramp(3),), (ramp(3),)], lambda: (kept.made, "doubled" in kept.__dict__)


@program()
def lambdas_in_a_table():
    table = {"relu": lambda x: x.relu(), "twice": lambda x: x * 2, "neg": operator.neg}

    def f(x, *names):
        for name in names:
            x = table[name](x)
        return x

    def add():
        table["neg"] = lambda x: x - 100

    return f, [(ramp(3), "relu"), (ramp(3), "twice", "neg"), (ramp(3), "relu", "twice"), add, (ramp(3), "twice", "neg")]


@program()
def function_attributes():
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        f.last = x + f.calls
        return f.last * 2

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: (f.calls, f.last)


@program()
def early_return_by_value():
    def f(x, n):
        if n < 0:
            return None
        y = x * n
        if y.sum() > 4:
            return y, "large"
        return y

    return f, [(ramp(3), 1), (ramp(3), -1), (ramp(3) + 5, 1), (ramp(3), 2), (ramp(3) + 9, 3)]


@program()
def function_replaced_between_calls():
    box = [lambda x: x + 1]

    def f(x):
        return box[0](x) * 2

    def swap():
        box[0] = lambda x: x - 1

    return f, [(ramp(2),), (ramp(2),), swap, (ramp(2),), (ramp(2),)]


@program()
def code_and_defaults_changed_between_calls():
    def helper(x, by=2):
        return x * by

    def f(x):
        return helper(x) + helper(x, 1)

    def redefault():
        helper.__defaults__ = (5,)

    return f, [(ramp(2),), (ramp(2),), redefault, (ramp(2),)]


@program()
def builtin_shadowed():
    def f(x, max=lambda a, b: a * b):  # noqa: A002
        len = lambda t: 7  # noqa: A001, E731
        return max(x, len(x))

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def async_function():
    import asyncio

    async def part(x, k):
        await asyncio.sleep(0)
        return x * k

    def f(x):
        async def whole():
            a, b = await asyncio.gather(part(x, 2), part(x, 3))
            return a - b

        return asyncio.run(whole())

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]
