"""Processes that fork after they used the pool, the allocator and the compiler."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

import numpy as np
import pytest

from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.runtime import allocator, thread_pool
from flambeau.runtime.launch import TaskArray, run_tasks
from tests.kernel_texts import ADD_STEP, SLEEP

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def in_child(check: Callable[[], None], seconds: float = 60) -> None:
    """Run `check` in a forked child; it must end in time and without an exception."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError(f"the child did not end within {seconds} seconds")


@pytest.fixture(autouse=True)
def several_threads():
    before = thread_pool.get_num_threads()
    thread_pool.set_num_threads(3)
    yield
    thread_pool.set_num_threads(before)


def run_many(times: int) -> None:
    x = np.zeros(64, dtype=np.int64)
    tasks = TaskArray(scratch_bytes=256)
    tasks.add(get_kernel(KernelText(ADD_STEP, "add_step")).address, [0, 1, x.ctypes.data, 1], chunks=64, wave=0)
    for _ in range(times):
        run_tasks(tasks, release_gil=True)
    assert (x == times).all()


def kernel_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_the_pool_works_in_child_grandchild_and_parent():
    def child() -> None:
        assert kernel_threads() == 1
        run_many(50)
        assert kernel_threads() == 3
        in_child(lambda: run_many(50))
        run_many(50)

    run_many(50)
    in_child(child)
    run_many(50)


def test_thread_count_can_change_in_the_child():
    def child() -> None:
        thread_pool.set_num_threads(5)
        run_many(20)
        assert kernel_threads() == 5

    run_many(5)
    in_child(child)
    assert thread_pool.get_num_threads() == 3


def test_fork_while_another_thread_owns_the_pool():
    x = np.array([200_000, 0], dtype=np.int64)
    tasks = TaskArray()
    tasks.add(get_kernel(KernelText(SLEEP, "sleep_then_count")).address, [0, 1, x.ctypes.data], chunks=3, wave=0)
    owner = threading.Thread(target=run_tasks, args=(tasks, True))
    owner.start()
    time.sleep(0.05)
    in_child(lambda: run_many(20))
    owner.join()
    assert x[1] == 3


def test_the_child_compiles_after_the_parent_did():
    number = int(np.random.default_rng().integers(1 << 60))

    def child() -> None:
        text = ADD_STEP.replace("add i64 %old, %step", f"add i64 %old, {number}")
        x = np.zeros(1, dtype=np.int64)
        tasks = TaskArray()
        tasks.add(get_kernel(KernelText(text, "add_step")).address, [0, 1, x.ctypes.data, 0], chunks=1, wave=0)
        run_tasks(tasks)
        assert x[0] == number

    run_many(1)
    in_child(child)


def test_memory_of_the_parent_is_untouched_by_the_child():
    import ctypes

    held = allocator.allocate(5000)
    ctypes.memset(held, 7, 5000)

    def child() -> None:
        allocator.release(held, 5000)
        for _ in range(20):
            ctypes.memset(allocator.allocate(5000), 9, 5000)

    in_child(child)
    assert ctypes.string_at(held, 5000) == bytes([7]) * 5000
    allocator.release(held, 5000)


def test_fork_while_locks_are_held():
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        from flambeau.compilation import kernel_cache
        from flambeau.runtime import object_loader

        with kernel_cache._lock, object_loader._lock, allocator._default._lock:
            held.set()
            done.wait(60)

    def child() -> None:
        text = ADD_STEP + f"; {np.random.default_rng().integers(1 << 60)}\n"
        assert get_kernel(KernelText(text, "add_step")).address
        assert allocator.allocate(123_456)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    try:
        in_child(child)
    finally:
        done.set()
        holder.join()
