"""Small programs, one construct each, which the tests run natively and by the machine."""

# ruff: noqa
# The constructs are odd on purpose.
from __future__ import annotations

import collections
import functools
import sys
from typing import Any

COUNTER = 0
PROGRAMS: list[Any] = []


def program(function: Any) -> Any:
    PROGRAMS.append(function)
    return function


@program
def arithmetic() -> Any:
    a, b, c = 7, 3, 2.5
    out: list[Any] = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    a += 1
    a -= c
    a *= 2
    a /= 3
    a //= 1
    a %= 5
    a **= 2
    n = 6
    n <<= 2
    n >>= 1
    n &= 13
    n |= 3
    n ^= 1
    return [*out, a, n]


@program
def comparisons() -> Any:
    a, b = 1, 2
    return [a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b, a in [1], a not in [1], 0 < a < b < 2, None is None]


@program
def in_place_on_list() -> Any:
    a = b = [1]
    a += [2]
    return a is b, b


@program
def branches() -> Any:
    out = []
    for n in range(-2, 4):
        if n < 0:
            out.append("negative")
        elif n == 0:
            continue
        elif n == 3:
            break
        else:
            out.append(n and "positive" or "never")
    else:
        out.append("never")
    x = None
    return out, x if x is not None else "none", (x or [] or 5), (x and 3)


@program
def while_else() -> Any:
    n = 0
    while n < 5:
        n += 1
    else:
        n = -n
    return n


@program
def containers() -> Any:
    a, b = [1, 2], {"x": 1}
    return [*a, *a], {*a, 3}, {**b, "y": 2}, (*a, 5), {1: 2, 3: 4}, a[0], a[-1:], a[::2], "abc"[1:3], {"k": [1, {2}]}


@program
def stores() -> Any:
    a: list[Any] = [1, 2, 3, 4]
    a[0] = 9
    a[1:3] = "xyz"
    del a[0]
    del a[1:2]
    d = {1: 2}
    d[3] = 4
    del d[1]
    return a, d


@program
def comprehensions() -> Any:
    n = 3
    return (
        [i * n for i in range(4) if i != 2],
        {i % 2 for i in range(5)},
        {i: [j for j in range(i)] for i in range(3)},
        list(i + n for i in range(3)),
        [(lambda: i)() for i in range(3)],
    )


@program
def unpacking() -> Any:
    a, (b, *c), d = 1, (2, 3, 4), 5
    *e, f = "xyz"
    [g] = [1]
    return a, b, c, d, e, f, g


@program
def unpack_too_many() -> Any:
    a, b = [1, 2, 3]
    return a, b


@program
def unpack_too_few() -> Any:
    a, b, *c = [1]
    return a, b, c


@program
def unpack_number() -> Any:
    a, b = 5
    return a, b


@program
def strings() -> Any:
    x, w = 3.14159, 8
    return f"{x:.2f} {x!r:>{w}} {w=} {'a'!s} {'é'!a} {{}}", f"{x}", "%s-%d" % ("a", 3)


@program
def bad_format() -> Any:
    return f"{3:q}"


def keywords(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int, e: int = 5, **more: int) -> Any:
    return a, b, c, rest, d, e, more


@program
def arguments() -> Any:
    rest, more = (7, 8), {"d": 1, "z": 2}
    return keywords(1, d=4), keywords(1, 2, 3, 4, 5, d=6, f=7), keywords(*rest, **more), keywords(1, *rest, 9, x=1, **more)


@program
def missing_argument() -> Any:
    return keywords(1)


@program
def missing_arguments() -> Any:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a, b, c

    return f()


@program
def too_many_arguments() -> Any:
    return (lambda a, b=1: a)(1, 2, 3)


@program
def unexpected_keyword() -> Any:
    return (lambda a: a)(1, x=2)


@program
def repeated_argument() -> Any:
    return (lambda a: a)(1, **{"a": 2})


@program
def repeated_keyword() -> Any:
    return dict(**{"a": 1}, **{"a": 2})


