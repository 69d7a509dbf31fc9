"""Classes: descriptors, inheritance, special methods, enums, data classes."""

import abc
import collections
import dataclasses
import enum
import typing
import weakref

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def inheritance_and_super():
    class Base:
        count = 0

        def __init__(self, w):
            self.w = w

        def forward(self, x):
            return x * self.w

        @property
        def double(self):
            return self.w * 2

    class Child(Base):
        def __init__(self, w):
            super().__init__(w)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.last = super().forward(x) + self.double
            return self.last

        __call__ = forward

    c = Child(ramp(2) * 3)

    def f(x):
        inner = Child(x + 1)
        c.made = inner
        y = c(x) + inner(x)
        if y.sum() > 100:
            inner.note = "large"
        return y

    def state():
        return c.calls, c.last, c.made.w, c.made.calls, c.made.last, getattr(c.made, "note", None)

    return f, [(ramp(2),), (ramp(2) * 2,), (ramp(2) + 99,), (ramp(2) + 98,), (ramp(2),)], state


@program()
def property_with_setter():
    class Gain:
        def __init__(self):
            self._value, self.sets = 1.0, 0

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self.sets += 1
            self._value = new

        @value.deleter
        def value(self):
            self._value = 0.0

    g = Gain()

    def f(x):
        y = x * g.value
        g.value = g.value + 1
        if g.value > 3:
            del g.value
        return y

    return f, [(ramp(2),)] * 5, lambda: (g.value, g.sets)


@program()
def own_descriptor():
    class Logged:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return 5.0 if instance is None else getattr(instance, self.name) * 2

        def __set__(self, instance, value):
            instance.log.append(self.name)
            setattr(instance, self.name, value)

    class Thing:
        w = Logged()

        def __init__(self):
            self.log = []
            self.w = 1.0

    t = Thing()

    def f(x):
        y = x * t.w + Thing.w
        t.w = x.sum()
        return y

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: (t.log, t.w)


@program()
def getattr_fallback():
    class Lazy:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            if name.startswith("k"):
                self.asked.append(name)
                return float(name[1:])
            raise AttributeError(f"no {name}")

    lazy = Lazy()

    def f(x, late):
        if late:
            lazy.k2 = 20.0
        return x * lazy.k2 + hasattr(lazy, "other"), getattr(lazy, "missing", "default")

    return f, [(ramp(2), False), (ramp(2), False), (ramp(2), True), (ramp(2), False)], lambda: lazy.asked


@program()
def getattribute_and_setattr():
    class Strict:
        def __init__(self):
            object.__setattr__(self, "values", {"a": 1.0})
            object.__setattr__(self, "reads", 0)

        def __getattribute__(self, name):
            if name in ("a", "b"):
                object.__setattr__(self, "reads", object.__getattribute__(self, "reads") + 1)
                return object.__getattribute__(self, "values")[name]
            return object.__getattribute__(self, name)

        def __setattr__(self, name, value):
            self.values[name] = value * 2

    s = Strict()

    def f(x):
        y = x * s.a
        s.b = s.a + 1
        s.a = s.b
        return y

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: (s.values, s.reads)


@program()
def slots():
    class Point:
        __slots__ = ("x", "y", "__weakref__")

        def __init__(self, x, y):
            self.x, self.y = x, y

        def norm(self):
            return self.x * self.x + self.y * self.y

    outside = Point(1.0, 2.0)

    def f(x):
        p = Point(x, x + outside.y)
        outside.x = p.norm()
        outside.y += 1
        try:
            p.z = 1
        except AttributeError:
            outside.y += 0.5
        return p.norm()

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: (outside.x, outside.y)


