"""The CPU table of pointwise primitives on integers, bool and mixed types, and the equality of all vector widths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, fma
from flambeau.codegen.cpu.pointwise import MOVES, POINTWISE, emit_pointwise
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from tests.unit.cpu_kernel_runner import run_pointwise

INTEGERS = [dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
FLOATS = [dtypes.float32, dtypes.float64]
ALL = [dtypes.bool_, *INTEGERS, dtypes.float16, dtypes.bfloat16, *FLOATS]
# names by the number and type of their operands
TWO_INTEGERS = (
    "add", "sub", "mul", "truncdiv", "rem", "pow", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "shift_left", "shift_right",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le")
TWO_FLOATS = (
    "add", "sub", "mul", "div", "rem", "pow", "atan2", "maximum", "minimum", "copysign", "nextafter",
)  # fmt: skip
ONE_INTEGER = ("neg", "abs", "sign", "invert", "floor", "ceil", "trunc", "round")
NOT_UNARY = {*TWO_INTEGERS, *TWO_FLOATS, *COMPARISONS, *MOVES, "fma", "invert", "isnan"}


def wrap(value: int, element: dtype) -> int:
    modulus = 1 << (8 * element.itemsize)
    value %= modulus
    return value - modulus if element.is_signed and value >= modulus // 2 else value


def truncated_quotient(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def integer_power(a: int, b: int, bits: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << bits)
    return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def integer_reference(name: str, a: int, b: int, element: dtype) -> int:
    bits = 8 * element.itemsize
    inside = 0 <= b < bits
    answers = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "truncdiv": lambda: truncated_quotient(a, b),
        "rem": lambda: 0 if b == 0 else a - truncated_quotient(a, b) * b,
        "pow": lambda: integer_power(a, b, bits),
        "maximum": lambda: max(a, b),
        "minimum": lambda: min(a, b),
        "bitwise_and": lambda: a & b,
        "bitwise_or": lambda: a | b,
        "bitwise_xor": lambda: a ^ b,
        "shift_left": lambda: a << b if inside else 0,
        "shift_right": lambda: a >> b if inside else -(a < 0),
    }
    return wrap(answers[name](), element)


def integer_pairs(element: dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edge values, random pairs, and random values with a small second operand."""
    random, info = np.random.default_rng(), np.iinfo(element.numpy)
    edges = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min] + [-1, -2, -3, info.min + 1] * element.is_signed
    edges = np.array(edges, element.numpy)
    x, y, z = (random.integers(info.min, info.max, 500, element.numpy, endpoint=True) for _ in range(3))
    small = random.integers(-9 if element.is_signed else 0, 70, 500).astype(element.numpy)
    return np.concatenate([np.repeat(edges, len(edges)), x, z]), np.concatenate([np.tile(edges, len(edges)), y, small])


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_two_integers(element: dtype) -> None:
    x, y = integer_pairs(element)
    for name in TWO_INTEGERS:
        expected = [integer_reference(name, int(a), int(b), element) for a, b in zip(x, y, strict=True)]
        for width in (1, 16):
            got = run_pointwise(name, x, y, width=width)
            np.testing.assert_array_equal(got, np.array(expected, element.numpy), err_msg=f"{name}, {width} lanes")


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_one_integer(element: dtype) -> None:
    x, _ = integer_pairs(element)
    values = [int(v) for v in x]
    expected = {
        "neg": [-v for v in values],
        "abs": [abs(v) for v in values],
        "sign": [(v > 0) - (v < 0) for v in values],
        "invert": [~v for v in values],
        **dict.fromkeys(("floor", "ceil", "trunc", "round"), values),
    }
    for name, reference in expected.items():
        want = np.array([wrap(v, element) for v in reference], element.numpy)
        np.testing.assert_array_equal(run_pointwise(name, x), want, err_msg=name)
    assert not run_pointwise("isnan", x, output=dtypes.bool_).any()


