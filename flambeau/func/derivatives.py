"""Derivatives of functions: grad, vjp, jvp and linearize, by the tape.

``grad(f)(x)`` records ``f`` on an alias of ``x`` and walks back; where something further outside is differentiated, the walk is recorded
too. Inside ``vmap`` the alias belongs to it, so that a gradient is one for each place of the batch also by what is the same for all.
Forward derivatives are exact: see `autograd.pushforward`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from flambeau.autograd.pushforward import Pushforward, fresh, zeros_of
from flambeau.core.context import context
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.batching import is_batched, takes_part
from flambeau.tensor.grad_mode import enable_grad
from flambeau.tensor.gradients import grad as tape_grad
from flambeau.utils._pytree import tree_flatten, tree_map

__all__ = ["Linear", "Recorded", "functionalize", "grad", "grad_and_value", "jvp", "linearize", "vjp"]


class _Depth(threading.local):
    """How many derivatives are being taken in this thread, one inside another."""

    value = 0


_depth = _Depth()


@contextmanager
def _deeper() -> Generator[None]:
    _depth.value += 1
    try:
        with enable_grad():
            yield
    finally:
        _depth.value -= 1


def _innermost() -> int:
    return context.batching[-1].serial if context.batching else 0


def _reaches_others(outputs: Sequence[Any], own: Sequence[Any]) -> bool:
    """Whether the tape from outputs leads to leaves other than ``own``, or their values take part in autograd further outside."""
    if any(is_batched(t) and takes_part(t.value) for t in outputs):
        return True
    stops = {id(t) for t in own}
    seen: set[int] = set()
    stack = [edge[0] for t in outputs if isinstance(t, TensorBase) and (edge := dispatch.edge_of(t)) is not None]
    while stack:
        entry = stack.pop()
        if id(entry) in seen:
            continue
        seen.add(id(entry))
        if isinstance(entry, TensorBase):
            if id(entry) not in stops:
                return True
        else:
            stack += [edge[0] for edge in entry.edges if edge is not None]
    return False


def _apart(tree: Any) -> Any:
    """Tensors without the history of the derivative that was just taken."""
    return tree_map(lambda t: dispatch.another(t) if isinstance(t, TensorBase) else t, tree)


class Recorded:
    """A function that was run on aliases of its arguments: ``outputs``, in structure ``spec``, of ``inputs``."""

    def __init__(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any = None, has_aux: bool = False
    ) -> None:
        self.level, self.outside = _innermost(), context.grad_enabled
        chosen = list(range(len(args))) if argnums is None else _positions(argnums, len(args))
        leaves, self.structure = tree_flatten([args[i] for i in chosen])
        with _deeper():
            self.inputs = [fresh(_needed(x), self.level, self.outside) for x in leaves]
            given = list(args)
            for i, value in zip(chosen, self.structure.unflatten(self.inputs), strict=True):
                given[i] = value
            found = func(*given, **kwargs)
        self.aux = None
        if has_aux:
            if not (isinstance(found, tuple) and len(found) == 2):
                raise RuntimeError("with has_aux=True the function must return a tuple (output, aux)")
            found, self.aux = found
        self.outputs, self.spec = tree_flatten(found)
        self.recorded = self.outside and (_depth.value > 0 or _reaches_others(self.outputs, self.inputs))
        if has_aux and not self.recorded:
            self.aux = _apart(self.aux)

    @property
    def result(self) -> Any:
        """What the function returned, without the history that only this derivative needs."""
        tree = self.spec.unflatten(self.outputs)
        return tree if self.recorded else _apart(tree)

    def pulled_back(self, cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs."""
        live = [(o, c) for o, c in zip(self.outputs, cotangents, strict=True) if c is not None and dispatch.wants_gradient(o)]
        again = context.grad_enabled and (self.recorded or _depth.value > 0 or any(takes_part(c) for _, c in live))
        if not live:
            return [zeros_of(x) for x in self.inputs]
        found = tape_grad([o for o, _ in live], self.inputs, [c for _, c in live], True, again, allow_unused=True)
        return [zeros_of(x) if g is None else g for g, x in zip(found, self.inputs, strict=True)]

    def tensors(self, name: str) -> None:
        for output in self.outputs:
            if not isinstance(output, TensorBase):
                raise RuntimeError(f"{name}: Expected f(*args) to return only tensors, got unsupported type {type(output).__name__}")


def _needed(x: Any) -> Any:
    if not isinstance(x, TensorBase):
        raise RuntimeError(f"a derivative by an argument of type {type(x).__name__} was asked for; it must be a tensor, or made of tensors")
    return x


def _positions(argnums: Any, count: int) -> list[int]:
    many = argnums if isinstance(argnums, tuple) else (argnums,)
    for i in many:
        if not isinstance(i, int):
            raise RuntimeError(f"argnum must be int, got: {type(i)}")
        if not -count <= i < count:
            raise RuntimeError(f"Got argnum={i}, but only {count} positional inputs")
    found = [i % count for i in many]
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique. Got argnums={argnums}")
    return found


def _by_argument(recorded: Recorded, gradients: Sequence[Any], argnums: Any) -> Any:
    tree = recorded.structure.unflatten(gradients)
    return tuple(tree) if isinstance(argnums, tuple) else tree[0]


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradients of ``func``, as `grad` does, and the value that it returned (with ``has_aux`` (value, aux))."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return gradients_of(func, argnums, has_aux, args, kwargs)

    return wrapped


