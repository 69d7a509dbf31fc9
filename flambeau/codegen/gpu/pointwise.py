"""The table of pointwise primitives for the GPU: from the name of a primitive to the Triton expression that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype

Rule = Callable[[dtype, Sequence[str], Mapping[str, Any]], str]

# Primitives that Triton applies to a number and a tensor alike; the others get their numbers as typed tensors.
TAKES_LITERALS = frozenset(("add", "sub", "mul", "eq", "ne", "lt", "le", "bitwise_and", "bitwise_or", "bitwise_xor", "where"))

TRITON_NAMES: dict[dtype, str] = {
    dtypes.bool_: "int1", dtypes.uint8: "uint8", dtypes.int8: "int8", dtypes.int16: "int16", dtypes.int32: "int32", dtypes.int64: "int64",
    dtypes.uint16: "uint16", dtypes.uint32: "uint32", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.bfloat16: "bfloat16", dtypes.float32: "float32", dtypes.float64: "float64",
}  # fmt: skip


def triton_type(element: dtype) -> str:
    """The name of an element type in Triton; NotImplementedError where it has none."""
    if element not in TRITON_NAMES:
        raise NotImplementedError(f"{element} in a kernel on the GPU: compute it in {element.to_real()} components instead")
    return f"tl.{TRITON_NAMES[element]}"


def emit_pointwise(name: str, operand: dtype, values: Sequence[str], attributes: Mapping[str, Any]) -> str:
    """The expression of primitive ``name`` on operands of type ``operand``, given as atoms (names, literals or calls).

    float16 and bfloat16 must be widened first, except in where, cast and bitcast. KeyError for an unknown name,
    NotImplementedError for a type that the primitive has no form for.

    >>> from flambeau.codegen.gpu.pointwise import emit_pointwise
    >>> from flambeau.core.dtypes import float32
    >>> emit_pointwise("div", float32, ["v0", "v1"], {})
    'tl.div_rn(v0, v1)'
    """
    triton_type(operand)
    if operand.is_floating_point and operand.itemsize == 2 and name not in ("where", "cast", "bitcast"):
        raise NotImplementedError(f"{name} of {operand} on the GPU: compute it in {operand.compute} instead")
    return POINTWISE[name](operand, values, attributes)


def unsupported(name: str, operand: dtype) -> NotImplementedError:
    return NotImplementedError(f"{name} of {operand} on the GPU is not defined; cast the operands to a type that has it")


def infix(sign: str, of_bool: str | None = None) -> Rule:
    def rule(operand: dtype, v: Sequence[str], _: Mapping[str, Any]) -> str:
        if operand is dtypes.bool_:
            if of_bool is None:
                raise unsupported(sign, operand)
            return of_bool.format(*v)
        if sign in "&|^" and operand.is_floating_point:
            raise unsupported(sign, operand)
        return f"{v[0]} {sign} {v[1]}"

    return rule


def of_floats(form: str, double: str | None = None) -> Rule:
    """A form for floats only, with another one for float64 where it differs."""

    def rule(operand: dtype, v: Sequence[str], _: Mapping[str, Any]) -> str:
        if not operand.is_floating_point:
            raise unsupported(form, operand)
        return (double if double is not None and operand is dtypes.float64 else form).format(*v)

    return rule


def library(name: str, count: int = 1) -> Rule:
    """A function of libdevice, NVIDIA's mathematical library; float32 and float64."""
    operands = ", ".join(f"{{{i}}}" for i in range(count))
    return of_floats(f"libdevice.{name}({operands})")


def by_kind(floats: str, integers: str, of_bool: str | None = None) -> Rule:
    """A form for floats (none where it is empty), one for integers and perhaps one for bool."""

    def rule(operand: dtype, v: Sequence[str], _: Mapping[str, Any]) -> str:
        if operand is dtypes.bool_:
            if of_bool is None:
                raise unsupported(integers, operand)
            return of_bool.format(*v)
        form = floats if operand.is_floating_point else integers
        if not form:
            raise unsupported(integers, operand)
        return form.format(*v)

    return rule


def sign(operand: dtype, v: Sequence[str], _: Mapping[str, Any]) -> str:
    """-1, 0 or 1; 0 for NaN, as in torch."""
    x = v[0]
    if operand is dtypes.bool_:
        return x
    negative = f"({x} < 0)" if operand.is_signed else "0"
    return f"(({x} > 0).to(tl.int32) - {negative}.to(tl.int32)).to({triton_type(operand)})" if operand.is_signed else (
        f"({x} > 0).to({triton_type(operand)})")  # fmt: skip


