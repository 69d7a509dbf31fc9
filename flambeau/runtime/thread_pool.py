"""The CPU thread pool: its native code as LLVM IR text, and the Python side that starts and resizes it.

The pool runs arrays of tasks (40 bytes each: function, argument slots, chunks, wave, flags; see `launch`). Consecutive tasks of
one wave are independent and form one parallel region: threads claim chunk after chunk from a common ticket until none is left,
so that a thread that is held up takes fewer. Waves follow one another. Between regions the workers spin for a moment and then
sleep on a futex.

One caller owns the pool at a time; whoever finds it taken runs its own tasks alone. A forked child starts with no workers and
makes its own at its first region.

This module holds only text and a table of functions: the `compile` layer registers with `set_loader` how text becomes code.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flambeau.core import events
from flambeau.core.config import config

__all__ = ["MAX_THREADS", "POOL_TEXT", "Pool", "get_num_threads", "load", "set_loader", "set_num_threads"]

MAX_THREADS = 256

# Why a region is closed before it is described: a slow worker may still hold the old ticket. Were the new total visible under
# it, the worker could claim a chunk that does not exist. With the ticket changed first, its compare-and-exchange fails.
POOL_TEXT = r"""
%task = type { ptr, ptr, i64, i64, i64 }
@generation = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
@ticket = internal global i64 0, align 64
@finished = internal global i32 0, align 64
@waiting = internal global i32 0, align 4
@region_tasks = internal global ptr null, align 64
@region_total = internal global i64 0, align 8
@owner = internal global i32 0, align 64
@active = internal global i64 1, align 8
@created = internal global i64 1, align 8
@scratch_size = internal global i64 0, align 8
@scratch_threads = internal global i64 0, align 8
@scratch = internal global [256 x ptr] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.x86.sse2.pause()

; Claim chunks of region %generation and run them until none is left.
define internal void @drain(i32 %generation, ptr %scratch) {
entry:
  %wanted = zext i32 %generation to i64
  br label %claim
claim:
  %task = phi ptr [null, %entry], [%task, %claimed.not], [%task.run, %done]
  %base = phi i64 [0, %entry], [%base, %claimed.not], [%base.run, %done]
  %ticket = load atomic i64, ptr @ticket acquire, align 64
  %region = lshr i64 %ticket, 32
  %current = icmp eq i64 %region, %wanted
  br i1 %current, label %open, label %leave
open:
  %total = load atomic i64, ptr @region_total acquire, align 8
  %index = and i64 %ticket, 4294967295
  %left = icmp ult i64 %index, %total
  br i1 %left, label %take, label %leave
take:
  %next = add i64 %ticket, 1
  %exchange = cmpxchg ptr @ticket, i64 %ticket, i64 %next acq_rel acquire
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %claimed, label %claimed.not
claimed.not:
  br label %claim
claimed:
  %first = load atomic ptr, ptr @region_tasks acquire, align 64
  %fresh = icmp eq ptr %task, null
  %task.from = select i1 %fresh, ptr %first, ptr %task
  br label %find
find:
  %task.run = phi ptr [%task.from, %claimed], [%task.next, %skip]
  %base.run = phi i64 [%base, %claimed], [%base.next, %skip]
  %chunks.at = getelementptr %task, ptr %task.run, i64 0, i32 2
  %chunks = load i64, ptr %chunks.at
  %chunk = sub i64 %index, %base.run
  %here = icmp ult i64 %chunk, %chunks
  br i1 %here, label %run, label %skip
skip:
  %base.next = add i64 %base.run, %chunks
  %task.next = getelementptr %task, ptr %task.run, i64 1
  br label %find
run:
  %function = load ptr, ptr %task.run
  %args.at = getelementptr %task, ptr %task.run, i64 0, i32 1
  %args = load ptr, ptr %args.at
  call void %function(ptr %args, i64 %chunk, ptr %scratch)
  %before = atomicrmw add ptr @finished, i32 1 seq_cst
  %after = add i32 %before, 1
  %total32 = trunc i64 %total to i32
  %last = icmp eq i32 %after, %total32
  br i1 %last, label %tell, label %done
tell:
  %w = load atomic i32, ptr @waiting seq_cst, align 4
  %sleeping = icmp ne i32 %w, 0
  br i1 %sleeping, label %wake, label %done
wake:
  %r = call i64 (i64, ...) @syscall(i64 202, ptr @finished, i64 129, i64 1)
  br label %done
done:
  br label %claim
leave:
  ret void
}

