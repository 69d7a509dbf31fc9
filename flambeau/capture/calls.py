"""What calls mean while a function is captured: Python functions are entered, the rest goes by a declared table."""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import sys
import types
import typing
import weakref
from collections import deque, namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

from flambeau.capture import calling_back
from flambeau.capture.calling_back import ALWAYS, INSTEAD, each, in_order, order, until
from flambeau.capture.custom import attempted, call_function
from flambeau.capture.guards import BACKWARD_HOOKS, BY_NAME, REGISTERED, UNKNOWN, gives_sparse, has_hooks, is_native, steps_on_sparse
from flambeau.capture.machine import Generator, introspection
from flambeau.capture.machine.semantics import BINARY, COMPARE, INPLACE, UNARY
from flambeau.capture.marks import MODES
from flambeau.capture.naming import CONTAINERS, carries, holds_pending, members
from flambeau.capture.operators import CONSUMERS, WITH_NUMBERS, Operators, formatted
from flambeau.capture.places import is_module, is_trusted_module
from flambeau.capture.sizes import is_symbolic
from flambeau.capture.trace import Uncapturable
from flambeau.capture.values import ATOMS, Box, code_digest, each_changed, is_ours, is_sealed, static_lookup, varies, written
from flambeau.capture.words import CHOOSING, cause
from flambeau.core.context import context
from flambeau.core.shape import Size
from flambeau.core.symbolic import Expression
from flambeau.ops.declare import Operator
from flambeau.runtime.native.heap_types import python_form
from flambeau.tensor.base import TensorBase

__all__ = ["Calls"]

# Builtins that read their arguments and nothing else.
PURE = frozenset(
    getattr(builtins, name)
    for name in (
        "len abs min max sum range zip enumerate sorted reversed map filter all any divmod round pow repr str int float bool list tuple "
        "dict set frozenset chr ord hash slice format bytes complex object staticmethod classmethod property bin hex oct ascii bytearray "
        "memoryview"
    ).split()
) | {f for m in (math, operator, itertools) for f in vars(m).values() if callable(f)} | {
    deque, namedtuple, functools.reduce, functools.partial, functools.cmp_to_key, dict.fromkeys, str.join, types.MappingProxyType,
    types.SimpleNamespace, itertools.chain.from_iterable,
}  # fmt: skip
# Those that hand on what they are given, without a look at it; some of them one after the other.
LAZY = frozenset((zip, enumerate, *(f for f in vars(itertools).values() if callable(f)))) - {itertools.repeat, itertools.count}
STRUCTURAL = LAZY | {itertools.repeat, len, list, tuple, reversed, deque, functools.partial, types.SimpleNamespace, types.MappingProxyType}
CONSTRUCTORS = (list, dict, set, deque, bytearray)
# Classes with Python code that they run on what they are given are called as they are.
NATIVE_CLASSES = (types.MappingProxyType, functools.partial, property, staticmethod, classmethod)
# Python modules that are called, not entered: what they do is of no interest, or talks to the world.
OPAQUE = frozenset((
    "traceback", "linecache", "warnings", "logging", "inspect", "copy", "json", "re", "pickle", "random", "os", "time", "datetime",
    "threading", "subprocess", "numpy", "tqdm", "pathlib", "io", "tempfile", "shutil", "glob", "uuid", "hashlib", "urllib", "string",
    "textwrap", "pprint", "decimal", "fractions", "statistics", "struct", "csv", "argparse", "unittest", "pytest", "_pytest", "weakref",
    "asyncio", "multiprocessing", "concurrent", "gc", "sys", "dis", "ast", "tokenize", "importlib", "matplotlib", "scipy", "pandas",
    "sklearn", "torch", "typing", "abc", "copyreg", "zlib", "zipfile", "signal", "locale", "codecs", "heapq", "_heapq",
))  # fmt: skip
# Methods of tensors that give their values away.
VALUES = frozenset((
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__repr__", "__str__",
    "__format__", "__contains__", "data_ptr", "nonzero", "unique", "unique_consecutive", "masked_select", "is_nonzero", "equal", "allclose",
    "__dlpack__", "argwhere", "bincount", "isin", "cpu", "cuda", "untyped_storage", "storage", "nonzero_static",
))  # fmt: skip
# Methods that change what a tensor object is, not its values.
MARKS = frozenset(("requires_grad_", "detach_", "set_", "share_memory_"))
HOOKS_OF_TENSORS = frozenset(("register_hook", "retain_grad", "register_post_accumulate_grad_hook"))
# Those after which other code shares memory with a tensor.
EXPORTS = frozenset(("numpy", "__array__", "__dlpack__", "from_numpy", "from_dlpack", "frombuffer", "data_ptr"))
# Functions of ours that do something outside, or need values.
WORLD = frozenset((
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "save", "load", "set_num_threads", "set_default_dtype",
    "set_default_device", "set_printoptions", "from_numpy", "from_dlpack", "as_tensor", "tensor", "frombuffer", "equal", "allclose",
    "nonzero", "unique", "unique_consecutive", "masked_select", "bincount", "argwhere", "is_nonzero", "histogram", "histogramdd",
    "fork_rng", "synchronize", "assert_close", "set_detect_anomaly", "load_state_dict", "combinations", "repeat_interleave",
    "_standard_gamma", "_standard_gamma_grad", "_sample_dirichlet", "_dirichlet_grad", "poisson", "binomial",
    "best_and_fisher", "update_parameters",
))  # fmt: skip
WORLD_MODULES = ("flambeau.utils", "flambeau.serialization", "flambeau.random", "flambeau.optim.lr_scheduler", "flambeau.testing",
                 "flambeau.amp.grad_scaler", "flambeau.profiler", "flambeau.futures", "flambeau.multiprocessing",
                 "flambeau.library")  # fmt: skip
