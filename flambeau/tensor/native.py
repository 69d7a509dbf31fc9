"""Native dispatch: tells native code about operators and types, and leaves it the plans of calls.

Native code (`runtime.native`) knows only keys and plans. A call whose key it has not seen comes to `missed`, which runs it as
`dispatch` does and leaves a plan for the next time; what it calls unusual goes the whole way through Python.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.core import context as modes
from flambeau.core.context import autocast_bits, context
from flambeau.core.device import Device
from flambeau.core.dtypes import bfloat16, dtype, float16
from flambeau.core.events import counters
from flambeau.core.shape import Size
from flambeau.interp.eager import report_error
from flambeau.ops.declare import ALL, Operator, forget_with_default_float
from flambeau.runtime import launch as tasks_of
from flambeau.runtime import thread_pool
from flambeau.runtime.launch import KernelError
from flambeau.runtime.native import heap_types, keys, launch, layouts, library
from flambeau.runtime.native.library import Library
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor import autocasting, dispatch, overriding, tape
from flambeau.tensor.dispatch import Call, CallPlan, OperatorEntry, plan_call, run_call, run_into, take_apart, wanted_of
from flambeau.tensor.native_plan import Block, NativePlan, pack, performable, remember_backward
from flambeau.tensor.tape import Saved
from flambeau.tensor.views import Step, View

# Plans kept; past this all are dropped, so that a program with ever new shapes does not fill memory.
_LIMIT = 1 << 14
_WORD = (1 << 64) - 1
_OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "true_divide", "matrix_multiply": "matmul"}
_METHODS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matrix_multiply": "matmul"}


class Table:
    """Addresses by hash, for native code: open addressing, at most half full; the first word is the mask of the places.

    Threads may add at the same time; what one of them loses is learned again.
    """

    def __init__(self, native: Library, field: str) -> None:
        self._native = native
        self._field = field
        self.clear()

    def clear(self) -> None:
        self._found: list[tuple[int, int, Any]] = []
        self._resize(1024)

    def __len__(self) -> int:
        return len(self._found)

    def _resize(self, size: int) -> None:
        block = Block([size - 1, *[0] * size])
        for hash_value, address, _ in self._found:
            _place(block, hash_value, address)
        # Native code sees all of the new table or all of the old.
        self._native.hold_block(self._field, block)
        self._block = block

    def add(self, hash_value: int, address: int, owner: Any) -> None:
        """Add an address that ``owner`` keeps good."""
        self._found.append((hash_value, address, owner))
        if 2 * len(self._found) >= self._block.words[0]:
            self._resize(2 * (self._block.words[0] + 1))
        else:
            _place(self._block, hash_value, address)


def _place(block: Block, hash_value: int, address: int) -> None:
    words = block.words
    mask = words[0]
    at = hash_value & mask
    while words[1 + at]:
        at = (at + 1) & mask
    words[1 + at] = address


def _keyed(key: bytes, call: Call, call_plan: CallPlan | None) -> NativePlan:
    """The plan for a call with a key; what only Python can do is left to it."""
    words = array("q", key)
    operator = call.operator
    block = Block(words, operator, call.template, [t.meta for t in call.tensors])
    fields = {"hash": _hash(id(operator), words), "operator": id(operator), "words": len(words), "key": block.address}
    if call_plan is None or not performable(call_plan):
        made = NativePlan(operator.name, None, None, fields)
    else:
        views = call_plan.run.views
        steps = [(Step(operator, call.template, tuple(call.sizes), output),) for output in range(len(views or ()))]
        made = NativePlan(operator.name, call_plan, call_plan.structure, fields, steps)
    made.kept.append(block)
    return made


def _hash(operator: int, words: Sequence[int]) -> int:
    value = operator
    for word in words:
        value = ((value ^ (word & _WORD)) * (keys.MULTIPLIER & _WORD)) & _WORD
        value ^= value >> 29
    return value


def _allowed(call: Call, plan: CallPlan) -> bool:
    """Whether `run_call` checks nothing for this call that would have to be checked again."""
    run = plan.run
    if run.views is None and run.bound is None:
        return False
    # Without gradients anything may be overwritten; calls of the same key with gradients have no operand that takes part in autograd.
    return not (context.grad_enabled and any(t is not None and call.tensors[t]._requires_grad for t in run.into))


class _Bridge:
    """What native code calls in Python."""

    def __init__(self, native: Library) -> None:
        self.native = native
        self._plans = Table(native, "plans")
        forget_with_default_float(self._plans.clear)
        self._seen: set[bytes] = set()

    def _comes_again(self, key: bytes) -> bool:
        """Whether a call has been seen before: what is called once, with sizes that do not come back, is not worth a plan."""
        if key in self._seen:
            return True
        if len(self._seen) >= _LIMIT:
            self._seen.clear()
        self._seen.add(key)
        return False

    def _add(self, plan: NativePlan) -> None:
        if len(self._plans) >= _LIMIT:
            self._plans.clear()
        self._plans.add(plan.hash >> 20, plan.block.address, plan)

    def missed(self, key: bytes, operator: Operator, /, *args: Any, **kwargs: Any) -> Any:
        """A call whose key has no plan: as `dispatch`, leaving one the second time."""
        call = take_apart(operator, args, kwargs)
        if self._comes_again(key + id(operator).to_bytes(8)):
            plan = plan_call(call, wanted_of(call.tensors))
            self._add(_keyed(key, call, plan if _allowed(call, plan) else None))
        return run_call(call)

    def into_missed(self, key: bytes, operator: Operator, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """As `missed`, for a result that is written into ``target``."""
        call = take_apart(operator, args, kwargs)
        if self._comes_again(key + id(operator).to_bytes(8)):
            position = next(i for i, t in enumerate(call.tensors) if t is target)
            plan = None
            if operator.kind == "pointwise":
                dispatch.check_single_memory(operator.name, target)
                plan = plan_call(call, (), position, target.meta.dtype)
            self._add(_keyed(key, call, plan))
        return run_into(call, target)

    @staticmethod
    def bind(plan: CallPlan) -> int:
        """Give a plan that is run outside operator calls a native form; its address, 0 where only Python can run it."""
        if not performable(plan):
            return 0
        made = NativePlan(plan.run.function.name, plan, list(range(plan.count)), {})
        plan.native_form = made
        return made.block.address

    def refresh_mode(self) -> None:
        """Tell native code the modes of this thread."""
        self.native.set_modes(context.bits())

    @staticmethod
    def failed(plan: NativePlan, status: int) -> None:
        """Raise or warn for a run that ended with a status."""
        assert plan.tasks is not None
        try:
            tasks_of.report(plan.tasks, status)
        except KernelError as error:
            raise report_error(plan.name, error) from None


class _Signatures:
    """The signatures of operators, each made when the operator is first called."""

    def __init__(self, native: Library) -> None:
        self._table = Table(native, "signatures")
        self._found: dict[int, Block] = {}

    def learn(self, operator: Operator) -> Block:
        """Tell native code an operator's parameters."""
        found = self._found.get(id(operator))
        if found is None:
            found = self._found[id(operator)] = signature_of(operator)
            self._table.add((id(operator) * keys.MULTIPLIER & _WORD) >> 40, found.address, found)
        return found