define internal ptr @worker(ptr %id) {
entry:
  %number = ptrtoint ptr %id to i64
  %scratch.at = getelementptr ptr, ptr @scratch, i64 %number
  br label %rest
rest:
  %seen = phi i32 [0, %entry], [%now, %idle], [%now, %work]
  br label %spin
spin:
  %turn = phi i32 [0, %rest], [%turn.next, %pause], [0, %sleep]
  %now = load atomic i32, ptr @generation acquire, align 64
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %wanted, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %turn.next = add i32 %turn, 1
  %more = icmp slt i32 %turn, 2000
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 128, i32 %seen, ptr null)
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %spin
wanted:
  %active = load atomic i64, ptr @active acquire, align 8
  %mine = icmp slt i64 %number, %active
  br i1 %mine, label %work, label %idle
idle:
  br label %rest
work:
  %scratch = load atomic ptr, ptr %scratch.at acquire, align 8
  call void @drain(i32 %now, ptr %scratch)
  br label %rest
}

; Start workers until there are as many as wanted; lowers what is wanted when the system gives no more. 0, or 2 when it did.
define internal i64 @start_workers() {
entry:
  %thread = alloca i64
  %all = alloca [128 x i8]
  %old = alloca [128 x i8]
  %wanted = load atomic i64, ptr @active acquire, align 8
  %have = load i64, ptr @created
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %fine, label %block
block:
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  ; Signals stay with the threads of Python.
  %b = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %next
next:
  %number = phi i64 [%have, %block], [%number.next, %made]
  %short = icmp slt i64 %number, %wanted
  br i1 %short, label %make, label %ready
make:
  %id = inttoptr i64 %number to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %id)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %refused, label %made
made:
  %handle = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %handle)
  %number.next = add i64 %number, 1
  br label %next
refused:
  store atomic i64 %number, ptr @active release, align 8
  br label %ready
ready:
  %result = phi i64 [0, %next], [2, %refused]
  store i64 %number, ptr @created
  %u = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret i64 %result
fine:
  ret i64 0
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @new_scratch(i64 %bytes) {
entry:
  %large = icmp uge i64 %bytes, 1048576
  %alignment = select i1 %large, i64 2097152, i64 4096
  %mask = sub i64 %alignment, 1
  %sum = add i64 %bytes, %mask
  %clear = xor i64 %mask, -1
  %size = and i64 %sum, %clear
  %memory = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  %got = icmp ne ptr %memory, null
  %advise = and i1 %got, %large
  br i1 %advise, label %huge, label %leave
huge:
  %m = call i32 @madvise(ptr %memory, i64 %size, i32 14)
  br label %leave
leave:
  ret ptr %memory
}

