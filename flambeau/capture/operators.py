"""What operators, comparisons, truth, iteration and the making of containers mean while a function is captured."""

from __future__ import annotations

import math
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.capture.calling_back import by_position
from flambeau.capture.guards import ways_into
from flambeau.capture.machine.semantics import CONVERSIONS
from flambeau.capture.naming import carries, holds_pending
from flambeau.capture.places import Places, is_module
from flambeau.capture.values import ATOMS, Box, is_ours, is_sealed, static_lookup, varies, written
from flambeau.core.numbers import HostInteger, HostNumber, is_word
from flambeau.core.symbolic import Expression, is_nonnegative
from flambeau.tensor.base import TensorBase

__all__ = ["NamedRead", "Operators"]

# Operations of tensors and numbers in which a number is an operand like another tensor.
WITH_NUMBERS = frozenset((
    "add", "sub", "mul", "truediv", "floordiv", "mod", "rsub", "remainder", "lt", "le", "eq", "ne", "gt", "ge", "lerp", "clamp",
    "clamp_min", "clamp_max", "masked_fill", "fill", "full", "full_like", "new_full", "index_fill", "where", "leaky_relu", "addcmul",
    "addmm", "baddbmm", "softplus", "elu", "celu", "threshold", "hardtanh", "hardshrink", "softshrink", "linspace", "nan_to_num",
    "addcdiv", "addmv", "addr", "addbmm", "scatter", "fill_diagonal_", "gumbel_softmax", "clip_grad_norm_",
))  # fmt: skip
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
PLAIN = (*ATOMS, list, dict, set, tuple, frozenset)
# What sizes do among each other; their comparisons become predicates.
OF_SIZES = frozenset(("add", "sub", "mul", "floordiv", "mod", "lt", "le", "eq", "ne", "gt", "ge"))
WHOLE = (int, bool, Expression)
SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@", "lshift": "<<",
    "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">=",
}  # fmt: skip


