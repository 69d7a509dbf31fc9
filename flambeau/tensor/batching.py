"""Batched tensors: what ``vmap`` hands to a function, and how operators run on them.

A batched tensor looks like one of many tensors, and holds all of them in one, ``value``, along its first axis. An operator on batched
tensors is planned for what they look like, and then runs in its batched form (`derivative.batching`) on their values: as an operator,
so that values which are batched tensors of an outer ``vmap``, take part in autograd, or belong to a capture are treated as always.
The tape of tensors in a ``vmap`` leads to batched tensors, that of their values is a tape further outside.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

from flambeau.core.context import context
from flambeau.core.symbolic import Dim, Expression
from flambeau.derivative.batching import batched_graph
from flambeau.interp.functions import GraphFunction
from flambeau.ops.declare import ALL, Operator, Values
from flambeau.prims.random import random
from flambeau.runtime.storage import meta_of
from flambeau.tensor import dispatch, overriding
from flambeau.tensor.base import fill_base
from flambeau.tensor.plans import CallPlan
from flambeau.tensor.tensor_class import Tensor

__all__ = ["BatchedTensor", "batched", "inside", "is_batched", "map_batch", "outside", "takes_part", "unbatched", "vmap_level"]

RANDOMNESS = ("error", "same", "different")


class BatchedTensor(Tensor):
    """One of the tensors that a ``vmap`` (``level``) maps over, standing for all; ``many``: ``value`` has them along its first axis.

    Otherwise ``value`` is the same for all of them.
    """

    __slots__ = ("level", "many", "value")
    level: int
    many: bool
    value: Any
    __torch_function__ = staticmethod(overriding.plain_function)  # type: ignore[assignment]

    def __new__(cls, value: Any, level: int, many: bool) -> BatchedTensor:
        made = object.__new__(cls)
        meta = value.meta
        shape, strides = (meta.shape[1:], meta.strides[1:]) if many else (meta.shape, meta.strides)
        meta = meta_of(tuple([int(n) for n in shape]), meta.dtype, tuple([int(n) for n in strides]), meta.device)
        fill_base(made, value.memory, value.address, meta)
        made.value, made.level, made.many = value, level, many
        return made

    def alias(self) -> BatchedTensor:
        """The same value without history in this ``vmap``."""
        return BatchedTensor(self.value, self.level, self.many)

    def alike(self, made: Any) -> BatchedTensor:
        """A new tensor, once for each place of the batch, so that it can be written to."""
        if self.many:
            made = ALL["expand"](made, (self.value.meta.shape[0], *made.meta.shape)).clone()
        return BatchedTensor(self.value.alike(made) if is_batched(self.value) else made, self.level, self.many)

    def new_empty(self, *size: Any, **options: Any) -> Any:
        return self.alike(super().new_empty(*size, **options))

    def new_zeros(self, *size: Any, **options: Any) -> Any:
        return self.alike(super().new_zeros(*size, **options))

    def new_ones(self, *size: Any, **options: Any) -> Any:
        return self.alike(super().new_ones(*size, **options))

    def new_full(self, size: Any, fill_value: Any, **options: Any) -> Any:
        return self.alike(super().new_full(size, fill_value, **options))

    def detach(self) -> BatchedTensor:
        return BatchedTensor(self.value.detach(), self.level, self.many)

    def materialize(self) -> NoReturn:
        raise RuntimeError(
            "vmap: the values of a batched tensor are not to be had inside (.item(), .tolist(), .numpy(), results of a shape that depends "
            "on values): there is one for each place of the batch. Rewrite it with tensor operations such as torch.where"
        )

    def item(self) -> NoReturn:
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, or over what "
            "needs it, such as results whose shape depends on values: rewrite it with tensor operations such as torch.where"
        )

    def __bool__(self) -> bool:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. That is not supported: both "
            "branches may be taken, use torch.where"
        )

    def array(self) -> NoReturn:
        self.materialize()

    def resize_(self, *sizes: Any, memory_format: Any = None) -> NoReturn:
        raise RuntimeError("vmap: resize_ of a batched tensor is not supported; make a new tensor")

    def set_(self, source: Any = None, storage_offset: Any = 0, size: Any = None, stride: Any = None) -> NoReturn:
        raise RuntimeError("vmap: set_ of a batched tensor is not supported; make a new tensor")

    def _viewed_as(self, dtype: Any) -> Any:
        return BatchedTensor(self.value.view(dtype), self.level, self.many)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.clone())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"BatchedTensor(lvl={self.level}, bdim={0 if self.many else None}, value=\n    {self.value!r}\n)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


overriding.accept(BatchedTensor)


# -- levels ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Level:
    """One call of ``vmap`` that is under way. Later ones have larger serial numbers."""

    serial: int
    size: int
    randomness: str


_serial = itertools.count(1)


@contextmanager
def vmap_level(size: int, randomness: str = "error") -> Generator[int]:
    """A ``vmap`` over ``size`` calls; gives its level."""
    before = context.batching
    level = Level(next(_serial), size, randomness)
    context.batching = (*before, level)
    try:
        yield level.serial
    finally:
        context.batching = before


@contextmanager
def outside(level: int) -> Generator[None]:
    """Where only the calls of ``vmap`` around ``level`` are under way."""
    before = context.batching
    if before:
        context.batching = tuple([b for b in before if b.serial < level])
    try:
        yield
    finally:
        if before:
            context.batching = before


@contextmanager
def inside(level: Level | None) -> Generator[None]:
    """Where the calls of ``vmap`` that are under way are in one more, if it is given."""
    before = context.batching
    if level is not None:
        context.batching = (*[b for b in before if b.serial < level.serial], level)
    try:
        yield
    finally:
        context.batching = before


def is_batched(tensor: Any) -> bool:
    """Whether a tensor belongs to a ``vmap``."""
    return type(tensor) is BatchedTensor


def takes_part(tensor: Any) -> bool:
    """Whether a tensor takes part in autograd, in a ``vmap`` or further outside."""
    while is_batched(tensor):
        if dispatch.wants_gradient(tensor):
            return True
        tensor = tensor.value
    return dispatch.wants_gradient(tensor)


def batched(value: Any, axis: int | None, level: int) -> BatchedTensor:
    """A tensor as ``vmap`` hands it to the function: one of those along ``axis``, or the same for all."""
    if axis is None:
        return BatchedTensor(value, level, False)
    return BatchedTensor(ALL["movedim"](value, axis, 0) if axis else value, level, True)


def unbatched(tensor: Any, axis: int, level: int, size: int) -> Any:
    """The tensors that a result stands for, along a new axis; what does not belong to the ``vmap`` is repeated."""
    rank = len(tensor.meta.shape) + 1
    if not -rank <= axis < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis})")
    many = is_batched(tensor) and tensor.level == level and tensor.many
    value = tensor.value if is_batched(tensor) and tensor.level == level else tensor
    if not many:
        value = ALL["expand"](value, (size, *value.meta.shape))
    return ALL["movedim"](value, 0, axis) if axis else value


# -- running --------------------------------------------------------------------------------------------
class _Forms:
    """The batched forms of a function. ``told``: the sizes that its operands tell."""

    __slots__ = ("draws", "found", "told")

    def __init__(self, function: GraphFunction) -> None:
        self.told = frozenset(str(d) for i in function.graph.inputs for d in i.shape if not isinstance(d, int))
        self.draws = any(n.op is random for n in function.graph.nodes())
        self.found: dict[Any, Operator] = {}


_forms: weakref.WeakKeyDictionary[GraphFunction, _Forms] = weakref.WeakKeyDictionary()


def _form(function: GraphFunction, sizes: Mapping[str, int], marks: tuple[bool, ...], kind: str, draws: int | None) -> Operator:
    """The operator that does a function's work in its batched form."""
    forms = _forms[function]
    given = tuple([item for item in sizes.items() if item[0] not in forms.told])
    key = (given, marks, kind, draws)
    if key not in forms.found:
        forms.found[key] = _new_form(function, dict(given), marks, kind, draws)
    return forms.found[key]


