"""Small Triton functions that a kernel's text carries when it uses them."""

from __future__ import annotations

import re

SOURCES = {
    "floor_divide": '''
def floor_divide(a, b):  # b > 0; Triton's own division rounds toward zero
    return a // b - ((a % b) < 0).to(tl.int32)
''',
    "modulo": '''
def modulo(a, b):  # in [0, b)
    rest = a % b
    return tl.where(rest < 0, rest + b, rest)
''',
    "truncdiv": '''
def truncdiv(a, b):  # 0 for a zero divisor; the least integer / -1 wraps
    by_minus_one = (b + 1 == 0) & (b < 0)
    quotient = a // tl.where((b == 0) | by_minus_one, 1, b).to(a.dtype)
    return tl.where(b == 0, 0, tl.where(by_minus_one, 0 - a, quotient)).to(a.dtype)
''',
    "remainder": '''
def remainder(a, b):  # what truncdiv leaves; 0 for a zero divisor
    return tl.where(b == 0, 0, a - truncdiv(a, b) * b).to(a.dtype)
''',
    "power": '''
def power(a, b):  # by squaring; a negative exponent gives the truncated reciprocal
    result = tl.where(a == a, 1, a).to(a.dtype)
    factor = a
    left = b
    for _ in range(a.dtype.primitive_bitwidth):
        result = tl.where((left & 1) != 0, result * factor, result).to(a.dtype)
        factor = (factor * factor).to(a.dtype)
        left = (left >> 1).to(b.dtype)
    parity = tl.where((b & 1) == 0, 1, -1)
    reciprocal = tl.where(a == 1, 1, tl.where(a + 1 == 0, parity, 0))
    return tl.where(b < 0, reciprocal, result).to(a.dtype)
''',
    "shift_left": '''
def shift_left(a, b):  # 0 for a count outside the width
    inside = (b >= 0) & (b < a.dtype.primitive_bitwidth)
    return tl.where(inside, a << tl.where(inside, b, 0).to(b.dtype), 0).to(a.dtype)
''',
    "shift_right": '''
def shift_right(a, b):  # only the sign is left for a count outside the width
    inside = (b >= 0) & (b < a.dtype.primitive_bitwidth)
    last = tl.where(a < 0, -1, 0)
    return tl.where(inside, a >> tl.where(inside, b, 0).to(b.dtype), last).to(a.dtype)
''',
    "moved": '''
def moved(place, size_1, size_2, size_3, step_0, step_1, step_2, step_3):  # the digits of a place, each by its own step
    above_2 = place // size_3
    above_1 = above_2 // size_2
    return (place % size_3) * step_3 + (above_2 % size_2) * step_2 + (above_1 % size_1) * step_1 + (above_1 // size_1) * step_0
''',
    "digamma": '''
def digamma(x):  # reflection, recurrence to 10, the asymptotic series (Abramowitz and Stegun 6.3.18)
    pi = 3.141592653589793
    y = tl.where(x < 0, 1.0 - x, x)
    total = y * 0.0
    for _ in range(10):
        small = y < 10.0
        total = tl.where(small, total - 1.0 / y, total)
        y = tl.where(small, y + 1.0, y)
    f = 1.0 / (y * y)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132)))))
    value = total + libdevice.log(y) - 0.5 / y - series
    turns = x - libdevice.trunc(x)
    value = tl.where(x < 0, value - pi / libdevice.tan(pi * turns), value)
    value = tl.where((x < 0) & (turns == 0), float("nan"), value)
    return tl.where(x == 0, libdevice.copysign(x * 0 + float("inf"), x * -1.0), value)
''',
    "narrow_erf": '''
def narrow_erf(x):  # within 3e-7, for results of 16 bits: a polynomial in x * x, fitted at Chebyshev's points, where erf is not yet 1
    t = tl.clamp(x, -3.8325, 3.8325, propagate_nan=tl.PropagateNan.ALL)
    s = tl.fma(t * t, 1.3616505e-01, -1.0)
    r = tl.fma(s, 1.4376604e-03, -3.2091425e-03)
    r = tl.fma(r, s, 1.734713e-03)
    r = tl.fma(r, s, -3.0119517e-03)
    r = tl.fma(r, s, 1.1707741e-02)
    r = tl.fma(r, s, -1.9950015e-02)
    r = tl.fma(r, s, 2.7108908e-02)
    r = tl.fma(r, s, -3.9673414e-02)
    r = tl.fma(r, s, 5.6153227e-02)
    r = tl.fma(r, s, -7.310931e-02)
    r = tl.fma(r, s, 9.080414e-02)
    r = tl.fma(r, s, -1.1065741e-01)
    r = tl.fma(r, s, 1.3674764e-01)
    r = tl.fma(r, s, -1.8411516e-01)
    r = tl.fma(r, s, 3.6895868e-01)
    return t * r
''',
    "maximum": '''
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "minimum": '''
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "larger": '''
def larger(a, b):
    return tl.maximum(a, b)
''',
    "smaller": '''
def smaller(a, b):
    return tl.minimum(a, b)
''',
    "add": '''
def add(a, b):
    return a + b
''',
    "multiply": '''
def multiply(a, b):
    return a * b
''',
    "first_max": '''
def first_max(x, p, y, q):  # NaN wins, then the smaller position
    take = (y > x) | ((y != y) & (x == x)) | (((x == y) | ((x != x) & (y != y))) & (q < p))
    return tl.where(take, y, x), tl.where(take, q, p)
''',
    "first_min": '''
def first_min(x, p, y, q):  # NaN wins, then the smaller position
    take = (y < x) | ((y != y) & (x == x)) | (((x == y) | ((x != x) & (y != y))) & (q < p))
    return tl.where(take, y, x), tl.where(take, q, p)
''',
    "report": '''
def report(record, operator, position, value, bound, bad):  # leaves the first bad value for the host
    if tl.max(bad.to(tl.int32)) != 0:
        if tl.atomic_cas(record, tl.full((), 0, tl.int64), tl.full((), 1, tl.int64)) == 0:
            first = tl.min(tl.where(bad, position, 9223372036854775807))
            chosen = bad & (position == first)
            tl.store(record + 1, 1)
            tl.store(record + 2, operator)
            tl.store(record + 3, first)
            tl.store(record + 4, tl.max(tl.where(chosen, value, -9223372036854775808)))
            tl.store(record + 5, bound)
''',
}  # fmt: skip

_HEADER = "import triton\nimport triton.language as tl\n"
_LIBRARY = "from triton.language.extra import libdevice\n"


def helper_texts(body: str) -> str:
    """The functions that a text calls, and those that they call, each before its callers."""
    needed: dict[str, None] = {}

    def visit(text: str) -> None:
        for name in SOURCES:
            if name not in needed and re.search(rf"(?<![.\w]){name}(?=[(,])", text):
                visit(SOURCES[name].split("\n", 2)[2])
                needed[name] = None

    visit(body)
    return "".join(f"\n\n@triton.jit{SOURCES[name].rstrip()}\n" for name in needed)


def with_imports(text: str) -> str:
    """A text of functions as a module."""
    return _HEADER + (_LIBRARY if "libdevice." in text else "") + text
