"""Loads the native code, makes its types, and lets Python see its state."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from flambeau.core.config import config
from flambeau.runtime import disk_cache
from flambeau.runtime.native import backward, calls, heap_types, keys, launch, layouts, memory, modules, replay, tape, tensors, walk
from flambeau.runtime.native.heap_types import HeapType
from flambeau.runtime.native.layouts import Shared

__all__ = ["Library", "load", "load_module", "set_loader"]

_MODULES = (memory, tensors, tape, keys, launch, calls, backward, walk, modules, replay)
Loader = Callable[[str], Mapping[str, int]]
_loader: Loader | None = None
_loaded: Library | None = None


def set_loader(loader: Loader) -> None:
    """Register how LLVM IR text becomes loaded symbols (name -> address); the compile layer does so when it is imported."""
    global _loader
    _loader = loader


def load() -> Library | None:
    """The native code of this process; None when it is switched off or, before anything else of flambeau, not there yet."""
    global _loaded
    if _loaded is None and _loader is not None and config.native:
        _loaded = Library(_loader(_text(_MODULES)))
    return _loaded


def load_module(module: ModuleType) -> Mapping[str, int]:
    """The addresses of the functions of a module that few programs need."""
    assert _loader is not None
    return _loader(_text((module,)))


def _text(modules: Sequence[ModuleType]) -> str:
    """The code as LLVM IR. Translating takes longer than reading it back, hence the cache."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sources: list[bytes] = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                sources.append(file.read())
    key = disk_cache.key("native text", *[module.__name__ for module in modules], *sources)
    found = disk_cache.get("native", key)
    if found is not None:
        return found.decode()
    from flambeau.runtime.native.translate import translate  # noqa: PLC0415 - a warm process does without

    text = translate(modules)
    disk_cache.put("native", key, text.encode())
    return text