def _new_form(function: GraphFunction, sizes: Mapping[str, int], marks: tuple[bool, ...], kind: str, draws: int | None) -> Operator:
    graph, known = function.graph, dict[str, Dim](sizes)
    every = (*marks, *(False,) * (len(graph.inputs) - len(marks)))

    def body(tensors: Values, numbers: Values) -> Any:
        """The batched form of a function."""
        return batched_graph(graph.inputs, graph.outputs, (*tensors, *numbers), every, known, draws)

    body.__name__ = function.name
    return Operator(body, kind, "none", None, (), None, False)


def run_batched(plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any], level: int) -> list[Any]:
    """The results of a plan on tensors of which some belong to the ``vmap`` of the level."""
    mine = [is_batched(t) and t.level == level for t in tensors]
    marks = tuple([own and t.many for own, t in zip(mine, tensors, strict=True)])
    values = [t.value if own else t for own, t in zip(mine, tensors, strict=True)]
    function = plan.run.function
    scope = next((b for b in context.batching if b.serial == level), None)
    if function not in _forms:
        _forms[function] = _Forms(function)
    draws = scope.size if scope is not None and scope.randomness == "different" and _forms[function].draws else None
    form = _form(function, plan.sizes, marks, plan.kind, draws)
    with outside(level):
        made = form(values, list(numbers))
        many = any(marks) or draws is not None
        results: list[Any] = []
        for k, value in enumerate(made):
            target = plan.run.into[k] if plan.run.into else None
            if target is None:
                results.append(BatchedTensor(value, level, many) if level else value)
            else:
                results.append(_written(function.name, tensors[target], value, level, many))
    return results


