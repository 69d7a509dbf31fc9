"""Objects of own classes, and values of the library, in operators, containers and texts: others at each call."""

import abc
import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import json
import pickle
import re
import statistics
import string
import struct
import types
import typing

import numpy as np

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


class Vec:
    """A vector class with every operator."""

    def __init__(self, t, n=1):
        self.t, self.n = t, n

    def __add__(self, o):
        return Vec(self.t + getattr(o, "t", o), self.n + 1)

    __radd__ = __add__

    def __iadd__(self, o):
        self.t = self.t + getattr(o, "t", o)
        self.n += 10
        return self

    def __matmul__(self, o):
        return (self.t * o.t).sum()

    def __neg__(self):
        return Vec(-self.t, self.n)

    def __getitem__(self, i):
        return self.t[i] if isinstance(i, (int, slice)) else (i, self.t)

    def __setitem__(self, i, v):
        self.t = self.t.clone()
        self.t[i] = v

    def __len__(self):
        return self.n

    def __bool__(self):
        return self.n > 1

    def __eq__(self, o):
        return isinstance(o, Vec) and self.n == o.n

    def __lt__(self, o):
        return self.n < o.n

    def __hash__(self):
        return self.n

    def __contains__(self, v):
        return v < self.n

    def __iter__(self):
        return iter([self.t, self.n])

    def __reversed__(self):
        return iter([self.n, self.t])

    def __call__(self, x, *, k=1):
        return x * self.t.sum() * k

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *a):
        self.n -= 1
        return a[0] is ValueError

    def __format__(self, s):
        return f"{self.n}{s}"

    def __divmod__(self, o):
        return self.n // o, self.n % o

    def __pow__(self, e, m=None):
        return (self.n**e) if m is None else pow(self.n, e, m)

    def __rpow__(self, b):
        return b**self.n

    def __invert__(self):
        return self.n * 100

    def __delitem__(self, i):
        self.n -= i

    def __index__(self):
        return self.n


@program()
def operators_of_a_vector_class():
    held = Vec(ramp(2), 2)

    def f(x, n):
        a = Vec(x, n)
        a += held
        b = a + held + 1
        held.n += 0
        b[0] = x[1]
        with a as c:
            if n > 2:
                raise ValueError
        del b[1]
        pairs = sorted([a, b, held], reverse=True)
        d = {a: 1, held: 2}
        return (
            b.t,
            b @ a,
            (-a).t,
            a[0],
            a["k"],
            len(b),
            bool(a),
            a == b,
            a < b,
            held in [a, b],
            3 in b,
            [*b],
            list(reversed(b)),
            a(x, k=n),
            f"{a:z}",
            divmod(a, 3),
            a**2,
            pow(a, 2, 5),
            2**a,
            ~a,
            [p.n for p in pairs],
            len(d),
            d.get(Vec(x, held.n)),
            sum([a, b]).t,
            min(a, b).n,
            list(range(a))[-1],
            c is a,
            {a, held, b} == {b, a},
        )

    def change():
        held.n, held.t = 5, ramp(2) * 3

    return f, [(ramp(2), 1), (ramp(2) * 2, 3), change, (ramp(2), 1), (ramp(2), 2), (ramp(2), 5)], lambda: (held.n, held.t)


@program()
def vectors_outside_changed_in_place():
    held = [Vec(ramp(2), 2), Vec(ramp(2) * 2, 3)]
    table = {held[0]: "a"}

    def f(x, i):
        v = held[i]
        v += x
        held[i] += 1
        v[0] = x.sum()
        return (
            table.get(v),
            v in table,
            v in held,
            held.index(v),
            v.t * 2,
            held.count(Vec(x, v.n)),
            [*map(len, held)],
            max(held).t + 1,
            bool(v),
            sorted(held)[0].t,
        )

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2) * 3, 0), (ramp(2), 1), (ramp(2), 0)], lambda: [(v.n, v.t) for v in held]


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def gain(self):
        return self.value * 10


class Flags(enum.IntFlag):
    A = 1
    B = 2


