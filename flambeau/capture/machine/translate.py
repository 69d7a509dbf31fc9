"""How the tables of opcodes are written: what a bytecode becomes, and the meanings that all versions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.capture.machine import calls, containers, control, matching, names, stack
from flambeau.capture.machine.decode import Handler, Operation, Pairs, Target, Translation

OPERATORS = ("add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor")
CONVERSIONS = (None, "str", "repr", "ascii")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")


def plain(handler: Handler, argument: Any = None) -> Translation:
    """A handler that takes no argument of the bytecode."""
    return lambda _: [(handler, argument)]


def raw(handler: Handler, change: Callable[[int], Any] | None = None) -> Translation:
    """A handler of the bytecode's number, as it is or changed."""
    return lambda op: [(handler, op.argument if change is None else change(op.argument))]


def named(handler: Handler) -> Translation:
    """A handler of one of the code's names."""
    return lambda op: [(handler, op.decoder.code.co_names[op.argument])]


def constant(handler: Handler) -> Translation:
    """A handler of one of the code's constants."""
    return lambda op: [(handler, op.decoder.code.co_consts[op.argument])]


def jump_to(handler: Handler, further: int = 0) -> Translation:
    """A handler of a target ahead, some code units further than the bytecode says."""
    return lambda op: [(handler, Target(op.after + op.argument + further))]


def jump_back(handler: Handler) -> Translation:
    """A handler of a target behind; every loop comes through such a jump, so the step limit is looked at here."""
    return lambda op: [(control.check_steps, None), (handler, Target(op.after - op.argument))]


def dropped(_: Operation) -> Pairs:
    """A bytecode that means nothing here."""
    return []


def comparison(shift: int) -> Translation:
    return raw(containers.compare, lambda argument: COMPARISONS[argument >> shift])


def binary(op: Operation) -> Pairs:
    if op.argument == 26:  # since 3.14
        return [(containers.subscript, None)]
    handler = containers.binary if op.argument < 13 else containers.inplace
    return [(handler, OPERATORS[op.argument % 13])]


def global_name(op: Operation) -> Pairs:
    """The lowest bit asks for the NULL that a call expects beside a callable."""
    return [(names.load_called_global if op.argument & 1 else names.load_global, op.decoder.code.co_names[op.argument >> 1])]


def constant_keywords(op: Operation) -> Pairs:
    """The names of the keyword arguments of the call that follows."""
    op.decoder.keywords = op.decoder.code.co_consts[op.argument]
    return []


def call(op: Operation) -> Pairs:
    keywords, op.decoder.keywords = op.decoder.keywords, ()
    return [(calls.call_keywords, (op.argument, keywords)) if keywords else (calls.call, op.argument)]


def constant_or_keywords(op: Operation) -> Pairs:
    """Since 3.13 the names of keyword arguments are a constant like others, before the call."""
    following = op.following()
    return constant_keywords(op) if following and following.name == "CALL_KW" else constant(stack.load_constant)(op)


def attribute(op: Operation) -> Pairs:
    """Since 3.12 the lowest bit tells that the attribute is called next."""
    return [(names.load_method if op.argument & 1 else names.load_attribute, op.decoder.code.co_names[op.argument >> 1])]


def super_attribute(op: Operation) -> Pairs:
    pair = names.load_super_attribute, (op.decoder.code.co_names[op.argument >> 2], bool(op.argument & 2))
    return [pair, (stack.push_null, None)] if op.argument & 1 else [pair]


def intrinsic_1(op: Operation) -> Pairs:
    none = (stack.load_constant, None)
    known: dict[int, Pairs] = {
        1: [(control.print_expression, None), none],
        2: [(names.import_star, None), none],
        3: [(control.stop_iteration_error, None)],
        5: [(containers.unary, "pos")],
        6: [(containers.list_to_tuple, None)],
    }
    return known.get(op.argument) or [(calls.intrinsic, (1, op.argument))]


def intrinsic_2(op: Operation) -> Pairs:
    return [(control.join_exception_group, None) if op.argument == 1 else (calls.intrinsic, (2, op.argument))]


def two_locals(first: Handler, second: Handler) -> Translation:
    """Two variables in one number, four bits each."""
    return lambda op: [(first, op.argument >> 4), (second, op.argument & 15)]


def to_bool(op: Operation) -> Pairs:
    """Nothing where a jump follows: that asks for the truth itself."""
    following = op.following()
    jumps = following is not None and following.name in ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE")
    return [] if jumps else [(containers.to_bool, None)]


def function_and_attributes(op: Operation) -> Pairs:
    """Since 3.13 each of the function's attributes is set by a bytecode of its own: together, as flags."""
    flags, distance = 0, 1
    while (following := op.following(distance)) and following.name == "SET_FUNCTION_ATTRIBUTE":
        flags |= following.argument
        distance += 1
    return [(calls.make_function, flags)]