class NamedRead:
    """Gives the number in a variable of the program: at the first run the one at hand."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value

    def __call__(self) -> Any:
        return self.value


class Operators(Places):
    """Operators on values."""

    # -- arithmetic -------------------------------------------------------------------------------------
    def binary(self, name: str, a: Any, b: Any) -> Any:
        return self._operate(name, getattr(operator, name), a, b)

    def inplace(self, name: str, a: Any, b: Any) -> Any:
        act = getattr(operator, "i" + name.rstrip("_"))
        special = f"__i{name.rstrip('_')}__"
        foreign = not isinstance(a, (TensorBase, type)) and not is_ours(type(a)) and type(a) not in ATOMS
        looks = isinstance(a, (dict, set)) and (self.unread(b) or self.outside(b)) and written(type(a), special) is None
        if looks or self.outside(a) and foreign and type(static_lookup(type(a), special)) not in (types.FunctionType, type(None)):
            return self.host(act, (a, b), {}, flush=holds_pending(b))
        if isinstance(a, (list, dict, set)):
            self.trace.lasts(a)
            b = self.gathered(self.brought_in(b)) if type(a) is list else b
        method = static_lookup(type(a), special)
        if written(type(a), special) is not None:
            found = self.call(method, (a, b), {})
            if found is not NotImplemented:
                return found
        elif isinstance(a, TensorBase) or method is not None:
            return self.attempt(act, (a, self.for_tensor(name, b) if isinstance(a, TensorBase) else self.fixed(b)), {})
        return self._operate(name, act, a, b)

    def compare(self, name: str, a: Any, b: Any) -> Any:
        return self._operate(name, getattr(operator, name), a, b)

    def _operate(self, name: str, act: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        first, second = type(a), type(b)
        if first is Expression or second is Expression:
            if name in OF_SIZES and first in WHOLE and second in WHOLE and (name not in ("floordiv", "mod") or is_nonnegative(b - 1)):
                return act(a, b)
            return self._operate(name, act, self.as_box(a), self.as_box(b))
        if first is Box or second is Box:
            return self._with_box(name, act, a, b)
        shapes = first is second and first in (tuple, list) and (name == "add" or (name in ("eq", "ne") and not self.unread((a, b))))
        if shapes and not self._reads_outside(a) and not self._reads_outside(b):
            return self._made(act(self.sized(a), self.sized(b)))
        if (first in PLAIN or isinstance(a, TensorBase)) and (second in PLAIN or isinstance(b, TensorBase)):
            looks = name not in ("add", "mul") and (self.unread(a) or self.unread(b))
            if looks or self._reads_outside(a) or self._reads_outside(b):
                return self.host(act, (a, b), {}, flush=holds_pending((a, b)), forget=False)
            return self._made(self.attempt(act, (self.fixed(a), self.fixed(b)), {}))
        return self._by_method(name, act, a, b)

    def as_box(self, value: Any) -> Any:
        """A size as any number that may change."""
        trace = self.trace
        if type(value) is not Expression:
            return value
        if not trace.recording:
            return trace.fix(value)
        text = trace.sizes.text(value)
        if text.isidentifier():
            return Box(trace.sizes.plain(value), text)
        name, now = trace.step(text, lambda: trace.sizes.plain(value))
        return Box(now, name)

    def _reads_outside(self, value: Any) -> bool:
        return isinstance(value, (list, dict, set, tuple)) and self.outside(value)

    def _made(self, value: Any) -> Any:
        return self.trace.new(value) if type(value) in (list, dict, set) else value

    def _with_box(self, name: str, act: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        other = b if type(a) is Box else a
        if isinstance(other, TensorBase):
            return self.attempt(act, (self.for_tensor(name, a), self.for_tensor(name, b)), {})
        if type(other) is not Box and type(other) not in ATOMS:
            return self._operate(name, act, self.trace.fix(a), self.trace.fix(b))
        if not self.trace.recording:
            return act(self.trace.fix(a), self.trace.fix(b))
        x, y = (v.value if type(v) is Box else v for v in (a, b))
        sign, names = SIGNS[name], [self.namer.name(v) for v in (a, b)]
        found, value = self.trace.step(f"{names[0]} {sign} {names[1]}", lambda: act(x, y))
        return Box(value, found)

    def for_tensor(self, name: str, value: Any) -> Any:
        """A number that meets a tensor: an input of the segment where the operation takes numbers like tensors."""
        value = self.as_box(value)
        if type(value) is not Box:
            return self.fixed(value)
        kind = type(value.value)
        if name not in WITH_NUMBERS or not (kind is float or (kind is int and is_word(value.value))) or not self.trace.recording:
            return self.trace.fix(value)
        return (HostNumber if kind is float else HostInteger).of(NamedRead(value.name, value.value))

    def _by_method(self, name: str, act: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        plain = name.rstrip("_")
        there = f"__{plain}__"
        back = f"__{SWAPPED[name]}__" if name in SWAPPED else f"__r{plain}__"
        ways = [(a, there, b), (b, back, a)]
        if type(b) is not type(a) and issubclass(type(b), type(a)) and static_lookup(type(b), back) is not static_lookup(type(a), back):
            ways.reverse()
        methods = [static_lookup(type(owner), special) for owner, special, _ in ways]
        if not any(written(type(owner), special) is not None for owner, special, _ in ways):
            return self._native_operation(act, a, b)
        for method, (owner, _, other) in zip(methods, ways, strict=True):
            if method is None:
                continue
            found = self.call(types.MethodType(method, owner), (other,), {})
            if found is not NotImplemented:
                return found
        return act(a, b)  # the error that Python gives, or the default comparison

    def _native_operation(self, act: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        fixed = (type, types.ModuleType, types.FunctionType)
        if any((self.outside(v) and not is_sealed(v) and not isinstance(v, fixed)) or self.unread(v) for v in (a, b)):
            return self.host(act, (a, b), {}, flush=holds_pending((a, b)), forget=False)
        if isinstance(a, tuple) and isinstance(b, tuple):  # shapes
            return act(self.sized(a), self.sized(b))
        return self.attempt(act, (self.fixed(a), self.fixed(b)), {})

    def unary(self, name: str, a: Any) -> Any:
        if name in ("not", "not_"):
            return not self.truth(a)
        act = getattr(operator, name)
        if type(a) is Expression:
            if name == "neg":
                return -a
            a = self.as_box(a)
        if type(a) is Box:
            if not self.trace.recording:
                return act(a.value)
            sign = {"neg": "-", "pos": "+", "invert": "~"}[name.rstrip("_")]
            found, value = self.trace.step(f"{sign}{a.name}", lambda: act(a.value))
            return Box(value, found)
        method = written(type(a), f"__{name.rstrip('_')}__")
        if method is not None:
            return self.call(method, (a,), {})
        if self.outside(a) and not is_sealed(a):
            return self.host(act, (a,), {}, flush=False, forget=False)
        return act(a)

    def is_same(self, a: Any, b: Any) -> bool:
        if type(a) is Expression and type(b) is Expression:
            return self.trace.fix(a) is self.trace.fix(b)
        x, y = (v.value if type(v) is Box else v for v in (a, b))
        same = self.trace.stand_in(x) is self.trace.stand_in(y)
        if self.trace.recording and x is not None and y is not None and self.outside(x) and self.outside(y):
            first, second = self.trace.known[id(x)][0], self.trace.known[id(y)][0]
            if first != second:
                return self.trace.check(f"{first} is {second}", "same", same)
        if type(a) is Box and type(b) is not Box and type(y) is bool:
            return self.trace.check(f"{a.name} is {y}", "same", same)
        return same

    def contains(self, container: Any, item: Any) -> Any:
        container = self.trace.fix(container)
        method = static_lookup(type(container), "__contains__")
        if written(type(container), "__contains__") is not None:
            return self.call(method, (container, item), {})
        if isinstance(container, TensorBase):
            return self.host(operator.contains, (container, item), {}, forget=False)
        if method is None and self._iterates_in_python(container):
            return any(self.truth(self.compare("eq", v, item)) for v in self._items(container))
        looks = self.unread(item) or (type(container) in (list, tuple, deque) and self.unread(container))
        if looks or (self.outside(container) and not is_sealed(container)) or varies(item):
            return self.host(operator.contains, (container, item), {}, flush=holds_pending((container, item)), forget=False)
        return operator.contains(container, self.fixed(item))

    def truth(self, value: Any) -> bool:
        kind = type(value)
        if kind is Box:
            if not self.trace.recording:
                return bool(value.value)
            return self.trace.check(value.name, "truth", bool(value.value))
        if kind is bool or value is None:
            return value is True
        if isinstance(value, TensorBase):
            found = self.host(bool, (value,), {}, forget=False)
            return self.truth(found) if type(found) is Box else bool(found)
        for special in ("__bool__", "__len__"):
            method = static_lookup(kind, special)
            if written(kind, special) is not None:
                return self.truth(self.call(method, (value,), {}))
            if method is not None:
                break
        if self.outside(value) and method is not None and not is_sealed(value):
            return self.trace.check(f"bool({self.namer.name(value)})", "truth", bool(value))
        return bool(value)

    # -- iteration --------------------------------------------------------------------------------------
    def _iterates_in_python(self, value: Any) -> bool:
        if isinstance(value, type):
            return False
        return any(written(type(value), name) is not None for name in ("__iter__", "__next__", "__getitem__"))

    def goes_by_item(self, value: Any) -> bool:
        """Whether native code would go through something from outside that is not read place by place: a view, set or iterator."""
        by_place = isinstance(value, (TensorBase, str, bytes, tuple, list, dict, type, self.own_generators))
        return not by_place and hasattr(type(value), "__iter__") and self.outside(value)

    def gathered(self, value: Any, unpacked: bool = False) -> Any:
        """What code that is not interpreted goes through at once: the items of what is, or goes by item; ``unpacked`` are theirs too."""
        runs = isinstance(value, self.own_generators) or (not isinstance(value, TensorBase) and self._iterates_in_python(value))
        if not runs and not self.goes_by_item(value):
            return value
        return [tuple([self.kept(v) for v in self._items(i)]) if unpacked else self.kept(i) for i in self._items(value)]

    def run_through(self, value: Any) -> Any:
        """An iterator from outside, alone or in groups of an optimizer, as the items that the interpreter reads: those of this call."""
        if hasattr(value, "__next__"):
            found = self.gathered(value)
            return list(found) if isinstance(found, (types.GeneratorType, filter, map)) else found
        if type(value) in (list, dict) and not self.outside(value):
            parts = dict(value) if type(value) is dict else dict(enumerate(value))
            now = {k: self.run_through(v) for k, v in parts.items()}
            if any(now[k] is not parts[k] for k in parts):
                return now if type(value) is dict else list(now.values())
        return value

    def iterator(self, value: Any) -> Any:
        value = self.trace.fix(value)
        kind = type(value)
        method = static_lookup(kind, "__iter__")
        if isinstance(value, TensorBase):
            return iter(value.unbind(0)) if value.meta.shape else iter(value)  # type: ignore[attr-defined]
        if written(kind, "__iter__") is not None and not isinstance(value, self.own_generators):
            return self.call(method, (value,), {})
        if isinstance(value, self.own_generators):
            return value
        if method is None and self._iterates_in_python(value):
            return self.machine.call_function(by_position, (value,), {})
        if self.outside(value) and (not is_sealed(value) or self.is_data(kind) or id(value) in self.trace.foreign):
            return self.host(iter, (value,), {}, flush=False, forget=False)
        if is_module(value):
            self.note_module(value, ways_into(value))
        return iter(value)

    def advance(self, iterator: Any) -> Any:
        if isinstance(iterator, self.own_generators):
            return iterator.send(None) if iterator.frame.semantics is self else self.host(next, (iterator,), {})
        method = written(type(iterator), "__next__")
        if method is not None:
            return self.call(method, (iterator,), {})
        if self.outside(iterator):
            return self.host(next, (iterator,), {}, flush=self.is_data(type(iterator)), forget=type(iterator) not in BUILTIN_ITERATORS)
        return self.boxed(next(iterator))

    def _items(self, value: Any) -> Iterable[Any]:
        iterator = self.iterator(value)
        while True:
            try:
                item = self.advance(iterator)
            except StopIteration:
                return
            yield item

    def is_data(self, kind: type) -> bool:
        """Whether a class of ours reads data from outside: a loader, a file."""
        return kind.__module__.startswith(("flambeau.utils", "flambeau.serialization"))

    def unpack(self, value: Any, count: int) -> list[Any]:
        value = self.trace.fix(value)
        if type(value) is tuple and not self.outside(value):
            items = [self.boxed(v) for v in value]
        elif isinstance(value, (tuple, list)) and self.outside(value):
            items = self._items_outside(value)
        else:
            items = []
            for item in self._items(value):
                items.append(item)
                if len(items) > count:
                    break
        if len(items) > count:
            counted = sys.version_info >= (3, 14) and type(value) in (tuple, list, dict)
            got = f", got {self.trace.fix(self.call(len, (value,), {}))}" if counted else ""
            raise ValueError(f"too many values to unpack (expected {count}{got})")
        if len(items) < count:
            raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
        return items

    def _items_outside(self, value: Any) -> list[Any]:
        """The items of a tuple or list from outside, for as long as there are so many."""
        size = self.trace.read((id(value), ("length",)), f"len({self.namer.name(value)})", lambda: len(value), fixed=True)
        return [self.subscript(value, i) for i in range(size)]

    def unpack_ex(self, value: Any, before: int, after: int) -> list[Any]:
        items = list(self._items(value))
        if len(items) < before + after:
            least = f"at least {before + after}" if after or before else ""
            raise ValueError(f"not enough values to unpack (expected {least}, got {len(items)})")
        end = len(items) - after
        middle = self.trace.new([self.kept(v) for v in items[before:end]])
        return [*items[:before], middle, *items[end:]]

    def positional_arguments(self, function: Any, value: Any) -> tuple[Any, ...]:
        value = self.trace.fix(value)
        if type(value) is tuple and not self.outside(value):
            return tuple([self.boxed(v) for v in value])
        if isinstance(value, (tuple, list)) and self.outside(value):
            return tuple(self._items_outside(value))
        if not hasattr(type(value), "__iter__") and not hasattr(type(value), "__getitem__"):
            return super().positional_arguments(function, value)
        return tuple(self._items(value))

    def keyword_arguments(self, function: Any, value: Any) -> dict[str, Any]:
        return self.dict_merge({}, value, function) if self.outside(value) else super().keyword_arguments(function, value)

    def list_to_tuple(self, items: Any) -> Any:
        return tuple([self.boxed(v) for v in items])

    # -- making containers ------------------------------------------------------------------------------
    def build_list(self, items: Sequence[Any]) -> Any:
        return self.trace.new([self.kept(v) for v in items])

    def build_set(self, items: Sequence[Any]) -> Any:
        if not any(map(self.unread, items)):
            return self.trace.new({self.fixed(v) for v in items})
        made = self.build_set(())
        self.set_update(made, items)
        return made

    def build_map(self, keys: Sequence[Any], values: Sequence[Any]) -> Any:
        unread = any(map(self.unread, keys))
        made = self.trace.new({} if unread else dict(zip(map(self.fixed, keys), map(self.kept, values), strict=True)))
        for key, value in zip(keys, values, strict=True) if unread else ():
            self.store_subscript(made, key, value)
        return made

    def build_slice(self, items: Sequence[Any]) -> Any:
        return slice(*[v if type(v) is Expression else self.size(v) for v in items])

    def build_string(self, parts: Sequence[Any]) -> Any:
        if any(varies(p) for p in parts):
            return self.host("".join, (tuple(parts),), {}, flush=False, forget=False)
        return "".join(parts)

    def format_value(self, value: Any, conversion: Any, spec: Any) -> Any:
        if carries(value, {}) or isinstance(value, TensorBase) or type(spec) is Box or self.outside(value) or self.unread(value):
            return self.host(formatted, (value, conversion, spec), {}, flush=holds_pending(value), forget=False)
        return super().format_value(self.fixed(value), conversion, spec)

    def list_append(self, target: list[Any], item: Any) -> None:
        target.append(self.kept(item))

    def set_add(self, target: set[Any], item: Any) -> None:
        if self.unread(item) or self.outside(target):
            self.host(set.add, (target, item), {}, flush=holds_pending((target, item)), forget=False)
        else:
            target.add(self.fixed(item))

    def map_add(self, target: dict[Any, Any], key: Any, value: Any) -> None:
        self.store_subscript(target, key, value)

    def list_extend(self, target: list[Any], items: Any) -> None:
        able = hasattr(type(items), "__iter__") or hasattr(type(items), "__getitem__")
        super().list_extend(target, [self.kept(v) for v in self._items(items)] if able else items)

    def set_update(self, target: set[Any], items: Any) -> None:
        for item in self._items(items):
            self.set_add(target, item)

    def dict_update(self, target: dict[Any, Any], other: Any) -> None:
        super().dict_update(target, self._mapping(other))

    def dict_merge(self, target: dict[Any, Any], other: Any, function: Any) -> Any:
        return super().dict_merge(target, self._mapping(other), function)

    def _mapping(self, value: Any) -> Any:
        """A mapping as a dictionary of what was read of it."""
        if isinstance(value, dict) or not hasattr(type(value), "keys"):
            return self.brought_in(value)
        keys = self._items(self.call(self.load_attribute(value, "keys"), (), {}))
        return {(k := self.fixed(key)): self.kept(self.subscript(value, k)) for key in keys}

    def make_function(self, *parts: Any) -> Any:
        code, namespace, name, defaults, *rest = parts
        return self.trace.new(super().make_function(code, namespace, name, self.kept(defaults), *rest))

    own_generators: tuple[type, ...] = ()


def formatted(value: Any, conversion: str | None, spec: Any) -> str:
    """A value as an f-string writes it."""
    return format(CONVERSIONS[conversion](value) if conversion is not None else value, spec or "")


BUILTIN_ITERATORS = frozenset(type(iter(x)) for x in ([], (), {}, {}.values(), {}.items(), set(), range(0), "", b"")) | {
    zip, enumerate, reversed, map, filter,
}  # fmt: skip
# Those that go through all that they are given.
CONSUMERS = frozenset((list, tuple, set, frozenset, sum, sorted, min, max, dict, deque, math.fsum, math.prod, bytes, bytearray))