@program()
def enums_in_natives():
    def f(x, c, fl):
        table = {Color.RED: x, Color.BLUE: x * 2}
        return (
            table[c] * c.gain(),
            c in (Color.RED,),
            fl & Flags.A,
            bool(fl & Flags.B),
            [m.name for m in Color],
            Color(c.value) is c,
            Color["RED"],
            sorted(Color, key=lambda m: -m.value)[0],
            {c: 1}.get(Color.RED),
            fl | 1,
            x * fl,
            f"{c.name}",
            str(c),
            int(fl),
        )

    return f, [
        (ramp(2), Color.RED, Flags.A),
        (ramp(2), Color.BLUE, Flags.B),
        (ramp(2), Color.RED, Flags.A | Flags.B),
        (ramp(2) * 2, Color.BLUE, Flags(0)),
    ]


@program()
def library_values():
    def f(x, day, price, part, words):
        later = day + datetime.timedelta(days=part.numerator)
        return (
            x * float(price),
            x * float(part),
            later.isoformat(),
            later > day,
            price * 2,
            part + 1,
            {day: 1}.get(later),
            sorted([part, fractions.Fraction(1, 2)]),
            price in {decimal.Decimal("1.5"): 0},
            max(part, fractions.Fraction(1, 3)),
            str(price),
            f"{price:.2f}",
            f"{day:%Y-%m}",
            statistics.mean([1, part]),
            hash(part) == hash(fractions.Fraction(1, 2)),
            string.Template("$a $b").substitute(a=part, b=words),
            re.sub(r"(\w)", lambda m: m[1] * part.numerator, words),
            json.dumps({"w": words, "d": day}, default=str, sort_keys=True),
        )

    F, D, d = fractions.Fraction, decimal.Decimal, datetime.date
    return f, [
        (ramp(2), d(2020, 1, i + 1), D(p), F(*q), w)
        for i, (p, q, w) in enumerate([("1.5", (1, 2), "ab"), ("2.5", (1, 2), "ab"), ("1.5", (3, 4), "b"), ("1.50", (2, 1), "")])
    ]


@program()
def bytes_and_arrays():
    buf = bytearray(b"abcd")
    arr = array.array("d", [1.0, 2.0, 3.0])
    view = memoryview(buf)
    npa = np.arange(4.0)

    def f(x, i):
        buf[i] = 65 + i
        arr[0] += 1
        npa[i % 4] = x.sum().item()
        return (
            x * arr[1] * npa[0],
            bytes(buf),
            view[i],
            sum(arr),
            list(view[:2]),
            struct.unpack("<H", buf[:2]),
            npa.sum() > 3,
            max(npa),
            sorted(arr, reverse=True),
            arr.tolist(),
            [*buf],
            int.from_bytes(buf[:2], "big"),
            np.dot(npa, npa),
            len(arr),
            66 in buf,
            buf.find(b"c"),
            x + npa[:2].mean(),
        )

    def change():
        arr.append(9.0)
        arr[1] = 7.0
        buf[:] = b"wxyz"
        npa[:] = 5

    return (
        f,
        [(ramp(2), 0), (ramp(2), 1), change, (ramp(2), 0), (ramp(2), 2), (ramp(2) * 2, 3)],
        lambda: (bytes(buf), arr.tolist(), npa.copy()),
    )


@program()
def collection_types():
    cnt = collections.Counter("abca")
    chain = collections.ChainMap({"a": ramp(2)}, {"a": ramp(2) * 2, "b": ramp(2) * 3})
    od = collections.OrderedDict(a=ramp(2), b=ramp(2) * 2)
    dq = collections.deque([ramp(2), ramp(2) * 2], maxlen=3)
    ud = collections.UserDict(a=ramp(2))
    ul = collections.UserList([ramp(2)])

    def f(x, k):
        cnt.update(k)
        cnt.subtract("a")
        child = chain.new_child({k: x})
        od.move_to_end("a", last=k != "a")
        od[k] = x
        dq.append(x * 2)
        dq.rotate(1)
        dq.extendleft([x])
        ud[k] = x
        ul.append(x)
        return (
            cnt.most_common(1),
            (cnt + cnt)["a"],
            +cnt,
            cnt[k],
            child[k] * 2,
            child["a"],
            child.get("zz", x),
            len(child),
            sorted(child),
            list(od),
            next(iter(od.values())) * 2,
            od.popitem(last=False)[1],
            [t * 2 for t in dq],
            dq[0],
            len(dq),
            ud[k] * 2,
            ul[-1] + 1,
            ul[0] * 2,
            len(ul),
            {**ud}.keys() == {"a"},
            [*ul][0],
            dict(chain)["b"] * 2,
            list(reversed(dq))[0],
            collections.Counter(k) == cnt,
            (cnt & collections.Counter("aab"))["a"],
        )

    def change():
        chain.maps[0]["a"] = ramp(2) * 9
        dq.clear()
        ul[0] = ramp(2) * 4
        cnt.clear()

    return (
        f,
        [(ramp(2), "a"), (ramp(2), "b"), change, (ramp(2), "a"), (ramp(2) * 2, "cc"), (ramp(2), "a")],
        lambda: (list(od.items()), list(dq), dict(ud), list(ul), dict(cnt)),
    )