def cast(operand: dtype, v: Sequence[str], attributes: Mapping[str, Any]) -> str:
    """Rounds to nearest even; float64 reaches the 16-bit floats through float32, as in torch."""
    x, target = v[0], attributes["to"]
    if target is operand:
        return x
    if target is dtypes.bool_:
        return f"{x} != 0"
    if operand is dtypes.float64 and target.is_floating_point and target.itemsize == 2:
        return f"{x}.to(tl.float32).to({triton_type(target)})"
    if operand.is_floating_point and target.category == "unsigned":
        return f"{x}.to(tl.int64).to({triton_type(target)})"
    if operand.is_integer and target.is_floating_point and target.itemsize == 2:
        return f"{x}.to(tl.float32).to({triton_type(target)})"
    return f"{x}.to({triton_type(target)})"


def bitcast(operand: dtype, v: Sequence[str], attributes: Mapping[str, Any]) -> str:
    target = attributes["to"]
    if operand.itemsize != target.itemsize:
        raise NotImplementedError(f"bitcast from {operand} to {target}: only types of one size have a pointwise bitcast")
    if operand is dtypes.bool_ or target is dtypes.bool_:
        return cast(operand, v, attributes)
    return f"{v[0]}.to({triton_type(target)}, bitcast=True)"


def integral(name: str) -> Rule:
    """A rounding function, which leaves integers as they are."""
    return by_kind(f"libdevice.{name}({{0}})", "{0}", "{0}")


POINTWISE: dict[str, Rule] = {
    # arithmetic
    "add": infix("+", "{0} | {1}"),
    "sub": infix("-"),
    "mul": infix("*", "{0} & {1}"),
    # Triton's own division and root are approximate in float32.
    "div": of_floats("tl.div_rn({0}, {1})", "{0} / {1}"),
    "truncdiv": by_kind("", "truncdiv({0}, {1})"),
    "rem": by_kind("libdevice.fmod({0}, {1})", "remainder({0}, {1})"),
    "pow": by_kind("libdevice.pow({0}, {1})", "power({0}, {1})"),
    # Triton's negation is 0 - x, which loses the sign of zero.
    "neg": by_kind("{0} * -1.0", "0 - {0}"),
    "abs": by_kind("tl.abs({0})", "tl.abs({0})", "{0}"),
    "sign": sign,
    "maximum": by_kind("tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "tl.maximum({0}, {1})", "{0} | {1}"),
    "minimum": by_kind("tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "tl.minimum({0}, {1})", "{0} & {1}"),
    "copysign": library("copysign", 2),
    "nextafter": library("nextafter", 2),
    "sqrt": of_floats("tl.sqrt_rn({0})", "libdevice.sqrt_rn({0})"),
    "rsqrt": of_floats("tl.div_rn(1.0, tl.sqrt_rn({0}))", "1.0 / libdevice.sqrt_rn({0})"),
    "floor": integral("floor"),
    "ceil": integral("ceil"),
    "trunc": integral("trunc"),
    "round": integral("rint"),
    # comparisons; Triton takes True for -1
    "eq": infix("==", "({0} ^ {1}) == 0"),
    "ne": infix("!=", "{0} ^ {1}"),
    "lt": infix("<", "({0} == 0) & {1}"),
    "le": infix("<=", "({0} == 0) | {1}"),
    "isnan": by_kind("{0} != {0}", "{0} != {0}", "{0} ^ {0}"),
    # bits
    "invert": by_kind("", "~{0}", "{0} == 0"),
    "bitwise_and": infix("&", "{0} & {1}"),
    "bitwise_or": infix("|", "{0} | {1}"),
    "bitwise_xor": infix("^", "{0} ^ {1}"),
    "shift_left": by_kind("", "shift_left({0}, {1})"),
    "shift_right": by_kind("", "shift_right({0}, {1})"),
    # choice and type
    "where": lambda operand, v, _: f"tl.where({v[0]}, {v[1]}, {v[2]})",
    "cast": cast,
    "bitcast": bitcast,
    # exponentials and logarithms
    **{name: library(name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    # hyperbolic and trigonometric functions
    **{name: library(name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")},
    **{name: library(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    "atan2": library("atan2", 2),
    # special functions
    **{name: library(name) for name in ("erf", "erfc", "erfinv", "lgamma")},
    "digamma": of_floats("digamma({0})"),
}
