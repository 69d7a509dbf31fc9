"""Branches, loops, pattern matching, unpacking, text."""

import re

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def branch_on_tensor():
    def f(x):
        if x.sum() > 0:
            return x * 2
        elif x.sum() < -10:
            return x - 1
        return x + 1

    return f, [(ramp(3) + 2,), (ramp(3) - 2,), (ramp(3) - 9,), (ramp(3) + 2,), (ramp(3) - 9,)]


@program()
def branch_on_item():
    def f(x):
        s = (x * x).sum().item()
        if s > 10.0:
            return x / s, "big", s
        return x * 2, "small", s

    return f, [(ramp(2),), (ramp(2) * 2,), (ramp(2) * 9,), (ramp(2) * 8,), (ramp(2),)]


@program()
def branch_on_any_and_all():
    def f(x):
        y = x * 2
        if (y > 3).any() and not (y < -3).all():
            y = y.clamp(max=3)
        return y if torch.isfinite(y).all() else torch.zeros_like(y)

    return f, [(ramp(3),), (ramp(3) + 9,), (ramp(3) * float("inf"),), (ramp(3),)]


@program()
def while_on_tensor():
    def f(x):
        n = 0
        while x.sum() < 100:
            x = x * 2
            n += 1
        return x, n

    x = ramp(4) + 2
    return f, [(x,), (x * 20,), (x,), (x * 200,), (x * 0.4,)]


@program()
def while_with_else_break_continue():
    def f(x, stop):
        i = 0
        while i < 4:
            i += 1
            if i == 2:
                continue
            if i == stop:
                break
            x = x + i
        else:
            x = x * 10
        return x, i

    return f, [(ramp(2), 9), (ramp(2), 3), (ramp(2), 1), (ramp(2), 9)]


@program()
def for_with_else_nested():
    def f(x, grid):
        for i, row in enumerate(grid):
            for j, v in enumerate(row):
                if v == 0:
                    break
                x = x + v
            else:
                x = x * 2
                continue
            x = x - 100 * (i + j)
        return x

    return f, [(ramp(2), ((1, 2), (3, 4))), (ramp(2), ((1, 0), (3, 4))), (ramp(2), ()), (ramp(2), ((1, 2), (3, 4)))]


@program()
def loop_count_from_argument():
    def f(x, n):
        for i in range(n):
            x = x * 1.5 - i
        return x

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 0), (ramp(2), 2), (ramp(2), 5)]


@program()
def short_circuit_values():
    def f(x, a, b):
        k = a or b or 3
        flag = a and b
        return x * k, flag, not a, (a if b else "no"), None or x

    return f, [(ramp(2), 0, 2), (ramp(2), 1, 0), (ramp(2), 0, 0), (ramp(2), 4, 5)]


@program()
def chained_comparison():
    def f(x, n):
        if 0 < n <= 3 < 10:
            x = x + 1
        return x, 1 < n < 3, n == 2 == 2.0, (0 < x.sum() < 9).item()

    return f, [(ramp(2), 2), (ramp(2), 5), (ramp(2) + 99, 3), (ramp(2), 0)]


@program()
def walrus():
    def f(x, items):
        if (n := len(items)) > 1:
            x = x * n
        while (k := items.pop()) > 0:
            x = x + k
        return x, n, k, (z := x + 1), z

    return f, [(ramp(2), [0, 1, 2]), (ramp(2), [0]), (ramp(2), [0, 3]), (ramp(2), [0, 1, 2])]


@program()
def match_values_and_guards():
    def f(x, v):
        match v:
            case 0 | 1:
                return x
            case int(n) if n > 10:
                return x * n
            case float():
                return x + v
            case "a" | "b" as text:
                return x, text
            case None:
                return None
            case _:
                return x - 1

    values = (0, 11, 2.5, "b", None, 5, True, 12)
    return f, [(ramp(2), v) for v in values]


@program()
def match_sequences_and_mappings():
    def f(x, v):
        match v:
            case []:
                return x
            case [k]:
                return x * k
            case [first, *rest]:
                return x * first + len(rest)
            case {"kind": "scale", "by": by, **others}:
                return x * by, others
            case {"kind": kind}:
                return x, kind

    return f, [(ramp(2), v) for v in ([], [2], (3, 4, 5), {"kind": "scale", "by": 2, "z": 1}, {"kind": "other"}, "text", [7])]


