"""Task arrays, the thread pool and error records."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flambeau.compilation import llvm_driver
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.runtime import object_loader, thread_pool
from flambeau.runtime.launch import INDEX_OUT_OF_RANGE, KernelError, TaskArray, run_tasks
from flambeau.runtime.thread_pool import get_num_threads, set_num_threads
from tests.kernel_texts import ADD_STEP, FAILING, SCRATCH, SLEEP


@pytest.fixture
def add_step() -> int:
    return get_kernel(KernelText(ADD_STEP, "add_step")).address


@pytest.fixture
def threads():
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


def test_every_chunk_runs_once(add_step, threads):
    random = np.random.default_rng()
    for count in (1, 2, 5):
        threads(count)
        x = random.integers(0, 1000, 40 * 7)
        steps = np.zeros_like(x)
        before = x.copy()
        tasks = TaskArray()
        start = 0
        for chunks, step in ((3, 5), (0, 99), (1, -2), (20, 11), (16, 1)):
            tasks.add(add_step, [0, 7, x.ctypes.data + 8 * 7 * start, step], chunks=chunks, wave=0)
            steps[start * 7:(start + chunks) * 7] = step
            start += chunks
        for _ in range(50):
            run_tasks(tasks)
        assert (x == before + 50 * steps).all()


def test_waves_follow_one_another(add_step, threads):
    threads(3)
    size = 64
    x = np.zeros(size, dtype=np.int64)
    doubling = ADD_STEP.replace("add_step", "double").replace("add i64 %old, %step", "mul i64 %old, %step")
    double = get_kernel(KernelText(doubling, "double")).address
    tasks = TaskArray()
    for wave in range(20):
        tasks.add(add_step if wave % 2 == 0 else double, [0, 1, x.ctypes.data, 1 if wave % 2 == 0 else 2], chunks=size, wave=wave)
    run_tasks(tasks, release_gil=True)
    expected = 0
    for _ in range(10):
        expected = (expected + 1) * 2
    assert (x == expected).all()


def test_arguments_and_chunks_can_be_changed(add_step):
    x = np.zeros(8, dtype=np.int64)
    tasks = TaskArray()
    first = tasks.add(add_step, [0, 1, x.ctypes.data, 1], chunks=8, wave=0)
    second = tasks.add(add_step, [0, 1, x.ctypes.data, 100], chunks=8, wave=1)
    run_tasks(tasks)
    tasks.set_slot(first + 3, 10)
    tasks.slots[second + 2] = x[4:].ctypes.data
    tasks.set_chunks(1, 4)
    run_tasks(tasks)
    assert x.tolist() == [111] * 4 + [211] * 4
    assert len(tasks) == 2
    with pytest.raises(RuntimeError, match="sealed"):
        tasks.add(add_step, [0, 1, 0, 0], chunks=1, wave=2)
    with pytest.raises(ValueError, match="chunks"):
        TaskArray().add(add_step, [0, 1, 0, 0], chunks=1 << 31, wave=0)


def test_copies_are_independent(add_step):
    x, y = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    tasks = TaskArray(scratch_bytes=64)
    start = tasks.add(add_step, [0, 1, x.ctypes.data, 1], chunks=4, wave=0)
    mine = tasks.take()
    mine.slots[start + 2] = y.ctypes.data
    mine.slots[start + 3] = 5
    run_tasks(mine)
    tasks.put_back(mine)
    run_tasks(tasks)
    assert tasks.take() is mine
    assert x.tolist() == [1] * 4 and y.tolist() == [5] * 4


def test_each_thread_has_scratch_of_its_own(threads):
    threads(4)
    kernel = get_kernel(KernelText(SCRATCH, "use_scratch")).address
    for size in (1000, 64, 3 << 20):
        x = np.zeros(12, dtype=np.int64)
        tasks = TaskArray(scratch_bytes=size)
        tasks.add(kernel, [0, size, x.ctypes.data], chunks=12, wave=0)
        run_tasks(tasks, release_gil=True)
        assert (x == size).all()


def test_scratch_beyond_memory_is_an_error():
    x = np.zeros(1, dtype=np.int64)
    tasks = TaskArray(scratch_bytes=1 << 60)
    tasks.add(get_kernel(KernelText(SCRATCH, "use_scratch")).address, [0, 1, x.ctypes.data], chunks=1, wave=0)
    with pytest.raises(RuntimeError, match=f"not enough memory: you tried to allocate {1 << 60} bytes"):
        run_tasks(tasks)
    small = TaskArray(scratch_bytes=64)
    small.add(get_kernel(KernelText(SCRATCH, "use_scratch")).address, [0, 64, x.ctypes.data], chunks=1, wave=0)
    run_tasks(small)
    assert x[0] == 64


def test_error_record_is_raised_and_reset(add_step):
    x = np.zeros(3, dtype=np.int64)
    tasks = TaskArray()
    tasks.add(get_kernel(KernelText(FAILING, "failing")).address, [0], chunks=1, wave=0)
    tasks.add(add_step, [0, 1, x.ctypes.data, 1], chunks=3, wave=1)
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            run_tasks(tasks)
        error = caught.value
        assert (error.kind, error.operator, error.position, error.value, error.bound) == (INDEX_OUT_OF_RANGE, 7, 0, -3, 5)
        assert (x == 0).all()  # later waves might overwrite what the failed one was to read again
    tasks.set_chunks(0, 0)
    run_tasks(tasks)
    assert (x == 1).all()


def test_the_gil_is_released_when_asked(threads):
    threads(2)
    x = np.array([30_000, 0], dtype=np.int64)
    tasks = TaskArray()
    tasks.add(get_kernel(KernelText(SLEEP, "sleep_then_count")).address, [0, 1, x.ctypes.data], chunks=2, wave=0)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(int(x[1]))
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    for _ in range(3):
        run_tasks(tasks, release_gil=True)
    stop.set()
    other.join()
    assert x[1] == 6
    assert any(0 < count < 6 for count in ticks)


def test_many_callers_at_once(add_step, threads):
    threads(3)
    arrays = [np.zeros(50, dtype=np.int64) for _ in range(4)]

    def work(x):
        tasks = TaskArray(scratch_bytes=128)
        tasks.add(add_step, [0, 5, x.ctypes.data, 1], chunks=10, wave=0)
        for _ in range(300):
            run_tasks(tasks, release_gil=True)

    workers = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((x == 300).all() for x in arrays)


def test_thread_count_can_change_any_time(add_step, threads):
    x = np.zeros(30, dtype=np.int64)
    tasks = TaskArray(scratch_bytes=512)
    tasks.add(add_step, [0, 1, x.ctypes.data, 1], chunks=30, wave=0)
    for number, count in enumerate((1, 4, 2, 6, 1, 3), 1):
        threads(count)
        assert get_num_threads() == count
        run_tasks(tasks)
        assert (x == number).all()
    for bad in (0, -1, 257):
        with pytest.raises(RuntimeError, match="positive number of threads"):
            threads(bad)


PRELUDE = """
import ctypes, os, signal, sys, time, threading
import numpy as np
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.runtime.thread_pool import set_num_threads
from tests.kernel_texts import SLEEP
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
set_num_threads(3)
x = np.array([int(sys.argv[1]), 0], dtype=np.int64)
tasks = TaskArray()
tasks.add(get_kernel(KernelText(SLEEP, "sleep_then_count")).address, [0, 1, x.ctypes.data], chunks=3, wave=0)
"""


def start(code: str, microseconds: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PRELUDE + code, str(microseconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


def test_process_ends_with_sleeping_workers():
    process = start("run_tasks(tasks); print(x[1])", 10)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, "3", "")


def test_process_ends_while_a_daemon_thread_computes():
    code = """
