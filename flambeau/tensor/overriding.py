"""Overriding: calls of public functions that go to ``__torch_function__`` of a mode or of an argument's class.

What is overridden has the code of a stub, which looks at the arguments first; the function objects stay as they are, so that any
reference to them, of whatever age, is overridden. Methods, and functions that hand their arguments straight to one operator, get it
only when a subclass of Tensor is defined, a mode is entered, or an operator meets another object with ``__torch_function__`` (`arm`):
programs that override nothing do not pay for these. All other functions get it when they are published.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

from flambeau.core.context import context
from flambeau.core.device import Device
from flambeau.core.dtypes import dtype
from flambeau.core.shape import Size
from flambeau.core.source_lines import PACKAGE
from flambeau.tensor.base import TensorBase
from flambeau.tensor.foreign import counterpart

__all__ = ["arm", "arguments_that_override", "handle", "publish", "without_overriding"]


class without_overriding:  # noqa: N801 - used like a function
    """A context in which ``__torch_function__`` of arguments is not asked; with ``modes``, nor is that of modes."""

    def __init__(self, modes: bool = False) -> None:
        self._modes = modes
        self._before: list[tuple[bool, tuple[Any, ...]]] = []

    def __enter__(self) -> None:
        self._before.append((context.overriding, context.function_modes))
        context.overriding = False
        if self._modes:
            context.function_modes = ()

    def __exit__(self, *_: object) -> None:
        context.overriding, context.function_modes = self._before.pop()


def plain_function(func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """The ``__torch_function__`` of classes that override nothing, as Parameter: results are plain tensors."""
    with without_overriding():
        return counterpart(func)(*args, **(kwargs or {}))


# Classes that need no look: no instance of them overrides anything.
_PLAIN: set[type] = {int, float, bool, str, complex, type(None), dtype, Device, Size}


def overrides(kind: type) -> bool:
    """Whether calls with an instance of the class go to its ``__torch_function__``."""
    found = getattr(kind, "__torch_function__", None)
    return found is not None and found is not plain_function


def arguments_that_override(values: Iterable[Any]) -> list[Any]:
    """One argument for each class that overrides, subclasses before their bases, else from left to right; lists are looked into."""
    found: list[Any] = []
    _collect(values, found)
    return found


def _collect(values: Iterable[Any], found: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is list or kind is tuple:
            _collect(value, found)
        elif overrides(kind) and all(type(f) is not kind for f in found):
            place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
            found.insert(place, value)


def handle(func: Callable[..., Any], overriding: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Ask the innermost mode, then the arguments; TypeError where all give NotImplemented."""
    types = tuple(type(a) for a in overriding)
    modes = context.function_modes
    if context.capture is not None and (modes or not all(_is_ours(k) for k in types)):
        context.capture.flush("a __torch_function__ of the program is called")
    if modes:
        context.function_modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(func, types, tuple(args), dict(kwargs))
        finally:
            context.function_modes = modes
        if result is not NotImplemented:
            return result
    for argument in overriding:
        result = argument.__torch_function__(func, types, tuple(args), dict(kwargs))
        if result is not NotImplemented:
            return result
    name = name_of(func) or getattr(func, "__qualname__", func)
    mode = f" nor in the active mode {modes[-1]!r}" if modes else ""
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}{mode}")


def _is_ours(kind: type) -> bool:
    """Whether a class has the ``__torch_function__`` of Tensor."""
    found: Any = getattr(kind, "__torch_function__", None)
    return getattr(found, "__func__", None) is _tensor_class.__torch_function__.__func__  # type: ignore[attr-defined]


# -- what can be overridden -----------------------------------------------------------------------------
# Functions that neither take tensors nor make them.
SETTINGS = frozenset((
    "are_deterministic_algorithms_enabled", "broadcast_shapes", "can_cast", "compile", "get_default_device", "get_default_dtype",
    "get_device", "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads", "get_printoptions", "get_rng_state",
    "initial_seed", "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled", "is_storage", "is_tensor", "load", "manual_seed",
    "printoptions", "promote_types", "save", "seed", "set_default_device", "set_default_dtype", "set_default_tensor_type",
    "set_float32_matmul_precision", "set_flush_denormal", "set_num_threads", "set_printoptions", "set_rng_state", "typename",
    "use_deterministic_algorithms",
))  # fmt: skip
# Functions that only modes override: they make tensors, of whatever they are given.
_MAKERS = frozenset((
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_permuted", "empty_strided", "eye", "fftfreq",
    "from_dlpack", "from_numpy", "frombuffer", "full", "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "ones",
    "rand", "randint", "randn", "randperm", "range", "rfftfreq", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
))  # fmt: skip
# Methods of Tensor that are this package's own, or that Python calls where overriding has no place.
_OWN_METHODS = frozenset((
    "_become", "_viewed_as", "__hash__", "__init_subclass__", "__new__", "array", "clone_contiguous", "kind", "materialize",
    "storage_offset_elements",
))  # fmt: skip
# What a mode or class is told for Python's operators, where it is not the method of that name.
_TOLD = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__rtruediv__": "__rdiv__", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__rxor__": "bitwise_xor",
}  # fmt: skip

