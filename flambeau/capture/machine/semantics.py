"""What each operation of the machine means: plain Python. A subclass may give the operations another meaning."""

from __future__ import annotations

import builtins
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau.capture.machine import introspection
from flambeau.capture.machine.frame import Frame, cell_contents
from flambeau.capture.machine.generators import Generator
from flambeau.capture.machine.markers import NULL
from flambeau.capture.machine.native import instruction

if TYPE_CHECKING:
    from flambeau.capture.machine.machine import Machine

Function, Method = types.FunctionType, types.MethodType
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor")
}
INPLACE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, "i" + name.rstrip("_")) for name in BINARY}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")}
UNARY: dict[str, Callable[[Any], Any]] = {name: getattr(operator, name) for name in ("neg", "pos", "invert", "not_")}
CONVERSIONS: dict[str | None, Callable[[Any], Any]] = {"str": str, "repr": repr, "ascii": ascii}
# A metaclass may define these attributes anew.
names_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
classes_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__


def lookup(cls: type, name: str, default: Any = None) -> Any:
    """What the classes of a type's resolution order define under a name, unbound."""
    for base in classes_of(cls):
        names = names_of(base)
        if name in names:
            return names[name]
    return default


def special_method(value: Any, name: str) -> Any:
    """A value's special method, bound, as CPython finds it: on the type alone; None where there is none."""
    found = lookup(type(value), name)
    get = lookup(type(found), "__get__")
    return found if get is None else get(found, value, type(value))


