"""What CPython 3.14's opcodes mean."""

from flambeau.capture.machine import calls, containers, control, names, python_3_13, stack
from flambeau.capture.machine import translate as t

COMMON_CONSTANTS = ("AssertionError", "NotImplementedError", "tuple", "all", "any")
GONE = ("BEFORE_WITH", "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "LOAD_ASSERTION_ERROR", "RETURN_CONST")
NEW = {
    "BUILD_INTERPOLATION": t.raw(containers.build_interpolation),
    "BUILD_TEMPLATE": t.plain(containers.build_template),
    "CALL_FUNCTION_EX": t.plain(calls.call_starred, 1),
    "LOAD_COMMON_CONSTANT": t.raw(names.load_common_constant, lambda argument: COMMON_CONSTANTS[argument]),
    "LOAD_FAST_BORROW": t.raw(stack.load_fast_unchecked),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": t.two_locals(stack.load_fast_unchecked, stack.load_fast_unchecked),
    "LOAD_SMALL_INT": t.raw(stack.load_constant),
    "LOAD_SPECIAL": t.load_special,
    "NOT_TAKEN": t.dropped,
    "POP_ITER": t.plain(stack.pop_top),
    "WITH_EXCEPT_START": t.plain(control.exit_with_exception, 5),
}
TABLE = {name: meaning for name, meaning in python_3_13.TABLE.items() if name not in GONE} | NEW