_namespaces: dict[str, Mapping[str, Any]] = {}
_armed = False
_lock = threading.RLock()
# What is told for public functions, and the functions as they were written.
_public: dict[CodeType, Any] = {}  # by the code that they had
_written: dict[CodeType, FunctionType] = {}
_names: dict[int, tuple[str, Any]] = {}  # filled when one is asked for
_known = 0  # how much was published then


def publish(name: str, namespace: Mapping[str, Any]) -> None:
    """Make the functions of a public module ones that can be overridden: ``name`` is the module's in torch."""
    _namespaces[name] = namespace
    for own_name, function in overridable(name).items():
        maker = own_name in _MAKERS
        if _armed or not (maker or _is_thin(own_name, inspect.unwrap(function).__code__)):
            _put_stub(function, function, by_arguments=not maker)


# What functions that only call one operator use besides it.
_THIN = frozenset(("given", "ops", "write_out", "need_tensor", "need_some_tensor", "need_single", "type", "int", "_run"))
# Functions that in all their common forms call one operator, if not always the same.
_QUICK = frozenset((
    "cat", "concat", "concatenate", "div", "divide", "flip", "hstack", "log_softmax", "max", "min", "permute", "pow", "reshape", "softmax",
    "softmin", "split", "split_with_sizes", "stack", "std", "unsafe_split", "unsafe_split_with_sizes", "var", "vstack", "where",
))  # fmt: skip


def _is_thin(name: str, code: CodeType) -> bool:
    """Whether a function hands its arguments to one operator, and gives what that gives."""
    if name in _QUICK:
        return True
    alone = not any(isinstance(c, CodeType) for c in code.co_consts)
    return alone and "ops" in code.co_names and len(_THIN.union(code.co_names)) <= len(_THIN) + 1


OTHER_LAYOUTS = ("flambeau.sparse.", "flambeau.nested.")


def overridable(name: str) -> dict[str, Any]:
    """The functions of a published module, or the methods of ``torch.Tensor``, that can be overridden, by name."""
    if name == "torch.Tensor":
        return {n: m for n, m, _ in _methods()}
    space = _namespaces[name]
    found = {n: space[n] for n in space.get("__all__", list(space))}
    return {n: f for n, f in found.items() if isinstance(f, FunctionType) and _is_public(n, f)}


def _is_public(name: str, function: FunctionType) -> bool:
    module = function.__module__  # functions for other layouts are what asking such a tensor leads to
    own = module.startswith("flambeau.") and module != "flambeau.tensor.arguments" and not module.startswith(OTHER_LAYOUTS)
    return own and name not in SETTINGS and (name[0] != "_" or name.startswith("_foreach"))


def published() -> list[str]:
    """The names of the public modules that are loaded, and that of the class Tensor."""
    return [*_namespaces, "torch.Tensor"]


def name_of(func: Any) -> str | None:
    """A public function's name in torch; None for another."""
    owner = getattr(func, "__self__", None)  # of an attribute's accessor
    if id(func) not in _names and id(owner) not in _names:
        _fill_names()
    if id(func) in _names:
        return _names[id(func)][0]
    return f"{_names[id(owner)][0]}.{func.__name__}" if id(owner) in _names else None


def _fill_names() -> None:
    """Look through all that is published, if that has become more since the last time."""
    global _known
    size = sum(map(len, _namespaces.values()))
    if size == _known:
        return
    _known = size
    for space in published():
        for name, function in overridable(space).items():
            _names.setdefault(id(function), (f"{space}.{name}", function))


def _methods() -> list[tuple[str, Any, Any]]:
    """The methods and properties of Tensor: the name, what the class shows under it, and how it is written."""
    found: dict[str, tuple[str, Any, Any]] = {}
    for part in _tensor_class.__mro__:
        for name, written in vars(part).items():
            if isinstance(written, (FunctionType, property)) and name not in found and name not in _OWN_METHODS:
                found[name] = (name, vars(_tensor_class).get(name, getattr(_tensor_class, name)), written)
    return list(found.values())


_tensor_class: type[Any] = TensorBase


def accept(tensor_class: type[Any]) -> None:
    """Take instances of a class for plain tensors without looking; for classes that override nothing."""
    _PLAIN.add(tensor_class)


def set_tensor_class(tensor_class: type[Any]) -> None:
    """Called once by the Tensor class."""
    global _tensor_class
    _tensor_class = tensor_class
    _PLAIN.add(tensor_class)


def unchanged() -> tuple[Any, ...]:
    """Accessors whose tensors stay of the class that they are of."""
    grad: Any = _tensor_class.grad  # type: ignore[attr-defined]
    return (grad.__get__,)