class Meta(type):
    registry = {}

    def __new__(m, name, bases, ns, **kw):
        c = super().__new__(m, name, bases, ns)
        m.registry[name] = c
        return c

    def __call__(cls, *a, **k):
        o = super().__call__(*a, **k)
        o.tag = cls.__name__
        return o

    def __getitem__(cls, i):
        return cls.items[i]

    def __len__(cls):
        return len(cls.items)

    def __iter__(cls):
        return iter(cls.items)

    def __contains__(cls, v):
        return v in ("a", "b")

    def __instancecheck__(cls, o):
        return hasattr(o, "duck") or type.__instancecheck__(cls, o)

    def __eq__(cls, o):
        return cls is o or getattr(o, "__name__", None) == "twin"

    def __hash__(cls):
        return 7

    @property
    def size(cls):
        return sum(t.numel() for t in cls.items)


@program()
def metaclass_natives():
    class Reg(metaclass=Meta):
        items = [ramp(2), ramp(3)]

        def __init__(self, x):
            self.x = x

    class Twin(metaclass=Meta):
        items = []

    def f(x, i, o):
        r = Reg(x)
        return (
            Reg[i] * 2,
            len(Reg),
            [t + 1 for t in Reg],
            "a" in Reg,
            isinstance(o, Reg),
            r.tag,
            r.x,
            Reg.size,
            Reg == Twin,
            {Reg: 1}.get(Twin),
            sum(t.sum() for t in Reg),
            max(Reg, key=len) * 2,
            list(Reg)[0],
            issubclass(Reg, object),
        )

    def change():
        Reg.items = [ramp(4) * 2, ramp(1), ramp(3)]

    return f, [(ramp(2), 0, 1), (ramp(2), 1, types.SimpleNamespace(duck=1)), change, (ramp(2), 0, Reg(ramp(1))), (ramp(2) * 2, 1, None)]


class Shape(abc.ABC):
    @property
    @abc.abstractmethod
    def area(self): ...
    @classmethod
    def make(cls, *a):
        return cls(*a)

    @staticmethod
    def unit(x):
        return x / 2

    def __init_subclass__(cls):
        cls.n = getattr(cls, "n", 0) + 1


class Box(Shape):
    def __init__(self, x):
        self.x = x

    @property
    def area(self):
        return self.x.sum()

    @area.setter
    def area(self, v):
        self.x = self.x * v

    @area.deleter
    def area(self):
        self.x = self.x * 0


@typing.runtime_checkable
class HasX(typing.Protocol):
    x: typing.Any


class Sub(Box):
    def __init__(self, x):
        super().__init__(x * 2)

    @property
    def area(self):
        return super().area + 1

    @classmethod
    def make(cls, *a):
        return super().make(*a)


@program()
def abc_and_protocols():
    def f(x, b):
        s = Sub.make(x)
        b.area = 2
        try:
            Shape()
        except TypeError as e:
            m = "abstract" in str(e)
        old = b.area
        if x.numel() > 2:
            del b.area
        return (
            s.area,
            old,
            b.x,
            Shape.unit(x),
            isinstance(b, HasX),
            Sub.n,
            m,
            isinstance(s, collections.abc.Sized),
            type(b).__mro__[1].__name__,
            super(Sub, s).area,
        )

    return f, [(ramp(2), Box(ramp(2))), (ramp(3), Box(ramp(2) * 2)), (ramp(2), Box(ramp(2) * 3)), (ramp(3) * 2, Box(ramp(3)))]


