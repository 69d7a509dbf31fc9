"""Functions in the language of native code, for its tests."""

from __future__ import annotations

from flambeau.runtime.native.language import (
    Array,
    Byte,
    Double,
    Doubles,
    External,
    Global,
    Struct,
    Word,
    Words,
    bit_length,
    bits_of_double,
    bits_of_float,
    double,
    inline,
    native,
    single,
    size_of,
    stack,
    whole,
)

LIMIT = 10
HALF = 0.5
exp = External("exp", "double")


class Pair(Struct):
    small: Byte
    flag: Byte
    value: Word
    next: Pair


class Totals(Struct):
    count: Word
    last: Word


totals: Totals = Global("test_totals", Totals)  # type: ignore[assignment]


@native
def arithmetic(a: Word, b: Word) -> Word:
    c = a * 3 - b
    c += 5
    return (c & ~b | a << 2) ^ (b >> 1)


@native
def compare(a: Word, b: Word) -> Word:
    if a < b and not a == 3 or b == LIMIT:
        return 1
    elif a > 0 or b < 0:
        return 2
    else:
        result = 3
    return result


@native
def sum_even(n: Word) -> Word:
    total = 0
    for i in range(n):
        if i & 1:
            continue
        if i == 20:
            break
        total += i
    return total


@native
def collatz(n: Word) -> Word:
    steps = 0
    while n != 1:
        if n & 1:
            n = n * 3 + 1
        else:
            n = n >> 1
        steps += 1
        totals.count += 1
    totals.last = steps
    return steps


@native
def matrix(n: Word) -> Word:
    cells = stack(100)
    for i in range(n):
        for j in range(n):
            cells[i * n + j] = i * j
    total = 0
    for k in range(1, n * n):
        total += cells[k]
    return total


@native
def on_the_stack(n: Word) -> Word:
    cells: Words = stack(n)
    for i in range(n):
        cells[i] = i
    return cells[n - 1]


@native
def walk(first: Pair) -> Word:
    total = 0
    pair: Pair = first
    while pair:
        if pair.flag:
            total += pair.value * pair.small
        pair.small = 7
        pair = pair.next
    return total


@native
def third(pairs: Array[Pair]) -> Word:
    found: Pair = pairs[2]
    pairs[1].value = size_of(Pair)
    return found.value


@native
def double_bits(x: Double) -> Word:
    if x > x:
        return 0
    return bits_of_double(x)


@native
def float_bits(x: Double) -> Word:
    return bits_of_float(x)


@native
def bits_needed(n: Word) -> Word:
    return bit_length(n)


@native
def factorial(n: Word) -> Word:
    if n < 2:
        return 1
    return n * factorial(n - 1)


@native
def between(a: Word, b: Word) -> Word:
    inside = a > 0 and not b < a
    return inside + 2 * (a == b or a == 7)


@inline
def halve(n: Word) -> Word:
    if n & 1:
        return n * 3 + 1
    return n >> 1


@inline
def count_call() -> None:
    totals.count += 1


@native
def halves(n: Word) -> Word:
    totals.count = 0
    steps = 0
    for i in range(1000):
        if n == 1:
            break
        n = halve(n)
        count_call()
        steps = i + 1
    return steps * 1000 + totals.count


@native
def mix_doubles(numbers: Doubles, n: Word) -> Word:
    """numbers[0] becomes a sum, numbers[1] it in single precision, numbers[2] its exponential; returns it rounded towards zero."""
    total = 0.0
    for i in range(n):
        total = total - (-numbers[i] * HALF + double(i)) / 3.0
    if total < 0.0:
        total = -total
    numbers[0] = total
    numbers[1] = single(total)
    numbers[2] = exp(total)
    return whole(total)