@program()
def metaclass():
    class Registry(type):
        made: typing.ClassVar[list] = []

        def __new__(cls, name, bases, space):
            cls.made.append(name)
            return super().__new__(cls, name, bases, space)

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tag = cls.__name__.lower()
            return made

        def __len__(cls):
            return 3

    class A(metaclass=Registry):
        def __init__(self, x):
            self.x = x

    def f(x, name):
        made = type(name, (A,), {"extra": 2.0})
        thing = Registry(name + "2", (A,), {})(x) if name == "C" else A(x)
        return thing.x * len(A) + getattr(type(thing), "extra", 1.0), thing.tag, made.__name__

    return f, [(ramp(2), "B"), (ramp(2), "C"), (ramp(2), "B")], lambda: Registry.made


@program()
def dataclass_made_and_changed():
    @dataclasses.dataclass
    class State:
        x: torch.Tensor
        step: int = 0
        names: list = dataclasses.field(default_factory=list)

        def __post_init__(self):
            self.names.append("made")

    kept = State(ramp(2))

    def f(x):
        s = State(x * 2, names=["n"])
        kept.step += 1
        kept.x = s.x + kept.step
        t = dataclasses.replace(s, step=kept.step)
        return t, dataclasses.astuple(t)[1], [field.name for field in dataclasses.fields(t)]

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: kept


@program()
def frozen_dataclass_as_key():
    @dataclasses.dataclass(frozen=True, order=True)
    class Key:
        a: int
        b: str = "k"

    seen = {}

    def f(x, n):
        k = Key(n)
        seen[k] = seen.get(k, 0) + 1
        try:
            k.a = 3
        except dataclasses.FrozenInstanceError:
            x = x + 1
        return x * seen[k], max(seen).a, Key(1) == Key(1)

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 1), (ramp(2), 1)], lambda: list(seen.values())


@program()
def enums():
    class Mode(enum.Enum):
        DOUBLE = "double"
        HALF = "half"

        def apply(self, x):
            return x * 2 if self is Mode.DOUBLE else x / 2

    class Bits(enum.IntFlag):
        A = 1
        B = 2

    def f(x, text, bits):
        mode = Mode(text)
        y = mode.apply(x)
        return (y + 1 if bits & Bits.B else y), mode.name, int(bits | Bits.A), [m.value for m in Mode]

    return f, [(ramp(2), "double", Bits.A), (ramp(2), "half", Bits.B), (ramp(2), "double", Bits.A | Bits.B), (ramp(2), "half", Bits.A)]


@program()
def enum_unknown_value_raises():
    class Mode(enum.Enum):
        A = 1

    def f(x, n):
        return x * Mode(n).value

    return f, [(ramp(2), 1), (ramp(2), 7), (ramp(2), 1)]


class Pair(typing.NamedTuple):
    left: object
    right: object = 2.0


@program()
def named_tuples():
    Triple = collections.namedtuple("Triple", "a b c")

    def f(p):
        q = p._replace(left=p.left * p.right)
        t = Triple(q.left, b=q.right, c=Pair(q.left + 1))
        a, b, c = t
        return t, a + c.left, b, t._asdict()["c"].right, isinstance(t, tuple)

    return f, [(Pair(ramp(2)),), (Pair(ramp(2), 3.0),), (Pair(ramp(2), ramp(2)),), (Pair(ramp(2)),)]


@program()
def operators_of_own_class():
    class Vector:
        def __init__(self, x):
            self.x = x

        def __add__(self, other):
            return Vector(self.x + (other.x if isinstance(other, Vector) else other))

        __radd__ = __add__

        def __iadd__(self, other):
            self.x = self.x + 10
            return self

        def __matmul__(self, other):
            return (self.x * other.x).sum()

        def __neg__(self):
            return Vector(-self.x)

        def __getitem__(self, key):
            return self.x[key]

        def __len__(self):
            return 4

        def __contains__(self, value):
            return value == 3

        def __bool__(self):
            return bool((self.x.sum() > 0).item())

        def __call__(self, k):
            return self.x * k

        def __iter__(self):
            return iter([self.x, self.x + 1])

        def __eq__(self, other):
            return "equal"

        __hash__ = None

    def f(x):
        v = Vector(x)
        w = 1.0 + v + v
        w += 3
        a, b = -w
        return w.x, w @ v, w[0], len(w), 3 in w, 4 in w, bool(w), w(2), a, b, v == w

    return f, [(ramp(3),), (ramp(3) - 9,), (ramp(3),)]