@program()
def match_classes():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def f(t, p):
        match p:
            case Point(0, y):
                return t * y
            case Point(x=x, y=1):
                return t + x
            case Point():
                return t
            case torch.Tensor(shape=(n,)):
                return t * n + p

    return f, [(ramp(2), p) for p in (Point(0, 3), Point(4, 1), Point(5, 5), ramp(2), Point(0, 2))]


@program()
def unpacking():
    def f(x, pairs):
        (a, b), *rest = pairs
        [c, *d] = "xyz"
        a, b = b, a
        first, *_, last = [a, b, *rest, x]
        return first * 1, last + 1, {**{"p": 1}, "q": c}, [*d, *range(2)], (*rest, c)

    return f, [(ramp(2), [(1, 2.0), 3]), (ramp(2), [(ramp(2), 2)]), (ramp(2), [(1, 2.0), 3])]


@program()
def unpack_wrong_count():
    def f(x, items):
        try:
            a, b = items
        except ValueError as error:
            return str(error)
        return x * a + b

    return f, [(ramp(2), (1, 2)), (ramp(2), (1, 2, 3)), (ramp(2), (1,)), (ramp(2), (1, 2))]


@program()
def python_slices():
    def f(x, items, s):
        items[1:2] = [x * 2, x * 3]
        del items[-1]
        return items[::2], items[s], items[slice(0, 1)], "abcdef"[-4:-1:2], x[s]

    return f, [(ramp(4), [1, 2, 3], slice(1, None)), (ramp(4), [1, 2, 3], slice(None, None, 2)), (ramp(4), [1, 2], slice(1, None))]


@program()
def f_strings():
    def f(x, name, value):
        text = f"{name!r:>6}|{value:08.3f}|{value=:.1f}|{x.shape}|{x.shape[0]:{len(name)}d}|{{}}"
        return x * len(text), text

    return f, [(ramp(2), "a", 1.5), (ramp(3), "abc", 2.5), (ramp(2), "a", 2.25), (ramp(2), "a", 1.5)]


@program()
def f_string_of_tensor_values():
    def f(x):
        y = x * 2
        return f"{y.sum().item():.2f} {y} {float(y[0]):5.1f} {y.dtype}"

    return f, [(ramp(2),), (ramp(2) * 5,), (ramp(2),)]


@program()
def string_methods():
    def f(x, text):
        parts = text.strip().split(",")
        joined = "-".join(p.upper() for p in parts if p.isalpha())
        return x * len(joined), joined, text.replace(",", ""), text.startswith("a"), "%s=%d" % (parts[0], 3), "{}:{k}".format(1, k=2)  # noqa: UP031, UP032

    return f, [(ramp(2), " a,b,1 "), (ramp(2), "x"), (ramp(2), "aa,bb"), (ramp(2), " a,b,1 ")]


@program()
def regular_expressions():
    pattern = re.compile(r"layer(\d+)\.(?P<name>\w+)")

    def f(x, key):
        found = pattern.fullmatch(key)
        if found is None:
            return x, re.sub("[aeiou]", "_", key)
        return x * int(found[1]), found["name"]

    return f, [(ramp(2), "layer3.weight"), (ramp(2), "other"), (ramp(2), "layer12.bias"), (ramp(2), "layer3.weight")]


@program()
def sorted_with_key():
    def f(xs, names):
        order = sorted(range(len(xs)), key=lambda i: (-i) % 3)
        text = sorted(names, key=str.lower, reverse=True)
        values = sorted(xs, key=lambda t: t.sum().item())
        names.sort(key=len)
        return [xs[i] for i in order], text, values, names

    a = ramp(2)
    return f, [([a, a + 1, a - 1], ["b", "A", "cc"]), ([a - 1, a, a + 1], ["z"]), ([a, a + 1, a - 1], ["b", "A", "cc"])]


@program()
def boolean_of_things():
    def f(x, v):
        return (x * 2 if v else x * 3), bool(v), not v, [1] if v else []

    return f, [(ramp(2), v) for v in (0, 1, "", "a", [], [0], None, 0.0, {}, torch.tensor(1.0), torch.tensor(0))]


@program()
def ternary_on_shape():
    def f(x):
        y = x.sum(0) if x.ndim > 1 else x
        return y * (2 if x.shape[-1] % 2 else 3)

    return f, [(ramp(3),), (ramp(2, 3),), (ramp(4),), (ramp(2, 4),), (ramp(3),)]