def _modes_of(operator: Operator) -> int:
    """The modes that change nothing for an operator: without gradients, inference, and autocast where it is in no table."""
    devices = [device for device, names in autocasting.POLICIES.items() if operator.name not in names]
    return keys.GRADIENTS_OFF | keys.INFERENCE | autocast_bits([(d, kind) for d in devices for kind in (float16, bfloat16)])


def signature_of(operator: Operator) -> Block:
    """What native code knows of an operator; one whose arguments it cannot take apart has no parameters and takes none."""
    parameters = list(operator.signature.parameters.values())
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if len(parameters) > keys.MAX_PARAMETERS or any(p.kind not in plain for p in parameters):
        return Block(pack(layouts.Signature, {"operator": id(operator), "parameters": -1, "positional": -1}), operator)
    names = [sys.intern(name) for name in operator.names]
    missing = object()
    defaults = [operator.defaults.get(name, missing) for name in operator.names]
    name_block = Block(list(map(id, names)), names)
    role_block = Block([keys.ROLES.index(role) for role in operator.roles])
    default_block = Block([0 if d is missing else id(d) for d in defaults], defaults)
    positional = sum(1 for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    fields = {"operator": id(operator), "parameters": len(parameters), "positional": positional, "names": name_block.address,
              "roles": role_block.address, "defaults": default_block.address, "lists": operator.roles.count("values"),
              "modes": _modes_of(operator)}  # fmt: skip
    return Block(pack(layouts.Signature, fields), operator, name_block, role_block, default_block)


def _hold_types(native: Library, tensor_class: type[Any]) -> None:
    native.hold("tensor_type", tensor_class)
    native.hold("operator_type", Operator)
    native.hold("view_type", View)
    native.hold("meta_type", TensorMeta)
    native.hold("entry_type", OperatorEntry)
    native.hold("saved_type", Saved)
    native.hold("hooks_name", sys.intern("post_accumulate_hooks"))
    native.hold("contiguous_name", sys.intern("contiguous"))
    plain = {"float": float, "int": int, "bool": bool, "str": str, "tuple": tuple, "list": list, "dict": dict, "size": Size}
    for name, kind in plain.items():
        native.hold(f"{name}_type", kind)
    constants = (dtype, Device)
    native.hold_block("constants", Block(list(map(id, constants)), constants))
    native.set("constant_count", len(constants))
    native.hold("not_implemented", NotImplemented)
    for name in ("get", "failed"):
        native.hold(f"{name}_name", sys.intern(name))


def _take_over(native: Library, tensor_class: type[Any], signatures: _Signatures) -> None:
    """Put the native entries in the places of the Python ones, which stay behind them."""
    native.hold("call_python", Operator.__call__)
    native.hold("new_slowly", dispatch.new_tensor)
    dispatch.new_tensor = native.function("new_tensor", heap_types.METH_FASTCALL)
    Operator.__call__ = heap_types.make_method(  # type: ignore[method-assign]
        Operator, "__call__", native.symbols["operator_call"], heap_types.METH_FASTCALL | heap_types.METH_KEYWORDS
    )
    for field, method in _METHODS.items():
        forward, reflected = getattr(tensor_class, f"__{method}__"), getattr(tensor_class, f"__r{method}__")
        block = Block([signatures.learn(ALL[_OPERATORS[field]]).address, id(forward), id(reflected)], forward, reflected)
        native.hold_block(field, block)
        setattr(tensor_class, f"__{method}__", getattr(native.tensor_fields, f"__{method}__"))
        setattr(tensor_class, f"__r{method}__", getattr(native.tensor_fields, f"__r{method}__"))
    negative = tensor_class.__neg__
    native.hold_block("negate", Block([signatures.learn(ALL["neg"]).address, id(negative), 0], negative))
    tensor_class.__neg__ = native.tensor_fields.__neg__
    tensor_class.__hash__ = native.tensor_fields.__hash__  # type: ignore[method-assign]


_bridge: _Bridge | None = None


def install(tensor_class: type[Any]) -> None:
    """Called once by the Tensor class: let native code serve calls."""
    global _bridge
    native = library.load()
    if native is None or not issubclass(tensor_class, native.tensor_fields):
        return
    _bridge = bridge = _Bridge(native)
    _hold_types(native, tensor_class)
    for name in ("missed", "into_missed", "refresh_mode", "failed"):
        native.hold(name, getattr(bridge, name))
    program = ctypes.cast(thread_pool.load().run_program_held, ctypes.c_void_p).value  # type: ignore[arg-type]
    native.set("run_program", program or 0)
    modes.set_publisher(native.change_mode)
    signatures = _Signatures(native)
    native.hold("learn", signatures.learn)
    _take_over(native, tensor_class, signatures)
    refusals = Block([0] * len(launch.REASONS))
    native.hold_block("refusals", refusals)
    counters.watch("native_calls", lambda: native.get("calls"))
    counters.watch("native_backwards", lambda: native.get("backwards"))
    for position, reason in enumerate(launch.REASONS):
        counters.watch(f"python_for_{reason}", lambda position=position: refusals.words[position])
    dispatch.set_performer(native.perform, bridge.bind)
    dispatch.set_backward(native.apply_entry, remember_backward)
    tape.set_walker(native.walk_tape)
    native.set("enabled", 1)


_accepted: list[type[Any]] = []


def accept(tensor_class: type[Any]) -> None:
    """Let native code treat instances of a subclass as it does plain tensors; for classes that change no operator."""
    _accepted.append(tensor_class)
    overriding.accept(tensor_class)
    native = library.load()
    if native is not None:
        native.hold_block("accepted", Block(list(map(id, _accepted))))
        native.set("accepted_count", len(_accepted))