class Library:
    """The loaded code: ``symbols`` are its addresses, the types and functions are Python objects."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        self.symbols = symbols
        self._base = symbols["flambeau_shared"]
        self._kept: dict[str, Any] = {}
        heap_types.keep(self._kept)
        self.hold("none", None)
        self._make_storage()
        self.allocate: Callable[[int], int] = self.function("allocator_allocate", heap_types.METH_ONE)
        self.release: Callable[[int, int], None] = self.function("allocator_release", heap_types.METH_FASTCALL)
        self.pop_block: Callable[[int], int] = self.function("allocator_pop", heap_types.METH_ONE)
        self.push_block: Callable[[int, int], None] = self.function("allocator_push", heap_types.METH_FASTCALL)
        self._make_tensors()
        self._make_entries()
        self.next_sequence: Callable[[], int] = self.function("next_sequence", heap_types.METH_NONE)
        self.holder = heap_types.make_type(HeapType(
            "flambeau.runtime.native.library.Holder", layouts.Holder, self.slots("holder", "traverse", "clear", "dealloc"),
            required=("owner",), numbers=("address",),
        ))  # fmt: skip
        self.apply_entry: Callable[[Any, list[Any]], list[Any] | None] = self.function("entry_apply", heap_types.METH_FASTCALL)
        self.walk_tape: Callable[..., Any] = self.function("walk_tape", heap_types.METH_FASTCALL)
        self.perform: Callable[[int, list[Any], list[Any]], list[Any] | None] = self.function("perform_plan", heap_types.METH_FASTCALL)
        self.set_modes: Callable[[int], None] = self.function("set_modes", heap_types.METH_ONE)
        self.change_mode: Callable[[int, bool], None] = self.function("change_mode", heap_types.METH_FASTCALL)

    def _make_storage(self) -> None:
        self.storage = heap_types.make_type(HeapType(
            "flambeau.runtime.storage.Storage", layouts.Storage, self.slots("storage", "traverse", "clear", "dealloc", "init"),
            optional=("owner", "pending"), numbers=("address", "nbytes", "version"),
        ))  # fmt: skip
        self.hold("storage_type", self.storage)
        names = [ctypes.create_string_buffer(name) for name in (b"nbytes", b"address", b"owner")]
        table = array("q", [*map(ctypes.addressof, names), 0])
        self._kept["names"] = names, table
        self.set("storage_keywords", table.buffer_info()[0])

    def _make_tensors(self) -> None:
        numbers = {f"nb_{name}": self.symbols[f"number_{name}"] for name in
                   ("add", "subtract", "multiply", "true_divide", "matrix_multiply", "negative")}  # fmt: skip
        self.tensor_fields = heap_types.make_type(HeapType(
            "flambeau.runtime.native.records.TensorFields", layouts.Tensor,
            self.slots("tensor", "traverse", "clear", "dealloc", "hash") | numbers,
            required=("memory", "meta"), optional=("entry", "view_of", "hooks", "_grad"), numbers=("address", "output", "seen_version"),
            flags=("_requires_grad", "retains"), instance_dict=True,
        ))  # fmt: skip
        self.hold("tensor_fields", self.tensor_fields)
        self.view_fields = heap_types.make_type(HeapType(
            "flambeau.runtime.native.records.ViewFields", layouts.View, self.slots("view", "traverse", "clear", "dealloc"),
            required=("base", "steps"),
        ))  # fmt: skip

    def _make_entries(self) -> None:
        self.entry_fields = heap_types.make_type(HeapType(
            "flambeau.runtime.native.records.EntryFields", layouts.Entry, self.slots("entry", "traverse", "clear", "dealloc"),
            optional=("edges", "metas", "plan", "numbers", "saved", "_hooks", "_pre_hooks", "_output_hooks", "_metadata"),
            numbers=("sequence",),
        ))  # fmt: skip
        self.saved_fields = heap_types.make_type(HeapType(
            "flambeau.runtime.native.records.SavedFields", layouts.Saved, self.slots("saved", "traverse", "clear", "dealloc"),
            required=("tensor",), numbers=("version", "output"),
        ))  # fmt: skip

    def slots(self, stem: str, *names: str) -> dict[str, int]:
        """The slots of a type whose functions are called ``stem_name``."""
        return {f"tp_{name}": self.symbols[f"{stem}_{name}"] for name in names}

    def connect_allocator(self, allocate: Callable[[int], int], release: Callable[[int, int], None]) -> None:
        """Give native code what it calls where it has no released block, and for releasing what is not in its lists."""
        self.hold("allocate_slowly", allocate)
        self.hold("release_slowly", release)

    def make_bins(self, size_class: Callable[[int], int]) -> None:
        """Let native code keep released blocks; from now on `Storage` asks Python only where no block is left."""
        table = array("q", [0] * (2 * (memory.BINS + 1)))
        size = 64
        for number in range(1, memory.BINS + 1):
            table[2 * number + 1] = size
            size = size_class(size + 1)
        self._kept["bins"] = table
        self.set("bins", table.buffer_info()[0])

    # -- the shared state -------------------------------------------------------------------------------
    def get(self, field: str) -> int:
        """A word of the shared state."""
        return ctypes.c_int64.from_address(self._base + Shared.offset(field)).value

    def set(self, field: str, value: int) -> None:
        """Set a word of the shared state."""
        ctypes.c_int64.from_address(self._base + Shared.offset(field)).value = value

    def hold(self, field: str, value: Any) -> None:
        """Set a word of the shared state to an object, which is kept alive."""
        # What was there is let go after native code has stopped seeing it.
        self.set(field, id(value))
        self._kept[field] = value

    def hold_block(self, field: str, block: Any) -> None:
        """Set a word of the shared state to the address of a block of words, which is kept alive."""
        self.set(field, block.address)
        self._kept[field] = block

    def function(self, name: str, flags: int, address: int = 0, owner: Any = None) -> Any:
        """A builtin function by its symbol, bound to an address that ``owner`` keeps good."""
        bound = None
        if owner is not None:
            bound = self.holder()
            bound.owner, bound.address = owner, address
        return heap_types.make_function(name, self.symbols[name], flags, bound)
