"""Values as JSON and back, in another process: what is not plain data goes by its name, by its place, or piece by piece."""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from flambeau.capture.contents import Describer, NotPortable, digest, found_by_name, is_python_own, named
from flambeau.capture.finding import Finder
from flambeau.capture.guards import ModuleGuard
from flambeau.capture.marks import MarksUndo
from flambeau.capture.places import is_module, is_trusted_module
from flambeau.capture.segments import AtSizes, GradientUndo, Result, alias
from flambeau.capture.session import CodeGuard
from flambeau.capture.sizes import Pattern, own_name
from flambeau.capture.tree import Tree
from flambeau.capture.values import MISSING
from flambeau.core.aval import Aval
from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import BY_NAME, dtype
from flambeau.core.identity import Same, the_object
from flambeau.core.shape import Size
from flambeau.core.symbolic import Expression, combined, symbol, terms_of
from flambeau.interp.tracing import NumberSlot, SizeSlot, TensorSlot, tensor_slots
from flambeau.ops.declare import ALL as OPERATORS
from flambeau.ops.declare import Operator
from flambeau.runtime.storage import TensorMeta, contiguous_strides, meta_of
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import tensor as tensor_of
from flambeau.tensor.views import Step as ViewStep

__all__ = ["Decoder", "Encoder", "Outdated"]

SMALL = 1 << 16  # bytes of a literal tensor
RECORDS: dict[str, Any] = {
    c.__name__: c for c in (Result, Pattern, ViewStep, SizeSlot, NumberSlot, GradientUndo, MarksUndo, Aval)
}  # fmt: skip


class Outdated(Exception):
    """What a kept capture relied on is not so in this process."""


