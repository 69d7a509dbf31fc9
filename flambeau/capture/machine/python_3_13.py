"""What CPython 3.13's opcodes mean."""

from flambeau.capture.machine import containers, control, python_3_12, stack
from flambeau.capture.machine import translate as t

GONE = ("FORMAT_VALUE", "KW_NAMES", "LOAD_CLOSURE")
NEW = {
    "CALL_KW": t.call,
    "COMPARE_OP": t.comparison(5),
    "CONVERT_VALUE": t.raw(containers.convert_value, lambda argument: t.CONVERSIONS[argument]),
    # END_FOR and POP_TOP are skipped.
    "FOR_ITER": t.jump_to(control.for_iterator, 2),
    "FORMAT_SIMPLE": t.plain(containers.format_value, (None, False)),
    "FORMAT_WITH_SPEC": t.plain(containers.format_value, (None, True)),
    "LOAD_CONST": t.constant_or_keywords,
    "LOAD_FAST_LOAD_FAST": t.two_locals(stack.load_fast_unchecked, stack.load_fast_unchecked),
    "MAKE_FUNCTION": t.function_and_attributes,
    # Part of the MAKE_FUNCTION before.
    "SET_FUNCTION_ATTRIBUTE": t.dropped,
    "STORE_FAST_LOAD_FAST": t.two_locals(stack.store_fast, stack.load_fast_unchecked),
    "STORE_FAST_STORE_FAST": t.two_locals(stack.store_fast, stack.store_fast),
    "TO_BOOL": t.to_bool,
}
TABLE = {name: meaning for name, meaning in python_3_12.TABLE.items() if name not in GONE} | NEW