; Give each thread at least %bytes of scratch. 0, or 1 when there is no memory.
define internal i64 @ensure_scratch(i64 %bytes) {
entry:
  %size = load i64, ptr @scratch_size
  %threads = load i64, ptr @scratch_threads
  %active = load atomic i64, ptr @active acquire, align 8
  %large = icmp uge i64 %size, %bytes
  %many = icmp sge i64 %threads, %active
  %good = and i1 %large, %many
  %none = icmp eq i64 %bytes, 0
  %skip = or i1 %good, %none
  br i1 %skip, label %fine, label %grow
grow:
  store i64 0, ptr @scratch_size
  %wanted = call i64 @llvm.umax.i64(i64 %size, i64 %bytes)
  br label %each
each:
  %number = phi i64 [0, %grow], [%number.next, %given]
  %more = icmp slt i64 %number, %active
  br i1 %more, label %give, label %all
give:
  %at = getelementptr ptr, ptr @scratch, i64 %number
  %old = load ptr, ptr %at
  call void @free(ptr %old)
  %new = call ptr @new_scratch(i64 %wanted)
  store atomic ptr %new, ptr %at release, align 8
  %got = icmp ne ptr %new, null
  br i1 %got, label %given, label %empty
given:
  %number.next = add i64 %number, 1
  br label %each
empty:
  ret i64 1
all:
  store i64 %wanted, ptr @scratch_size
  store i64 %active, ptr @scratch_threads
  ret i64 0
fine:
  ret i64 0
}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define internal void @run_alone(ptr %tasks, i64 %count, ptr %scratch) {
entry:
  br label %next
next:
  %number = phi i64 [0, %entry], [%number.next, %task.done]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %task, label %leave
task:
  %at = getelementptr %task, ptr %tasks, i64 %number
  %function = load ptr, ptr %at
  %args.at = getelementptr %task, ptr %at, i64 0, i32 1
  %args = load ptr, ptr %args.at
  %chunks.at = getelementptr %task, ptr %at, i64 0, i32 2
  %chunks = load i64, ptr %chunks.at
  %number.next = add i64 %number, 1
  br label %chunk.head
chunk.head:
  %chunk = phi i64 [0, %task], [%chunk.next, %chunk.body]
  %left = icmp slt i64 %chunk, %chunks
  br i1 %left, label %chunk.body, label %task.done
chunk.body:
  call void %function(ptr %args, i64 %chunk, ptr %scratch)
  %chunk.next = add i64 %chunk, 1
  br label %chunk.head
task.done:
  %failed = call i1 @has_failed(ptr %at)
  br i1 %failed, label %leave, label %next
leave:
  ret void
}

; Run %total chunks of the tasks on all threads and wait until the last is done.
define internal void @run_region(ptr %tasks, i64 %total, ptr %scratch) {
entry:
  %old = load atomic i32, ptr @generation acquire, align 64
  %new = add i32 %old, 1
  %new64 = zext i32 %new to i64
  %open = shl i64 %new64, 32
  %closed = or i64 %open, 4294967295
  store atomic i64 %closed, ptr @ticket seq_cst, align 64
  store atomic ptr %tasks, ptr @region_tasks release, align 64
  store atomic i64 %total, ptr @region_total release, align 8
  store atomic i32 0, ptr @waiting release, align 4
  store atomic i32 0, ptr @finished release, align 64
  store atomic i64 %open, ptr @ticket seq_cst, align 64
  store atomic i32 %new, ptr @generation seq_cst, align 64
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 64
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %share
wake:
  %others = sub i64 %total, 1
  %helpers = call i64 @llvm.umin.i64(i64 %others, i64 256)
  %r = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 129, i64 %helpers)
  br label %share
share:
  call void @drain(i32 %new, ptr %scratch)
  %total32 = trunc i64 %total to i32
  br label %spin
spin:
  %turn = phi i32 [0, %share], [%turn.next, %pause]
  %count = load atomic i32, ptr @finished acquire, align 64
  %complete = icmp eq i32 %count, %total32
  br i1 %complete, label %leave, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %turn.next = add i32 %turn, 1
  %more = icmp slt i32 %turn, 2000
  br i1 %more, label %spin, label %doze
doze:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %again = load atomic i32, ptr @finished seq_cst, align 64
  %complete.now = icmp eq i32 %again, %total32
  br i1 %complete.now, label %leave, label %sleep
sleep:
  %s = call i64 (i64, ...) @syscall(i64 202, ptr @finished, i64 128, i32 %again, ptr null)
  br label %doze
leave:
  ret void
}

; Whether the error record that a task writes to (its argument 0, or null) is set: later waves, which may overwrite inputs, must not run.
define internal i1 @has_failed(ptr %task) {
entry:
  %arguments.at = getelementptr %task, ptr %task, i64 0, i32 1
  %arguments = load ptr, ptr %arguments.at
  %bare = icmp eq ptr %arguments, null
  br i1 %bare, label %fine, label %find
find:
  %record = load ptr, ptr %arguments
  %none = icmp eq ptr %record, null
  br i1 %none, label %fine, label %look
look:
  %state = load atomic i64, ptr %record acquire, align 8
  %set = icmp ne i64 %state, 0
  ret i1 %set
fine:
  ret i1 false
}