def load_special(op: Operation) -> Pairs:
    """The two halves of the start of ``with`` since 3.14.

    The manager lies on the stack twice: first ``__exit__`` is looked up, swapped below, then ``__enter__``, and called. Here the
    first half enters the context, the second puts the value where the dropped call would have left it.
    """
    if op.argument == 1:
        return [(control.enter_context, None)]
    op.decoder.skipped = 1
    return [(control.entered_value, None)]


COMMON: dict[str, Translation] = {
    "BINARY_OP": binary,
    "BUILD_LIST": raw(containers.build_list),
    "BUILD_MAP": raw(containers.build_map),
    "BUILD_SET": raw(containers.build_set),
    "BUILD_SLICE": raw(containers.build_slice),
    "BUILD_STRING": raw(containers.build_string),
    "BUILD_TUPLE": raw(containers.build_tuple),
    "BEFORE_WITH": plain(control.enter_context),
    "CHECK_EG_MATCH": plain(control.match_exception_group),
    "CHECK_EXC_MATCH": plain(control.match_exception),
    "CONTAINS_OP": raw(containers.contains),
    "COPY": raw(stack.copy),
    "COPY_FREE_VARS": raw(names.copy_free_variables),
    "DELETE_ATTR": named(names.delete_attribute),
    "DELETE_DEREF": raw(names.delete_cell),
    "DELETE_FAST": raw(stack.delete_fast),
    "DELETE_GLOBAL": named(names.delete_global),
    "DELETE_NAME": named(names.delete_name),
    "DELETE_SUBSCR": plain(containers.delete_subscript),
    "DICT_MERGE": raw(containers.dict_merge),
    "DICT_UPDATE": raw(containers.dict_update),
    "GET_ITER": plain(control.get_iterator),
    "GET_LEN": plain(matching.get_length),
    "GET_YIELD_FROM_ITER": plain(calls.iterator_to_yield_from),
    "IMPORT_FROM": named(names.import_from),
    "IMPORT_NAME": named(names.import_name),
    "IS_OP": raw(containers.is_same),
    "JUMP_BACKWARD": jump_back(control.jump),
    "JUMP_BACKWARD_NO_INTERRUPT": jump_back(control.jump),
    "JUMP_FORWARD": jump_to(control.jump),
    "LIST_APPEND": raw(containers.list_append),
    "LIST_EXTEND": raw(containers.list_extend),
    "LOAD_BUILD_CLASS": plain(names.load_build_class),
    "LOAD_CONST": constant(stack.load_constant),
    "LOAD_DEREF": raw(names.load_cell),
    "LOAD_FAST": raw(stack.load_fast),
    "LOAD_NAME": named(names.load_name),
    "MAKE_CELL": raw(names.make_cell),
    "MAKE_FUNCTION": raw(calls.make_function),
    "MAP_ADD": raw(containers.map_add),
    "MATCH_CLASS": raw(matching.match_class),
    "MATCH_KEYS": plain(matching.match_keys),
    "MATCH_MAPPING": plain(matching.match_mapping),
    "MATCH_SEQUENCE": plain(matching.match_sequence),
    "NOP": dropped,
    "POP_EXCEPT": plain(control.pop_exception),
    "POP_TOP": plain(stack.pop_top),
    "PUSH_EXC_INFO": plain(control.push_exception),
    "PUSH_NULL": plain(stack.push_null),
    "RAISE_VARARGS": raw(control.raise_value),
    "RERAISE": plain(control.reraise),
    "RESUME": dropped,
    "RETURN_GENERATOR": plain(calls.return_generator),
    "RETURN_VALUE": plain(calls.return_value),
    "SETUP_ANNOTATIONS": plain(names.setup_annotations),
    "SET_ADD": raw(containers.set_add),
    "SET_UPDATE": raw(containers.set_update),
    "STORE_ATTR": named(names.store_attribute),
    "STORE_DEREF": raw(names.store_cell),
    "STORE_FAST": raw(stack.store_fast),
    "STORE_GLOBAL": named(names.store_global),
    "STORE_NAME": named(names.store_name),
    "STORE_SUBSCR": plain(containers.store_subscript),
    "SWAP": raw(stack.swap),
    "UNARY_INVERT": plain(containers.unary, "invert"),
    "UNARY_NEGATIVE": plain(containers.unary, "neg"),
    "UNARY_NOT": plain(containers.unary, "not_"),
    "UNPACK_EX": raw(containers.unpack_ex, lambda counts: (counts & 255, counts >> 8)),
    "UNPACK_SEQUENCE": raw(containers.unpack),
    "YIELD_VALUE": plain(calls.yield_value),
}
