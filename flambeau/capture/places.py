"""What reading and writing names, attributes, items and cells means while a function is captured."""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Callable
from typing import Any

from flambeau.capture.guards import BY_NAME, MODULE_STATE, REGISTERED, TENSORS_OF, UNKNOWN, holds_modules, ways_into
from flambeau.capture.machine.semantics import Semantics
from flambeau.capture.marks import MarksUndo, set_marks
from flambeau.capture.naming import CONTAINERS, DEEPEST, SMALL, Namer, carries, holds_pending, members
from flambeau.capture.sizes import is_symbolic
from flambeau.capture.trace import Uncapturable
from flambeau.capture.values import ATOMS, CLASSES, MISSING, Box, each_changed, is_ours, is_sealed, static_lookup, varies, written
from flambeau.core.context import outside_capture
from flambeau.core.shape import Size
from flambeau.core.symbolic import Expression
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import tensor as tensor_of

__all__ = ["MISSING", "Places", "is_trusted_module"]

# Their functions and globals do not change while a program runs.
TRUSTED = frozenset((
    "flambeau", "builtins", "math", "functools", "contextlib", "collections", "typing", "operator", "enum", "inspect", "abc",
    "itertools", "dataclasses", "types", "numpy", "warnings", "copy", "numbers", "string", "re", "statistics", "bisect", "heapq",
))  # fmt: skip
SCALARS = (int, float, bool, str, bytes, complex, type(None))
Member = (types.MemberDescriptorType, types.GetSetDescriptorType)


def is_trusted_module(name: str | None) -> bool:
    """Whether a module is this package's or the standard library's."""
    return (name or "").partition(".")[0] in TRUSTED


def is_module(value: Any) -> bool:
    """Whether a value is an nn.Module."""
    return holds_modules(value) and is_ours(type(value))