def _written(name: str, target: Any, value: Any, level: int, many: bool) -> Any:
    """A result written into an operand."""
    own = is_batched(target) and target.level == level
    if many and not (own and target.many):
        raise RuntimeError(
            f"vmap: {name}_ cannot write values that differ along the batch into a tensor of shape {list(target.meta.shape)} that is the "
            "same for all of it; make the tensor from a batched one, as with torch.zeros_like(x) or x.new_zeros(), or do it out of place"
        )
    into = target.value if own else target
    dispatch.call_into(ALL["assign"], into, (into, value), {})
    return target


def _drawing_level(call: dispatch.Call) -> int:
    """The ``vmap`` that decides how a call draws random numbers; 0 for one that draws none."""
    body = call.operator.body
    if not draws_numbers(body.__code__, body.__globals__) or not _draws_now(call):
        return 0
    innermost = context.batching[-1]
    if innermost.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags "
            "on vmap or perform the randomness operation out of vmap"
        )
    return innermost.serial


def _draws_now(call: dispatch.Call) -> bool:
    """Whether an operator that may draw random numbers does so for these arguments."""
    if any(t.meta.classes is None for t in call.tensors) or any(isinstance(s, Expression) for s in call.sizes):
        return True
    return any(n.op is random for n in dispatch.plan_call(call, (), bound=False).run.function.graph.nodes())


_drawing: dict[CodeType, bool] = {}


def draws_numbers(code: CodeType, space: Mapping[str, Any]) -> bool:
    """Whether an operator's body, or a function that it calls, draws random numbers."""
    if code not in _drawing:
        _drawing[code] = False  # of one that calls itself
        _drawing[code] = "draw" in code.co_names or any(_calls_one_that_draws(space.get(name)) for name in code.co_names)
    return _drawing[code]


def _calls_one_that_draws(called: Any) -> bool:
    function = called.body if isinstance(called, Operator) else called
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and function.__module__.startswith("flambeau.ops") and draws_numbers(code, function.__globals__)


def map_batch(function: Callable[..., Any], size: int, randomness: str, *tensors: Any) -> list[Any]:
    """``function`` of all places of tensors along their first axis; it gives a list of tensors."""
    with vmap_level(size, randomness) as level:
        found = function(*[None if t is None else batched(t, 0, level) for t in tensors])
        return [None if t is None else unbatched(t, 0, level, size) for t in found]


dispatch.set_batching(BatchedTensor, run_batched, _drawing_level)