; Result: 0, plus 1 when there was no memory for scratch (nothing ran), plus 2 when the system gave fewer threads than wanted.
define i64 @pool_run(ptr %tasks, i64 %count, i64 %scratch.bytes) {
entry:
  %exchange = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %own = extractvalue { i32, i1 } %exchange, 1
  br i1 %own, label %owned, label %alone
alone:
  %wants = icmp ne i64 %scratch.bytes, 0
  br i1 %wants, label %alone.scratch, label %alone.run
alone.scratch:
  %temporary = call ptr @new_scratch(i64 %scratch.bytes)
  %alone.got = icmp ne ptr %temporary, null
  br i1 %alone.got, label %alone.run, label %alone.empty
alone.empty:
  ret i64 1
alone.run:
  %alone.memory = phi ptr [null, %alone], [%temporary, %alone.scratch]
  call void @run_alone(ptr %tasks, i64 %count, ptr %alone.memory)
  call void @free(ptr %alone.memory)
  ret i64 0
owned:
  %empty = call i64 @ensure_scratch(i64 %scratch.bytes)
  %no.memory = icmp ne i64 %empty, 0
  br i1 %no.memory, label %give.up, label %begin
give.up:
  store atomic i32 0, ptr @owner release, align 64
  ret i64 1
begin:
  %scratch = load ptr, ptr @scratch
  br label %wave
wave:
  %first = phi i64 [0, %begin], [%end, %wave.done]
  %status = phi i64 [0, %begin], [%status.next, %wave.done]
  %more = icmp slt i64 %first, %count
  br i1 %more, label %measure, label %leave
measure:
  %wave.task = getelementptr %task, ptr %tasks, i64 %first
  %wave.at = getelementptr %task, ptr %wave.task, i64 0, i32 3
  %wave.number = load i64, ptr %wave.at
  br label %extend
extend:
  %end = phi i64 [%first, %measure], [%end.next, %same]
  %total = phi i64 [0, %measure], [%total.next, %same]
  %inside = icmp slt i64 %end, %count
  br i1 %inside, label %look, label %decide
look:
  %look.task = getelementptr %task, ptr %tasks, i64 %end
  %look.at = getelementptr %task, ptr %look.task, i64 0, i32 3
  %look.number = load i64, ptr %look.at
  %equal = icmp eq i64 %look.number, %wave.number
  br i1 %equal, label %same, label %decide
same:
  %look.chunks.at = getelementptr %task, ptr %look.task, i64 0, i32 2
  %look.chunks = load i64, ptr %look.chunks.at
  %total.next = add i64 %total, %look.chunks
  %end.next = add i64 %end, 1
  br label %extend
decide:
  %active = load atomic i64, ptr @active acquire, align 8
  %single = icmp sle i64 %total, 1
  %lonely = icmp sle i64 %active, 1
  %serial = or i1 %single, %lonely
  br i1 %serial, label %wave.alone, label %wave.parallel
wave.alone:
  %tasks.here = sub i64 %end, %first
  call void @run_alone(ptr %wave.task, i64 %tasks.here, ptr %scratch)
  br label %wave.done
wave.parallel:
  %started = call i64 @start_workers()
  call void @run_region(ptr %wave.task, i64 %total, ptr %scratch)
  br label %wave.done
wave.done:
  %fewer = phi i64 [0, %wave.alone], [%started, %wave.parallel]
  %status.next = or i64 %status, %fewer
  %failed = call i1 @has_failed(ptr %wave.task)
  br i1 %failed, label %leave, label %wave
leave:
  %final = phi i64 [%status, %wave], [%status.next, %wave.done]
  store atomic i32 0, ptr @owner release, align 64
  ret i64 %final
}

; A program is { count, scratch bytes, tasks, error record of 6 }. Result: as pool_run, plus 4 when the error record is set.
define i64 @pool_run_program(ptr %program) {
entry:
  %count = load i64, ptr %program
  %scratch.at = getelementptr i64, ptr %program, i64 1
  %scratch = load i64, ptr %scratch.at
  %tasks.at = getelementptr i64, ptr %program, i64 2
  %tasks = load ptr, ptr %tasks.at
  %status = call i64 @pool_run(ptr %tasks, i64 %count, i64 %scratch)
  %record = getelementptr i64, ptr %program, i64 3
  %state = load atomic i64, ptr %record acquire, align 8
  %set = icmp ne i64 %state, 0
  %error = select i1 %set, i64 4, i64 0
  %result = or i64 %status, %error
  ret i64 %result
}