class Encoder:
    """Makes JSON of values. ``facts`` says of the objects met what must be so again."""

    def __init__(self, tree: Tree, finder: Finder) -> None:
        self.tree = tree
        self.finder = finder
        self.facts: dict[str, tuple[Any, str]] = {}
        self.accounted: set[str] = set()  # digests of code that is looked at again
        self.runners: dict[int, int] = {id(r): i for i, r in enumerate(tree.segments)}
        self._kept: list[Any] = []

    def all(self, values: Sequence[Any]) -> list[Any]:
        """Those of several values."""
        return [self.of(v) for v in values]

    def of(self, value: Any) -> Any:
        """The JSON of one value; `NotPortable` where there is none."""
        kind: Any = type(value)
        if kind in (int, str, bool) or value is None or (kind is float and value == value):
            return value
        if id(value) in self.finder.roots:
            return self._object(value)
        maker = MAKERS.get(kind)
        if maker is not None:
            return maker(self, value)
        if kind.__name__ in RECORDS and RECORDS[kind.__name__] is kind:
            return ["record", kind.__name__, self.all([getattr(value, f.name) for f in fields(value)])]
        if value is self.tree:
            return ["tree"]
        if value is self.tree.calling_back:
            return ["calling back"]
        if id(value) in self.runners:
            return ["runner", self.runners[id(value)]]
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, BaseException):
            raise NotPortable(f"an exception that was raised outside ({kind.__qualname__})")
        found = named(value) if value is MISSING or isinstance(value, FUNCTIONS) or kind.__module__.startswith("numpy") else None
        if found is not None and (is_python_own(found[0]) or kind is not types.FunctionType):
            return ["named", *found]
        if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type):
            return ["member", self.of(value.__self__), value.__name__]
        if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, (dict, list)):
            return ["member", ["place", self._place(value.__self__)], value.__name__]
        return self._object(value)

    def _class(self, value: type) -> Any:
        found = named(value)
        if found is not None and is_python_own(found[0]):
            return ["named", *found]
        data = ["named", *found] if found is not None else ["place", self._place(value)]
        self._fact(data, value)
        return data

    def _object(self, value: Any) -> Any:
        if isinstance(value, TensorBase):
            return self._tensor(value)
        if type(value) is types.FunctionType and all(map(is_trusted_module, (value.__globals__.get("__name__"), value.__module__))):
            return self._closure(value)
        data = ["place", self._place(value)]
        if not isinstance(value, (dict, list, types.CellType, types.MethodType)) and not is_module(value):
            self._fact(data, value)
        return data

    def _place(self, value: Any) -> int:
        place = self.finder.place(value)
        if place is None:
            text = getattr(value, "__qualname__", type(value).__qualname__ + " object")
            raise NotPortable(f"{text}, which has no place that another process would find")
        return place

    def _fact(self, data: Any, value: Any) -> None:
        """The object has these contents."""
        key = repr(data)
        if key not in self.facts:
            self.facts[key] = data, ""
            if type(value) is not types.ModuleType:
                self.facts[key] = data, self.described(value)

    def described(self, value: Any) -> str:
        """The contents of an object in short; the code in it counts as looked at."""
        describer = Describer()
        found = digest(describer.of(value))
        self.accounted |= describer.codes
        return found

    def codes_of(self, guard: Any) -> set[str]:
        """The digests of the code that a guard looks at."""
        return set() if getattr(guard, "description", None) is None else guard.description[1]

    def _tensor(self, value: Any) -> Any:
        place = self.finder.place(value)
        if place is not None:
            return ["later", place]
        if id(value) in self.tree.literals and value.meta.nbytes <= SMALL and value.meta.device is cpu and value.meta.contiguous:
            return ["tensor", self.of(value.meta), value.tolist()]
        beside = self.finder.beside(value)
        if beside is not None and value.entry is None and not value._requires_grad and value.view_of is None:
            return ["alias", ["place", beside[0]], value.address - beside[1].address, self.of(value.meta)]
        raise NotPortable(f"a tensor {value.meta!r} without a place that another process would find")

    def _closure(self, value: types.FunctionType) -> Any:
        """A function that the library made: its code by where that stands, and what it holds."""
        path = code_path(value.__globals__, value.__code__)
        if path is None:
            raise NotPortable(f"a function of the library that is made at run time ({value.__qualname__})")
        cells = [self.of(c.cell_contents) for c in value.__closure__ or ()]
        return ["closure", value.__globals__["__name__"], path, cells, self.of(value.__defaults__), self.of(value.__kwdefaults__)]

    # -- by type ----------------------------------------------------------------------------------------
    def _code(self, value: types.CodeType) -> Any:
        """Code of a function that is made inside another one."""
        for function in self.finder.functions():
            path = path_inside(function.__code__, value)
            if path is not None:
                return ["inner code", self.of(function), path]
        raise NotPortable(f"the code of {value.co_qualname}, which has no place that another process would find")

    def _expression(self, value: Expression) -> Any:
        return ["expression", [[c, [self._atom(a) for a in monomial]] for monomial, c in terms_of(value)]]

    def _atom(self, atom: Any) -> Any:
        if atom.kind == "symbol":
            return [atom.kind, atom.name, atom.lower]
        if atom.kind not in ("floordiv", "mod", "min", "within"):
            raise NotPortable(f"a size of kind {atom.kind}")
        return [atom.kind, *self.all(atom.arguments)]

    def _meta(self, value: TensorMeta) -> Any:
        # Where a size is 1, contiguous tensors have any stride.
        known = all(type(n) is int for n in value.shape)
        usual = value.strides == contiguous_strides(value.shape) if known else value.contiguous
        return ["meta", self.all(value.shape), value.dtype.name, None if usual else self.all(value.strides), str(value.device)]

    def _list(self, value: list[Any]) -> Any:
        place = self.finder.known(value)
        return ["place", place] if place is not None else ["list", *self.all(value)]

    def placed(self, value: Any) -> Any:
        """An object by its place, None where it has none."""
        place = self.finder.place(value)
        return None if place is None else ["place", place]

    def _dict(self, value: Any) -> Any:
        return self.placed(value) or ["dict", *[[self.of(k), self.of(v)] for k, v in value.items()]]

    def _guard(self, value: ModuleGuard) -> Any:
        if value.description is None:
            if value.failed() is not None:
                raise NotPortable("a Module that the call itself changed")
            if value.varying:
                raise NotPortable("a Module whose tensors are replaced from call to call")
            value.description = describe_modules(value.modules)
        return ["modules", value.description[0], *self.all(value.modules)]


def describe_modules(modules: Sequence[Any]) -> tuple[str, set[str]]:
    """Modules in short, and the digests of the code in that."""
    describer = Describer()
    return digest([describer.of(m) for m in modules]), describer.codes


