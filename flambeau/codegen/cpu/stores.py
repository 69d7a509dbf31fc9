"""Stores of a kernel: plain ones, and those that combine with what is there."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter, extract_at
from flambeau.codegen.cpu.memory import memory_kind
from flambeau.codegen.cpu.pointwise import emit_pointwise
from flambeau.codegen.cpu.reduction import combine
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ir.kernel import Store

_REDUCTION_OF_MODE = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def emit_store(x: ExpressionEmitter, store: Store, copy: int, in_lanes: bool) -> None:
    """Write one store, whose nodes have been evaluated; ``in_lanes``: once for each lane of the copy, else once."""
    if x.never_inside(store.index):
        return
    if not in_lanes:
        store_one(x, store)
    elif store.mode == "set" or x.steps.has_distinct_lanes(store.index):
        store_vector(x, store, copy)
    else:
        store_in_order(x, store, copy)


def merge(x: ExpressionEmitter, store: Store, old: Value, new: Value) -> Value:
    """What the store leaves in place of ``old``; the 16-bit floats are combined in float32 and rounded."""
    element = store.value.dtype
    kind = _REDUCTION_OF_MODE[store.mode]
    if element.compute is element:
        return combine(x.e, kind, element, old, new)
    wide = [cast(x, element, value, element.compute) for value in (old, new)]
    return cast(x, element.compute, combine(x.e, kind, element.compute, *wide), element)


def cast(x: ExpressionEmitter, origin: dtype, value: Value, to: dtype) -> Value:
    return emit_pointwise(x.e, "cast", origin, [value], {"to": to})


def store_one(x: ExpressionEmitter, store: Store) -> None:
    value = x.value(store.value, 0)
    allowed = x.access_condition(store.buffer, store.index, store.valid, 0)

    def write() -> None:
        new = value
        if store.mode != "set":
            new = merge(x, store, x.memory.load_one(store.buffer, store.index, value_type(store), None), value)
        x.memory.store_one(store.buffer, store.index, value_type(store), new)

    if allowed is None:
        write()
    else:
        x.nest.when(allowed, write)


def value_type(store: Store) -> dtype:
    return store.value.dtype


def store_vector(x: ExpressionEmitter, store: Store, copy: int) -> None:
    element, value = value_type(store), x.lanes(store.value, copy)
    mask = x.access_mask(store.buffer, store.index, store.valid, copy)
    if store.mode != "set":
        old = x.memory.load_lanes(store.buffer, store.index, element, mask, copy)
        value = merge(x, store, old, value)
    x.memory.store_lanes(store.buffer, store.index, element, value, mask, copy)


def store_past_caches(x: ExpressionEmitter, store: Store, copies: Sequence[int]) -> None:
    """Write whole vectors around the caches where they lie on lines of their own, which instructions for that ask for."""
    e, element = x.e, value_type(store)
    kind = memory_kind(element)
    values = [x.memory.to_memory(x.lanes(store.value, copy), element) for copy in copies]
    pointers = [x.memory.address(store.buffer, store.index, kind, copy) for copy in copies]
    size = x.width * element.itemsize
    place = e.convert("ptrtoint", pointers[0], "i64")
    aligned = e.compare("eq", e.binary("and", place, e.const(size - 1, "i64")), e.const(0, "i64"))
    aligned = aligned if x.whole is None else e.binary("and", aligned, x.whole)

    def stream() -> None:
        for value, pointer in zip(values, pointers, strict=True):
            e.store(value, pointer, size, nontemporal=True)

    def write() -> None:
        for copy in copies:
            store_vector(x, store, copy)

    x.nest.when(aligned, stream, write)


def goes_past_caches(x: ExpressionEmitter, store: Store, copies: Sequence[int]) -> bool:
    """Whether the copies of a store are whole vectors one behind the other."""
    plain = store.mode == "set" and store.valid is None and x.kernel.buffers[store.buffer].access == "write"
    whole = x.whole is not None or not any(copy in x.masks for copy in copies)
    wide = x.width * value_type(store).itemsize >= 32
    return plain and whole and wide and not x.checked and x.steps.is_contiguous(store.index) and x.steps.is_even(store.index)


def store_in_order(x: ExpressionEmitter, store: Store, copy: int) -> None:
    """Lane after lane, as several lanes may meet at one place."""
    e, element = x.e, value_type(store)
    kind = memory_kind(element)
    index, values = x.indexing.lanes(store.index, copy), x.lanes(store.value, copy)
    mask = x.access_mask(store.buffer, store.index, store.valid, copy)
    if element is dtypes.bool_:
        values = e.convert("zext", values, "i8")
    wide_mask = None if mask is None else e.convert("zext", mask, "i8")
    base = x.buffer(store.buffer)

    def one(lane: Value, _: list[Value]) -> list[Value]:
        def write() -> None:
            pointer = e.offset(base, extract_at(e, index, lane), kind)
            old = x.memory.to_register(e.load(pointer, kind), element)
            new = merge(x, store, old, x.memory.to_register(extract_at(e, values, lane), element))
            e.store(x.memory.to_memory(new, element), pointer)

        if wide_mask is None:
            write()
        else:
            x.nest.when(e.compare("ne", extract_at(e, wide_mask, lane), e.const(0, "i8")), write)
        return []

    x.nest.loop(None, e.const(0, "i64"), e.const(x.width, "i64"), 1, [], one)
