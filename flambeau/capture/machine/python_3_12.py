"""What CPython 3.12's opcodes mean."""

from flambeau.capture.machine import calls, containers, control, names, python_3_11, stack
from flambeau.capture.machine.translate import (
    attribute,
    comparison,
    constant,
    intrinsic_1,
    intrinsic_2,
    jump_to,
    named,
    plain,
    raw,
    super_attribute,
)

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
    "BINARY_SLICE": plain(containers.load_slice),
    "CALL_INTRINSIC_1": intrinsic_1,
    "CALL_INTRINSIC_2": intrinsic_2,
    "CLEANUP_THROW": plain(control.clean_up_throw),
    "COMPARE_OP": comparison(4),
    "END_FOR": plain(stack.pop_top),
    "END_SEND": plain(stack.pop_below_top),
    # A loop's end also skips the END_FOR that it leads to.
    "FOR_ITER": jump_to(control.for_iterator, 1),
    "LOAD_ATTR": attribute,
    # The compiler proves that a value is there, or else writes LOAD_FAST_CHECK.
    "LOAD_FAST": raw(stack.load_fast_unchecked),
    "LOAD_FAST_AND_CLEAR": raw(stack.load_fast_and_clear),
    "LOAD_FAST_CHECK": raw(stack.load_fast),
    "LOAD_FROM_DICT_OR_DEREF": raw(names.load_from_mapping_or_cell),
    "LOAD_FROM_DICT_OR_GLOBALS": named(names.load_from_mapping_or_globals),
    "LOAD_LOCALS": plain(names.load_locals),
    "LOAD_SUPER_ATTR": super_attribute,
    "POP_JUMP_IF_FALSE": jump_to(control.jump_if_false),
    "POP_JUMP_IF_NONE": jump_to(control.jump_if_none),
    "POP_JUMP_IF_NOT_NONE": jump_to(control.jump_if_not_none),
    "POP_JUMP_IF_TRUE": jump_to(control.jump_if_true),
    "RETURN_CONST": constant(calls.return_constant),
    "SEND": jump_to(calls.send_and_keep),
    "STORE_SLICE": plain(containers.store_slice),
}
TABLE = {name: meaning for name, meaning in python_3_11.TABLE.items() if name not in GONE and not name.startswith("POP_JUMP_")} | NEW
