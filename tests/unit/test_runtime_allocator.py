"""The caching allocator, plain and checked."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest

from flambeau.runtime import allocator
from flambeau.runtime.allocator import Allocator, CheckedAllocator, size_class
from flambeau.runtime.cuda.device import Pool

MEBIBYTE = 1 << 20


def fill(address: int, size: int, byte: int) -> None:
    ctypes.memset(address, byte, size)


def holds(address: int, size: int, byte: int) -> bool:
    return ctypes.string_at(address, size) == bytes([byte]) * size


def test_classes_waste_at_most_a_quarter():
    random = np.random.default_rng()
    for nbytes in [*range(1, 5000), *(int(2**power) for power in random.uniform(12, 40, 500)), *(1 << power for power in range(40))]:
        size = size_class(nbytes)
        assert size >= nbytes and size % 64 == 0 and size_class(size) == size
        assert size - nbytes < 64 or (size - nbytes) / size <= 0.25, nbytes


def test_blocks_are_aligned_and_do_not_overlap():
    memory = Allocator()
    random = np.random.default_rng()
    live: dict[int, tuple[int, int]] = {}
    for step in range(3000):
        if live and random.random() < 0.45:
            address = list(live)[random.integers(len(live))]
            size, byte = live.pop(address)
            assert holds(address, size, byte)
            memory.release(address, size)
        else:
            size = int(2 ** random.uniform(0, 16 if step % 50 else 22))
            address = memory.allocate(size)
            assert address % 64 == 0 and address not in live
            byte = step % 251
            fill(address, size, byte)
            live[address] = size, byte
    assert all(holds(address, size, byte) for address, (size, byte) in live.items())
    assert memory.stats().allocated == sum(size_class(size) for size, _ in live.values())


def test_released_blocks_are_used_again():
    memory = Allocator()
    for size in (100, 5000, 3 * MEBIBYTE):
        first = memory.allocate(size)
        memory.release(first, size)
        assert memory.allocate(size - 1) == first
    mappings = memory.stats().mappings
    for _ in range(100):
        memory.release(memory.allocate(3 * MEBIBYTE + 1), 3 * MEBIBYTE + 1)
    assert memory.stats().mappings == mappings + 1


def test_large_blocks_lie_on_huge_pages():
    memory = Allocator()
    address = memory.allocate(5 * MEBIBYTE)
    assert address % (2 * MEBIBYTE) == 0
    fill(address, 5 * MEBIBYTE, 1)
    with open("/proc/self/smaps", encoding="ascii") as file:
        text = file.read()
    block = text.split(f"{address:x}-", 1)[1]
    flags = block.split("VmFlags:", 1)[1].splitlines()[0].split()
    assert "hg" in flags


def test_statistics():
    memory = Allocator()
    a = memory.allocate(1000)
    b = memory.allocate(4 * MEBIBYTE)
    memory.release(a, 1000)
    now = memory.stats()
    assert now.allocated == 4 * MEBIBYTE and now.peak == 4 * MEBIBYTE + size_class(1000)
    assert now.reserved >= now.peak and now.allocations == 2
    memory.release(b, 4 * MEBIBYTE)
    memory.empty_cache()
    after = memory.stats()
    assert after.allocated == 0 and after.reserved == now.reserved - 4 * MEBIBYTE


def test_cached_memory_stays_in_proportion_to_what_was_used():
    memory = Allocator()
    for step in range(60):
        size = (20 + step) * MEBIBYTE
        memory.release(memory.allocate(size), size)
    assert memory.stats().reserved <= memory.stats().peak * 3 // 2 + 256 * MEBIBYTE


def borrowing(memory: Allocator) -> None:
    """Large blocks are lent to smaller requests once more is kept than the peak in use asks for, and go back where they belong."""
    random = np.random.default_rng()
    held = [memory.allocate(8 * MEBIBYTE) for _ in range(16)]
    for address in held:
        memory.release(address, 8 * MEBIBYTE)
    before = memory.stats()
    live: dict[int, tuple[int, int]] = {}
    lent = 0
    for step in range(2000):
        lent = max(lent, len(memory._lent))
        if live and (len(live) > 14 or random.random() < 0.5):
            address = list(live)[random.integers(len(live))]
            size, byte = live.pop(address)
            assert holds(address, size, byte)
            memory.release(address, size)
            continue
        size = int(random.integers(MEBIBYTE, 8 * MEBIBYTE))
        address = memory.allocate(size)
        assert all(address + size <= other or other + taken[0] <= address for other, taken in live.items())
        fill(address, size, step % 251)
        live[address] = size, step % 251
    after = memory.stats()
    assert after.allocated - before.allocated == sum(size_class(size) for size, _ in live.values())
    assert lent, "no block was lent"
    for address, (size, byte) in live.items():
        assert holds(address, size, byte)
        memory.release(address, size)
    assert memory.stats().allocated == before.allocated and not memory._lent
    # The first blocks are all back in their own class.
    again = {memory.allocate(8 * MEBIBYTE) for _ in range(16)}
    assert memory.stats().mappings == after.mappings and set(held) & again
    for address in again:
        memory.release(address, 8 * MEBIBYTE)


def test_blocks_are_lent_to_smaller_requests():
    for memory in (Allocator(), CheckedAllocator()):
        borrowing(memory)


def test_native_code_gives_lent_blocks_back():
    program = "import tests.unit.test_runtime_allocator as tests; tests.borrowing(tests.allocator._default)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_and_negative_sizes():
    memory = Allocator()
    assert memory.allocate(0) == 0
    memory.release(0, 0)
    assert memory.stats().allocated == 0
    with pytest.raises(ValueError, match="0 or more"):
        memory.allocate(-1)


def test_too_large_is_refused_at_once():
    for memory in (Allocator(), CheckedAllocator()):
        with pytest.raises(RuntimeError, match=r"\[enforce fail\].*not enough memory: you tried to allocate"):
            memory.allocate(1 << 50)
        assert memory.stats().mappings == 0
        assert memory.allocate(64)


def test_when_the_system_refuses_released_memory_is_given_back_first(monkeypatch):
    memory = Allocator()
    memory.release(memory.allocate(8 * MEBIBYTE), 8 * MEBIBYTE)
    refusals = []
    map_blocks = allocator.map_blocks

    def refuse_once(size):
        if not refusals:
            refusals.append(size)
            return 0
        return map_blocks(size)

    monkeypatch.setattr(allocator, "map_blocks", refuse_once)
    address = memory.allocate(20 * MEBIBYTE)
    assert address and refusals and memory.stats().reserved == size_class(20 * MEBIBYTE)
    monkeypatch.setattr(allocator, "map_blocks", lambda size: 0)
    for size in (30 * MEBIBYTE, 100):
        with pytest.raises(RuntimeError, match=f"you tried to allocate {size} bytes"):
            memory.allocate(size)
    assert memory.stats().allocated == size_class(20 * MEBIBYTE)


def test_threads_share_it():
    memory = Allocator()
    failures: list[int] = []

    def work(byte: int) -> None:
        for step in range(500):
            size = 64 + step * 13 % 3000
            address = memory.allocate(size)
            fill(address, size, byte)
            if not holds(address, size, byte):
                failures.append(byte)
            memory.release(address, size)

    threads = [threading.Thread(target=work, args=(byte,)) for byte in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and memory.stats().allocated == 0 and memory.stats().allocations == 2000


def test_many_different_sizes_keep_the_table_small(monkeypatch):
    monkeypatch.setattr(allocator, "_REMEMBERED", 100)
    memory = Allocator()
    held = [(memory.allocate(size), size) for size in range(1, 500)]
    for address, size in held:
        memory.release(address, size)
    assert len(memory._requests) <= 100 and memory.stats().allocated == 0


def test_checked_blocks_are_poisoned():
    memory = CheckedAllocator()
    address = memory.allocate(80)
    assert np.isnan(np.frombuffer(ctypes.string_at(address, 80), dtype=np.float32)).all()
    assert address % 64 == 0
    fill(address, 80, 0)
    memory.release(address, 80)
    assert memory.stats().allocated == 0


@pytest.mark.parametrize(("offset", "message"), [(-1, "before it are damaged from byte -1"), (80, "after it are damaged from byte 80")])
def test_checked_blocks_notice_writes_outside(offset, message):
    memory = CheckedAllocator()
    address = memory.allocate(80)
    fill(address + offset, 1, 7)
    with pytest.raises(RuntimeError, match=message):
        memory.release(address, 80)


def test_checked_blocks_notice_wrong_releases():
    memory = CheckedAllocator()
    address = memory.allocate(80)
    with pytest.raises(RuntimeError, match="allocated with 80 bytes and released with 81"):
        memory.release(address, 81)
    address = memory.allocate(80)
    memory.release(address, 80)
    with pytest.raises(RuntimeError, match="not in use"):
        memory.release(address, 80)
    assert memory.allocate(0) == 0
    memory.release(0, 0)


def test_the_process_has_one_allocator():
    before = allocator.stats()
    address = allocator.allocate(100)
    assert allocator.stats().allocations == before.allocations + 1
    allocator.release(address, 100)
    allocator.empty_cache()
    assert allocator.stats().allocated == before.allocated


class CollectingDriver:
    """Memory of a GPU, during whose allocation the garbage collector puts a block back and a finalizer takes one."""

    def __init__(self) -> None:
        self.pool = Pool(self)  # type: ignore[arg-type]
        self.given = 0
        self.found: list[tuple[int, int]] = []

    def allocate(self, size: int) -> int:
        self.given += 1
        address = self.given << 20
        if self.given == 2:
            self.pool.release(*self.found[0])
            self.found.append(self.pool.take(3000))
        return address


def test_collection_while_memory_of_a_gpu_is_taken():
    driver = CollectingDriver()

    def take() -> None:
        driver.found.append(driver.pool.take(1000))
        driver.found.append(driver.pool.take(2000))

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert len({address for address, _ in driver.found}) == 3
    assert driver.pool.allocated == sum(size for _, size in driver.found[1:])
    assert driver.pool.take(1000) == driver.found[0]
