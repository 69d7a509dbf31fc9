"""What CPython 3.11's opcodes mean."""

from flambeau.capture.machine import calls, containers, control, names, stack
from flambeau.capture.machine import translate as t

TABLE = t.COMMON | {
    "BINARY_SUBSCR": t.plain(containers.subscript),
    "BUILD_CONST_KEY_MAP": t.raw(containers.build_map_of_keys),
    "CALL": t.call,
    "CALL_FUNCTION_EX": t.raw(calls.call_starred, lambda argument: argument & 1),
    "COMPARE_OP": t.comparison(0),
    "FORMAT_VALUE": t.raw(containers.format_value, lambda flags: (t.CONVERSIONS[flags & 3], bool(flags & 4))),
    "FOR_ITER": t.jump_to(control.for_iterator),
    "IMPORT_STAR": t.plain(names.import_star),
    "JUMP_IF_FALSE_OR_POP": t.jump_to(control.jump_if_false_or_pop),
    "JUMP_IF_TRUE_OR_POP": t.jump_to(control.jump_if_true_or_pop),
    "KW_NAMES": t.constant_keywords,
    "LIST_TO_TUPLE": t.plain(containers.list_to_tuple),
    "LOAD_ASSERTION_ERROR": t.plain(names.load_common_constant, "AssertionError"),
    "LOAD_ATTR": t.named(names.load_attribute),
    "LOAD_CLASSDEREF": t.raw(names.load_class_cell),
    "LOAD_CLOSURE": t.raw(stack.load_fast_unchecked),
    "LOAD_GLOBAL": t.global_name,
    "LOAD_METHOD": t.named(names.load_method),
    "POP_JUMP_BACKWARD_IF_FALSE": t.jump_back(control.jump_if_false),
    "POP_JUMP_BACKWARD_IF_NONE": t.jump_back(control.jump_if_none),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": t.jump_back(control.jump_if_not_none),
    "POP_JUMP_BACKWARD_IF_TRUE": t.jump_back(control.jump_if_true),
    "POP_JUMP_FORWARD_IF_FALSE": t.jump_to(control.jump_if_false),
    "POP_JUMP_FORWARD_IF_NONE": t.jump_to(control.jump_if_none),
    "POP_JUMP_FORWARD_IF_NOT_NONE": t.jump_to(control.jump_if_not_none),
    "POP_JUMP_FORWARD_IF_TRUE": t.jump_to(control.jump_if_true),
    "PRECALL": t.dropped,
    "PREP_RERAISE_STAR": t.plain(control.join_exception_group),
    "SEND": t.jump_to(calls.send),
    "PRINT_EXPR": t.plain(control.print_expression),
    "UNARY_POSITIVE": t.plain(containers.unary, "pos"),
    "WITH_EXCEPT_START": t.plain(control.exit_with_exception, 4),
}