def test_bool() -> None:
    x = np.array([False, False, True, True])
    y = np.array([False, True, False, True])
    expected = {
        "add": x | y, "mul": x & y, "maximum": x | y, "minimum": x & y, "bitwise_and": x & y, "bitwise_or": x | y,
        "bitwise_xor": x ^ y, "eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y,
    }  # fmt: skip
    for name, want in expected.items():
        np.testing.assert_array_equal(run_pointwise(name, x, y), want, err_msg=name)
    np.testing.assert_array_equal(run_pointwise("invert", x), ~x)
    np.testing.assert_array_equal(run_pointwise("sign", x), x)


@pytest.mark.parametrize("element", [*INTEGERS, *FLOATS], ids=str)
def test_comparisons(element: dtype) -> None:
    if element.is_integer:
        x, y = integer_pairs(element)
    else:
        special = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40], element.numpy)
        x, y = np.repeat(special, len(special)), np.tile(special, len(special))
    for name, function in zip(COMPARISONS, (np.equal, np.not_equal, np.less, np.less_equal), strict=True):
        np.testing.assert_array_equal(run_pointwise(name, x, y, output=dtypes.bool_), function(x, y), err_msg=name)
    np.testing.assert_array_equal(run_pointwise("isnan", x, output=dtypes.bool_), np.isnan(x))


def sample(element: dtype, count: int = 600) -> np.ndarray:
    """Random values of that type; for floats random bits, small values, and values around the ends of the integers."""
    random = np.random.default_rng()
    if element.category == "bool":
        return random.random(count) < 0.5
    if element.is_integer:
        return integer_pairs(element)[0]
    bits = random.integers(0, 1 << (8 * element.itemsize), count, f"u{element.itemsize}").view(element.numpy)
    ends = [s * (2.0**k + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.0, -0.5, 0.0, 0.5, 1.0) for s in (1, -1)]
    values = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 3e9 + 1, 2.0**40 + 5, 65519.99, 65520.0, *ends])
    with np.errstate(over="ignore"):
        return np.concatenate([bits, values.astype(element.numpy), random.uniform(-300, 300, count).astype(element.numpy)])


def cast_reference(x: np.ndarray, source: dtype, target: dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        if target.category == "bool":
            return x != 0
        if source.is_floating_point and target.is_integer:
            bits = 64 if target in (dtypes.uint8, dtypes.int64) else 32
            wide = x.astype(np.float64)
            inside = np.abs(wide) < 2.0 ** (bits - 1)
            cut = np.where(inside, wide, -(2.0 ** (bits - 1))).astype(np.int64)
            return cut.astype(target.numpy)
        if target.itemsize == 2 and target.is_floating_point:
            return x.astype(np.float32).astype(target.numpy)
        return x.astype(target.numpy)


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_cast(source: dtype, target: dtype) -> None:
    x = sample(source)
    got = run_pointwise("cast", x, output=target, attributes={"to": target})
    expected = cast_reference(x, source, target)
    if target is dtypes.bfloat16:  # numpy does not know a bfloat16 NaN
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(got, expected)


def test_cast_of_halfway_values_rounds_to_even_in_bfloat16() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0xFFFFFFFF, 0x00008000], np.uint32)
    got = run_pointwise("cast", bits.view(np.float32), output=dtypes.bfloat16, attributes={"to": dtypes.bfloat16})
    np.testing.assert_array_equal(got.view(np.uint16), [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FC0, 0x7FC0, 0x0000])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (dtypes.float32, dtypes.int32), (dtypes.int32, dtypes.float32), (dtypes.float64, dtypes.int64),
        (dtypes.int64, dtypes.float64), (dtypes.float16, dtypes.int16), (dtypes.bfloat16, dtypes.float16),
        (dtypes.int16, dtypes.bfloat16), (dtypes.uint8, dtypes.int8),
    ],
    ids=str,
)  # fmt: skip
def test_bitcast(source: dtype, target: dtype) -> None:
    x = sample(source)
    got = run_pointwise("bitcast", x, output=target, attributes={"to": target})
    assert got.tobytes() == x.view(target.numpy).tobytes()


@pytest.mark.parametrize("element", ALL, ids=str)
def test_where(element: dtype) -> None:
    x = sample(element)
    y = x[::-1].copy()
    condition = np.random.default_rng().random(len(x)) < 0.5
    got = run_pointwise("where", condition, x, y)
    assert got.tobytes() == np.where(condition, x, y).tobytes()