define void @pool_set_threads(i64 %threads) {
entry:
  br label %try
try:
  %exchange = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %own = extractvalue { i32, i1 } %exchange, 1
  br i1 %own, label %owned, label %wait
wait:
  %y = call i32 @sched_yield()
  br label %try
owned:
  store atomic i64 %threads, ptr @active release, align 8
  store atomic i32 0, ptr @owner release, align 64
  ret void
}

define i64 @pool_get_threads() {
  %active = load atomic i64, ptr @active acquire, align 8
  ret i64 %active
}

; In a forked child: no worker exists there, and the owner may have been another thread of the parent.
define void @pool_forget_threads() {
  store atomic i64 0, ptr @ticket seq_cst, align 64
  store atomic i32 0, ptr @sleepers seq_cst, align 64
  store i64 1, ptr @created
  store atomic i32 0, ptr @generation seq_cst, align 64
  store atomic i32 0, ptr @owner seq_cst, align 64
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Pool:
    """The native functions of the pool; `run_program_held` keeps the GIL, `run_program_released` lets it go meanwhile.

    Native code calls ``i64 pool_run(ptr tasks, i64 count, i64 scratch_bytes)`` at `run_address`; what it returns is in `POOL_TEXT`.
    """

    run_address: int
    run_program_held: Callable[[int], int]
    run_program_released: Callable[[int], int]
    set_threads: Callable[[int], None]
    get_threads: Callable[[], int]
    forget_threads: Callable[[], None]


_loader: Callable[[str], Mapping[str, int]] | None = None
loaded: Pool | None = None
_threads = config.threads
_lock = threading.Lock()


def set_loader(loader: Callable[[str], Mapping[str, int]]) -> None:
    """Register how LLVM IR text becomes loaded functions (name -> address); the compile layer does so when it is imported."""
    global _loader
    _loader = loader


def load() -> Pool:
    """The pool of this process, loaded at the first call; from then on it is also in `loaded`."""
    global loaded
    with _lock:
        if loaded is None:
            if _loader is None:
                raise RuntimeError("the thread pool has no loader; import flambeau.compilation.kernel_cache before running kernels.")
            loaded = _bind(_loader(POOL_TEXT))
            loaded.set_threads(_threads)
        return loaded


def _bind(symbols: Mapping[str, int]) -> Pool:
    run_program = symbols["pool_run_program"]
    return Pool(
        run_address=symbols["pool_run"],
        run_program_held=ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run_program),
        run_program_released=ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run_program),
        set_threads=ctypes.CFUNCTYPE(None, ctypes.c_int64)(symbols["pool_set_threads"]),
        get_threads=ctypes.CFUNCTYPE(ctypes.c_int64)(symbols["pool_get_threads"]),
        forget_threads=ctypes.PYFUNCTYPE(None)(symbols["pool_forget_threads"]),
    )


def get_num_threads() -> int:
    """How many threads run one parallel region, the caller included."""
    return _threads


def set_num_threads(num: int) -> None:
    """Set how many threads run one parallel region, the caller included; results do not depend on it.

    Raises RuntimeError unless ``1 <= num <= 256``.
    """
    global _threads
    if not 1 <= num <= MAX_THREADS:
        raise RuntimeError(f"set_num_threads: expected a positive number of threads, at most {MAX_THREADS}, got {num}")
    _threads = num
    if loaded is not None:
        loaded.set_threads(num)


def report_missing_threads() -> None:
    """Tell that the system gave fewer threads than wanted; the pool goes on with those it has."""
    global _threads
    wanted, _threads = _threads, load().get_threads()
    events.emit("threads", wanted=wanted, got=_threads)
    warnings.warn(f"flambeau wanted {wanted} threads and the system gave {_threads}; it goes on with these. "
                  "Raise the limit on processes (ulimit -u) or set FLAMBEAU_NUM_THREADS lower.", RuntimeWarning, stacklevel=3)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    if loaded is not None:
        loaded.forget_threads()


os.register_at_fork(after_in_child=_after_fork_in_child)