def agreeing(modules: list[Any], described: str) -> ModuleGuard:
    """The guard of Modules that were such in another process."""

    def agrees() -> bool:
        try:
            guard.description = describe_modules(modules)
        except NotPortable:
            return False
        return guard.description[0] == described

    guard = ModuleGuard(modules, agrees)
    guard.failed()
    guard.description = described, guard.description[1] if guard.description is not None else set()
    return guard


def code_path(namespace: dict[str, Any], code: types.CodeType) -> list[Any] | None:
    """Where the code of a function inside others stands: the name of the outermost, then positions among constants."""
    outer = code.co_qualname.partition(".<locals>")[0]
    found = found_by_name(namespace["__name__"], outer)
    function = getattr(found, "__wrapped__", found)
    path = path_inside(getattr(function, "__code__", None), code)
    return None if path is None else [outer, *path]


def path_inside(outer: Any, code: types.CodeType) -> list[int] | None:
    """The positions among constants that lead from a code object to one inside it."""
    waiting: list[tuple[Any, list[int]]] = [(outer, [])]
    while waiting:
        inside, path = waiting.pop()
        if inside is code:
            return path
        for i, constant in enumerate(getattr(inside, "co_consts", ())):
            if isinstance(constant, types.CodeType):
                waiting.append((constant, [*path, i]))
    return None


def _nan(_: Encoder, value: float) -> Any:
    return ["nan", struct.unpack("<q", struct.pack("<d", value))[0]]


FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip
MAKERS: dict[type, Callable[[Encoder, Any], Any]] = {
    float: _nan,
    tuple: lambda e, v: ["tuple", *e.all(v)],
    Size: lambda e, v: ["size", *e.all(v)],
    list: Encoder._list,
    dict: Encoder._dict,
    frozenset: lambda e, v: ["frozenset", *sorted(e.all(list(v)), key=repr)],
    bytes: lambda _, v: ["bytes", v.decode("latin1")],
    complex: lambda e, v: ["complex", e.of(v.real), e.of(v.imag)],
    slice: lambda e, v: ["slice", e.of(v.start), e.of(v.stop), e.of(v.step)],
    range: lambda _, v: ["range", v.start, v.stop, v.step],
    type(Ellipsis): lambda _, v: ["ellipsis"],
    type(NotImplemented): lambda _, v: ["not implemented"],
    dtype: lambda _, v: ["dtype", v.name],
    Device: lambda _, v: ["device", str(v)],
    TensorMeta: Encoder._meta,
    TensorSlot: lambda _, v: ["slot", v.index],
    Operator: lambda _, v: ["operator", v.name],
    Expression: Encoder._expression,
    Same: lambda e, v: ["same", e.of(v.value)],
    ModuleGuard: Encoder._guard,
    CodeGuard: lambda e, v: ["code", e.of(v.function)],
    AtSizes: lambda e, v: ["sized", e.of(v.function), e.of(v.parts), e.of(v.names)],
    partial: lambda e, v: e.placed(v) or ["partial", e.of(v.func), e.of(v.args), e.of(v.keywords)],
    types.MethodType: lambda e, v: (None if v.__func__ is the_object else e.placed(v)) or ["method", e.of(v.__func__), e.of(v.__self__)],
    types.ModuleType: lambda _, v: ["module", v.__name__],
    types.CodeType: Encoder._code,
}