threading.Thread(target=lambda: [run_tasks(tasks, release_gil=True) for _ in range(1000)], daemon=True).start()
time.sleep(0.05)
print('end')
"""
    process = start(code, 20_000)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, "end")


def test_control_c_waits_for_the_region_and_leaves_the_pool_usable():
    code = """
print('ready', flush=True)
try:
    for _ in range(200):
        run_tasks(tasks, release_gil=True)
except KeyboardInterrupt:
    assert x[1] % 3 == 0
    before = int(x[1])
    x[0] = 10
    run_tasks(tasks)
    assert x[1] == before + 3
    print('interrupted')
"""
    process = start(code, 30_000)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, "interrupted", "")


def test_fewer_threads_than_wanted_are_told_and_used(add_step, threads, monkeypatch):
    refused = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *arguments: 11)
    image = object_loader.link(llvm_driver.compile_modules([thread_pool.POOL_TEXT])[0])
    symbols = object_loader.load([image], {"pthread_create": ctypes.cast(refused, ctypes.c_void_p).value or 0})[0]
    monkeypatch.setattr(thread_pool, "loaded", None)
    monkeypatch.setattr(thread_pool, "_loader", lambda text: symbols)
    threads(3)
    x = np.zeros(9, dtype=np.int64)
    tasks = TaskArray()
    tasks.add(add_step, [0, 1, x.ctypes.data, 1], chunks=9, wave=0)
    with pytest.warns(RuntimeWarning, match="wanted 3 threads and the system gave 1"):
        run_tasks(tasks)
    run_tasks(tasks)
    assert (x == 2).all() and get_num_threads() == 1


def test_the_pool_says_when_nothing_can_load_it(monkeypatch):
    monkeypatch.setattr(thread_pool, "loaded", None)
    monkeypatch.setattr(thread_pool, "_loader", None)
    with pytest.raises(RuntimeError, match="import flambeau.compilation.kernel_cache"):
        run_tasks(TaskArray())
