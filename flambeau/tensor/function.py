"""autograd.Function: a function with a derivative of its own, as one entry on the tape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core.context import context
from flambeau.runtime.native.records import next_sequence
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.batching import BatchedTensor, batched, inside, is_batched, outside, takes_part
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.tape import SECOND_BACKWARD, Entry, Packed, Saved, check_saved


class FunctionContext(Entry):
    """What ``forward`` keeps for ``backward``; at the same time the entry on the tape, so ``grad_fn`` of the results.

    Attributes may be set on it freely. ``needs_input_grad`` says for each input whether its gradient is wanted.
    """

    def __init__(self, function: type[Function], needs_input_grad: tuple[bool, ...]) -> None:
        super().__init__([], [])
        self.function = function
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._without_gradient: tuple[Any, ...] = ()
        self._saved: list[Saved | Packed | None] | None = None
        self._input_metas: list[TensorMeta | None] = []

    @property
    def _title(self) -> str:  # type: ignore[override]
        return f"{self.function.__name__}Backward"

    # -- for forward and setup_context ------------------------------------------------------------------
    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for ``backward``, which finds them in ``saved_tensors``."""
        for position, t in enumerate(tensors):
            if t is not None and not isinstance(t, TensorBase):
                raise TypeError(f"save_for_backward can only save variables, but argument {position} is of type {type(t).__name__}")
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted and not needed: forward derivatives are taken from ``backward``."""

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that inputs were changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that results have no gradient."""
        self._without_gradient = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (True) or None for results that no gradient came back to."""
        self.materialize_grads = value

    # -- for backward -----------------------------------------------------------------------------------
    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` kept; RuntimeError when a tensor has changed since or the graph was freed."""
        if self._saved is None:
            if self._to_save:
                return self._to_save  # forward has not returned yet
            raise RuntimeError(SECOND_BACKWARD)
        return tuple(None if saved is None else self._restored(saved) for saved in self._saved)

    def _restored(self, saved: Saved | Packed) -> Any:
        tensor = check_saved(self, saved)
        if saved.output < 0:
            return tensor
        out = dispatch.another(tensor)
        out.entry, out.output, out._requires_grad = self, saved.output, True
        return out

    def record(self, args: Sequence[Any], outputs: Sequence[Any], recorded: bool) -> list[Any]:
        """Finish after ``forward``: put the entry between inputs and outputs; returns the outputs to hand out."""
        inputs = {id(a): a for a in args if isinstance(a, TensorBase)}
        dirty = {id(t) for t in self._dirty}
        if not dirty <= {id(o) for o in outputs}:
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. Return them as well.")
        edges = [dispatch.edge_of(a) if need else None for a, need in zip(args, self.needs_input_grad, strict=True)]
        self._input_metas = [a.meta if isinstance(a, TensorBase) else None for a in args]
        if recorded:
            for t in self._dirty:
                dispatch.check_in_place(self._title, t)
        results = [_separated(o) if id(o) in inputs and id(o) not in dirty else o for o in outputs]
        constant = {id(t) for t in self._without_gradient}
        if recorded:
            self.edges = edges
            self.sequence = next_sequence()  # an edge may lead to an entry that was made just now, for a view whose base had changed
            self.metas = [r.meta if isinstance(r, TensorBase) else None for r in results]  # type: ignore[misc]
            for position, (result, output) in enumerate(zip(results, outputs, strict=True)):
                if isinstance(result, TensorBase) and result.meta.dtype.is_inexact and id(output) not in constant:
                    result.entry, result.output, result._requires_grad = self, position, True
        self._keep(outputs, results)
        return results

    def _keep(self, outputs: Sequence[Any], results: Sequence[Any]) -> None:
        places = {id(o): i for i, o in enumerate(outputs)}
        self._saved = []
        for t in self._to_save:
            place = -1 if t is None else places.get(id(t), -1)
            if t is not None and place >= 0 and results[place].entry is self:
                # The result itself would keep this entry alive for ever.
                t.count_changes()
                t = dispatch.another(t)
            else:
                place = -1
            saved = None if t is None else Saved(t, place)
            self._saved.append(Packed(saved, context.saved_hooks[-1]) if saved is not None and context.saved_hooks else saved)
        self._to_save = ()

    def apply(self, cotangents: list[Any]) -> Sequence[Any]:
        if self._saved is None:
            raise RuntimeError(SECOND_BACKWARD)
        if self.materialize_grads:
            cotangents = [
                dispatch.new_zeros(m) if c is None and m is not None else c for c, m in zip(cotangents, self.metas, strict=True)
            ]
        backward = self.function.vjp if self.function.backward is Function.backward else self.function.backward
        found = backward(self, *cotangents)
        gradients = list(found) if isinstance(found, (tuple, list)) else [found]
        wanted = len(self.edges)
        if len(gradients) > wanted and all(g is None for g in gradients[wanted:]):
            gradients = gradients[:wanted]
        if len(gradients) != wanted:
            raise RuntimeError(
                f"function {self._title} returned an incorrect number of gradients (expected {wanted}, got {len(gradients)}): return one, "
                "or None, for each input of forward"
            )
        return [self._checked(i, g) if e is not None else None for i, (g, e) in enumerate(zip(gradients, self.edges, strict=True))]

    def _checked(self, position: int, gradient: Any) -> Any:
        if gradient is None:
            return None
        if not isinstance(gradient, TensorBase):
            raise TypeError(f"function {self._title}: expected a Tensor or None at position {position}, got {type(gradient).__name__}")
        meta = self._input_metas[position]
        assert meta is not None
        if gradient.meta.shape != meta.shape:
            gradient = self._summed(position, gradient, meta.shape)
        return gradient if gradient.meta.dtype is meta.dtype else ops.to_dtype(gradient, meta.dtype)

    def _summed(self, position: int, gradient: Any, shape: tuple[int, ...]) -> Any:
        """A gradient of the shape that the input was broadcast to, summed back."""
        got = gradient.meta.shape
        extra = len(got) - len(shape)
        if extra < 0 or any(w not in (1, g) for g, w in zip(got[extra:], shape, strict=True)):
            raise RuntimeError(
                f"Function {self._title} returned an invalid gradient at index {position} - got {list(got)} but expected shape "
                "compatible with "
                f"{list(shape)}"
            )
        axes = [i for i in range(len(got)) if i < extra or (shape[i - extra] == 1 and got[i] != 1)]
        return ops.reshape(ops.sum(gradient, axes), shape)

    def release(self) -> None:
        self._saved = None