def gradients_of(func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function that `grad_and_value` makes does."""
    recorded = Recorded(func, args, kwargs, argnums, has_aux)
    output = recorded.spec.unflatten(recorded.outputs)
    if not isinstance(output, TensorBase):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(output)}")
    if output.meta.shape:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {len(output.meta.shape)} dims. Maybe "
            "you wanted to use the vjp or jacrev APIs instead?"
        )
    found = _by_argument(recorded, recorded.pulled_back([_ones(output)]), argnums)
    return found, ((recorded.result, recorded.aux) if has_aux else recorded.result)


def _ones(x: Any) -> Any:
    return zeros_of(x).fill_(1)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of ``func``, which returns a tensor of one element, by its argument ``argnums``.

    Several arguments give a tuple; an argument may be a container of tensors. With ``has_aux`` ``func`` returns (value, aux), and
    the result is (gradient, aux). Gradients of gradients, and of each place of a batch by `vmap`, come from nesting. RuntimeError for
    a result that is no tensor of one element, and where an argument has no fractions.

    >>> import flambeau as torch
    >>> from flambeau.func import grad
    >>> grad(grad(torch.sin))(torch.tensor(0.5)) + torch.sin(torch.tensor(0.5))
    tensor(0.)
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found, value = gradients_of(func, argnums, has_aux, args, kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """What ``func(*primals)`` returns, and a function from cotangents of that to those of the primals (a tuple if there are several).

    With ``has_aux`` ``func`` returns (output, aux), and aux comes third. RuntimeError for cotangents of another structure or shape.

    >>> import flambeau as torch
    >>> output, pull = torch.func.vjp(lambda x: x * x, torch.tensor([1., 2.]))
    >>> pull(torch.tensor([1., 10.]))
    (tensor([ 2., 40.]),)
    """
    recorded = Recorded(func, primals, {}, None, has_aux)
    recorded.tensors("vjp(f, *primals)")

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves, spec = tree_flatten(cotangents)
        if spec != recorded.spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: "
                f"{spec}, primal output: {recorded.spec}"
            )
        return tuple(recorded.structure.unflatten(recorded.pulled_back(leaves)))

    return (recorded.result, pull, recorded.aux) if has_aux else (recorded.result, pull)


class Linear(Pushforward):
    """The derivative of a recorded function as a linear function of tangents."""

    def __init__(self, recorded: Recorded) -> None:
        with _deeper():
            super().__init__(recorded.outputs, recorded.inputs, recorded.level)
        self.recorded = recorded.recorded

    def tangents(self, given: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs."""
        again = context.grad_enabled and (self.recorded or _depth.value > 0 or any(map(takes_part, given)))
        found = self.push(given, again)
        return [zeros_of(o) if t is None else t for t, o in zip(found, self.outputs, strict=True)]


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """What ``func(*primals)`` returns, and the product of its Jacobian with the tangents, of the structure and shapes of the primals.

    With ``has_aux`` ``func`` returns (output, aux), and aux comes third. Exact, as the module says. With ``strict`` an output that does not
    depend on the primals raises RuntimeError, else its tangent is zeros.

    >>> import flambeau as torch
    >>> torch.func.jvp(lambda x: x ** 2, (torch.tensor([1., 2.]),), (torch.tensor([1., 0.5]),))
    (tensor([1., 4.]), tensor([2., 2.]))
    """
    given = _check_tangents("jvp(f, primals, tangents)", primals, tangents)
    recorded = Recorded(func, primals, {}, None, has_aux)
    recorded.tensors("jvp(f, primals, tangents)")
    linear = Linear(recorded)
    if strict and (len(linear.live) < len(recorded.outputs)):
        raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs.")
    pushed = recorded.spec.unflatten(linear.tangents(given))
    return (recorded.result, pushed, recorded.aux) if has_aux else (recorded.result, pushed)


def _check_tangents(name: str, primals: Any, tangents: Any) -> list[Any]:
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    if not primals:
        raise RuntimeError(f"{name}: Expected primals to be non-empty")
    leaves, spec = tree_flatten(primals)
    given, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(f"{name}: Expected primals and tangents to have the same python structure, got {spec} and {other}")
    for x, t in zip(leaves, given, strict=True):
        if not (isinstance(x, TensorBase) and isinstance(t, TensorBase)) or _told(x) != _told(t):
            raise RuntimeError(
                f"{name}: primals and tangents must be tensors of the same shapes and dtypes, got {_told(x)} and {_told(t)}"
            )
    return given


def _told(x: Any) -> str:
    return f"{x.meta.dtype} {list(x.meta.shape)}" if isinstance(x, TensorBase) else type(x).__name__


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """What ``func(*primals)`` returns, and the derivative there as a function of tangents: ``func`` is not run again.

    >>> import flambeau as torch
    >>> output, push = torch.func.linearize(torch.exp, torch.tensor([0., 0.]))
    >>> push(torch.tensor([1., 3.]))
    tensor([1., 3.])
    """
    recorded = Recorded(func, primals, {})
    recorded.tensors("linearize(f, *primals)")
    linear = Linear(recorded)

    def push(*tangents: Any) -> Any:
        return recorded.spec.unflatten(linear.tangents(_check_tangents("linearize(f, *primals)", primals, tangents)))

    return recorded.result, push


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` as it is: in-place operations and views never reach a graph here, they are values at its door already.

    >>> import flambeau as torch
    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations' and remove='mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


