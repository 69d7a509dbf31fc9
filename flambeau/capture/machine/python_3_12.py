"""What CPython 3.12's opcodes mean."""

from flambeau.capture.machine import calls, containers, control, names, python_3_11, stack
from flambeau.capture.machine import translate as t

GONE = (
    "IMPORT_STAR",
    "JUMP_IF_FALSE_OR_POP",
    "JUMP_IF_TRUE_OR_POP",
    "LIST_TO_TUPLE",
    "LOAD_CLASSDEREF",
    "LOAD_METHOD",
    "PRECALL",
    "PREP_RERAISE_STAR",
    "PRINT_EXPR",
    "UNARY_POSITIVE",
)
NEW = {
    "BINARY_SLICE": t.plain(containers.load_slice),
    "CALL_INTRINSIC_1": t.intrinsic_1,
    "CALL_INTRINSIC_2": t.intrinsic_2,
    "CLEANUP_THROW": t.plain(control.clean_up_throw),
    "COMPARE_OP": t.comparison(4),
    "END_FOR": t.plain(stack.pop_top),
    "END_SEND": t.plain(stack.pop_below_top),
    # A loop's end also skips the END_FOR that it leads to.
    "FOR_ITER": t.jump_to(control.for_iterator, 1),
    "LOAD_ATTR": t.attribute,
    # The compiler proves that a value is there, or else writes LOAD_FAST_CHECK.
    "LOAD_FAST": t.raw(stack.load_fast_unchecked),
    "LOAD_FAST_AND_CLEAR": t.raw(stack.load_fast_and_clear),
    "LOAD_FAST_CHECK": t.raw(stack.load_fast),
    "LOAD_FROM_DICT_OR_DEREF": t.raw(names.load_from_mapping_or_cell),
    "LOAD_FROM_DICT_OR_GLOBALS": t.named(names.load_from_mapping_or_globals),
    "LOAD_LOCALS": t.plain(names.load_locals),
    "LOAD_SUPER_ATTR": t.super_attribute,
    "POP_JUMP_IF_FALSE": t.jump_to(control.jump_if_false),
    "POP_JUMP_IF_NONE": t.jump_to(control.jump_if_none),
    "POP_JUMP_IF_NOT_NONE": t.jump_to(control.jump_if_not_none),
    "POP_JUMP_IF_TRUE": t.jump_to(control.jump_if_true),
    "RETURN_CONST": t.constant(calls.return_constant),
    "SEND": t.jump_to(calls.send_and_keep),
    "STORE_SLICE": t.plain(containers.store_slice),
}
TABLE = {name: meaning for name, meaning in python_3_11.TABLE.items() if name not in GONE and not name.startswith("POP_JUMP_")} | NEW
