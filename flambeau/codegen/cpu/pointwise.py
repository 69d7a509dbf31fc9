"""The table of pointwise primitives for the CPU: from the name of a primitive to the instructions that compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flambeau.codegen.cpu import casts, integers, math_exponential, math_power, math_special, math_trigonometric
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, fma
from flambeau.codegen.cpu.reduction import combine
from flambeau.core.dtypes import dtype, float32

Attributes = Mapping[str, object]
Rule = Callable[[Emitter, dtype, Sequence[Value], Attributes], Value]

# Rules that move values without computing: they take the 16-bit floats as they are.
MOVES = frozenset(("where", "cast", "bitcast"))


def emit_pointwise(e: Emitter, name: str, operand: dtype, values: Sequence[Value], attributes: Attributes) -> Value:
    """Write the instructions of primitive ``name`` and return its result.

    ``operand`` is the common type of the data operands, which the values hold in register kinds (bool as i1); scalars
    meet vectors by splatting. float16 and bfloat16 must be widened first, except in where, cast and bitcast. Raises
    KeyError for an unknown name and NotImplementedError for a type that the primitive has no form for.

    >>> from flambeau.codegen.cpu.emitter import Emitter, Value
    >>> from flambeau.core.dtypes import float32
    >>> e = Emitter()
    >>> str(emit_pointwise(e, "add", float32, [Value("%x", "float", 8), e.const(1.0, "float", 8)], {}))
    '<8 x float> %t1'
    """
    if operand.is_float8 and name not in MOVES:
        values, operand = [casts.cast(e, operand, float32, value) for value in values], float32
    if operand.is_complex or (operand.is_floating_point and operand.itemsize == 2 and name not in MOVES):
        raise NotImplementedError(f"{name} of {operand} on the CPU: compute it in {operand.compute} components instead")
    width = max(value.width for value in values)
    return POINTWISE[name](e, operand, [e.splat(value, width) for value in values], attributes)


def unsupported(name: str, operand: dtype, instead: str) -> NotImplementedError:
    return NotImplementedError(f"{name} of {operand} on the CPU is not defined: {instead}")


def of_floats(function: Callable[..., Lanes]) -> Rule:
    """A rule for float32 and float64 only."""

    def rule(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
        if not operand.is_floating_point:
            raise unsupported(function.__name__, operand, "cast the operands to float32 or float64 first")
        return function(*(Lanes(e, value) for value in values)).value

    return rule


def of_integers(function: Callable[[Emitter, dtype, Value, Value], Value]) -> Rule:
    """A rule of two integer operands."""

    def rule(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
        if not operand.is_integer:
            raise unsupported(function.__name__, operand, "it takes integers")
        return function(e, operand, *values)

    return rule


def by_category(floats: Rule, integral: Rule) -> Rule:
    """One rule for floats and another for the rest."""
    return lambda e, operand, values, attributes: (floats if operand.is_floating_point else integral)(
        e, operand, values, attributes
    )


def rounding(intrinsic: str) -> Rule:
    """Rounding to an integral value, which leaves integers as they are."""

    def rule(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
        return e.intrinsic(intrinsic, values[0]) if operand.is_floating_point else values[0]

    return rule


def reduction_step(kind: str) -> Rule:
    """Two operands by the rule that reductions use."""
    return lambda e, operand, values, _: combine(e, kind, operand, *values)


def comparison(of_float: str, signed: str, unsigned: str) -> Rule:
    def rule(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
        predicate = of_float if operand.is_floating_point else signed if operand.is_signed else unsigned
        return e.compare(predicate, *values)

    return rule


def bitwise(opcode: str) -> Rule:
    def rule(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
        if operand.is_floating_point:
            raise unsupported(f"bitwise {opcode}", operand, "it takes integers and bool")
        a, b = values
        return e.binary(opcode, a, b)

    return rule


def sub(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    if operand.category == "bool":
        raise unsupported("sub", operand, "use bitwise_xor")
    return e.sub(*values)


def neg(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    if operand.category == "bool":
        raise unsupported("neg", operand, "use invert")
    return e.neg(*values)


def absolute(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    if operand.is_floating_point:
        return e.intrinsic("fabs", *values)
    return e.intrinsic("abs", *values, Value("false", "i1")) if operand.is_signed else values[0]


def sign(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    """-1, 0 or 1; 0 for NaN, as in torch."""
    (x,) = values
    if operand.category == "bool":
        return x
    zero, one = e.like(0, x), e.like(1, x)
    if not operand.is_signed:
        return e.intrinsic("umin", x, one)
    positive = e.select(e.compare("ogt" if operand.is_floating_point else "sgt", x, zero), one, zero)
    negative = e.compare("olt" if operand.is_floating_point else "slt", x, zero)
    return e.select(negative, e.like(-1, x), positive)


def invert(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    if operand.is_floating_point:
        raise unsupported("invert", operand, "it takes integers and bool")
    return e.binary("xor", values[0], e.like(-1 if operand.category != "bool" else True, values[0]))


def isnan(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    (x,) = values
    return e.compare("uno", x, x) if operand.is_floating_point else e.const(False, "i1", x.width)


def div(x: Lanes, y: Lanes) -> Lanes:
    return x / y


def sqrt(x: Lanes) -> Lanes:
    return x.square_root()


def rsqrt(x: Lanes) -> Lanes:
    return 1.0 / x.square_root()


def copysign(x: Lanes, y: Lanes) -> Lanes:
    return x.with_sign_of(y)


def multiply_add(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    a, b, c = values
    return e.add(e.mul(a, b), c)


def where(e: Emitter, operand: dtype, values: Sequence[Value], _: Attributes) -> Value:
    return e.select(*values)


def target_type(attributes: Attributes) -> dtype:
    target = attributes["to"]
    assert isinstance(target, dtype)
    return target


def cast(e: Emitter, operand: dtype, values: Sequence[Value], attributes: Attributes) -> Value:
    return casts.cast(e, operand, target_type(attributes), values[0])


def bitcast(e: Emitter, operand: dtype, values: Sequence[Value], attributes: Attributes) -> Value:
    return casts.bitcast(e, operand, target_type(attributes), values[0])


POINTWISE: dict[str, Rule] = {
    # arithmetic
    "add": reduction_step("sum"),
    "sub": sub,
    "mul": reduction_step("prod"),
    "div": of_floats(div),
    "truncdiv": of_integers(integers.truncdiv),
    "rem": by_category(of_floats(math_power.rem), of_integers(integers.remainder)),
    "pow": by_category(of_floats(math_power.pow), of_integers(integers.power)),
    "fma": by_category(of_floats(fma), multiply_add),
    "neg": neg,
    "abs": absolute,
    "sign": sign,
    "maximum": reduction_step("max"),
    "minimum": reduction_step("min"),
    "copysign": of_floats(copysign),
    "nextafter": of_floats(math_power.nextafter),
    "sqrt": of_floats(sqrt),
    "rsqrt": of_floats(rsqrt),
    "floor": rounding("floor"),
    "ceil": rounding("ceil"),
    "trunc": rounding("trunc"),
    "round": rounding("roundeven"),
    # comparisons
    "eq": comparison("oeq", "eq", "eq"),
    "ne": comparison("une", "ne", "ne"),
    "lt": comparison("olt", "slt", "ult"),
    "le": comparison("ole", "sle", "ule"),
    "isnan": isnan,
    # bits
    "invert": invert,
    "bitwise_and": bitwise("and"),
    "bitwise_or": bitwise("or"),
    "bitwise_xor": bitwise("xor"),
    "shift_left": of_integers(integers.shift_left),
    "shift_right": of_integers(integers.shift_right),
    # choice and type
    "where": where,
    "cast": cast,
    "bitcast": bitcast,
    # exponentials and logarithms
    "exp": of_floats(math_exponential.exp),
    "exp2": of_floats(math_exponential.exp2),
    "expm1": of_floats(math_exponential.expm1),
    "log": of_floats(math_exponential.log),
    "log2": of_floats(math_exponential.log2),
    "log10": of_floats(math_exponential.log10),
    "log1p": of_floats(math_exponential.log1p),
    # hyperbolic functions
    "sinh": of_floats(math_exponential.sinh),
    "cosh": of_floats(math_exponential.cosh),
    "tanh": of_floats(math_exponential.tanh),
    "asinh": of_floats(math_exponential.asinh),
    "acosh": of_floats(math_exponential.acosh),
    "atanh": of_floats(math_exponential.atanh),
    # trigonometric functions
    "sin": of_floats(math_trigonometric.sin),
    "cos": of_floats(math_trigonometric.cos),
    "tan": of_floats(math_trigonometric.tan),
    "asin": of_floats(math_trigonometric.asin),
    "acos": of_floats(math_trigonometric.acos),
    "atan": of_floats(math_trigonometric.atan),
    "atan2": of_floats(math_trigonometric.atan2),
    # special functions
    "erf": of_floats(math_special.erf),
    "erfc": of_floats(math_special.erfc),
    "erfinv": of_floats(math_special.erfinv),
    "lgamma": of_floats(math_special.lgamma),
    "digamma": of_floats(math_special.digamma),
}
