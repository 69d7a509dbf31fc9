"""Storages and the fields of tensors, views and entries: the same whether they are native types or Python classes."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.config import config
from flambeau.runtime import allocator
from flambeau.runtime.native import library
from flambeau.runtime.native.records import EntryFields, SavedFields, TensorFields, ViewFields
from flambeau.runtime.storage import Storage
from flambeau.tensor.tape import Entry


def test_the_types_are_native_when_native_code_is_on():
    native = [hasattr(kind, "__slots__") for kind in (Storage, TensorFields, EntryFields, SavedFields, ViewFields)]
    assert native == [not config.native] * 5
    assert (library.load() is not None) == config.native
    wanted = allocator.CheckedAllocator if config.checked else allocator.NativeAllocator if config.native else allocator.Allocator
    assert type(allocator._default) is wanted


def test_a_storage_owns_its_block():
    before = allocator.stats().allocated
    storage = Storage(1000)
    assert storage.nbytes == 1000 and storage.address % 64 == 0
    assert (storage.owner, storage.pending, storage.version) == (None, None, 0)
    ctypes.memset(storage.address, 1, 1000)
    assert allocator.stats().allocated > before
    reference = weakref.ref(storage)
    storage.version += 3
    assert storage.version == 3
    del storage
    assert reference() is None and allocator.stats().allocated == before


def test_a_storage_over_foreign_memory_keeps_its_owner():
    array = np.arange(4.0)
    count = sys.getrefcount(array)
    before = allocator.stats().allocated
    storage = Storage(array.nbytes, array.ctypes.data, array)
    assert storage.owner is array and storage.address == array.ctypes.data
    assert allocator.stats().allocated == before
    assert Storage(nbytes=8, address=0, owner=array).address == 0
    del storage
    assert sys.getrefcount(array) == count and allocator.stats().allocated == before


def test_storages_of_nothing_and_of_too_much():
    assert Storage(0).address == 0
    before = allocator.stats().allocated
    with pytest.raises(RuntimeError, match="not enough memory"):
        Storage(1 << 60)
    with pytest.raises(TypeError):
        Storage("1")  # type: ignore[arg-type]
    assert allocator.stats().allocated == before


def test_cycles_through_storages_are_collected():
    class Owner:
        pass

    owner = Owner()
    block = (ctypes.c_char * 64)()
    owner.storage = Storage(64, ctypes.addressof(block), owner)
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is None
    storage = Storage(64)
    storage.pending = [storage]
    reference = weakref.ref(storage)
    del storage
    gc.collect()
    assert reference() is None


def test_blocks_are_used_again_by_python_and_native_code():
    storage = Storage(5000)
    address = storage.address
    del storage
    assert allocator.allocate(5000) == address
    allocator.release(address, 5000)
    assert Storage(4999).address == address


def test_fields_of_tensors():
    class Plain(TensorFields):
        __slots__ = ()

    tensor = Plain()
    with pytest.raises(AttributeError):
        tensor.memory  # noqa: B018
    storage = Storage(16)
    tensor.memory, tensor.address, tensor.meta = storage, storage.address, "meta"
    tensor.entry, tensor.output, tensor.view_of, tensor.hooks, tensor._grad = None, 2, None, {}, tensor
    tensor._requires_grad, tensor.retains, tensor.seen_version = True, False, 5
    assert (tensor.memory, tensor.address, tensor.meta, tensor.entry, tensor.output) == (storage, storage.address, "meta", None, 2)
    assert (tensor._requires_grad, tensor.retains, tensor.seen_version, tensor.hooks) == (True, False, 5, {})
    tensor.extra = 1
    assert tensor.__dict__ == {"extra": 1}
    alive = weakref.ref(tensor)
    count = sys.getrefcount(storage)
    del tensor
    gc.collect()
    assert alive() is None and sys.getrefcount(storage) == count - 1


def test_hooks_of_entries_are_made_when_asked_for():
    entry = Entry([], [])
    assert entry._hooks is None
    entry.hooks.append(1)
    assert entry.hooks == [1] and entry.pre_hooks == [] and entry.output_hooks == {} and entry.metadata == {}
    assert Entry([], []).sequence == entry.sequence + 1


def test_tensors_are_copied_and_pickled():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for copy in (pickle.loads(pickle.dumps(x)), x.clone().detach()):
        assert copy.tolist() == [1.0, 2.0] and copy.memory is not x.memory


SETTINGS = [{"FLAMBEAU_NATIVE": "0"}, {"FLAMBEAU_CHECKED": "1"}, {"FLAMBEAU_CHECKED": "1", "FLAMBEAU_NATIVE": "0"}, {}]


@pytest.mark.parametrize("settings", SETTINGS, ids=["python", "checked", "checked python", "native"])
def test_a_process_with_any_setting_trains_and_ends(settings):
    program = """
import flambeau as torch
torch.manual_seed(1)
m = torch.nn.Linear(3, 2)
x = torch.randn(5, 3)
for _ in range(4):
    loss = (torch.tanh(m(x)) ** 2).sum()
    m.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p.add_(p.grad, alpha=-0.1)
print(float(loss).hex())
class Late:
    def __del__(self):
        self.x + self.x
late = Late()
late.x = x
torch.late = late
"""
    result = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.getcwd(), **settings},
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert result.returncode == 0, result.stderr
    expected = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.getcwd()},
                              capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert result.stdout == expected


@pytest.mark.skipif(not config.native, reason="native code is off")
def test_a_second_process_neither_translates_nor_compiles():
    program = """
import sys
import flambeau as torch
x = torch.ones(3)
x + x
from flambeau.core.events import counters
maps = open("/proc/self/maps").read()
print(counters["kernel_compiles"], "flambeau.runtime.native.translate" in sys.modules, "libllvmlite" in maps)
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    for _ in range(2):
        result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0", "False", "False"]
