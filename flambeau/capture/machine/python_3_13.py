"""What CPython 3.13's opcodes mean."""

from flambeau.capture.machine import containers, control, python_3_12, stack
from flambeau.capture.machine.translate import (
    CONVERSIONS,
    call,
    comparison,
    constant_or_keywords,
    dropped,
    function_and_attributes,
    jump_to,
    plain,
    raw,
    to_bool,
    two_locals,
)

GONE = ("FORMAT_VALUE", "KW_NAMES", "LOAD_CLOSURE")
NEW = {
    "CALL_KW": call,
    "COMPARE_OP": comparison(5),
    "CONVERT_VALUE": raw(containers.convert_value, lambda argument: CONVERSIONS[argument]),
    # END_FOR and POP_TOP are skipped.
    "FOR_ITER": jump_to(control.for_iterator, 2),
    "FORMAT_SIMPLE": plain(containers.format_value, (None, False)),
    "FORMAT_WITH_SPEC": plain(containers.format_value, (None, True)),
    "LOAD_CONST": constant_or_keywords,
    "LOAD_FAST_LOAD_FAST": two_locals(stack.load_fast_unchecked, stack.load_fast_unchecked),
    "MAKE_FUNCTION": function_and_attributes,
    # Part of the MAKE_FUNCTION before.
    "SET_FUNCTION_ATTRIBUTE": dropped,
    "STORE_FAST_LOAD_FAST": two_locals(stack.store_fast, stack.load_fast_unchecked),
    "STORE_FAST_STORE_FAST": two_locals(stack.store_fast, stack.store_fast),
    "TO_BOOL": to_bool,
}
TABLE = {name: meaning for name, meaning in python_3_12.TABLE.items() if name not in GONE} | NEW