@program()
def class_and_static_methods():
    class Model:
        scale = 2.0
        made = 0

        @classmethod
        def create(cls, x):
            cls.made += 1
            return cls(x)

        @staticmethod
        def shift(x):
            return x + 1

        def __init__(self, x):
            self.x = self.shift(x) * self.scale

    class Sub(Model):
        scale = 3.0

    def f(x):
        a, b = Model.create(x), Sub.create(x)
        return a.x + b.x, type(b).__name__, Sub.__mro__[1] is Model

    def rescale():
        Model.scale = 7.0

    return f, [(ramp(2),), (ramp(2),), rescale, (ramp(2),)], lambda: (Model.made, Sub.made)


@program()
def abstract_class():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        def twice(self):
            return self.area() * 2

    class Square(Shape):
        def __init__(self, x):
            self.x = x

        def area(self):
            return self.x * self.x

    def f(x):
        try:
            Shape()
        except TypeError:
            x = x + 1
        return Square(x).twice(), isinstance(Square(x), Shape)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)]


@program()
def multiple_inheritance():
    order = []

    class A:
        def run(self, x):
            order.append("A")
            return x + 1

    class B(A):
        def run(self, x):
            order.append("B")
            return super().run(x) * 2

    class C(A):
        def run(self, x):
            order.append("C")
            return super().run(x) * 3

    class D(B, C):
        def run(self, x):
            order.append("D")
            return super().run(x) - 1

    def f(x):
        return D().run(x) + super(B, D()).run(x)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: order


@program()
def instance_changed_between_calls():
    class Settings:
        gain = 2.0

    s = Settings()

    def f(x):
        return x * s.gain

    def own():
        s.gain = 5.0

    def gone():
        del s.gain

    def wider():
        Settings.gain = "ab"

    return f, [(ramp(2),), own, (ramp(2),), gone, (ramp(2),), wider, (ramp(2),)]


@program()
def attribute_dictionary_changed():
    class C:
        pass

    c = C()
    c.k = 1

    def f(x):
        y = x * c.k
        c.__dict__.update(k=c.k + 1)
        vars(c)["note"] = c.k
        return y * c.k + getattr(c, "note")  # noqa: B009

    return f, [(ramp(2),)] * 4, lambda: c.__dict__


@program()
def absent_attribute_appears():
    class C:
        pass

    c = C()

    def f(x):
        if not hasattr(c, "cache"):
            return x * 2
        return x + c.cache

    def put():
        c.cache = 10.0

    def drop():
        del c.cache

    return f, [(ramp(2),), (ramp(2),), put, (ramp(2),), drop, (ramp(2),)]


@program()
def isinstance_of_many():
    def f(v):
        kinds = [k.__name__ for k in (int, float, bool, str, list, tuple, dict, torch.Tensor) if isinstance(v, k)]
        return kinds, type(v) is int, callable(v), issubclass(type(v), (int, float))

    return f, [(1,), (True,), (1.5,), ("s",), ([1],), ((1,),), ({},), (ramp(2),), (len,), (2,)]


@program()
def identity_and_is():
    def f(x, y):
        z = x
        w = x.view_as(x)
        return z is x, w is x, x is y, id(z) == id(x), (x, y).index(x), [x] == [z], x is not None

    a = ramp(2)
    return f, [(ramp(2), ramp(3)), (a, a), (ramp(2), ramp(3)), (a, a)]