@program()
def namedtuples_and_typed():
    P = collections.namedtuple("P", "a b c", defaults=[3])

    class Q(typing.NamedTuple):
        x: typing.Any
        n: int = 1

        def scaled(self):
            return self.x * self.n

    def f(x, p, q):
        r = p._replace(b=x)
        a, *rest = p
        return (
            r.a + r.b,
            r._asdict()["c"],
            P._make([x, 1, 2]).a,
            q.scaled(),
            q._replace(n=q.n + 1).scaled(),
            p == (p.a, p.b, p.c) if not torch.is_tensor(p.a) else 0,
            len(rest),
            p[-1],
            sorted([(2, q.n), (1, 5)]),
            q + (1,),
            Q(x).n,
            p.count(3),
            {(q.n, "k"): x}[(q.n, "k")],
            max(p[1:]),
            hash((q.n, 2)) == hash((1, 2)),
            (q.n, 1) < (2, 0),
        )

    return f, [
        (ramp(2), P(ramp(2), 1), Q(ramp(2))),
        (ramp(2), P(2, 5, 7), Q(ramp(2) * 2, 3)),
        (ramp(2), P(1.0, 1), Q(ramp(2), 1)),
        (ramp(2), P(ramp(2) * 4, 2, 3), Q(ramp(2), 2)),
    ]


@program()
def formats_of_own_classes():
    class Spec:
        def __init__(self, w):
            self.w = w

        def __str__(self):
            return str(self.w)

        def __format__(self, s):
            return s * self.w

        def __getitem__(self, k):
            return self.w * k

    def f(x, s, v, w):
        return (
            "{:>{w}} {!r:.3}".format(v, v, w=w),
            f"{v!r:>{w}}|{s:ab}|{s}|{s.w:03d}",
            "%s|%5.2f" % (s, v),
            "{0[2]} {0.w}".format(s),
            "{a} {b:x}".format_map({"a": s, "b": w}),
            str(s).zfill(4),
            "-".join(map(str, [s, v])),
            x * len(f"{s:a}"),
            f"{x.shape[0]:>4}",
            f"{'a' * w!r}",
            "%(a)s-%(b)d" % {"a": s, "b": w},
            "".join(f"{i}{s}" for i in range(2)),
            format(v, f".{w}f"),
        )

    return f, [(ramp(2), Spec(i), v, w) for i, v, w in [(1, 1.5, 3), (2, 2.5, 3), (2, 2, 5), (3, True, 4), (1, 1.5, 3)]]


@program()
def pickled_and_inspected():
    def helper(a, b=2, *c, d, **e):
        return a

    def f(x, data, fn):
        again = pickle.loads(pickle.dumps(data))
        sig = inspect.signature(fn)
        return (
            again,
            x * len(sig.parameters),
            fn.__name__,
            inspect.isfunction(fn),
            callable(fn),
            json.loads(json.dumps(data)),
            list(sig.parameters)[0],
            getattr(fn, "__defaults__"),
            fn.__code__.co_argcount,
        )

    return f, [
        (ramp(2), {"a": [1, 2]}, helper),
        (ramp(2), {"b": 1.5}, lambda q, r: q),
        (ramp(2), [1, {"c": None}], helper),
        (ramp(2), {"a": [1, 3]}, lambda z: z),
    ]


@program()
def closures_and_cells():
    fns = []
    state = {"n": 0}

    def outer(k):
        total = ramp(2) * k

        def add(v):
            nonlocal total
            total = total + v
            return total

        def read():
            return total

        return add, read

    add, read = outer(1)

    def f(x, k):
        a, r = outer(k)
        a(x)
        add(x)
        fns.append(lambda y=x, *, z=k: y * z + read())
        fns.append(r)
        state["n"] += 1
        acc = functools.reduce(lambda p, g: p + g(), fns, x)
        return acc, read() * 2, r(), [g() for g in fns[-2:]], list(map(lambda g: g().sum(), fns)), (lambda: k)(), state["n"]

    return f, [(ramp(2) * (i + 1), k) for i, k in enumerate([1, 2, 1.5, 2, 3])], lambda: (len(fns), read())