class Decoder:
    """Makes values of JSON, in another process."""

    def __init__(self, tree: Tree, places: list[Any]) -> None:
        self.tree = tree
        self.places = places
        self.runners: list[Any] = []
        self.symbols: dict[str, str] = {}
        self.nodes: list[Any] = []  # of the graph that is being read

    def all(self, data: Sequence[Any]) -> list[Any]:
        """Several values."""
        return [self.of(d) for d in data]

    def of(self, data: Any) -> Any:
        """One value; `Outdated` where what it needs is not there."""
        if type(data) is not list:
            return data
        return READERS[data[0]](self, *data[1:])

    def _place(self, number: int) -> Any:
        found = self.places[number]
        if found is ABSENT:
            raise Outdated("an object that it uses is not where it was")
        return found

    def _named(self, module: str, name: str) -> Any:
        found = found_by_name(module, name)
        if found is None:
            raise Outdated(f"{module} has no {name}")
        return found

    def _module(self, name: str) -> Any:
        found = found_by_name("sys", "modules").get(name)
        if found is None:
            raise Outdated(f"the module {name} is not imported")
        return found

    def _closure(self, module: str, path: list[Any], cells: list[Any], defaults: Any, named_defaults: Any) -> Any:
        outer = self._named(module, path[0])
        function = getattr(outer, "__wrapped__", outer)
        code = code_inside(function, path[1:])
        closure = tuple([types.CellType(self.of(c)) for c in cells])
        made = types.FunctionType(code, function.__globals__, code.co_name, self.of(defaults), closure)
        made.__kwdefaults__ = self.of(named_defaults)
        return made

    def _expression(self, terms: list[Any]) -> Any:
        total: Any = 0
        for coefficient, atoms in terms:
            product: Any = coefficient
            for kind, *rest in atoms:
                product = product * (symbol(self.symbol(rest[0]), rest[1]) if kind == "symbol" else combined(kind, *self.all(rest)))
            total = total + product
        return total

    def symbol(self, name: str) -> str:
        """The name in this process of a symbol."""
        if name not in self.symbols:
            self.symbols[name] = own_name(name)
        return self.symbols[name]

    def _tensor(self, meta: Any, values: Any) -> Any:
        kind = self.of(meta)
        return tensor_of(values, dtype=kind.dtype).reshape(kind.shape)

    def _record(self, name: str, parts: list[Any]) -> Any:
        return RECORDS[name](*self.all(parts))


def code_inside(function: Any, path: list[int]) -> Any:
    """What `path_inside` gave the positions of."""
    code = function.__code__
    for position in path:
        code = code.co_consts[position]
    return code


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()  # what stands for an object that is not there, or not yet
READERS: dict[str, Callable[..., Any]] = {
    "nan": lambda _, bits: struct.unpack("<d", struct.pack("<q", bits))[0],
    "tuple": lambda d, *v: tuple(d.all(v)),
    "size": lambda d, *v: Size(d.all(v)),
    "list": lambda d, *v: d.all(v),
    "dict": lambda d, *v: {d.of(k): d.of(x) for k, x in v},
    "frozenset": lambda d, *v: frozenset(d.all(v)),
    "bytes": lambda _, text: text.encode("latin1"),
    "complex": lambda d, real, imaginary: complex(d.of(real), d.of(imaginary)),
    "slice": lambda d, *v: slice(*d.all(v)),
    "range": lambda _, *v: range(*v),
    "ellipsis": lambda _: ...,
    "not implemented": lambda _: NotImplemented,
    "dtype": lambda _, name: BY_NAME[name],
    "device": lambda _, text: cpu if text == "cpu" else Device(text),
    "meta": lambda d, shape, kind, strides, device: meta_of(
        tuple(d.all(shape)), BY_NAME[kind], None if strides is None else tuple(d.all(strides)), cpu if device == "cpu" else Device(device)
    ),
    "slot": lambda _, index: tensor_slots(index, index + 1)[0],
    "operator": lambda _, name: OPERATORS[name],
    "expression": Decoder._expression,
    "same": lambda d, value: Same(d.of(value)),
    "modules": lambda d, described, *modules: agreeing(d.all(modules), described),
    "code": lambda d, function: CodeGuard(d.of(function)),
    "sized": lambda d, function, parts, names: AtSizes(d.of(function), d.of(parts), tuple([d.symbol(n) for n in d.of(names)])),
    "partial": lambda d, function, args, kwargs: partial(d.of(function), *d.of(args), **d.of(kwargs)),
    "method": lambda d, function, owner: types.MethodType(d.of(function), d.of(owner)),
    "module": Decoder._module,
    "inner code": lambda d, function, path: code_inside(d.of(function), path),
    "named": Decoder._named,
    "member": lambda d, owner, name: getattr(d.of(owner), name),
    "place": Decoder._place,
    "later": Decoder._place,
    "tree": lambda d: d.tree,
    "calling back": lambda d: d.tree.calling_back,
    "node": lambda d, number: d.nodes[number],
    "runner": lambda d, number: d.runners[number],
    "tensor": Decoder._tensor,
    "alias": lambda d, owner, distance, meta: alias(d.of(owner), distance, d.of(meta)),
    "closure": Decoder._closure,
    "record": Decoder._record,
}