def test_integer_fma_wraps() -> None:
    a, b, c = (integer_pairs(dtypes.int32)[k % 2] for k in range(3))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_pointwise("fma", a, b, c), a * b + c)


def operands(name: str, element: dtype) -> list[np.ndarray]:
    if element.is_floating_point:
        x = np.concatenate([sample(element, 300), np.random.default_rng().uniform(-2, 2, 300).astype(element.numpy)])
        return [x, *[np.random.default_rng().permutation(x) for _ in range(2 if name == "fma" else name in TWO_FLOATS)]]
    return list(integer_pairs(element))[: 2 if name in TWO_INTEGERS else 1]


WIDTH_CASES = [
    *((name, element) for element in FLOATS for name in POINTWISE if name not in NOT_UNARY or name in (*TWO_FLOATS, "fma")),
    *((name, element) for element in INTEGERS for name in (*TWO_INTEGERS, *ONE_INTEGER)),
]


@pytest.mark.parametrize("element", [*INTEGERS, *FLOATS], ids=str)
def test_every_width_gives_the_same_bits(element: dtype) -> None:
    for name in [name for name, of in WIDTH_CASES if of is element]:
        arrays = operands(name, element)
        expected = run_pointwise(name, *arrays, width=1)
        for width in (8, 16):
            got = run_pointwise(name, *arrays, width=width)
            both_nan = np.isnan(got) & np.isnan(expected)
            differs = (got.view(f"u{element.itemsize}") != expected.view(f"u{element.itemsize}")) & ~both_nan
            assert not differs.any(), (name, width, [a[differs][:3] for a in arrays], got[differs][:3], expected[differs][:3])


@pytest.mark.parametrize(("width", "element"), [(2, dtypes.float32), (4, dtypes.float64), (32, dtypes.float32), (32, dtypes.int8)])
def test_other_widths(width: int, element: dtype) -> None:
    for name in ("exp", "log", "sin", "pow") if element.is_floating_point else ("truncdiv", "pow", "abs"):
        arrays = operands(name, element)
        np.testing.assert_array_equal(run_pointwise(name, *arrays, width=width), run_pointwise(name, *arrays, width=1))


def test_scalars_meet_vectors() -> None:
    e = Emitter()
    result = emit_pointwise(e, "add", dtypes.float32, [Value("%x", "float", 8), e.const(1.0, "float")], {})
    assert result.width == 8
    assert e.lines == ["  %t1 = fadd <8 x float> %x, splat (float 0x3FF0000000000000)"]


def test_fused_multiply_add_is_written_only_where_the_machine_has_it() -> None:
    for features, expected in ((frozenset(("fma",)), "llvm.fma.v4f32"), (frozenset(), "fmul")):
        e = Emitter(features)
        x = Lanes(e, Value("%x", "float", 4))
        fma(x, x, 1.0)
        assert expected in e.lines[0]


@pytest.mark.parametrize(
    ("name", "element", "count"),
    [
        ("exp", dtypes.int32, 1), ("div", dtypes.int64, 2), ("truncdiv", dtypes.float32, 2), ("neg", dtypes.bool_, 1),
        ("sub", dtypes.bool_, 2), ("invert", dtypes.float32, 1), ("bitwise_and", dtypes.float64, 2), ("add", dtypes.float16, 2),
        ("exp", dtypes.bfloat16, 1), ("add", dtypes.complex64, 2), ("rem", dtypes.bool_, 2),
    ],
    ids=str,
)  # fmt: skip
def test_missing_forms_raise(name: str, element: dtype, count: int) -> None:
    values = [Value("%x", element.llvm or "float", 4)] * count
    with pytest.raises(NotImplementedError, match=f"of {element} on the CPU"):
        emit_pointwise(Emitter(), name, element, values, {})


def test_bitcast_between_sizes_raises() -> None:
    with pytest.raises(NotImplementedError, match="types of one size"):
        emit_pointwise(Emitter(), "bitcast", dtypes.float32, [Value("%x", "float", 4)], {"to": dtypes.int64})
