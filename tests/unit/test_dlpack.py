"""DLPack exchange with numpy in both directions: shared memory, read-only memory, lifetimes and refusals."""

from __future__ import annotations

import ctypes
import gc
import sys
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from flambeau.core import dtypes
from flambeau.tensor import dlpack
from flambeau.tensor.dlpack import CPU, SharedMemory, import_capsule, import_shared, make_capsule

KNOWN_TO_NUMPY = tuple(d for d in dtypes.ALL if d is not dtypes.bfloat16 and not d.is_float8)


class Exporter:
    """A tensor of another library, as numpy's ``from_dlpack`` sees it."""

    def __init__(self, array: np.ndarray, read_only: bool = False, newest: tuple[int, int] | None = (1, 0)) -> None:
        self.array = array
        self.read_only = read_only
        self.newest = newest
        self.asked: tuple[int, int] | None = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: Any) -> object:
        self.asked = max_version
        version = max_version if self.newest else None
        x = self.array
        strides = [stride // x.itemsize for stride in x.strides]
        element = dtypes.BY_NUMPY[x.dtype]
        return make_capsule(x.ctypes.data, x.shape, strides, element, self, read_only=self.read_only, max_version=version)


class OldProducer:
    """One that knows no versions."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()


def view(shared: SharedMemory) -> np.ndarray:
    """The shared memory as numpy sees it through the address."""
    size = shared.element.itemsize
    if 0 in shared.shape:
        return np.empty(shared.shape, shared.element.numpy)
    reach = 1 + sum((n - 1) * s for n, s in zip(shared.shape, shared.strides, strict=True))
    data = (ctypes.c_char * (reach * size)).from_address(shared.address)
    return np.ndarray(shared.shape, shared.element.numpy, data, strides=[s * size for s in shared.strides])


def random_array(element: dtypes.dtype) -> np.ndarray:
    return (np.random.default_rng(1).standard_normal((4, 5, 3)) * 50).astype(element.numpy)


def arrays(element: dtypes.dtype) -> tuple[np.ndarray, ...]:
    """Dense, strided, 0-d and empty."""
    x = random_array(element)
    return x, x[1:, ::2].transpose(2, 0, 1), x[0, 0, :1].reshape(()), x[:0]


@pytest.mark.parametrize("newest", [None, (1, 0)], ids=["plain", "versioned"])
@pytest.mark.parametrize("element", KNOWN_TO_NUMPY, ids=str)
def test_numpy_takes_ours(element: dtypes.dtype, newest: tuple[int, int] | None) -> None:
    for x in arrays(element):
        got = np.from_dlpack(Exporter(x, newest=newest))
        np.testing.assert_array_equal(got, x)
        assert got.dtype == x.dtype and got.strides == x.strides and got.ctypes.data == x.ctypes.data


@pytest.mark.parametrize("element", KNOWN_TO_NUMPY, ids=str)
def test_we_take_numpys(element: dtypes.dtype) -> None:
    for x in arrays(element):
        for source in (x, x.__dlpack__(), OldProducer(x)):
            shared = import_shared(source)
            assert (shared.address, shared.shape, shared.device) == (x.ctypes.data, x.shape, CPU)
            assert shared.element is element and not shared.read_only
            np.testing.assert_array_equal(view(shared), x)


def test_our_own_capsules_come_back() -> None:
    x = random_array(dtypes.bfloat16)
    for version in (None, (1, 0), (1, 1), (2, 0)):
        capsule = make_capsule(x.ctypes.data, x.shape, (15, 3, 1), dtypes.bfloat16, x, max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None)
        shared = import_shared(capsule)
        assert shared.element is dtypes.bfloat16 and shared.strides == (15, 3, 1)
        np.testing.assert_array_equal(view(shared), x)


def test_writes_are_seen_on_both_sides() -> None:
    x = np.zeros(3)
    np.from_dlpack(Exporter(x))[1] = 5
    view(import_shared(x))[2] = 7
    assert x.tolist() == [0, 5, 7]


def test_read_only_memory() -> None:
    x = np.arange(3.0)
    assert not np.from_dlpack(Exporter(x, read_only=True)).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        make_capsule(x.ctypes.data, x.shape, (1,), dtypes.float64, x, read_only=True)
    x.flags.writeable = False
    assert import_shared(x).read_only


def test_owners_live_as_long_as_the_memory_is_used() -> None:
    for newest in (None, (1, 0)):
        exporter = Exporter(np.arange(4.0), newest=newest)
        alive = weakref.ref(exporter)
        taken = np.from_dlpack(exporter)
        part = taken[1:]
        del exporter, taken
        assert alive() is not None and part.tolist() == [1, 2, 3]
        del part
        assert alive() is None
        untaken = Exporter(np.arange(4.0), newest=newest).__dlpack__(max_version=(1, 0))
        shared = import_shared(Exporter(np.arange(4.0), newest=newest))
        np.testing.assert_array_equal(view(shared), np.arange(4.0))
        del untaken, shared


def test_numpys_arrays_are_let_go() -> None:
    x = np.arange(4.0)
    before = sys.getrefcount(x)
    shared = import_shared(x)
    assert sys.getrefcount(x) == before + 1
    del shared
    assert sys.getrefcount(x) == before


def test_nothing_leaks() -> None:
    x = np.arange(12.0).reshape(3, 4)

    def exchange() -> None:
        for newest in (None, (1, 0)):
            np.from_dlpack(Exporter(x, newest=newest))
            import_shared(Exporter(x, newest=newest))
            Exporter(x, newest=newest).__dlpack__(max_version=(1, 0))
            import_shared(x)

    exchange()
    references = sys.getrefcount(x)
    tracemalloc.start()
    for _ in range(20):  # what is remembered once, such as collected lists that the interpreter reuses, is there then
        exchange()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(100):
        exchange()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sys.getrefcount(x) == references
    assert after - before < 4000  # 600 structures of some 100 bytes were made


def test_a_refusal_by_the_other_side_frees_the_capsule() -> None:
    exporter = Exporter(random_array(dtypes.bfloat16))
    alive = weakref.ref(exporter)
    with pytest.raises((BufferError, RuntimeError), match="(?i)unsupported dtype"):
        np.from_dlpack(exporter)
    del exporter
    assert alive() is None


def test_a_capsule_is_taken_once() -> None:
    capsule = np.arange(3).__dlpack__()
    assert import_capsule(capsule).shape == (3,)
    with pytest.raises(TypeError, match="not been taken yet"):
        import_capsule(capsule)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(3, dtype=np.uint16)
    monkeypatch.delitem(dlpack._ELEMENTS, (1, 16))
    before = sys.getrefcount(x)
    with pytest.raises(BufferError, match="no dtype for unsigned of 16 bits"):
        import_shared(x)
    gc.collect()
    assert sys.getrefcount(x) == before
    with pytest.raises(TypeError, match="got list"):
        import_shared([1, 2])