# Functions of ours that call what they are given: they are entered like the user's.
ENTERED = frozenset((
    "flambeau.nn.modules.container", "flambeau.nn.modules.module_hooks", "flambeau.tensor.grad_mode", "flambeau.nn.modules.transformer",
    "flambeau.functional", "flambeau.utils.checkpoint", "flambeau.nn.compiled_module", "flambeau.nn.utils.spectral_norm",
    "flambeau.nn.utils.weight_norm", "flambeau.nn.utils.convert_parameters", *CHOOSING,
))  # fmt: skip
# Modules of ours that differentiate by tensors which they make: in one segment, or in a step of its own.
TRANSFORMS = ("flambeau.func", "flambeau.autograd.functional")
# Optimizers whose values decide how they go on: a step in which what they call is compiled by itself.
DECIDING = ("flambeau.optim.lbfgs",)
# Packages of ours that draw from distributions whose derivatives are Functions, and look at values.
ENTERED_PACKAGES = ("flambeau.distributions.",)
MUTATORS = {
    list: frozenset(("append", "extend", "insert", "clear", "reverse", "remove")),
    dict: frozenset(("update", "clear")),
    set: frozenset(("add", "update", "discard", "remove", "clear")),
    deque: frozenset(("append", "appendleft", "extend", "clear", "rotate")),
}
RESULTLESS = frozenset(("append", "extend", "insert", "clear", "reverse", "update", "add", "discard", "appendleft", "rotate"))
READERS = frozenset((
    "index", "count", "copy", "get", "keys", "values", "items", "issubset", "issuperset", "union", "intersection", "difference",
    "isdisjoint", "__len__", "__contains__", "__iter__", "__getitem__", "__eq__",
))  # fmt: skip


class Entered:
    """A Python function that native code calls: the call comes back to the interpreter."""

    def __init__(self, semantics: Calls, function: Any) -> None:
        functools.update_wrapper(self, function)  # which copies the attributes of what may wrap an object of this class
        self.semantics = semantics
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.semantics.fixed(self.semantics.call(self.function, args, kwargs))


def own_code(value: Any) -> Any:
    """A function that calls come back from, as it is."""
    return value.function if type(value) is Entered else value


