"""torch.library: operators that programs add, with derivatives of their own, under ``torch.ops``."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau import ops
from flambeau.core.context import context
from flambeau.tensor.base import TensorBase
from flambeau.tensor.function import Function
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.tensor_class import Tensor
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "infer_schema", "register_autograd", "register_fake",
    "register_kernel", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

T = typing.TypeVar("T")
_operators: dict[str, CustomOpDef] = {}


class _Namespace(types.SimpleNamespace):
    """The operators of one library under ``torch.ops``."""


class CustomOpDef:
    """An operator that a program added. Calling it runs its kernel; gradients go through its own formula, or raise."""

    def __init__(self, qualname: str, kernel: Callable[..., Any] | None, mutates_args: Any = ()) -> None:
        namespace, separator, name = qualname.partition("::")
        if not separator or not namespace.isidentifier() or not name.replace(".", "_").isidentifier():
            raise ValueError(f"library: needs a name as namespace::operator, got {qualname!r}")
        self._qualname = qualname
        self._kernels: dict[str, Callable[..., Any]] = {} if kernel is None else {"": kernel}
        self._mutated = mutates_args
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self.__doc__ = getattr(kernel, "__doc__", None)
        _operators[qualname] = self
        if not hasattr(ops, namespace):
            setattr(ops, namespace, _Namespace())
        setattr(getattr(ops, namespace), name, self)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: there are no overloads."""
        return self

    def _kernel(self, tensors: Sequence[Any]) -> Callable[..., Any]:
        kind = tensors[0].device.type if tensors else "cpu"
        found = self._kernels.get(kind) or self._kernels.get("")
        if found is None:
            raise NotImplementedError(f"{self._qualname}: there is no kernel for {kind}; register one for it")
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._setup is not None:  # It finds every argument in its place, as in PyTorch, however it was given.
            bound = inspect.signature(next(iter(self._kernels.values()))).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, TensorBase)]
        kernel = self._kernel(tensors)
        if not (context.grad_enabled and any(t._requires_grad for t in tensors)):
            with no_grad():
                return kernel(*args, **kwargs)
        return _Recorded.apply(self, kernel, spec, *leaves)

    # -- what programs register -----------------------------------------------------------------------------
    def register_kernel(self, device_types: str | Iterable[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """Run a function for tensors on these devices; without one, a decorator."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for kind in [device_types] if isinstance(device_types, str) else device_types or [""]:
            self._kernels[kind] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Accepted: what the results look like is seen when the kernel runs, since nothing is traced without it."""
        return fn

    register_vmap = register_fake

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """``backward(ctx, *gradients)`` gives a gradient or None for each positional argument; ``setup_context(ctx, inputs, output)``,
        or with ``keyword_only_inputs`` before the output, saves what it needs."""
        self._backward, self._setup = backward, setup_context

    def set_up(self, ctx: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Let the operator save what its gradients need."""
        if self._setup is not None:
            named = {"keyword_only_inputs": kwargs} if "keyword_only_inputs" in inspect.signature(self._setup).parameters else {}
            self._setup(ctx=ctx, inputs=args, output=output, **named)

    def gradients(self, ctx: Any, given: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
        """The gradients of all leaves of the positional arguments."""
        if self._backward is None:
            raise RuntimeError(f"Trying to backward through {self._qualname} but no autograd formula was registered. Please use "
                               "register_autograd to add one.")  # fmt: skip
        found = self._backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(args):
            raise RuntimeError(f"{self._qualname}: its backward gives {len(found)} gradients for {len(args)} arguments")
        leaves: list[Any] = []
        for argument, gradient in zip(args, found, strict=True):
            parts = tree_flatten(argument)[0]
            if not isinstance(argument, list | tuple | dict):
                leaves.append(gradient)
            elif gradient is None:
                leaves += [None] * len(parts)
            else:
                leaves += tree_flatten(gradient, lambda part: part is None)[0]
        return leaves


class _Recorded(Function):
    """A call of an operator on the tape."""

    @staticmethod
    def forward(ctx: Any, operator: CustomOpDef, kernel: Callable[..., Any], spec: Any, *leaves: Any) -> Any:
        args, kwargs = tree_unflatten(leaves, spec)
        output = kernel(*args, **kwargs)
        ctx.operator, ctx.arguments, ctx.count = operator, [type(a)(a) if isinstance(a, list) else a for a in args], len(leaves)
        operator.set_up(ctx, args, kwargs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        found = ctx.operator.gradients(ctx, gradients, ctx.arguments)
        return (None, None, None, *found, *[None] * (ctx.count - len(found)))


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make a function an operator ``torch.ops.namespace.name`` for ``name`` "namespace::name"; without a function, a decorator.

    ``mutates_args`` names the arguments that it changes in place.

    >>> import flambeau as torch
    >>> @torch.library.custom_op("examples::doubled", mutates_args=())
    ... def doubled(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> doubled.register_autograd(lambda ctx, gradient: gradient * 2)
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.ops.examples.doubled(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        if schema is None:
            infer_schema(function, mutates_args=mutates_args)  # raises for what is no operator
        made = CustomOpDef(name, None if device_types else function, mutates_args)
        if device_types:
            made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


# -- schemas ----------------------------------------------------------------------------------------------
_NAMES: dict[Any, str] = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str"}


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None, tags: Any = ()) -> str:
    """The schema of an operator, "(Tensor x, float factor=1.0) -> Tensor", from the annotations of a function.

    ValueError where an annotation is missing or no operator has such an argument.
    """
    signature, hints = inspect.signature(prototype_function), typing.get_type_hints(prototype_function)
    changed = set(signature.parameters) if mutates_args == "unknown" else set(mutates_args)
    unknown = changed - set(signature.parameters)
    if unknown:
        raise ValueError(f"infer_schema(func): mutates_args names {sorted(unknown)}, which are no arguments of {signature}")
    parts: list[str] = []
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature}")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = _kind(hints[name], name)
        if name in changed:
            if not kind.startswith("Tensor"):
                raise ValueError(f"infer_schema(func): Parameter {name} is in mutates_args but is not a Tensor or a list of them")
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        default = parameter.default
        shown = "" if default is parameter.empty else f"={default!r}" if isinstance(default, str) else f"={default}"
        parts.append(f"{kind} {name}{shown}")
    result = hints.get("return", type(None))
    if result is type(None):
        shown = "()"
    elif typing.get_origin(result) is tuple:
        shown = f"({', '.join(_kind(part, 'return') for part in typing.get_args(result))})"
    else:
        shown = _kind(result, "return")
    return f"{op_name or ''}({', '.join(parts)}) -> {shown}"


def _kind(hint: Any, name: str) -> str:
    arguments = typing.get_args(hint)
    if hint in _NAMES:
        return _NAMES[hint]
    if type(None) in arguments and len(arguments) == 2:
        return _kind(next(a for a in arguments if a is not type(None)), name) + "?"
    if typing.get_origin(hint) in (list, Sequence, typing.Sequence) and arguments:
        return _kind(arguments[0], name) + "[]"
    if hint in (int | float | bool, typing.Union[int, float, bool]):  # noqa: UP007
        return "Scalar"
    raise ValueError(f"infer_schema(func): Parameter {name} has unsupported type {hint}; use Tensor, int, float, bool, str, Optional or a "
                     "Sequence of them")  # fmt: skip


# -- libraries --------------------------------------------------------------------------------------------
def _of(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _operators:
        raise RuntimeError(f"library: there is no operator {op!r}; define it first")
    return _operators[op]


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Add an operator without a kernel."""
    CustomOpDef(qualname, None)


def impl(qualname: str, types: str | Sequence[str], func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """The kernel of an operator for devices ("default": all); without a function, a decorator."""
    if func is None:
        return lambda function: impl(qualname, types, function, lib=lib)
    kinds = [types] if isinstance(types, str) else types
    _of(qualname).register_kernel(["" if kind in ("default", "CompositeExplicitAutograd") else kind.lower() for kind in kinds], func)
    return func


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """See `CustomOpDef.register_kernel`."""
    return _of(op).register_kernel(device_types, func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """See `CustomOpDef.register_autograd`."""
    _of(op).register_autograd(backward, setup_context=setup_context)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = True
) -> Any:
    """See `CustomOpDef.register_fake`; without a function, a decorator."""
    return _of(op).register_fake if func is None else _of(op).register_fake(func)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Accepted; without a function, a decorator."""
    return register_fake(op, func)


def impl_abstract(qualname: str, func: Callable[..., Any] | None = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """The old name of `register_fake`."""
    return register_fake(qualname, func)


class Library:
    """Operators of one namespace: ``define`` takes a schema "name(Tensor x) -> Tensor", ``impl`` a kernel."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Add an operator without a kernel; returns its name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """The kernel of an operator for a device."""
        name = op_name._qualname.partition("::")[2] if isinstance(op_name, CustomOpDef) else op_name
        impl(f"{self.ns}::{name}", dispatch_key or self.dispatch_key or "default", fn)


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """`custom_op`: the Triton kernels inside run as they do anywhere."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: T, /) -> T:
    """The kernel itself."""
    return triton_kernel
