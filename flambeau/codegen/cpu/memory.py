"""Reads and writes of a kernel's buffers: whole vectors, single elements, and lanes at places of their own."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.codegen.cpu.emitter import Emitter, Value, mangled
from flambeau.codegen.cpu.indexing import Indexing, Terms
from flambeau.codegen.cpu.nest import Nest
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, terms_of


def memory_kind(element: dtype) -> str:
    """The LLVM type of an element in memory."""
    if element.is_complex:
        raise NotImplementedError(f"kernels on {element} are not supported yet: pass real and imaginary parts apart")
    return "i8" if element is dtypes.bool_ else element.llvm


class Memory:
    """Accesses buffers by index expression. Masks are i1 values of the access' width; None means every lane."""

    def __init__(self, nest: Nest, indexing: Indexing, buffer: Callable[[int], Value]) -> None:
        self.nest = nest
        self.e: Emitter = nest.e
        self.indexing = indexing
        self.buffer = buffer

    # -- addresses ------------------------------------------------------------------------------------------
    def address(self, buffer: int, index: Dim, kind: str, copy: int = 0) -> Value:
        """The address of lane 0 of the copy: the part of each loop is added in that loop."""
        return self.address_from(self.buffer(buffer), buffer, index, kind, copy)

    def address_from(self, pointer: Value, key: object, index: Dim, kind: str, copy: int) -> Value:
        """The same from the base ``pointer``, which ``key`` stands for."""
        so_far: Terms = ()
        even = self.indexing.steps.is_even(index)
        at = 0 if even else copy
        for depth, part in self.indexing.by_depth(terms_of(index)):
            so_far += part
            pointer = self.nest.keep(
                ("address", key, so_far, self.indexing.own(so_far, at)),
                depth,
                lambda part=part, pointer=pointer: self.e.offset(pointer, self.indexing.scalar_of_terms(part, at), kind),
            )
        step = self.indexing.steps.constant_step(index) or 1
        return self.e.offset(pointer, copy * self.indexing.width * step, kind) if copy and even else pointer

    def addresses(self, buffer: int, index: Dim, kind: str, copy: int) -> Value:
        """The address of every lane, as a vector of pointers."""
        lanes = self.indexing.lanes(index, copy)
        out = self.e.fresh("p")
        self.e.emit(f"{out} = getelementptr {kind}, {self.buffer(buffer)}, {lanes}")
        return Value(out, "ptr", lanes.width)

    # -- between memory and registers -------------------------------------------------------------------------
    def to_register(self, value: Value, element: dtype) -> Value:
        return self.e.compare("ne", value, self.e.like(0, value)) if element is dtypes.bool_ else value

    def to_memory(self, value: Value, element: dtype) -> Value:
        return self.e.convert("zext", value, "i8") if element is dtypes.bool_ else value

    def prefetch(self, pointer: Value) -> None:
        """Ask for a line that will be read soon; the address need not exist."""
        self.e.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
        self.e.emit(f"call void @llvm.prefetch.p0({pointer}, i32 0, i32 3, i32 1)")

    # -- reads ------------------------------------------------------------------------------------------------
    def load_one(self, buffer: int, index: Dim, element: dtype, valid: Value | None, copy: int = 0) -> Value:
        """One element; zero where ``valid`` is false."""
        kind = memory_kind(element)
        pointer = self.address(buffer, index, kind, copy)
        if valid is None or valid.text == "true":
            value = self.e.load(pointer, kind)
        else:
            value = self.nest.choose(valid, lambda: self.e.load(pointer, kind), self.e.const(0, kind))
        return self.to_register(value, element)

    def load_lanes(self, buffer: int, index: Dim, element: dtype, mask: Value | None, copy: int) -> Value:
        """One element for each lane; zero, and nothing read, where the mask is false."""
        kind = memory_kind(element)
        if self.indexing.steps.is_contiguous(index):
            return self.load_vector(self.address(buffer, index, kind, copy), element, mask)
        if self._is_reversed(index):
            pointer, order = self._back_to_front(self.address(buffer, index, kind, copy), kind)
            value = self.load_vector(pointer, element, mask and self.e.shuffle(mask, mask, order))
            return self.e.shuffle(value, value, order)
        if self._is_every_other(index):
            return self.to_register(self._load_every_other(self.address(buffer, index, kind, copy), kind, mask), element)
        return self.to_register(self.gather(self.addresses(buffer, index, kind, copy), kind, mask), element)

    def _is_reversed(self, index: Dim) -> bool:
        return self.indexing.width > 1 and self.indexing.steps.constant_step(index) == -1

    def _back_to_front(self, pointer: Value, kind: str) -> tuple[Value, list[int]]:
        """Where the vector begins whose last element ``pointer`` shows, and the order of its lanes from there."""
        width = self.indexing.width
        return self.e.offset(pointer, 1 - width, kind), list(range(width))[::-1]

    # Every other element is taken from two neighbouring vectors, the second of which ends with the last one wanted.
    def _is_every_other(self, index: Dim) -> bool:
        return self.indexing.width > 1 and self.indexing.steps.constant_step(index) == 2

    def _halves(self, pointer: Value, kind: str, mask: Value | None) -> list[tuple[Value, Value | None]]:
        """Both vectors' addresses, and masks of what is wanted in them."""
        e, width = self.e, self.indexing.width
        places = [(pointer, None), (e.offset(pointer, width - 1, kind), None)]
        if mask is None:
            return places  # type: ignore[return-value]
        none = Value("zeroinitializer", "i1", width)
        order = [[width if lane % 2 != part else lane // 2 + part * width // 2 for lane in range(width)] for part in (0, 1)]
        return [(place, e.shuffle(mask, none, lanes)) for (place, _), lanes in zip(places, order, strict=True)]

    def _load_every_other(self, pointer: Value, kind: str, mask: Value | None) -> Value:
        e, width = self.e, self.indexing.width
        parts = [e.load(at, kind, width) if m is None else e.masked_load(at, kind, m) for at, m in self._halves(pointer, kind, mask)]
        return e.shuffle(parts[0], parts[1], [lane if lane < width else lane + 1 for lane in range(0, 2 * width, 2)])

    def _store_every_other(self, value: Value, pointer: Value, kind: str, mask: Value | None) -> None:
        e, width = self.e, self.indexing.width
        mask = e.const(True, "i1", width) if mask is None else mask
        for part, (at, m) in enumerate(self._halves(pointer, kind, mask)):
            assert m is not None
            e.masked_store(e.shuffle(value, value, [lane // 2 + part * width // 2 for lane in range(width)]), at, m)

    def load_vector(self, pointer: Value, element: dtype, mask: Value | None) -> Value:
        kind = memory_kind(element)
        value = self.e.load(pointer, kind, self.indexing.width) if mask is None else self.e.masked_load(pointer, kind, mask)
        return self.to_register(value, element)

    def gather(self, pointers: Value, kind: str, mask: Value | None) -> Value:
        return self.e.gather(pointers, kind, mask if mask is not None else self.e.const(True, "i1", pointers.width))

    # -- writes -----------------------------------------------------------------------------------------------
    def store_one(self, buffer: int, index: Dim, element: dtype, value: Value) -> None:
        kind = memory_kind(element)
        self.e.store(self.to_memory(value, element), self.address(buffer, index, kind))

    def store_lanes(self, buffer: int, index: Dim, element: dtype, value: Value, mask: Value | None, copy: int) -> None:
        """Write each lane; of lanes with the same index the last stays."""
        kind = memory_kind(element)
        if self.indexing.steps.is_contiguous(index):
            self.store_vector(self.address(buffer, index, kind, copy), element, value, mask)
        elif self._is_reversed(index):
            pointer, order = self._back_to_front(self.address(buffer, index, kind, copy), kind)
            self.store_vector(pointer, element, self.e.shuffle(value, value, order), mask and self.e.shuffle(mask, mask, order))
        elif self._is_every_other(index):
            self._store_every_other(self.to_memory(value, element), self.address(buffer, index, kind, copy), kind, mask)
        else:
            self.scatter(self.to_memory(value, element), self.addresses(buffer, index, kind, copy), mask)

    def store_vector(self, pointer: Value, element: dtype, value: Value, mask: Value | None) -> None:
        value = self.to_memory(value, element)
        if mask is None:
            self.e.store(value, pointer)
        else:
            self.e.masked_store(value, pointer, mask)

    def scatter(self, value: Value, pointers: Value, mask: Value | None) -> None:
        e, width = self.e, pointers.width
        mask = mask if mask is not None else e.const(True, "i1", width)
        name = f"llvm.masked.scatter.{mangled(value.kind, width)}.{mangled('ptr', width)}"
        e.declare(f"declare void @{name}({value.type}, {pointers.type}, i32, {mask.type})")
        e.emit(f"call void @{name}({value}, {pointers}, i32 1, {mask})")