class Calls(Operators):
    """Calls."""

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self.trace.fix(function) if varies(function) else function
        if type(function) in (types.BuiltinMethodType, types.MethodDescriptorType):
            function = python_form(function)
        if function is typing.cast and len(args) == 2:
            return args[1]
        kind = type(function)
        if kind is types.MethodType:
            fixed = function is self.session.function and is_module(function.__self__)
            inner, owner = (getattr(function, n) if fixed else self._part_of(function, n) for n in ("__func__", "__self__"))
            ours = is_ours(type(inner)) and not hasattr(inner, "_torchdynamo_orig_callable")
            disabled = hasattr(inner, "_torchdynamo_disable")
            entered = disabled or (self.is_entered(inner) if type(inner) is types.FunctionType else not ours)
            entered &= getattr(inner, "__name__", "") not in BACKWARD_HOOK_SETTERS or not is_module(owner)
            return self.call(inner, (owner, *args), kwargs) if entered else self.native(function, args, kwargs)
        if kind is types.FunctionType:
            if function is order:
                return self._order(*args)
            if function.__dict__.get("_torchdynamo_disable"):
                return self.host(function, args, kwargs)
            if self.is_entered(function) and function not in PURE:
                self._know_cells(function)
                self._note_entered(function)
                if function.__defaults__ or function.__kwdefaults__:
                    args, kwargs = self._with_defaults(function, args, kwargs)
                return self.machine.call_function(function, args, kwargs)
            return self.native(function, args, kwargs)
        aside = self.asides().get(function) if kind in HASHED else None
        if aside is not None:
            return aside(*args, **kwargs)
        if kind is functools.partial:
            inner, first, named = (self._part_of(function, name) for name in ("func", "args", "keywords"))
            return self.call(inner, (*self.brought_in(first), *args), {**self.brought_in(named), **kwargs})
        # One graph cannot leave for the cache of a function; what that gives follows from its arguments alone.
        if kind is functools._lru_cache_wrapper and self.session.one_graph:
            return self.call(function.__wrapped__, args, kwargs)
        if kind is Entered:
            return self.call(function.function, args, kwargs)
        if isinstance(function, type):
            return self.construct(function, args, kwargs)
        if is_module(function):
            return self._module(function, args, kwargs)
        inner = getattr(function, "_torchdynamo_orig_callable", None) if is_ours(kind) else None
        if inner is not None:
            return self.call(inner, args, kwargs)
        method = static_lookup(kind, "__call__")
        if type(method) is types.FunctionType and self.is_entered(method):
            return self.call(method, (function, *args), kwargs)
        return self.native(function, args, kwargs)

    def _part_of(self, function: Any, name: str) -> Any:
        """What a bound method or partial from outside holds, another one of which may be in its place at the next call."""
        value = getattr(function, name)
        if not self.outside(function):
            return value
        place = "get", partial(getattr, function, name), value
        return self.trace.read((id(function), name), f"{self.namer.name(function)}.{name}", lambda: value, place=place)

    def _note_entered(self, function: types.FunctionType) -> None:
        if not is_trusted_module(function.__globals__.get("__name__")):
            tree, code, block = self.trace.tree, function.__code__, self.trace.block
            tree.entered.setdefault(code_digest(code), (code, {}))[1][id(block)] = block
            tree.seen_names |= names_in(code)

    def is_entered(self, function: types.FunctionType) -> bool:
        """Whether a Python function is interpreted."""
        if function.__globals__ is vars(calling_back):
            return True
        module = function.__module__ or function.__globals__.get("__name__") or ""
        top = module.partition(".")[0]
        if top == "flambeau":
            name = function.__globals__.get("__name__", "")
            entered = name in ENTERED or (name.startswith(ENTERED_PACKAGES) and function.__name__ not in WORLD)
            return entered and self.machine.can_enter(function)
        return top not in OPAQUE and self.machine.can_enter(function)

    def _know_cells(self, function: types.FunctionType) -> None:
        """The cells of an outside function are outside places."""
        trace = self.trace
        if not function.__closure__ or id(function) in trace.numbers_of or not trace.recording:
            return
        trusted = is_trusted_module(function.__globals__.get("__name__"))
        if trusted and not any(map(_holds_function, function.__closure__)):
            return
        found = trace.known.get(id(function))
        name = found[0] if found is not None else trace.tree.constant(function)
        for i, cell in enumerate(function.__closure__):
            if id(cell) not in trace.inside:
                self.namer.cells.setdefault(id(cell), (cell, f"{name}.__closure__[{i}]"))

    def _with_defaults(self, function: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Arguments left out, read from the outside function that holds their defaults."""
        if id(function) in self.trace.numbers_of or not self.trace.recording or is_trusted_module(function.__module__):
            return args, kwargs
        code, defaults, named = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
        found = self.trace.known.get(id(function))
        name = found[0] if found is not None else self.trace.tree.constant(function)
        first = code.co_argcount - len(defaults)
        given = dict(kwargs)
        for i in range(max(first, len(args)), code.co_argcount):
            parameter = code.co_varnames[i]
            if parameter not in given and i >= code.co_posonlyargcount:
                get = partial(_default, function, "__defaults__", i - first)
                given[parameter] = self._read_default(function, f"{name}.__defaults__[{i - first}]", i, get)
        for parameter in named:
            if parameter not in given:
                get = partial(_default, function, "__kwdefaults__", parameter)
                given[parameter] = self._read_default(function, f"{name}.__kwdefaults__[{parameter!r}]", parameter, get)
        return args, given

    def _read_default(self, function: Any, text: str, parameter: Any, get: Callable[[], Any]) -> Any:
        return self.trace.read((id(function), "default", parameter), text, get, place=("get", get, get()))

    # -- Modules ----------------------------------------------------------------------------------------
    def _module(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Modules of the library run natively when all in them are; of others the forward is entered."""
        if id(module) in self.trace.foreign:
            return self.host(module, args, kwargs)
        self.note_module(module, BY_NAME)
        ours = self.trace.foreign.isdisjoint(map(id, module.modules()))
        if ours and is_native(module) and not self.session.varies_inside(module):
            return self.native(module, args, kwargs)
        if gives_sparse(module):
            return self.host(module, args, kwargs, forget=False)
        if has_hooks(module, BACKWARD_HOOKS) or id(module) in self.hooked:  # they sit on entries of the tape, which a segment does not keep
            return self.host(module, args, kwargs)
        call = python_form(static_lookup(type(module), "__call__"))
        if call.__module__ != "flambeau.nn.modules.module_hooks" or has_hooks(module):
            return self.call(call, (module, *args), kwargs)
        forward = module.__dict__.get("forward") or self._of_module(module, "forward")
        return self.call(forward, args, kwargs)

    # -- classes ----------------------------------------------------------------------------------------
    def construct(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if cls is type and len(args) == 1:
            return int if type(args[0]) is Expression else type(args[0].value) if type(args[0]) is Box else type(args[0])
        if cls is types.MethodType:
            return cls(*[self.trace.fix(a) for a in args])
        if cls is super or cls in PURE or cls in NATIVE_CLASSES:
            return super().construct(cls, args, kwargs) if cls is super and not args else self.native(cls, args, kwargs)
        meta = static_lookup(type(cls), "__call__")
        if type(meta) is types.FunctionType:
            return self.native(cls, args, kwargs) if is_trusted_module(meta.__module__) else self.call(meta, (cls, *args), kwargs)
        if static_lookup(cls, "__del__") is not None or cls.__module__ == "weakref":
            self.trace.leave(f"{cls.__name__} objects are finalized, or watched for their end")
        new, init = static_lookup(cls, "__new__"), static_lookup(cls, "__init__")
        named = issubclass(cls, tuple) and static_lookup(cls, "_fields") is not None
        python_new = isinstance(new, staticmethod) and type(new.__func__) is types.FunctionType and not named
        if named and type(init) is not types.FunctionType:
            return cls(*[self.kept(a) for a in args], **{k: self.kept(v) for k, v in kwargs.items()})
        entered = type(init) is types.FunctionType and self.is_entered(init)
        if issubclass(cls, BaseException) and not python_new:
            made = self.trace.new(cls.__new__(cls, *[self.kept(a) for a in args]))
            if entered:
                self.call(init, (made, *args), kwargs)
            else:
                init(made, *[self.kept(a) for a in args], **kwargs)
            return made
        if python_new and self.is_entered(new.__func__):
            made = self.call(new.__func__, (cls, *args), kwargs)
        elif entered and (new is object.__new__ or isinstance(new, types.BuiltinFunctionType)):
            made = object.__new__(cls) if new is object.__new__ else new(cls, *args)
            made = self.trace.new(made) if new is object.__new__ or isinstance(made, CONSTRUCTORS[:4]) else made
        elif cls.__module__ != "builtins" and new is object.__new__ and init is object.__init__ and not is_ours(cls):
            return self.trace.new(cls(*args, **kwargs))
        else:
            return self.native(cls, args, kwargs)
        if isinstance(made, cls):
            init = static_lookup(type(made), "__init__")
            if type(init) is types.FunctionType:
                self.call(init, (made, *args), kwargs)
            else:
                init(made, *args, **kwargs)
        return made

    # -- native code ------------------------------------------------------------------------------------
    def native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call something that is not interpreted."""
        if not self.trace.recording:
            return function(*[self.plain(a) for a in args], **{k: self.plain(v) for k, v in kwargs.items()})
        owner = getattr(function, "__self__", None)
        if isinstance(owner, types.ModuleType) or isinstance(function, type):
            owner = None
        if varies(owner):
            owner = self.trace.fix(owner)
        if self._is_pure(function, INSTEAD) and (function in ALWAYS or any(map(self._asks, (*args, *kwargs.values())))):
            return self.machine.call_function(INSTEAD[function], args, kwargs)
        if isinstance(owner, Generator) and owner.frame.semantics is not self:  # an earlier call let it out
            return self.host(function, args, kwargs)
        if self.is_own(function, owner):
            return self._own(function, owner, args, kwargs)
        if isinstance(owner, (list, dict, set, deque)) and not self.is_iterator(owner):
            return self._container_method(function, owner, args, kwargs)
        if function in OBJECT_METHODS or owner is object or _is_access(function):
            return self._object_method(function, args, kwargs)
        method_of_atom = (type(owner) in ATOMS and owner is not None) or getattr(function, "__objclass__", None) in TEXTS
        if method_of_atom or self._is_pure(function) or type(owner) is super:
            return self._pure(function, args, kwargs)
        module = (getattr(function, "__module__", None) or getattr(type(owner), "__module__", "") or "").partition(".")[0]
        if self._is_pure(function, GATHERING):
            args = tuple(map(self.gathered, args))
        weak = held_weakly(owner, args) if module in ("weakref", "_weakref") else ()
        if any(id(a) in self.trace.inside or holds_pending(a) for a in weak):
            self.trace.leave("a weak reference shows when an object made inside ends")
        silent = function is print or module in OPAQUE or is_trusted_module(module)
        return self.host(function, args, kwargs, flush=not silent or holds_pending((args, kwargs)))

    @staticmethod
    def is_iterator(value: Any) -> bool:
        return hasattr(value, "__next__")

    @staticmethod
    def _is_pure(function: Any, among: Any = PURE) -> bool:
        try:
            return function in among
        except TypeError:
            return False

    def plain(self, value: Any) -> Any:
        if type(value) is Box:
            return value.value
        if type(value) is tuple:
            return each_changed(value, self.plain)
        if type(value) is types.FunctionType and id(value) in self.trace.inside:  # numbers leave their boxes where it is called natively
            for cell in value.__closure__ or ():
                if cell != types.CellType() and type(cell.cell_contents) is Box:
                    cell.cell_contents = self.kept(cell.cell_contents)
        return self.trace.original(self.trace.sizes.plain(value))

    def is_own(self, function: Any, owner: Any) -> bool:
        """Whether a callable is this package's."""
        if isinstance(owner, TensorBase) or (owner is not None and not isinstance(owner, type) and is_ours(type(owner))):
            return True
        if isinstance(function, type):
            return is_ours(function)
        module = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", None) or ""
        return module.partition(".")[0] == "flambeau" or is_ours(type(function))

    def _own(self, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of our functions on pending tensors; what reads values or does something outside becomes a step."""
        name = getattr(function, "__name__", "")
        module = getattr(function, "__module__", None) or type(owner).__module__
        if name == "note_module":  # what calls of Modules begin with
            return self.note_module(args[0], BY_NAME)
        tensor_method = isinstance(owner, TensorBase) or getattr(function, "__objclass__", None) is not None
        changed = self._state_changed(function, owner, args, kwargs, tensor_method)
        if changed is not None:
            return changed[0]
        given = (owner, *((*args, *kwargs.values()) if id(owner) not in self.trace.inside else ()))
        if any(id(v) in self.trace.foreign for v in given if v is owner or is_module(v)):
            return self.host(function, args, kwargs)  # an object of ours that unknown code gave
        if isinstance(function, type) and module.startswith("flambeau.optim."):  # what it holds begins anew at every call
            return self.host(function, tuple(map(self.run_through, args)), {k: self.run_through(v) for k, v in kwargs.items()})
        if name in EXPORTS:
            self.session.exported = True
        if (tensor_method and name in VALUES) or (name == "where" and len(args) + len(kwargs) + (owner is not None) == 1):
            return self.host(function, args, kwargs, forget=False)
        if (
            (not tensor_method and name in WORLD and not isinstance(function, Operator))
            or module.startswith(WORLD_MODULES)
            or type(owner).__module__.startswith(WORLD_MODULES)
        ):
            flush = holds_pending((args, kwargs)) or name not in ("tensor", "as_tensor", "from_numpy")
            return self.host(function, args, kwargs, flush=flush, forget=name not in ("tensor", "as_tensor"))
        if name in ("embedding", "embedding_bag") and any(a is True for a in (*args, *kwargs.values())):  # the gradient may be sparse
            return self.host(function, args, kwargs, forget=False)
        if name == "step" and steps_on_sparse(owner):
            return self.host(function, args, kwargs)
        if name == "apply" and module == "flambeau.tensor.function":
            found = call_function(self, owner, args, kwargs)
            return self.host(function, args, kwargs, forget=False) if found is None else found[0]
        if name == "forward" and is_module(owner) and self.session.varies_inside(owner):
            inner: Any = getattr(function, "__func__", function)
            return self.machine.call_function(inner, (owner, *args), kwargs)
        if kwargs.get("generator") is not None:
            return self.host(function, args, kwargs, forget=False)
        if name == "step" and module in DECIDING:
            first = (getattr(function, "__func__", function), *([] if owner is None else [owner]))
            return self.host(self.trace.tree.calling_back, (*first, *args), kwargs)
        if name in ("backward", "grad") and not self.session.ways.lead_inside(owner, args, kwargs):
            return self.host(function, args, kwargs)
        for value in (owner, *args, *kwargs.values()):
            if is_module(value):
                self.note_module(value, UNKNOWN if name == "forward" else REGISTERED)
        plain = [self._argument(function, name, a) for a in args]
        options = {k: self._argument(function, name, v) for k, v in kwargs.items()}
        if self.trace.sizes.names and (name in SHARING or (name == "view" and hasattr((*args, None)[0], "itemsize"))):
            return self._with_sizes_of_now(function, plain, options)
        if module.startswith(TRANSFORMS) and self.trace.trial is None:
            found = attempted(self, lambda: self.attempt(function, plain, options))
            return self.host(function, args, kwargs) if found is None else found[0]
        return self.attempt(function, plain, options)

    def _state_changed(self, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool) -> tuple[Any] | None:
        """The result, in a tuple, of what sets hooks, modes and marks of leaves and Modules, or the size of a tensor."""
        name = getattr(function, "__name__", "")
        if method and name in HOOKS_OF_TENSORS:
            return (self._set_hook(function, owner, args, kwargs),)
        lasting = is_module(owner) and id(owner) not in self.trace.inside
        leaf = method and name == "requires_grad_" and isinstance(owner, TensorBase) and self.outside(self.marked(owner))
        if leaf or (lasting and name in MODES):
            return (self.set_marks(owner, name, args, kwargs),)
        if is_module(owner) and name in BACKWARD_HOOK_SETTERS:
            self.hooked.add(id(owner))
        elif lasting and name in SWITCHES:
            for noted in self.session.noted:
                noted.difference_update(map(id, owner.modules()))  # type: ignore[union-attr] - they are looked at anew
        elif not (method and name in MARKS and any(map(self._lasts, (owner, *args[:1])))) and not self._resizes(name, owner, args, kwargs):
            return None
        return (self.host(function, args, kwargs, forget=False),)

    def _lasts(self, value: Any) -> bool:
        """Whether a value is a tensor that was there before, or has been let out."""
        held = isinstance(value, TensorBase) and value.memory.pending is None and not self.trace.was_made(value)
        return isinstance(value, TensorBase) and (held or self.outside(value))

    def _resizes(self, name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a tensor gets another size; what was known of its sizes ends here."""
        into = (owner if isinstance(owner, TensorBase) else (*args, None)[0]) if name == "resize_" else kwargs.get("out")
        return isinstance(into, TensorBase) and (name == "resize_" or into.meta.numel == 0) and self._now(into) is into

    def _set_hook(self, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0] if owner is None else owner
        for kind in ("hooks", "post_accumulate_hooks"):
            self.trace.reads.pop((id(tensor), kind), None)
        self.session.ways.hooked |= tensor.entry is not None
        return self.host(function, args, kwargs, forget=False)

    def _argument(self, function: Any, name: str, value: Any) -> Any:
        if type(value) is Box:
            plain = name.removeprefix("_foreach_")
            alias = ALIASES.get(plain, plain)
            return self.for_tensor(alias, value) if alias in WITH_NUMBERS else self.size(value)
        if type(value) in (types.FunctionType, types.MethodType) and not is_trusted_module(getattr(value, "__module__", "")):
            return Entered(self, value)
        return self.brought_in(self.run_through(self.sized(value)))

    def _container_method(self, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = function.__name__
        inside = not self.outside(owner)
        if inside and name in ("extend", "update"):
            args = tuple([self.gathered(self.brought_in(a), isinstance(owner, dict)) for a in args])
        looked = args[:1] if isinstance(owner, (dict, set)) else (owner, *args[:1])
        looks = inside and name in LOOKING and any(map(self.unread, looked))
        if inside and not looks:
            if name not in READERS:
                self.trace.lasts(owner)
            if name in ("append", "appendleft", "insert", "extend", "add", "update", "setdefault", "__setitem__"):
                args = tuple(map(self.kept, args))
                return function(*args, **{k: self.kept(v) for k, v in kwargs.items()})
            if name in ("pop", "popleft", "copy", "get") and not any(map(varies, args)):
                found = function(*args, **kwargs)
                return self.trace.new(found) if name == "copy" else self.boxed(found)
            if isinstance(owner, list) and name == "sort":
                owner[:] = map(self.kept, self.machine.call_function(in_order, (owner, *args), kwargs))
                return None
            found = function(*[self.fixed(a) for a in args], **{k: self.fixed(v) for k, v in kwargs.items()})
            return self.trace.new(found) if name == "copy" else self.boxed(found)
        if not looks and name in RESULTLESS and name in MUTATORS.get(type(owner), ()):
            kept = [self.outward(a) for a in args]
            options = {k: self.outward(v) for k, v in kwargs.items()}
            self.wrote_all(owner)
            self.write(
                lambda: self.namer.call_text(f"{self.namer.name(owner)}.{name}", args, kwargs), lambda: function(*kept, **options), args
            )
            return None
        found = self.host(function, args, kwargs, flush=holds_pending((args, kwargs)), forget=False)
        if name not in READERS:
            self.wrote_all(owner)
        return found

    def _object_method(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if function is object.__new__:
            return self.trace.new(function(args[0]))
        if function is tuple.__new__:
            return tuple.__new__(args[0], [self.kept(v) for v in self._items(args[1])] if len(args) > 1 else ())
        name = getattr(function, "__name__", "")
        if name == "__setattr__" and len(args) >= 2:
            target, (key, value) = (function.__self__, args) if len(args) == 2 else (args[0], args[1:])
            key = self.fixed(key)
            if self.outside(target):
                kept = self.outward(value)
                self.trace.wrote(target, key, value)
                text = self.trace.tree.constant(object.__setattr__)
                self.write(
                    lambda: f"{text}({self.namer.name(target)}, {key!r}, {self.namer.name(value)})",
                    lambda: object.__setattr__(target, key, kept), value,
                )  # fmt: skip
                return None
            return object.__setattr__(target, key, self.kept(value))
        if name == "__getattribute__":
            target, key = [*([function.__self__] if len(args) < 2 else []), *map(self.fixed, args)][:2]
            if not isinstance(target, (TensorBase, type, types.ModuleType)) and not is_module(target):
                return self.attribute_of(target, key, object.__getattribute__)
            attributes = getattr(target, "__dict__", {})
            if key in attributes:
                return self._own_attribute(target, key)
        return function(*[self.fixed(a) for a in args], **kwargs)

    def entered(self, function: Any) -> Any:
        """A function for native code, whose calls come back to the interpreter."""
        return Entered(self, function)

    def _asks(self, value: Any) -> bool:
        """Whether native code with this argument may call something or run code of the program."""
        if callable(value):
            return not self._is_pure(value)
        native = hasattr(type(value), "__next__") and not isinstance(value, Generator)
        return not self.outside(value) and (native or self.unread(value))

    def _pure(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that only reads its arguments: a step where these may be others at the next call, else done now."""
        values = (*args, *kwargs.values())
        for value in values:
            if is_module(value):
                self.note_module(value)
        if self._is_pure(function, LAZY):  # they ask for one item after the other
            beside = any(self.is_iterator(v) and not self.outside(v) for v in args)  # which is nothing that a step can be given
            runs = [not isinstance(v, Generator) and (self._iterates_in_python(v) or (beside and self.outside(v))) for v in args]
            args = tuple([self.machine.call_function(each, (v,), {}) if r else v for v, r in zip(args, runs, strict=True)])
        for i, value in enumerate(args):
            if function in CONSUMERS and (self._iterates_in_python(value) or isinstance(value, Generator)):
                mapping = function is dict and hasattr(type(value), "keys")
                items = self._mapping(value) if mapping else [self.kept(v) for v in self._items(value)]
                args = (*args[:i], items, *args[i + 1 :])
            elif isinstance(value, Generator) and type(getattr(function, "__self__", None)) in (str, bytes):
                args = (*args[:i], [self.fixed(v) for v in self._items(value)], *args[i + 1 :])  # join
        values = (*args, *kwargs.values())
        special = SPECIAL.get(function)
        method = written(type(args[0]), special) if special is not None and args else None
        if method is not None:
            return self.call(types.MethodType(method, args[0]), args[1:], kwargs)
        owner = getattr(function, "__self__", None)
        if function is len and isinstance(args[0], TensorBase) and args[0].meta.shape:
            return args[0].meta.shape[0]
        if self.trace.sizes.names and function in OF_SHAPES and any(map(self._is_shape, args)) and not kwargs:
            if function is int:
                return args[0]
            found = function(*[self.sized(a) for a in args])
            return self.trace.new(found) if type(found) in CONSTRUCTORS else found
        if any(isinstance(v, TensorBase) for v in values) and function in (bool, int, float, str, repr, format, complex, round):
            return self.host(function, args, kwargs, forget=False)
        met = values if type(owner) in (types.ModuleType, type(None), type) else (*values, owner)
        looks = not self._is_pure(function, STRUCTURAL)
        if any(self._varies(v) or (looks and self.unread(v)) for v in met):
            return self.host(function, args, kwargs, flush=holds_pending(values), forget=False)
        found = self.attempt(function, [self.fixed(a) for a in args], {k: self.fixed(v) for k, v in kwargs.items()})
        made = isinstance(function, type) and type(found) is function and function not in ATOMS and function not in SAME
        return self.trace.new(found) if made or type(found) in CONSTRUCTORS else found

    def _is_shape(self, value: Any) -> bool:
        """Whether a value is a size or holds sizes."""
        return type(value) is Expression or (type(value) in (tuple, list, Size) and not self.outside(value) and is_symbolic(value))

    def _varies(self, value: Any) -> bool:
        """Whether the same program may meet another content of this value."""
        if carries(value, self.trace.known):
            return True
        if type(value) in CONTAINERS and not self.outside(value):
            return any(self.outside(v) and self._varies(v) for v in members(value))
        return self.outside(value) and not isinstance(value, (type, types.ModuleType, types.FunctionType)) and not is_sealed(value)

    # -- unknown code -----------------------------------------------------------------------------------
    def host(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, flush: bool = True, forget: bool = True) -> Any:
        trace, namer = self.trace, self.namer
        if not trace.recording:
            return function(*[self.plain(a) for a in args], **{k: self.plain(v) for k, v in kwargs.items()})
        args, kwargs = tuple(map(own_code, args)), {k: own_code(v) for k, v in kwargs.items()}
        if forget or not (self._is_pure(function) or function in (iter, formatted) or getattr(function, "__name__", "") in READERS):
            trace.lasts()
        if flush or trace.deferred or self.session.exported:
            namer.writer.flush()
        plain = [self.plain(a) for a in args]
        options = {k: self.plain(v) for k, v in kwargs.items()}
        try:
            text = namer.call_text(self._function_name(function), args, kwargs)
        except Uncapturable as reason:
            trace.leave(str(reason))
            return function(*plain, **options)
        if forget or flush:
            self.session.sync_modes()

        def run() -> Any:
            capture, context.capture = context.capture, None
            try:
                with trace.sizes.apart():
                    return function(*plain, **options)
            finally:
                context.capture = capture
                for value in (*args, *kwargs.values()):
                    trace.catch_up(value)

        if flush and type(function).__module__ != "flambeau.library":  # the program's own operators are part of what is one graph
            self.session.cut(*cause(function))
        name, value = trace.step(text, run)
        if forget:
            trace.reads.clear()
            self.session.read_modes()
        if value is None or value is NotImplemented:
            trace.check(name, "look", ("value", (type(value), value)))
            return value
        return trace.adopt(value, name, dynamic=True)

    def _function_name(self, function: Any) -> str:
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)) or name is None or not hasattr(owner, name):
            if self.outside(function):
                return self.namer.name(function)
            return self.trace.tree.constant(function)
        return f"{self.namer.name(owner)}.{name}" if not isinstance(owner, (int, float, str)) else f"({self.namer.name(owner)}).{name}"

    # -- functions with a meaning of their own ----------------------------------------------------------
    def asides(self) -> dict[Any, Callable[..., Any]]:
        """The functions that mean something else here."""
        if not self._asides:
            self._asides = {
                getattr: self._getattr, hasattr: self._hasattr, setattr: self.store_attribute, delattr: self.delete_attribute,
                iter: self._iter, next: self._next, isinstance: self._isinstance, issubclass: issubclass, callable: callable,
                id: self._id, operator.getitem: self.subscript, operator.setitem: self.store_subscript, vars: self._vars,
                builtins.__build_class__: self.build_class, bool: lambda value=False, /: self.truth(value),
                operator.contains: self.contains, operator.is_: self.is_same, operator.truth: self.truth,
                globals: lambda: introspection.FUNCTIONS[globals](self), locals: lambda: introspection.FUNCTIONS[locals](self),
                dir: lambda *a: introspection.FUNCTIONS[dir](self, *a),
                all: lambda v: all(map(self.truth, self._items(v))), any: lambda v: any(map(self.truth, self._items(v))),
                __import__: lambda *a, **k: __import__(*a, **k), sys._getframe: self._frame,
            }  # fmt: skip
            kinds = ((BINARY, self.binary), (INPLACE, self.inplace), (COMPARE, self.compare), (UNARY, self.unary))
            self._asides |= {act: partial(do, name) for acts, do in kinds for name, act in acts.items()}
        return self._asides

    def _getattr(self, obj: Any, name: Any, *default: Any) -> Any:
        try:
            return self.load_attribute(obj, self.trace.fix(name))
        except AttributeError:
            if not default:
                raise
        return default[0]

    def _hasattr(self, obj: Any, name: Any) -> bool:
        try:
            self.load_attribute(obj, self.trace.fix(name))
        except AttributeError:
            return False
        return True

    def _iter(self, value: Any, *sentinel: Any) -> Any:
        return self.machine.call_function(until, (value, *sentinel), {}) if sentinel else self.iterator(value)

    def _next(self, iterator: Any, *default: Any) -> Any:
        try:
            return self.advance(iterator)
        except StopIteration:
            if not default:
                raise
        return default[0]

    def _isinstance(self, value: Any, kinds: Any) -> bool:
        return isinstance(value.value if type(value) is Box else 0 if type(value) is Expression else value, kinds)

    def _id(self, value: Any) -> Any:
        value = self.trace.fix(value)
        if self.outside(value) and not isinstance(value, TensorBase):
            return self.host(id, (value,), {}, flush=False, forget=False)
        return id(value)

    def _frame(self, *args: Any) -> Any:
        self.trace.leave("it looks at the frames of its callers")
        return introspection.FUNCTIONS[sys._getframe](self, *args)

    def _vars(self, *args: Any) -> Any:
        if args and not hasattr(args[0], "__dict__"):
            return vars(*args)  # raises
        return self.load_attribute(args[0], "__dict__") if args else introspection.FUNCTIONS[locals](self)

    def _order(self, keys: list[Any], reverse: Any) -> list[int]:
        def rank(i: Any, j: Any) -> int:
            return -self.truth(self.compare("lt", self.boxed(keys[i]), self.boxed(keys[j])))

        return sorted(range(len(keys)), key=functools.cmp_to_key(rank), reverse=self.truth(reverse))

    def __init__(self, session: Any) -> None:
        self.session = session
        self.namer = session.namer
        self._asides: dict[Any, Callable[..., Any]] = {}
        self.hooked: set[int] = set()  # Modules that got a backward hook meanwhile

    own_generators = (Generator,)


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that a code object and those inside it speak of."""
    inner = [names_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names}.union(*inner)


def _is_access(function: Any) -> bool:
    """Whether a function is ``super().__getattribute__`` or ``super().__setattr__``, that of object."""
    bound = type(function) is types.MethodWrapperType and function.__objclass__ is object  # type: ignore[attr-defined]
    return bound and function.__name__ in ("__getattribute__", "__setattr__")


def held_weakly(owner: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a function of ``weakref`` refers to weakly."""
    holder, rest = (args[0], args[1:]) if owner is None and args else (owner, args)
    if isinstance(holder, weakref.WeakValueDictionary):
        return rest
    return rest[:1] if isinstance(holder, (weakref.WeakKeyDictionary, weakref.WeakSet)) else args[:1]


def _holds_function(cell: Any) -> bool:
    """Whether a cell holds a function of the program, as that of a decorator does."""
    value = cell.cell_contents if cell != types.CellType() else None
    return type(value) is types.FunctionType and not is_trusted_module(value.__globals__.get("__name__"))


def _default(function: Any, place: str, key: Any) -> Any:
    return getattr(function, place)[key]


OBJECT_METHODS = (object.__new__, object.__init__, object.__setattr__, object.__getattribute__, tuple.__new__)
HASHED = (types.BuiltinFunctionType, type, types.FunctionType)
ALIASES = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "truediv",
    "multiply": "mul", "subtract": "sub", "div": "truediv", "add_": "add", "mul_": "mul", "sub_": "sub", "div_": "truediv",
    "lerp_": "lerp", "clip": "clamp", "clip_": "clamp", "clamp_": "clamp", "masked_fill_": "masked_fill", "fill_": "fill",
    "leaky_relu_": "leaky_relu", "addcmul_": "addcmul", "clamp_min_": "clamp_min", "clamp_max_": "clamp_max", "addcdiv_": "addcdiv",
}  # fmt: skip
SPECIAL = {
    len: "__len__",
    abs: "__abs__",
    str: "__str__",
    repr: "__repr__",
    int: "__int__",
    float: "__float__",
    hash: "__hash__",
    format: "__format__",
    round: "__round__",
    reversed: "__reversed__",
}
# Functions that do with sizes what they do with numbers: they compare, add and multiply them, or only hand them on.
OF_SHAPES = frozenset((int, tuple, list, zip, enumerate, reversed, sum, min, max, len, math.prod))
# What sees memory that a tensor shares, or its bytes.
SHARING = frozenset((
    "as_strided", "as_strided_", "empty_strided", "set_", "resize_", "untyped_storage", "storage", "view_as_real", "view_as_complex",
))  # fmt: skip
GATHERING = frozenset((vars(collections)["_count_elements"], collections.OrderedDict, collections.defaultdict))
# Methods of containers that compare or hash, and types whose methods read what they are given.
LOOKING = frozenset((
    "index", "count", "remove", "get", "pop", "setdefault", "add", "discard", "update", "fromkeys", "__contains__", "__eq__", "union",
    "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "intersection_update",
    "difference_update", "symmetric_difference_update",
))  # fmt: skip
TEXTS = (str, bytes, int, float, complex)
SAME = (tuple, frozenset, property, staticmethod, classmethod, functools.partial)  # may give what they got, or are known by their parts
# Methods of Modules that change their tensors.
SWITCHES = frozenset(("to", "half", "float", "double", "bfloat16"))
BACKWARD_HOOK_SETTERS = frozenset(("register_full_backward_hook", "register_full_backward_pre_hook"))
