"""Handlers of global, class-body and closure variables, attributes and imports."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL


def load_global(frame: Frame, name: str) -> None:
    frame.stack.append(frame.semantics.load_global(frame, name))


def load_called_global(frame: Frame, name: str) -> None:
    frame.stack += NULL, frame.semantics.load_global(frame, name)


def store_global(frame: Frame, name: str) -> None:
    frame.semantics.store_global(frame, name, frame.stack.pop())


def delete_global(frame: Frame, name: str) -> None:
    frame.semantics.delete_global(frame, name)


def load_name(frame: Frame, name: str) -> None:
    frame.stack.append(frame.semantics.load_name(frame, name))


def store_name(frame: Frame, name: str) -> None:
    frame.semantics.store_name(frame, name, frame.stack.pop())


def delete_name(frame: Frame, name: str) -> None:
    frame.semantics.delete_name(frame, name)


def load_locals(frame: Frame, _: Any) -> None:
    frame.stack.append(frame.locals())


def load_from_mapping_or_globals(frame: Frame, name: str) -> None:
    frame.stack.append(frame.semantics.load_from_mapping(frame, frame.stack.pop(), name))


def load_from_mapping_or_cell(frame: Frame, index: int) -> None:
    frame.stack.append(frame.semantics.load_from_mapping(frame, frame.stack.pop(), frame.program.names[index], frame.fast[index]))


def load_class_cell(frame: Frame, index: int) -> None:
    frame.stack.append(frame.semantics.load_from_mapping(frame, frame.names, frame.program.names[index], frame.fast[index]))


def setup_annotations(frame: Frame, _: Any) -> None:
    frame.semantics.setup_annotations(frame)


def make_cell(frame: Frame, index: int) -> None:
    frame.fast[index] = frame.semantics.make_cell(frame.fast[index])


def copy_free_variables(frame: Frame, count: int) -> None:
    closure = frame.function.__closure__ or ()
    frame.fast[len(frame.fast) - count :] = closure


def load_cell(frame: Frame, index: int) -> None:
    frame.stack.append(frame.semantics.load_cell(frame.fast[index], frame, index))


def store_cell(frame: Frame, index: int) -> None:
    frame.semantics.store_cell(frame.fast[index], frame.stack.pop())


def delete_cell(frame: Frame, index: int) -> None:
    # Reading it first raises CPython's error where it is empty.
    frame.semantics.load_cell(frame.fast[index], frame, index)
    frame.semantics.delete_cell(frame.fast[index])


def load_attribute(frame: Frame, name: str) -> None:
    stack = frame.stack
    stack[-1] = frame.semantics.load_attribute(stack[-1], name)


def load_method(frame: Frame, name: str) -> None:
    """An attribute that is called next. A call takes NULL on either side of its callable."""
    stack = frame.stack
    stack[-1:] = NULL, frame.semantics.load_attribute(stack[-1], name)


def store_attribute(frame: Frame, name: str) -> None:
    holder = frame.stack.pop()
    frame.semantics.store_attribute(holder, name, frame.stack.pop())


def delete_attribute(frame: Frame, name: str) -> None:
    frame.semantics.delete_attribute(frame.stack.pop(), name)


def load_super_attribute(frame: Frame, argument: tuple[str, bool]) -> None:
    """``super().name``; the flag tells whether class and object were written out."""
    name, explicit = argument
    stack = frame.stack
    function, cls, holder = stack[-3:]
    del stack[-3:]
    if function is super:
        stack.append(frame.semantics.super_attribute(function, cls, holder, name))
    else:
        stack.append(frame.semantics.load_attribute(frame.semantics.call(function, (cls, holder) if explicit else (), {}), name))


def load_build_class(frame: Frame, _: Any) -> None:
    if "__build_class__" not in frame.builtins:
        raise NameError("__build_class__ not found")
    frame.stack.append(frame.builtins["__build_class__"])


def load_common_constant(frame: Frame, name: str) -> None:
    """What CPython reaches without a look into the module's names."""
    frame.stack.append(frame.semantics.assertion_error() if name == "AssertionError" else getattr(builtins, name))


def import_name(frame: Frame, name: str) -> None:
    fromlist, level = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(frame.semantics.import_name(frame, name, fromlist, level))


def import_from(frame: Frame, name: str) -> None:
    frame.stack.append(frame.semantics.import_from(frame.stack[-1], name))


def import_star(frame: Frame, _: Any) -> None:
    frame.semantics.import_star(frame, frame.stack.pop())