def _separated(tensor: Any) -> Any:
    """An input that is returned as it is, as a tensor of its own over the same memory."""
    return dispatch.another(tensor)


class Function:
    """A differentiable function with a derivative written by hand: subclass it, and call it through ``apply``.

    ``forward(ctx, *args)`` computes; ``backward(ctx, *grad_outputs)`` returns a gradient, or None, for each argument of
    ``forward``. With ``setup_context(ctx, inputs, output)``, ``forward`` takes no ``ctx``.

    >>> import flambeau as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    def __init__(self) -> None:
        raise RuntimeError(f"{type(self).__name__}: a Function is not instantiated; call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what ``backward`` needs; when a subclass has it, ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments of ``forward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for ``backward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The function of a batch, (results, dimensions of their batches); without it ``forward`` runs on batched tensors.

        ``args`` are the whole arguments, ``in_dims`` the dimensions of their batches or None; ``info`` has ``batch_size``, ``randomness``.
        """
        raise NotImplementedError("vmap is not implemented.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function: run ``forward`` without recording it, and put one entry on the tape."""
        level = dispatch.level_of([a for a in args if isinstance(a, TensorBase)])
        if level:
            return _BatchedCall(cls, args, kwargs, level).run()
        wanted = tuple(isinstance(a, TensorBase) and dispatch.wants_gradient(a) for a in args)
        ctx = FunctionContext(cls, wanted)
        recorded = context.grad_enabled and any(wanted)
        found = _forward(cls, ctx, args, kwargs)
        results = ctx.record(args, found if isinstance(found, tuple) else (found,), recorded)
        return _like(found, results)


def _forward(function: type[Function], ctx: FunctionContext, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What ``forward`` gives, the context being set up."""
    with_setup = function.setup_context is not Function.setup_context
    with no_grad():
        found = function.forward(*args, **kwargs) if with_setup else function.forward(ctx, *args, **kwargs)
        if with_setup:
            function.setup_context(ctx, tuple(args), found)
    return found


def _like(found: Any, results: Sequence[Any]) -> Any:
    if not isinstance(found, tuple):
        return results[0]
    return type(found)(*results) if hasattr(found, "_fields") else tuple(results)


class VmapInfo(NamedTuple):
    """What ``Function.vmap`` is told of the batch."""

    batch_size: int
    randomness: str


class _BatchedCall:
    """A Function called in a ``vmap``: it runs on batched tensors, and what is recorded further outside is a Function of their values."""

    def __init__(self, function: type[Function], args: Sequence[Any], kwargs: dict[str, Any], level: int) -> None:
        self.function, self.args, self.kwargs, self.level = function, args, kwargs, level
        self.own = [is_batched(a) and a.level == level for a in args]
        self.many = [own and a.many for own, a in zip(self.own, args, strict=True)]
        self.values = [a.value if own else a for own, a in zip(self.own, args, strict=True)]
        self.scope = next((b for b in context.batching if b.serial == level), None)
        self.ctx = FunctionContext(function, tuple([isinstance(a, TensorBase) and takes_part(a) for a in args]))
        self.found: Any = None
        self.outputs: list[Any] = []

    def run(self) -> Any:
        recorded = context.grad_enabled and any(o and dispatch.wants_gradient(a) for o, a in zip(self.own, self.args, strict=True))
        if self.function.vmap is not Function.vmap:
            self._by_own_rule()
        else:
            with outside(self.level):
                made = _of_values(self).apply(*self.values)
            self.outputs = [
                o if not is_batched(o) or o.value is v else BatchedTensor(v, self.level, o.many)
                for o, v in zip(self.outputs, made, strict=True)
            ]
        return _like(self.found, self.ctx.record(self.args, self.outputs, recorded))

    def _by_own_rule(self) -> None:
        if self.function.setup_context is Function.setup_context:
            raise RuntimeError(f"{self.function.__name__}: vmap needs a Function with setup_context and a forward that takes no ctx")
        size = next(v.meta.shape[0] for v, m in zip(self.values, self.many, strict=True) if m)
        info = VmapInfo(size, self.scope.randomness if self.scope is not None else "error")
        with outside(self.level):
            made, dims = self.function.vmap(info, tuple([0 if m else None for m in self.many]), *self.values)
        several = isinstance(made, tuple)
        places = dims if isinstance(dims, tuple) else (dims,) * (len(made) if several else 1)
        outputs = [batched(v, d, self.level) for v, d in zip(made if several else (made,), places, strict=True)]
        self.found, self.outputs = made, outputs
        with no_grad():
            self.function.setup_context(self.ctx, tuple(self.args), tuple(outputs) if several else outputs[0])

    def forward(self, ctx: FunctionContext, *values: Any) -> tuple[Any, ...]:
        """The values of the results, from those of the arguments, which are what the arguments hold."""
        with inside(self.scope):
            self.found = _forward(self.function, self.ctx, self.args, self.kwargs)
        self.outputs = list(self.found) if isinstance(self.found, tuple) else [self.found]
        ctx.mark_dirty(*map(self._value, self.ctx._dirty))
        ctx.mark_non_differentiable(*map(self._value, self.ctx._without_gradient))
        ctx.set_materialize_grads(self.ctx.materialize_grads)
        return tuple(map(self._value, self.outputs))

    def _value(self, tensor: Any) -> Any:
        return tensor.value if is_batched(tensor) and tensor.level == self.level else tensor

    def backward(self, *cotangents: Any) -> tuple[Any, ...]:
        """The gradients of the values of the arguments, of what is the same for all summed over the batch."""
        given = [
            BatchedTensor(c, self.level, o.many) if c is not None and is_batched(o) and o.level == self.level else c
            for c, o in zip(cotangents, self.outputs, strict=True)
        ]
        with inside(self.scope):
            backward = self.function.vjp if self.function.backward is Function.backward else self.function.backward
            found = backward(self.ctx, *given)
        gradients = list(found) if isinstance(found, (tuple, list)) else [found]
        return tuple([self._fitting(g, k) for k, g in enumerate(gradients)])

    def _fitting(self, gradient: Any, position: int) -> Any:
        if gradient is None or position >= len(self.many):
            return gradient
        value = self._value(gradient)
        many = value is not gradient and gradient.many
        if self.many[position] and not many:
            return ops.expand(value, (self.values[position].meta.shape[0], *value.meta.shape))
        return ops.sum(value, (0,)) if many and not self.many[position] else value


def _of_values(call: _BatchedCall) -> type[Function]:
    """The Function of the values of a call's batched tensors."""

    class Values(Function):
        @staticmethod
        def forward(ctx: FunctionContext, *values: Any) -> tuple[Any, ...]:
            return call.forward(ctx, *values)

        @staticmethod
        def backward(ctx: FunctionContext, *cotangents: Any) -> tuple[Any, ...]:
            return call.backward(*cotangents)

    Values.__name__ = call.function.__name__
    return Values


class TwiceEntry(Entry):
    """Stands behind gradients that must not be differentiated again."""

    __slots__ = ()
    _title = "NotDifferentiable"

    def apply(self, cotangents: list[Any]) -> Sequence[Any]:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that is not made of differentiable operations: differentiating its results raises."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            found = backward(ctx, *grads)
        if not context.grad_enabled or not any(isinstance(g, TensorBase) and dispatch.wants_gradient(g) for g in grads):
            return found
        several = isinstance(found, tuple)
        results = [None if r is None else r.detach() for r in (found if several else (found,))]
        entry = TwiceEntry([], [r.meta for r in results if r is not None])
        for position, result in enumerate(r for r in results if r is not None):
            result.entry, result.output, result._requires_grad = entry, position, True
        return tuple(results) if several else results[0]

    return wrapped