@program
def positional_only_as_keyword() -> Any:
    return keywords(a=1, d=2)


@program
def star_of_number() -> Any:
    return keywords(*3)


@program
def double_star_of_number() -> Any:
    return keywords(**3)


@program
def keywords_that_are_no_strings() -> Any:
    return keywords(**{1: 2})


@program
def closures() -> Any:
    def counter() -> Any:
        n = 0

        def step(by: int = 1) -> int:
            nonlocal n
            n += by
            return n

        return step

    a, b = counter(), counter()
    return a(), a(5), b(), a()


@program
def empty_cell() -> Any:
    def inner() -> Any:
        return later

    result = inner()
    later = 1
    return result, later


@program
def deleted_cell() -> Any:
    x = 1

    def inner() -> Any:
        return x

    inner()
    del x
    return inner()


@program
def unbound_local() -> Any:
    if not COUNTER + 1:
        x = 1
    return x


@program
def deleted_local() -> Any:
    x = 1
    del x
    del x


@program
def unknown_name() -> Any:
    return this_name_is_not_defined


@program
def global_names() -> Any:
    global COUNTER, FLEETING
    COUNTER += 1
    FLEETING = COUNTER
    out = FLEETING
    del FLEETING
    COUNTER -= 1
    return out, "FLEETING" in globals(), COUNTER


@program
def classes() -> Any:
    class Base:
        kind = "base"

        def __init__(self, x: int) -> None:
            self.x = x

        def describe(self) -> str:
            return f"{self.kind} {self.x}"

        @property
        def double(self) -> int:
            return self.x * 2

        @classmethod
        def make(cls, x: int) -> Any:
            return cls(x)

        @staticmethod
        def constant() -> int:
            return 5

    class Derived(Base):
        kind = "derived"
        numbers = [i for i in range(3)]

        def __init__(self, x: int) -> None:
            super().__init__(x + 1)

        def describe(self) -> str:
            return "<" + super().describe() + ">"

        def __add__(self, other: Any) -> Any:
            return self.x + other

    d = Derived.make(3)
    d.x += 1
    return d.describe(), d.double, d + 1, Derived.constant(), Derived.numbers, Derived.__qualname__, isinstance(d, Base)


@program
def metaclass() -> Any:
    class Meta(type):
        def __new__(cls, name: str, bases: Any, names: Any, **more: Any) -> Any:
            made = super().__new__(cls, name, bases, names)
            made.more = more
            return made

        def __init__(cls, name: str, bases: Any, names: Any, **more: Any) -> None:
            super().__init__(name, bases, names)

        @classmethod
        def __prepare__(cls, name: str, bases: Any, **more: Any) -> Any:
            return collections.OrderedDict(prepared=1)

        def __call__(cls, *args: Any) -> Any:
            return super().__call__(*args), "called"

    class Made(metaclass=Meta, flag=3):
        y = 1

    return Made.more, Made.prepared, Made()[1]


@program
def new_and_init() -> Any:
    class New:
        def __new__(cls, x: int) -> Any:
            self = super().__new__(cls)
            self.new = x
            return self

        def __init__(self, x: int) -> None:
            self.init = x

    class Other:
        def __new__(cls) -> Any:
            return 5

        def __init__(self) -> None:
            raise AssertionError

    made = New(3)
    return made.new, made.init, Other()


@program
def init_returns_something() -> Any:
    class Bad:
        def __init__(self) -> None:
            return 5

    Bad()


@program
def arguments_of_object() -> Any:
    class Empty:
        pass

    Empty(1)