class Semantics:
    """The plain meanings. No method may call into interpreted code from inside an ``except`` clause of its own."""

    machine: Machine

    # Constants and variables.
    def constant(self, value: Any) -> Any:
        return value

    def load_global(self, frame: Frame, name: str) -> Any:
        value = frame.globals.get(name, NULL)
        if value is NULL:
            value = frame.builtins.get(name, NULL)
            if value is NULL:
                raise name_error(name)
        return value

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        frame.globals[name] = value

    def delete_global(self, frame: Frame, name: str) -> None:
        if name not in frame.globals:
            raise name_error(name)
        del frame.globals[name]

    def load_name(self, frame: Frame, name: str) -> Any:
        return self.load_from_mapping(frame, frame.names, name)

    def load_from_mapping(self, frame: Frame, names: Any, name: str, cell: types.CellType | None = None) -> Any:
        """A name of a class body: from its namespace, else from the cell, or where there is none from the globals."""
        try:
            return names[name]
        except KeyError:
            pass
        return self.load_global(frame, name) if cell is None else self.load_cell(cell, frame, frame.program.names.index(name))

    def store_name(self, frame: Frame, name: str, value: Any) -> None:
        frame.names[name] = value

    def delete_name(self, frame: Frame, name: str) -> None:
        try:
            del frame.names[name]
            return
        except KeyError:
            pass
        raise name_error(name)

    def make_cell(self, value: Any) -> types.CellType:
        return types.CellType() if value is NULL else types.CellType(value)

    def load_cell(self, cell: types.CellType, frame: Frame, index: int) -> Any:
        value = cell_contents(cell)
        if value is NULL:
            name = frame.program.names[index]
            if index >= len(frame.program.names) - len(frame.code.co_freevars):
                raise NameError(f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope")
            raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        return value

    def store_cell(self, cell: types.CellType, value: Any) -> None:
        cell.cell_contents = value

    def delete_cell(self, cell: types.CellType) -> None:
        del cell.cell_contents

    def setup_annotations(self, frame: Frame) -> None:
        names = frame.names
        if isinstance(names, dict):
            names.setdefault("__annotations__", {})
        elif "__annotations__" not in names:
            names["__annotations__"] = {}

    # Attributes and items.
    def load_attribute(self, holder: Any, name: str) -> Any:
        return getattr(holder, name)

    def store_attribute(self, holder: Any, name: str, value: Any) -> None:
        setattr(holder, name, value)

    def delete_attribute(self, holder: Any, name: str) -> None:
        delattr(holder, name)

    def super_attribute(self, function: Any, cls: Any, holder: Any, name: str) -> Any:
        return getattr(function(cls, holder), name)

    def subscript(self, holder: Any, key: Any) -> Any:
        return holder[key]

    def store_subscript(self, holder: Any, key: Any, value: Any) -> None:
        holder[key] = value

    def delete_subscript(self, holder: Any, key: Any) -> None:
        del holder[key]

    # Operators.
    def binary(self, name: str, left: Any, right: Any) -> Any:
        return BINARY[name](left, right)

    def inplace(self, name: str, left: Any, right: Any) -> Any:
        return INPLACE[name](left, right)

    def unary(self, name: str, value: Any) -> Any:
        return UNARY[name](value)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        return COMPARE[name](left, right)

    def is_same(self, left: Any, right: Any) -> bool:
        return left is right

    def contains(self, container: Any, item: Any) -> Any:
        return item in container

    def truth(self, value: Any) -> bool:
        return True if value else False

    def kept(self, value: Any) -> Any:
        """A value as native code gets it."""
        return value

    # Iteration.
    def iterator(self, value: Any) -> Any:
        return iter(value)

    def advance(self, iterator: Any) -> Any:
        return iterator.send(None) if type(iterator) is Generator else next(iterator)

    def send(self, iterator: Any, value: Any) -> tuple[Any, bool]:
        """One step of ``yield from``: what the iterator yields and False, or its return value and True."""
        try:
            if value is None and type(iterator) is not Generator:
                return self.advance(iterator), False
            return iterator.send(value), False
        except StopIteration as stop:
            return stop.value, True

    def iterator_to_yield_from(self, frame: Frame, value: Any) -> Any:
        if isinstance(value, types.CoroutineType):
            if not frame.code.co_flags & 0x180:
                raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
            return value
        return value if isinstance(value, types.GeneratorType) else self.iterator(value)

    def make_generator(self, frame: Frame) -> Any:
        return Generator(frame)

    # Calls.
    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = type(function)
        if kind is Method:
            function, args = function.__func__, (function.__self__, *args)
            kind = type(function)
        if kind is Function:
            machine = self.machine
            return machine.call_function(function, args, kwargs) if machine.can_enter(function) else function(*args, **kwargs)
        if kind is types.BuiltinFunctionType:
            meaning = introspection.FUNCTIONS.get(function)
            return function(*args, **kwargs) if meaning is None else meaning(self, *args, **kwargs)
        if isinstance(function, type):
            return self.construct(function, args, kwargs)
        method = lookup(kind, "__call__")
        return self.call(method, (function, *args), kwargs) if type(method) is Function else function(*args, **kwargs)

    def construct(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a class: its ``__new__`` and ``__init__`` are entered where they are Python functions."""
        if cls is super and not args and self.machine.frames:
            return introspection.zero_argument_super(self.machine.frames[-1])
        meta = lookup(type(cls), "__call__")
        if type(meta) is Function:
            return self.call(meta, (cls, *args), kwargs)
        new, init = lookup(cls, "__new__"), lookup(cls, "__init__")
        python_new = type(new) is staticmethod and type(new.__func__) is Function
        if not python_new and type(init) is not Function or meta is not type.__dict__["__call__"]:
            if (issubclass(cls, type) and len(args) == 3 or id(cls) in introspection.NAMED_BY_CALLER) and self.machine.frames:
                return introspection.call_beside(self.machine.frames[-1], cls, args, kwargs)
            return cls(*args, **kwargs)
        made = self.call(new.__func__, (cls, *args), kwargs) if python_new else cls.__new__(cls, *args, **kwargs)
        if cls not in classes_of(type(made)):
            return made
        init = lookup(type(made), "__init__")
        if type(init) is not Function:
            init.__get__(made, type(made))(*args, **kwargs)
        elif (result := self.call(init, (made, *args), kwargs)) is not None:
            raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
        return made

    def positional_arguments(self, function: Any, value: Any) -> tuple[Any, ...]:
        """The arguments that ``*value`` stands for."""
        if not isinstance(value, tuple) and lookup(type(value), "__iter__") is None and lookup(type(value), "__getitem__") is None:
            (lambda function, value: function(*value))(function, value)
        return tuple(value)

    def keyword_arguments(self, function: Any, value: Any) -> dict[str, Any]:
        """The arguments that ``**value`` stands for."""
        return value if type(value) is dict else self.dict_merge({}, value, function)

    # Containers and strings.
    def build_tuple(self, items: list[Any]) -> Any:
        return tuple(items)

    def build_list(self, items: list[Any]) -> Any:
        return items

    def build_set(self, items: list[Any]) -> Any:
        return set(items)

    def build_map(self, keys: list[Any], values: list[Any]) -> Any:
        return dict(zip(keys, values, strict=True))

    def build_string(self, parts: list[Any]) -> Any:
        return "".join(parts)

    def build_interpolation(self, parts: list[Any], flags: int) -> Any:
        """A field of a template string: value, its text and perhaps the format specification."""
        return instruction("BUILD_INTERPOLATION", flags, len(parts))(*parts)

    def build_template(self, strings: Any, interpolations: Any) -> Any:
        return instruction("BUILD_TEMPLATE", 0, 2)(strings, interpolations)

    def build_slice(self, items: list[Any]) -> Any:
        return slice(*items)

    def list_append(self, into: Any, item: Any) -> None:
        list.append(into, item)

    def set_add(self, into: Any, item: Any) -> None:
        set.add(into, item)

    def map_add(self, into: Any, key: Any, value: Any) -> None:
        into[key] = value

    def list_extend(self, into: Any, iterable: Any) -> None:
        instruction("LIST_EXTEND", 1, 2)(into, iterable)

    def set_update(self, into: Any, iterable: Any) -> None:
        instruction("SET_UPDATE", 1, 2)(into, iterable)

    def dict_update(self, into: Any, other: Any) -> None:
        instruction("DICT_UPDATE", 1, 2)(into, other)

    def dict_merge(self, into: Any, other: Any, function: Any) -> Any:
        """Add keyword arguments; TypeError with CPython's message where ``other`` is no mapping or repeats a name."""
        if not hasattr(other, "keys"):
            (lambda function, other: function(**other))(function, other)
        for key in other.keys():  # noqa: SIM118
            if key in into:
                (lambda function, key: function(**{key: 0}, **{key: 0}))(function, key)
            into[key] = other[key]
        return into

    def list_to_tuple(self, items: Any) -> Any:
        return tuple(items)

    def format_value(self, value: Any, conversion: str | None, specification: Any) -> Any:
        if conversion is not None:
            value = CONVERSIONS[conversion](value)
        return format(value, specification)

    def unpack(self, value: Any, count: int) -> list[Any]:
        return instruction("UNPACK_SEQUENCE", count, 1, count)(value)[::-1]

    def unpack_ex(self, value: Any, before: int, after: int) -> list[Any]:
        return instruction("UNPACK_EX", before | after << 8, 1, before + after + 1)(value)[::-1]

    # Functions, classes and modules.
    def make_function(
        self, code: types.CodeType, globals: Any, qualname: str, defaults: Any, keyword_defaults: Any, annotations: Any, closure: Any
    ) -> Any:
        function = Function(code, globals, None, defaults, closure)
        function.__kwdefaults__ = keyword_defaults
        if annotations is not None:
            if isinstance(annotations, tuple):
                annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
            function.__annotations__ = annotations
        return function

    def build_class(self, body: Any, name: str, *bases: Any, **keywords: Any) -> Any:
        """The meaning of a class statement."""
        if type(body) is not Function or not self.machine.can_enter(body):
            return builtins.__build_class__(body, name, *bases, **keywords)
        resolved = types.resolve_bases(bases)
        metaclass, namespace, keywords = types.prepare_class(name, resolved, keywords)
        if not hasattr(type(namespace), "__getitem__"):
            label = metaclass.__name__ if isinstance(metaclass, type) else "<metaclass>"
            raise TypeError(f"{label}.__prepare__() must return a mapping, not {type(namespace).__name__}")
        cell = self.machine.call_function(body, (), {}, namespace)
        if resolved is not bases:
            namespace["__orig_bases__"] = bases
        cls = self.call(metaclass, (name, resolved, namespace), keywords)
        if isinstance(cls, type) and isinstance(cell, types.CellType):
            inside = cell_contents(cell)
            if inside is NULL:
                raise RuntimeError(f"__class__ not set defining {name!r} as {cls!r}. Was __classcell__ propagated to type.__new__?")
            if inside is not cls:
                raise TypeError(f"__class__ set to {inside!r} defining {name!r} as {cls!r}")
        return cls

    def import_name(self, frame: Frame, name: str, fromlist: Any, level: Any) -> Any:
        if "__import__" not in frame.builtins:
            raise ImportError("__import__ not found")
        return self.call(frame.builtins["__import__"], (name, frame.globals, frame.names, fromlist, level), {})

    def import_from(self, module: Any, name: str) -> Any:
        return instruction("IMPORT_FROM", 0, 1, 2, (name,))(module)[1]

    def import_star(self, frame: Frame, module: Any) -> None:
        names = getattr(module, "__all__", None)
        public = names is not None
        for name in names if public else module.__dict__:
            if public or not name.startswith("_"):
                self.store_name(frame, name, getattr(module, name))

    # Exceptions and contexts.
    def exception(self, value: Any) -> Any:
        """What ``raise value`` raises: the exception, made of its class if need be."""
        if isinstance(value, type) and issubclass(value, BaseException):
            made = self.call(value, (), {})
            if not isinstance(made, BaseException):
                raise TypeError(f"calling {value!r} should have returned an instance of BaseException, not {type(made)!r}")
            return made
        return value

    def exception_matches(self, error: Any, kind: Any) -> Any:
        return instruction("CHECK_EXC_MATCH", 0, 2, 2)(error, kind)[1]

    def split_exception_group(self, group: Any, kind: Any) -> tuple[Any, Any]:
        """The rest and the part that matches; the latter becomes the exception that Python takes as handled."""
        rest, matched = instruction("CHECK_EG_MATCH", 0, 2, 2)(group, kind)
        return rest, matched

    def join_exception_group(self, group: Any, raised: Any) -> Any:
        if sys.version_info < (3, 12):
            return instruction("PREP_RERAISE_STAR", 0, 2)(group, raised)
        return self.intrinsic(2, 1, group, raised)

    def stop_iteration_error(self, error: Any) -> Any:
        """What leaves a generator for an exception that is raised in it: RuntimeError for StopIteration."""
        if not isinstance(error, StopIteration):
            return error
        new = RuntimeError("generator raised StopIteration")
        new.__cause__ = new.__context__ = error
        return new

    def assertion_error(self) -> Any:
        return AssertionError

    def enter_context(self, manager: Any) -> tuple[Any, Any]:
        enter, leave = special_method(manager, "__enter__"), special_method(manager, "__exit__")
        if enter is None or leave is None:
            with manager:  # raises, in the words of this Python
                pass
        return leave, self.call(enter, (), {})

    def exit_context(self, leave: Any, error: BaseException | None) -> Any:
        return self.call(leave, (None, None, None) if error is None else (type(error), error, error.__traceback__), {})

    # Pattern matching.
    def match_class(self, subject: Any, cls: Any, count: int, names: Any) -> Any:
        """The tuple of the attributes to match, None where the subject is not of the class."""
        return instruction("MATCH_CLASS", count, 3)(subject, cls, names)

    def match_keys(self, subject: Any, keys: Any) -> Any:
        return instruction("MATCH_KEYS", 0, 2, 3)(subject, keys)[2]

    def match_mapping(self, subject: Any) -> bool:
        return bool(type(subject).__flags__ & 1 << 6)

    def match_sequence(self, subject: Any) -> bool:
        return bool(type(subject).__flags__ & 1 << 5)

    def length(self, value: Any) -> Any:
        return len(value)

    # The rest.
    def print_expression(self, value: Any) -> None:
        self.call(sys.displayhook, (value,), {})

    def intrinsic(self, arity: int, number: int, *values: Any) -> Any:
        """An operation that CPython 3.12 and later number, by CPython itself."""
        return instruction(f"CALL_INTRINSIC_{arity}", number, arity)(*values)

    def visible_locals(self, frame: Frame) -> dict[str, Any]:
        """The variables that a traceback shows of an interpreted frame."""
        return {} if frame.names is not None else frame.bound_variables()

    def frame_view(self, frame: Frame) -> Any:
        """What stands for an interpreted frame where a program asks for frame objects."""
        view = frame.view and frame.view()
        if view is None:
            view = introspection.FrameView(frame)
            frame.view = weakref.ref(view)
        return view


def name_error(name: str) -> NameError:
    """The error of a global name that is not there; Python's own suggestions need the name."""
    return NameError(f"name '{name}' is not defined", name=name)