class Places(Semantics):
    """Reads and writes of places; what lies outside becomes steps."""

    namer: Namer
    session: Any
    is_entered: Callable[[types.FunctionType], bool]
    for_tensor: Callable[[str, Any], Any]

    @property
    def trace(self) -> Any:
        return self.namer.trace

    # -- globals and cells ------------------------------------------------------------------------------
    def load_global(self, frame: Any, name: str) -> Any:
        namespace = frame.globals
        found = namespace.get(name, MISSING)
        trace = self.trace
        if not trace.recording or is_trusted_module(namespace.get("__name__")):
            return found if found is not MISSING else super().load_global(frame, name)
        constant, nothing = trace.tree.constant(namespace), trace.tree.constant(MISSING)
        text, place = f"{constant}.get({name!r}, {nothing})", ("value", namespace, name, found)
        found = trace.read((id(namespace), name), text, lambda: namespace.get(name, MISSING), place=place)
        return super().load_global(frame, name) if found is MISSING else found

    def store_global(self, frame: Any, name: str, value: Any) -> None:
        namespace = frame.globals
        kept = self.outward(value)
        constant = self.trace.tree.constant(namespace)
        self.trace.wrote(namespace, name, value)
        self.write(lambda: f"{constant}[{name!r}] = {self.namer.name(value)}", lambda: operator.setitem(namespace, name, kept), value)

    def delete_global(self, frame: Any, name: str) -> None:
        namespace = frame.globals
        if self.load_global(frame, name) is MISSING or (id(namespace), name) not in self.trace.reads:
            super().delete_global(frame, name)
            return
        constant = self.trace.tree.constant(namespace)
        self.trace.wrote(namespace, name, MISSING)
        self.write(lambda: f"del {constant}[{name!r}]", lambda: operator.delitem(namespace, name))

    def load_cell(self, cell: Any, frame: Any, index: int) -> Any:
        found = self.namer.cells.get(id(cell))
        if found is None or not self.trace.recording:
            return super().load_cell(cell, frame, index)
        place = "cell", cell, super().load_cell(cell, frame, index)  # raises where it is empty
        constant = found[1].startswith("c")
        return self.trace.read(
            (id(cell), "cell"), f"{found[1]}.cell_contents", lambda: cell.cell_contents, place=place if constant else None
        )

    def store_cell(self, cell: Any, value: Any) -> None:
        found = self.namer.cells.get(id(cell)) or self._let_out(cell)
        if found is None:
            self.trace.lasts(cell)
            cell.cell_contents = value
            return
        kept = self.outward(value)
        self.trace.reads[id(cell), "cell"] = (value, cell)
        self.trace.touched.add((id(cell), "cell"))
        self.write(lambda: f"{found[1]}.cell_contents = {self.namer.name(value)}", lambda: setattr(cell, "cell_contents", kept), value)

    def _let_out(self, cell: Any) -> tuple[Any, str] | None:
        found = self.trace.known.get(id(cell))
        return None if found is None else (cell, found[0])

    def make_cell(self, value: Any) -> Any:
        return self.trace.new(super().make_cell(value))

    # -- writing ----------------------------------------------------------------------------------------
    def kept(self, value: Any) -> Any:
        """A value as an object can hold it: out of its box. A number stays known by the identity of its object.

        Small integers are one object wherever they come from, and the line says which of the two it holds for.
        """
        if type(value) is Box:
            kind = type(value.value)
            if kind is float or (kind is int and not self.trace.check(f"-6 < {value.name} < 257", "truth", value.value in SMALL)):
                self.trace.known[id(value.value)] = (value.name, value.value)
                return value.value
            return self.trace.fix(value)
        if id(value) in self.trace.twins:
            return self.trace.original(value)
        return each_changed(value, self.kept) if type(value) is tuple and not self.outside(value) else value

    def outward(self, value: Any) -> Any:
        """A value as an object outside holds it; the program writes the variable of a box there."""
        if type(value) is Box and type(value.value) is not float:
            return value.value
        return self.trace.sizes.plain(self.kept(value))

    def boxed(self, value: Any) -> Any:
        """A value that comes out of a container made inside: a number in its box again, a tensor as the interpreter knows it."""
        if type(value) in (float, int):
            found = self.trace.known.get(id(value))
            if found is not None:
                return Box(value, found[0])
        return self.trace.stand_in(value)

    def write(self, text: Callable[[], str], run: Callable[[], Any], *values: Any) -> None:
        """Change a place outside."""
        self.trace.effect(text, run, any(holds_pending(v) for v in values))

    def outside(self, obj: Any) -> bool:
        """Whether an object came from outside, or has been let out."""
        found = self.trace.known.get(id(obj))
        return found is not None and found[1] is obj and self.trace.recording

    def unread(self, value: Any, depth: int = DEEPEST) -> bool:
        """Whether native code that compares, hashes, counts or writes a value would see what nobody checked, or run code of the program."""
        kind = type(value)
        if kind is slice:
            return any(self.unread(v) for v in (value.start, value.stop, value.step))
        if kind in ATOMS or varies(value) or is_sealed(value) or isinstance(value, (*CLASSES, *FUNCTIONS, enum.Enum)):
            return False
        if self.outside(value):
            return any(getattr(kind, name, None) is not getattr(object, name, None) for name in LOOKED)
        if depth and isinstance(value, CONTAINERS) and any(self.unread(v, depth - 1) for v in members(value)):
            return True
        return any(written(kind, name) is not None for name in LOOKED)

    def marked(self, tensor: Any) -> Any:
        """A tensor whose marks or attributes are set: one without a name that was there before, as a Module gave it, gets one."""
        if self.trace.recording and id(tensor) not in self.trace.known and self.namer.writer.is_foreign(tensor):
            self.namer.name(tensor)
        return tensor

    # -- attributes -------------------------------------------------------------------------------------
    def load_attribute(self, obj: Any, name: str) -> Any:
        if varies(obj):
            return getattr(self.trace.fix(obj), name)
        if not self.trace.recording:
            return self._plain_attribute(obj, name)
        if isinstance(obj, TensorBase):
            return self._tensor_attribute(obj, name)
        if isinstance(obj, types.ModuleType):
            return self._of_namespace(obj, name)
        if isinstance(obj, type):
            return self._of_class(obj, name)
        if is_module(obj):
            return self._of_module(obj, name)
        return self._of_instance(obj, name)

    def _plain_attribute(self, obj: Any, name: str) -> Any:
        """The attribute, with properties and ``__getattr__`` written in Python interpreted."""
        found = static_lookup(type(obj), name, MISSING)
        if type(found) is property and type(found.fget) is types.FunctionType and not is_trusted_module(found.fget.__module__):
            return self.call(found.fget, (obj,), {})
        return getattr(obj, name)

    def _tensor_attribute(self, tensor: Any, name: str) -> Any:
        if self.outside(tensor) and static_lookup(type(tensor), name, MISSING) is MISSING:
            text = f"{self.namer.name(tensor)}.__dict__.get({name!r}, {self.trace.tree.constant(MISSING)})"
            found = self.trace.read((id(tensor), name), text, lambda: tensor.__dict__.get(name, MISSING))
            if found is MISSING:
                return getattr(object.__new__(type(tensor)), name)
            return found
        return self._plain_attribute(tensor, name)

    def _of_namespace(self, module: types.ModuleType, name: str) -> Any:
        value = getattr(module, name)
        if is_trusted_module(module.__name__) or isinstance(value, types.ModuleType) or name not in module.__dict__:
            return value
        return self.trace.read((id(module.__dict__), name), f"{self.trace.tree.constant(module)}.{name}", lambda: value)

    def _of_class(self, cls: type, name: str) -> Any:
        if is_trusted_module(cls.__module__) or (name.startswith("__") and name.endswith("__")):
            return getattr(cls, name)
        found = static_lookup(cls, name, MISSING)
        if found is MISSING or type(found) in (property, *Member):
            return getattr(cls, name)
        if isinstance(found, (classmethod, types.FunctionType)):
            self._method_check(cls, name, found)
            return getattr(cls, name)
        return self.trace.read((id(cls), name), f"{self.trace.tree.constant(cls)}.{name}", lambda: getattr(cls, name))

    def _method_check(self, cls: type, name: str, found: Any) -> None:
        """The class still has this method."""
        function = getattr(found, "__func__", found)
        if type(function) is types.FunctionType and not is_trusted_module(function.__module__):
            trace = self.trace
            if (id(cls), name) not in trace.reads:
                text = f"{trace.tree.constant(static_lookup)}({trace.tree.constant(cls)}, {name!r})"
                trace.read((id(cls), name), text, lambda: found)

    def _of_module(self, module: Any, name: str) -> Any:
        """Structure and tensors of Modules are covered by their stamp; settings of classes of users are read each for itself."""
        kind = type(module)
        self.note_module(module, REGISTERED if name in TENSORS_OF else BY_NAME)
        if (id(module), name) in self.session.varying:
            return self.trace.read((id(module), name), f"{self.namer.name(module)}.{name}", lambda: getattr(module, name))
        found = static_lookup(kind, name, MISSING)
        if id(module) in self.trace.foreign and type(found) not in (property, types.FunctionType):
            return self.host(getattr, (module, name), {}, flush=False, forget=False)
        if type(found) is types.FunctionType and name not in module.__dict__:
            self._method_check(kind, name, found)
            return types.MethodType(found, module)
        if type(found) is property and type(found.fget) is types.FunctionType and not is_trusted_module(found.fget.__module__):
            return self.call(found.fget, (module,), {})
        if not self._reads_each(module, name):
            return module.__dict__[name] if name in module.__dict__ else getattr(module, name)
        if not any(name in module.__dict__[registry] for registry in ("_parameters", "_buffers", "_modules")):
            text = f"{self.namer.name(module)}.__dict__.get({name!r}, {self.trace.tree.constant(MISSING)})"
            own = self.trace.read((id(module), name), text, lambda: module.__dict__.get(name, MISSING))
            if own is not MISSING:
                return own
            if found is not MISSING and static_lookup(type(found), "__get__") is None and not is_trusted_module(kind.__module__):
                return self._of_class(kind, name)
        fallback = written(kind, "__getattr__") if found is MISSING else None
        return getattr(module, name) if fallback is None else self.call(fallback, (module, name), {})

    def _reads_each(self, obj: Any, name: str) -> bool:
        """Whether an attribute of a Module, class or namespace is read by a step of its own, so that it may be a number that changes."""
        kind = obj if isinstance(obj, type) else type(obj)
        return not (kind.__module__.startswith("flambeau.") or name in MODULE_STATE or id(obj) in self.trace.inside)

    def note_module(self, module: Any, how: int = UNKNOWN) -> None:
        """The line depends on the structure of this Module."""
        if id(module) not in self.trace.inside and id(module) not in self.trace.foreign:
            self.session.note_module(module, how)

    def _of_instance(self, obj: Any, name: str) -> Any:
        kind = type(obj)
        getter, fallback = written(kind, "__getattribute__"), written(kind, "__getattr__")
        if getter is None:
            return self.attribute_of(obj, name, getattr)
        try:
            return self.call(getter, (obj, name), {})
        except AttributeError:
            if fallback is None:
                raise
            return self.call(fallback, (obj, name), {})

    def attribute_of(self, obj: Any, name: str, read: Callable[[Any, str], Any]) -> Any:
        """What ``getattr`` or ``object.__getattribute__``, ``read``, finds."""
        kind = type(obj)
        found = static_lookup(kind, name, MISSING)
        if type(found) is property:
            if type(found.fget) is types.FunctionType and (not is_ours(kind) or self.is_entered(found.fget)):
                return self.call(found.fget, (obj,), {})
            if self.outside(obj) and is_ours(kind) and not is_sealed(obj):
                return self.host(read, (obj, name), {}, flush=False, forget=False)
            return read(obj, name)
        getter = None if found is MISSING else static_lookup(type(found), "__get__")
        in_python = type(getter) is types.FunctionType
        if in_python and static_lookup(type(found), "__set__") is not None:
            return self.call(getter, (found, obj, kind), {})
        if found is not MISSING and static_lookup(type(found), "__set__") is not None:
            return self._from_native(obj, name)
        own = self._own_attribute(obj, name)
        if own is not MISSING:
            return own
        if type(found) is types.FunctionType:
            self._method_check(kind, name, found)
            return types.MethodType(found, obj)
        if in_python:
            return self.call(getter, (found, obj, kind), {})
        if found is MISSING:
            fallback = written(kind, "__getattr__")
            if fallback is not None and read is getattr:
                return self.call(fallback, (obj, name), {})
            later = self.trace.ghost and kind is not super and name in getattr(obj, "__dict__", ())  # what the replay gave it since
            return read(object.__new__(type(kind.__name__, (), {})) if later else obj, name)
        if static_lookup(type(found), "__get__") is None and not is_trusted_module(kind.__module__):
            return self._of_class(kind, name)
        return read(obj, name)

    def _own_attribute(self, obj: Any, name: str) -> Any:
        """What the object itself holds under a name, or MISSING."""
        attributes = getattr(obj, "__dict__", None)
        if not isinstance(attributes, dict) or isinstance(obj, types.FunctionType) and name.startswith("__"):
            return MISSING
        if not self.outside(obj) or is_sealed(obj):
            return self.boxed(attributes[name]) if name in attributes else MISSING
        text = f"{self.namer.name(obj)}.__dict__.get({name!r}, {self.trace.tree.constant(MISSING)})"
        return self.trace.read((id(obj), name), text, lambda: attributes.get(name, MISSING))

    def _from_native(self, obj: Any, name: str) -> Any:
        """An attribute that a descriptor written in C gives: a slot, a field."""
        if not self.outside(obj) or is_sealed(obj) or isinstance(obj, types.FunctionType):
            return self.boxed(getattr(obj, name))
        return self.trace.read((id(obj), name), f"{self.namer.name(obj)}.{name}", lambda: getattr(obj, name))

    def store_attribute(self, obj: Any, name: str, value: Any) -> None:
        kind = type(obj)
        trace = self.trace
        if isinstance(obj, TensorBase):
            self.marked(obj)
        setter = written(kind, "__setattr__")
        if setter is not None:
            self.call(setter, (obj, name, value), {})
            return
        found = static_lookup(kind, name, MISSING)
        if type(found) is property and type(found.fset) is types.FunctionType and (not is_ours(kind) or self.is_entered(found.fset)):
            self.call(found.fset, (obj, value), {})
            return
        if found is not MISSING and type(static_lookup(type(found), "__set__")) is types.FunctionType:
            self.call(static_lookup(type(found), "__set__"), (found, obj, value), {})
            return
        constant = isinstance(obj, CLASSES) or is_module(obj)
        sealed = is_sealed(obj) and (name in MODULE_STATE or kind.__module__.startswith("flambeau."))
        plain = (self.outside(obj) and not sealed) or (constant and self._reads_each(obj, name))
        kept = self.outward(value) if plain else self.kept(value)
        if not trace.recording or not (self.outside(obj) or constant):
            if not is_ours(kind) or id(obj) in trace.numbers_of:
                trace.lasts(obj)
            setattr(obj, name, kept)
            return
        if isinstance(obj, TensorBase) and name == "requires_grad":
            self.set_marks(obj, "requires_grad_", (kept,), {})
            return
        if isinstance(obj, TensorBase) and name == "grad":
            obj.grad = kept  # type: ignore[attr-defined]
            return
        kept = trace.sizes.plain(kept)
        trace.wrote(obj.__dict__ if isinstance(obj, types.ModuleType) else obj, name, value)
        if trace.ghost and isinstance(obj, TensorBase) and trace.variables.get(self.namer.name(obj), obj) is not obj:
            setattr(obj, name, kept)  # the replay changed its own tensor, of which this is a twin
        if isinstance(obj, TensorBase) or (isinstance(value, TensorBase) and is_module(obj)):
            self.namer.writer.flush()
            trace.tree.replaced[id(obj), name] = name in obj.__dict__
        self.write(lambda: f"{self.namer.name(obj)}.{name} = {self.namer.name(value)}", lambda: setattr(obj, name, kept), value)

    def set_marks(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method that sets marks of a tensor or Module from outside and returns that; a ghost sets them again."""
        trace, ghost = self.trace, self.trace.ghost
        trace.lasts()
        if trace.deferred or name == "requires_grad_":  # a segment is for leaves as they are
            self.namer.writer.flush()
        args, kwargs = tuple([trace.fix(a) for a in args]), {k: trace.fix(v) for k, v in kwargs.items()}
        text = self.namer.call_text(trace.tree.constant(set_marks), (owner, name, *args), kwargs)
        names = [trace.tree.fresh()]
        with outside_capture():
            trace.step(text, lambda: set_marks(owner, name, *args, **kwargs), names=names, undo=MarksUndo(names[0]))
            if ghost and trace.recording:
                set_marks(owner, name, *args, **kwargs)
        return owner

    def delete_attribute(self, obj: Any, name: str) -> None:
        deleter, found = written(type(obj), "__delattr__"), static_lookup(type(obj), name)
        part = static_lookup(type(found), "__delete__")
        if deleter is not None:
            self.call(deleter, (obj, name), {})
        elif type(found) is property and type(found.fdel) is types.FunctionType:
            self.call(found.fdel, (obj,), {})
        elif type(part) is types.FunctionType:
            self.call(part, (found, obj), {})
        elif not self.outside(obj):
            self.trace.lasts(obj)
            delattr(obj, name)
        else:
            self.host(delattr, (obj, name), {}, flush=is_ours(type(obj)), forget=False)
            self.trace.wrote(obj, name, MISSING)

    # -- items ------------------------------------------------------------------------------------------
    def subscript(self, holder: Any, key: Any) -> Any:
        obj: Any = self.trace.fix(holder)
        kind = type(obj)
        method = written(kind, "__getitem__")
        if method is not None:
            return self.call(method, (obj, key), {})
        looks = not isinstance(obj, TensorBase) and self.unread(key)
        if looks or (varies(key) and isinstance(obj, (list, tuple, str, dict)) and self.outside(obj)):
            return self.host(operator.getitem, (obj, key), {}, flush=looks and holds_pending((obj, key)), forget=False)
        key = self.sized(self.brought_in(self._index(key))) if isinstance(obj, TensorBase) else self.fixed(key)
        if is_module(obj) and id(obj) not in self.trace.foreign:
            self.note_module(obj, ways_into(obj))
            return get_item(obj, key)
        if isinstance(obj, TensorBase) or not self.outside(obj):
            if isinstance(obj, dict) and (made := self._missing(obj, key)) is not MISSING:
                return made
            if isinstance(obj, type) or not isinstance(obj, (tuple, list)):
                return self.boxed(get_item(obj, key)) if kind is dict else self.native_item(obj, key)
            return self.boxed(obj[key])
        if isinstance(obj, (list, tuple, dict)) and kind.__getitem__ in ITEM_READERS and self._hashable(key):
            if isinstance(obj, dict) and (made := self._missing(obj, key)) is not MISSING:
                return made
            text = f"{self.namer.name(obj)}[{self.namer.name(key)}]"
            return self.trace.read((id(obj), key), text, lambda: operator.getitem(obj, key))
        return self.host(operator.getitem, (obj, key), {}, flush=False, forget=False)

    def _missing(self, obj: Any, key: Any) -> Any:
        """What code of the program makes for a key that a dictionary lacks; MISSING where there is none, or no such code."""
        missing, factory = written(type(obj), "__missing__"), getattr(obj, "default_factory", None)
        native = factory is None or (isinstance(factory, type) and factory.__module__ == "builtins")
        if (missing is None and native) or self.truth(self.contains(obj, key)):
            return MISSING
        if missing is not None:
            return self.call(missing, (obj, key), {})
        value = self.call(self.load_attribute(obj, "default_factory"), (), {})
        self.store_subscript(obj, key, value)
        return value

    def _index(self, key: Any) -> Any:
        """An index of a tensor: positions in a list that change are a tensor of every call."""
        if type(key) is tuple and not self.outside(key):
            return tuple([self._index(k) for k in key])
        if type(key) is slice:
            ends = (key.start, key.stop, key.step)
            by_tensor = [isinstance(v, TensorBase) for v in ends]
            if any(by_tensor) or self.unread(key):
                read = [self.host(operator.index, (v,), {}, forget=False) if t else v for v, t in zip(ends, by_tensor, strict=True)]
                return slice(*map(self._index, read))
        position = written(type(key), "__index__")
        if position is not None:
            return self.call(position, (key,), {})
        if type(key) is not list or not self.trace.recording:
            return key
        items = self.brought_in(key, fixed=False) if self.outside(key) else [self.boxed(v) for v in key]
        changing = any(type(v) is Box for v in items) and all(type(v.value if type(v) is Box else v) is int for v in items)
        return self.host(tensor_of, (key,), {}, flush=False, forget=False) if changing else key

    @staticmethod
    def _hashable(key: Any) -> bool:
        return isinstance(key, (*SCALARS, type)) or (isinstance(key, tuple) and all(isinstance(k, SCALARS) for k in key))

    def native_item(self, obj: Any, key: Any) -> Any:
        """An item of something that is not known by its place."""
        return self.attempt(operator.getitem, (obj, key), {})

    # -- our own functions ------------------------------------------------------------------------------
    def attempt(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call one of our functions; where it fails with sizes that are no numbers, with those of now."""
        if not self.trace.sizes.names:
            return function(*args, **kwargs)
        try:
            return self.trace.sizes.notice(function(*args, **kwargs))
        except Uncapturable:
            raise
        except Exception:
            if not self.trace.recording or any(hasattr(v, "semantics") for v in (*args, *kwargs.values())):
                raise  # code of the user has run
        return self._with_sizes_of_now(function, args, kwargs)

    def _with_sizes_of_now(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            return self._now(function)(*self._now(tuple(args)), **self._now(kwargs))
        except Exception as error:  # graphs speak of sizes that are no numbers still
            error.args = tuple([self.trace.sizes.told(a) for a in error.args])
            raise

    def _now(self, value: Any, depth: int = 4) -> Any:
        """A value whose sizes, and those of the tensors in it, are fixed from here on."""
        sizes = self.trace.sizes
        if isinstance(value, TensorBase):
            sizes.untrack(value)
        elif type(value) in (types.BuiltinMethodType, types.MethodType):
            self._now(value.__self__)
        elif type(value) in (Expression, slice):
            return sizes.fixed(value)
        elif type(value) in (list, tuple, Size) and depth:
            return type(value)([self._now(v, depth - 1) for v in value])
        elif type(value) is dict and depth:
            return {k: self._now(v, depth - 1) for k, v in value.items()}
        return value

    def wrote_all(self, owner: Any) -> None:
        self.trace.wrote(owner, None, None)
        for place in [k for k in self.trace.reads if k[0] == id(owner)]:
            del self.trace.reads[place]

    def store_subscript(self, obj: Any, key: Any, value: Any) -> None:
        self._change_item(obj, key, value, "__setitem__")

    def delete_subscript(self, obj: Any, key: Any) -> None:
        self._change_item(obj, key, MISSING, "__delitem__")

    def _change_item(self, obj: Any, key: Any, value: Any, method: str) -> None:
        rest = () if value is MISSING else (value,)
        found = written(type(obj), method)
        if found is not None:
            self.call(found, (obj, key, *rest), {})
            return
        act: Any = operator.setitem if rest else operator.delitem
        if isinstance(obj, TensorBase):
            held = [self.for_tensor("fill", v) if type(v) is Box else self.sized(self.brought_in(v)) for v in rest]
            self.attempt(act, (obj, self.sized(self.brought_in(self._index(key))), *held), {})
            return
        if not self.outside(obj) and not self.unread(key):
            self.trace.lasts(obj)
            act(obj, self.kept(self.fixed(key)), *[self.kept(self.gathered(self.brought_in(v)) if type(key) is slice else v) for v in rest])
            return
        if (varies(key) or self.unread(key)) and isinstance(obj, (list, dict)):
            self.host(act, (obj, key, *rest), {}, flush=holds_pending(rest), forget=False)
            self.wrote_all(obj)
            return
        key = self.fixed(key)
        kept = [self.outward(v) for v in rest]
        if not isinstance(obj, (list, dict)):
            self.host(act, (obj, key, *rest), {}, flush=holds_pending(rest))
            return
        self.trace.wrote(obj, None, None)
        for place in [k for k in self.trace.reads if k[0] == id(obj) and (isinstance(obj, list) or k[1] == key or not self._hashable(key))]:
            del self.trace.reads[place]
        name = self.namer.name
        if not rest or isinstance(obj, list):  # may raise
            self.host(act, (obj, key, *rest), {}, flush=holds_pending(rest), forget=False)
            return
        if self._hashable(key):
            self.trace.reads[id(obj), key] = (rest[0], obj)
        self.write(lambda: f"{name(obj)}[{name(key)}] = {name(rest[0])}", lambda: act(obj, key, *kept), *rest)

    # -- patterns ---------------------------------------------------------------------------------------
    def match_class(self, subject: Any, cls: Any, count: int, names: Any) -> Any:
        value = self.trace.sizes.plain(subject.value if type(subject) is Box else subject)
        if not isinstance(cls, type) or count > 1 and cls in SELF_MATCHING:
            return super().match_class(value, cls, count, names)  # the error
        if not isinstance(value, cls):
            return None
        if count and issubclass(cls, SELF_MATCHING) and "__match_args__" not in dir(cls):
            positional, found = (), [subject]
        else:
            positional, found = getattr(cls, "__match_args__", ()), []
        if len(found) < count > len(positional):
            return super().match_class(value, cls, count, names)
        for name in (*positional[: count - len(found)], *names):
            try:
                found.append(self.load_attribute(subject, name))
            except AttributeError:
                return None
        return tuple(found)

    def match_keys(self, subject: Any, keys: Any) -> Any:
        if not self.outside(subject):
            return super().match_keys(subject, self.fixed(keys))
        found = []
        for key in keys:
            if not self.truth(self.contains(subject, key)):
                return None
            found.append(self.subscript(subject, key))
        return tuple(found)

    def length(self, value: Any) -> Any:
        return self.trace.fix(self.call(len, (value,), {}))

    # -- whole containers -------------------------------------------------------------------------------
    def fixed(self, value: Any) -> Any:
        """A value for native code that looks at it: boxes opened and checked, also in tuples, lists and dicts made inside."""
        if varies(value):
            return self.trace.fix(value)
        if carries(value, self.trace.known):
            return self._settled(value, self.trace.fix)
        if type(value) is slice and is_symbolic(value):
            return self.trace.sizes.fixed(value)
        return self._as_known(value)

    def _as_known(self, value: Any) -> Any:
        """A list or tuple made inside with the tensors that the interpreter knows: what is held are those of the replay."""
        if not self.trace.stand_ins or type(value) not in (list, tuple) or self.outside(value):
            return value
        items = [self._as_known(self.trace.stand_in(v)) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)

    def sized(self, value: Any) -> Any:
        """A value for our own functions, which take sizes as they are; other boxes are opened and checked, or become sizes."""
        if type(value) is slice:
            return slice(self.sized(value.start), self.sized(value.stop), self.sized(value.step))
        if type(value) is Box or carries(value, self.trace.known):
            return self._settled(value, self.size)
        return self._as_known(value)

    def size(self, value: Any) -> Any:
        """A number as a size of the program where it can be one."""
        if type(value) is not Box:
            return value
        found = self.trace.sizes.of_number(value.name, value.value)
        return self.trace.fix(value) if found is None else found

    def _settled(self, value: Any, settle: Callable[[Any], Any]) -> Any:
        if isinstance(value, tuple):
            return each_changed(value, lambda v: self._settled(v, settle))
        if type(value) in (list, dict):
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                value[key] = self._settled(item, settle)
            return value
        if type(value) is set:
            for item in value:
                self._settled(item, settle)
            return value
        return settle(self.boxed(value))

    def brought_in(self, value: Any, depth: int = 4, fixed: bool = True) -> Any:
        """Outside containers, for our own functions, as copies made of what was read of them item by item."""
        if not isinstance(value, CONTAINERS) or not depth:
            return value
        kind = type(value)
        if not self.outside(value):
            if kind in (tuple, list) and any(isinstance(v, CONTAINERS) for v in value):
                return kind([self.brought_in(v, depth - 1) for v in value])
            return value
        read = self.trace.read
        name = self.namer.name(value)
        if isinstance(value, (list, tuple)):
            count = read((id(value), ("length",)), f"len({name})", lambda: len(value), fixed=True)
            items = [read((id(value), i), f"{name}[{i}]", lambda i=i: value[i], fixed=fixed) for i in range(count)]
            items = [self.brought_in(v, depth - 1) for v in items]
            if kind is not tuple and isinstance(value, tuple):
                made = iter(items)
                return each_changed(value, lambda _: next(made))
            return tuple(items) if isinstance(value, tuple) else items
        if not isinstance(value, dict):
            return self.host(kind, (value,), {}, flush=False, forget=False)
        variable, keys = self.trace.step(f"tuple({name})", lambda: tuple(value))
        self.trace.check(variable, "look", ("guard", keys))
        items = [read((id(value), k), f"{name}[{self.namer.name(k)}]", lambda k=k: value[k], fixed=True) for k in keys]
        return {k: self.brought_in(v, depth - 1) for k, v in zip(keys, items, strict=True)}

    def gathered(self, value: Any, unpacked: bool = False) -> Any:
        """What native code goes through at once."""
        raise NotImplementedError

    def host(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, flush: bool = True, forget: bool = True) -> Any:
        """Call something unknown, for real, at every call."""
        raise NotImplementedError


FUNCTIONS = (types.FunctionType, types.MethodType)
# By these native code finds out about an object what it does not see itself.
LOOKED = ("__eq__", "__hash__", "__lt__", "__gt__", "__bool__", "__len__", "__index__", "__int__", "__float__", "__str__", "__repr__",
          "__format__", "__iter__", "__next__", "__getitem__", "__add__", "__radd__")  # fmt: skip
SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
get_item: Any = operator.getitem
ITEM_READERS = (list.__getitem__, tuple.__getitem__, dict.__getitem__)