@program
def decorators() -> Any:
    def twice(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return f(*args, **kwargs), f(*args, **kwargs)

        return wrapper

    @twice
    @twice
    def hello(x: int = 3) -> int:
        """Text."""
        return x

    return hello(x=2), hello.__name__, hello.__doc__


@program
def callables() -> Any:
    class Call:
        def __call__(self, x: int, *, y: int = 1) -> int:
            return x + y

    return Call()(1), Call()(2, y=3), functools.partial(keywords, 1, d=2)(3), sorted([3, 1, 2], key=lambda x: -x), list(map(str, [1]))


@program
def defaults_and_annotations() -> Any:
    def f(a: int, b: str = "x", *, c: float = 1.0) -> list[int]:
        return [a]

    return f.__defaults__, f.__kwdefaults__, sorted(f.__annotations__), f.__qualname__


@program
def matching() -> Any:
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    def kind(value: Any) -> Any:
        match value:
            case 0 | 1:
                return "small"
            case int(n) if n > 100:
                return "large", n
            case str() as s:
                return s
            case []:
                return "empty"
            case [x, [y, *_]]:
                return x, y
            case [first, *rest]:
                return first, rest
            case {"a": a, "b": {"c": c}}:
                return a, c
            case {"k": _, **rest}:
                return rest
            case Point(0, y=0):
                return "origin"
            case Point(x, y):
                return x, y
            case None | True:
                return "constant"
            case _:
                return "other"

    values = [0, 500, 50, "s", [], [1, [2, 3]], [1, 2], {"a": 1, "b": {"c": 2}}, {"k": 1, "z": 2}, Point(0, 0), Point(1, 2), None, 2.5]
    return [kind(value) for value in values]


@program
def match_of_no_class() -> Any:
    thing: Any = 5
    match 3:
        case thing():
            pass


@program
def introspection() -> Any:
    a, b = 1, [2]

    class Body:
        c = a
        names = sorted(k for k in locals() if not k.startswith("__"))

    def inner() -> Any:
        return b, sorted(locals())

    first = sorted(locals()), sorted(vars()), [n for n in dir() if not n.startswith("_")]
    return first, Body.names, inner(), eval("a + 1"), globals()["COUNTER"], sys._getframe().f_code.co_name


@program
def imports() -> Any:
    import os.path as path
    from collections import OrderedDict as Ordered
    from math import floor, pi

    return path.join("a", "b"), Ordered(a=1), floor(pi)


@program
def failing_import() -> Any:
    from math import nothing_of_this_name


@program
def failing_module() -> Any:
    import no_such_module_anywhere


@program
def assertions() -> Any:
    assert COUNTER == 0, "never"
    assert COUNTER, ("text", 3)


@program
def walrus() -> Any:
    out = [y for x in range(5) if (y := x * 2) > 2]
    return out, y


@program
def super_forms() -> Any:
    class A:
        def f(self) -> str:
            return "A"

        @classmethod
        def g(cls) -> str:
            return cls.__name__

    class B(A):
        def f(self) -> str:
            me = self

            def inner() -> Any:
                return me

            return "B" + super().f() + super(B, self).f() + type(inner()).__name__

        @classmethod
        def g(cls) -> str:
            return "B" + super().g()

        @property
        def p(self) -> Any:
            return super().f

    return B().f(), B.g(), B().p()


@program
def super_without_class() -> Any:
    return super().x


@program
def class_closure() -> Any:
    x = "outer"

    class C:
        x = x + "!"
        y = [x for _ in range(2)]

        def get(self) -> Any:
            return x, __class__.__name__

    return C.x, C.y, C().get()


@program
def recursion() -> Any:
    def depth(n: int) -> int:
        return 0 if n == 0 else 1 + depth(n - 1)

    return depth(150)


@program
def endless_recursion() -> Any:
    def deeper() -> Any:
        return deeper()

    try:
        deeper()
    except RecursionError as error:
        return type(error)


@program
def attributes() -> Any:
    class Box:
        def __getattr__(self, name: str) -> Any:
            return "got " + name

    box = Box()
    box.a = 1
    out = box.a, box.b
    del box.a
    return out, box.a, getattr(box, "c"), hasattr(box, "d")


@program
def missing_attribute() -> Any:
    return [].nothing


@program
def large_function() -> Any:
    return eval("lambda: [" + ",".join(f"(x{n} := {n})" for n in range(300)) + "][-1]")()