# -- arming ---------------------------------------------------------------------------------------------
def arm() -> None:
    """Make public functions look for what overrides them. Called again, it does nothing."""
    global _armed
    with _lock:
        if _armed:
            return
        _armed = True
        for name, namespace in _namespaces.items():
            publish(name, namespace)
        for name, shown, written in _methods():
            if isinstance(written, property):
                for accessor, kind in ((written.fget, "__get__"), (written.fset, "__set__"), (written.fdel, "__delete__")):
                    if isinstance(accessor, FunctionType):
                        _put_stub(accessor, getattr(shown, kind))
            else:
                _put_stub(written, getattr(_tensor_class, _TOLD.get(name, name)), of_operator=name in _TOLD or name[:3] == "__r")


def _put_stub(function: FunctionType, told: Any, *, of_operator: bool = False, by_arguments: bool = True) -> None:
    """Let a function look at its arguments before it runs: the code that it has now moves into a function of its own."""
    if "_overriding" in (function.__kwdefaults__ or ()):
        return
    written = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    written.__kwdefaults__ = function.__kwdefaults__
    written.__dict__.update(function.__dict__)
    written.__qualname__, written.__module__, written.__doc__ = function.__qualname__, function.__module__, function.__doc__
    written.__annotations__ = function.__annotations__
    inner = inspect.unwrap(function)  # wrappers that one decorator made share their code
    _public[inner.__code__] = told
    _written[inner.__code__] = inner if inner is not function else written
    function.__wrapped__ = written  # type: ignore[attr-defined] - for inspect.signature
    look = _looker(written, told, of_operator, by_arguments)
    function.__defaults__, function.__kwdefaults__ = None, {"_overriding": look}
    function.__code__ = _STUBS[len(function.__closure__ or ())]


def _looker(written: FunctionType, told: Any, of_operator: bool, by_arguments: bool) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    def look(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _armed and not kwargs:
            for value in args:
                kind = type(value)
                if kind not in _PLAIN and not ((kind is list or kind is tuple) and _PLAIN.issuperset(map(type, value))):
                    break
            else:
                return written(*args)
        if not (context.overriding and by_arguments):
            return handle(told, (), args, kwargs) if context.function_modes else written(*args, **kwargs)
        found: list[Any] = []
        _collect(args, found)
        if kwargs:
            _collect(kwargs.values(), found)
        if not found and not context.function_modes:
            return written(*args, **kwargs)
        try:
            return handle(told, found, args, kwargs)
        except TypeError:
            if of_operator:
                return NotImplemented
            raise

    return look


def _stubs() -> dict[int, CodeType]:
    """The code of stubs, by how many variables of a closure they take over, since a function's closure cannot change."""
    a = b = c = None

    def none(*args: Any, _overriding: Any, **kwargs: Any) -> Any:
        return _overriding(args, kwargs)

    def one(*args: Any, _overriding: Any, **kwargs: Any) -> Any:
        if False:
            a  # noqa: B018
        return _overriding(args, kwargs)

    def two(*args: Any, _overriding: Any, **kwargs: Any) -> Any:
        if False:
            a, b  # noqa: B018
        return _overriding(args, kwargs)

    def three(*args: Any, _overriding: Any, **kwargs: Any) -> Any:
        if False:
            a, b, c  # noqa: B018
        return _overriding(args, kwargs)

    return {len(f.__code__.co_freevars): f.__code__ for f in (none, one, two, three)}


_STUBS = _stubs()


# -- the first meeting ----------------------------------------------------------------------------------
class Met(Exception):
    """Raised below an operator that got an object with ``__torch_function__`` while nothing was armed; has the call's result."""

    def __init__(self, result: Any) -> None:
        self.result = result


class Overriding(type):
    """The class of `OverridingObject`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return overrides(type(instance))


class OverridingObject(metaclass=Overriding):
    """Whatever has a ``__torch_function__`` of its own, for isinstance."""


def meet(frame: FrameType | None) -> None:
    """An operator got an object that overrides: the public function that brought it there is overridden now. Raises `Met`.

    ``frame`` is the operator's. Nothing happens where overriding is off, or on already: then the function has been asked.
    """
    if _armed or not context.overriding:
        return
    arm()
    outermost = None
    while frame is not None and (frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code in _public):
        outermost = frame if frame.f_code in _public else outermost
        frame = frame.f_back
    if outermost is not None:
        args, kwargs = _given(outermost)
        raise Met(handle(_public[outermost.f_code], arguments_that_override([*args, *kwargs.values()]), args, kwargs))


def _given(frame: FrameType) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function that has just begun, without those at the end that are the defaults."""
    found, kwargs = inspect.getargvalues(frame), {}
    args = [found.locals[n] for n in found.args[: frame.f_code.co_argcount]]
    written = _written[frame.f_code]
    if found.varargs:
        args += found.locals[found.varargs]
    elif written.__defaults__:
        for default in reversed(written.__defaults__):
            if args[-1] is not default:
                break
            args.pop()
    kwargs = {n: found.locals[n] for n, default in (written.__kwdefaults__ or {}).items() if found.locals[n] is not default}
    return args, kwargs | (found.locals[found.keywords] if found.keywords else {})