@program()
def weak_references():
    cache = weakref.WeakValueDictionary()
    dead = []

    class Node:
        def __init__(self, x):
            self.x = x

    def f(x):
        y = x * 2
        cache["y"] = y
        node = Node(x)
        ref = weakref.ref(node, lambda _: dead.append("node"))
        alive = ref() is node
        del node
        return alive, ref() is None, cache.get("y") is y, y

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: dead


@program()
def delete_things():
    class Box:
        pass

    box = Box()

    def f(x, names):
        box.x = x * 2
        items = {n: x + i for i, n in enumerate(names)}
        rows = list(items.values())
        del items[names[0]], rows[1:]
        y = box.x
        del box.x
        try:
            return box.x
        except AttributeError as error:
            return y, items, rows, str(error)

    return f, [(ramp(2), "ab"), (ramp(2), "abc"), (ramp(2), "ab")], lambda: box


@program()
def finalizer_runs_in_order():
    order = []

    class Noisy:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            order.append(self.n)

    def f(x):
        a = Noisy(1)
        y = x * a.n
        order.append("before")
        del a
        order.append("after")
        b = Noisy(2)
        return y * b.n

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: list(order)


@program()
def method_bound_and_stored():
    class Layer:
        def __init__(self, w):
            self.w = w

        def apply(self, x):
            return x * self.w

    one, two = Layer(2.0), Layer(3.0)
    table = [one.apply, two.apply, Layer.apply]

    def f(x, i):
        run = table[i]
        return run(x) if i < 2 else run(one, x), getattr(run, "__self__", None) is one

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 2), (ramp(2), 0)]


@program()
def init_subclass_and_class_made_inside():
    def f(x):
        class Base:
            registry: typing.ClassVar[list] = []

            def __init_subclass__(cls, /, gain, **kwargs):
                super().__init_subclass__(**kwargs)
                cls.gain = gain
                Base.registry.append(cls.__name__)

            def run(self):
                return x * self.gain

        class One(Base, gain=2.0):
            pass

        class Two(Base, gain=3.0):
            def run(self):
                return super().run() + 1

        return One().run() + Two().run(), Base.registry

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)]


@program()
def repr_and_format_of_own():
    class Money:
        def __init__(self, n):
            self.n = n

        def __repr__(self):
            return f"Money({self.n})"

        def __format__(self, spec):
            return f"{self.n:{spec}}!"

        def __str__(self):
            return "money"

    def f(x, n):
        m = Money(n)
        return x * n, f"{m!r} {m} {m:03d}", str(m), repr([m])

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 1)]


@program()
def attributes_by_other_names():
    class Configuration:
        names = {"width": "hidden_size"}

        def __init__(self):
            self.hidden_size, self.scale = 3, 2.0

        def __setattr__(self, key, value):
            super().__setattr__(super().__getattribute__("names").get(key, key), value)

        def __getattribute__(self, key):
            if key != "names" and key in super().__getattribute__("names"):
                key = super().__getattribute__("names")[key]
            return super().__getattribute__(key)

        @property
        def twice(self):
            return self.width * 2

        def scaled(self, x):
            return x * self.scale

    held = Configuration()

    def f(x):
        held.seen = x.shape[0]
        return held.scaled(x) + held.width - held.twice

    def changed():
        held.width = 5

    return f, [(ramp(4),), (ramp(4),), changed, (ramp(4),), (ramp(5),)], lambda: sorted(vars(held).items())


@program()
def attributes_that_are_not_there():
    class Open:
        def __init__(self):
            self.here = 2.0

        def __getattribute__(self, key):
            return object.__getattribute__(self, key)

        def __getattr__(self, key):
            if key.startswith("_"):
                raise AttributeError(key)
            return len(key)

    held = Open()

    def f(x):
        try:
            y = x * held._hidden
        except AttributeError as error:
            y = x - len(str(error))
        return y * held.here + held.missing, hasattr(held, "_other"), getattr(held, "_third", 7)

    def changed():
        held.missing = 10

    return f, [(ramp(4),), (ramp(4),), changed, (ramp(4),)]
