"""Runs arrays of kernel tasks and turns what a kernel reports into a Python exception."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence

from flambeau.runtime import thread_pool
from flambeau.runtime.allocator import out_of_memory

__all__ = ["INDEX_OUT_OF_RANGE", "KernelError", "TaskArray", "report", "run_tasks", "run_tasks_timed"]

INDEX_OUT_OF_RANGE = 1

# A program in memory: count, scratch bytes, address of the tasks, the error record (6 words), whether native code is inside it,
# then arguments, then tasks.
_COUNT, _SCRATCH, _TASKS, _ERROR = 0, 1, 2, 3
_ERROR_WORDS = 6
_BUSY = _ERROR + _ERROR_WORDS
_HEADER_WORDS = _BUSY + 1
_TASK_WORDS = 5


class KernelError(RuntimeError):
    """A kernel met a value that it cannot work with, went on with another in its place, and left this record.

    `kind` is `INDEX_OUT_OF_RANGE`; `operator` is the number that the kernel was made with; `position` is where in its input the
    value was, `value` the value, `bound` the limit that it broke.
    """

    def __init__(self, kind: int, operator: int, position: int, value: int, bound: int) -> None:
        super().__init__(f"kernel error {kind} in operator {operator}: value {value} at position {position}, bound {bound}")
        self.kind = kind
        self.operator = operator
        self.position = position
        self.value = value
        self.bound = bound


class TaskArray:
    """Kernel calls with their arguments, in one run of memory that native code reads.

    Tasks of equal `wave` that follow one another are independent and run at once; waves run one after another. Arguments may be
    changed between runs (`slots[index] = value`), which costs some 30 ns, so that one array serves many calls. Only one thread
    may use an array at a time: a program that several threads share calls `take` before it changes arguments and `put_back`
    after the run.

    >>> from flambeau.runtime.launch import TaskArray
    >>> tasks = TaskArray(scratch_bytes=4096)
    >>> first = tasks.add(0x1000, [0, 64, 0x2000, 0x3000, 100], chunks=2, wave=0)
    >>> tasks.slots[first + 4] = 200
    """

    __slots__ = ("_chunk_slots", "_idle", "_tasks", "address", "slots")

    def __init__(self, scratch_bytes: int = 0) -> None:
        self.slots = array("q", [0] * _HEADER_WORDS)
        self.slots[_SCRATCH] = scratch_bytes
        self.address = 0
        self._tasks: list[tuple[int, int, int, int]] = []
        self._idle: list[TaskArray] = []

    def add(self, function: int, args: Sequence[int], chunks: int, wave: int) -> int:
        """Add a call of the kernel at address `function`; returns the index in `slots` of ``args[0]``.

        `args` are the kernel's 8-byte slots from slot 0 on; slot 0 is set to the address of the error record, whatever is given.
        Raises ValueError for a chunk count outside ``0 <= chunks < 2**31``, and RuntimeError once the array has run.
        """
        if self.address:
            raise RuntimeError("TaskArray.add: the array has been sealed by its first run; make a new one")
        if not 0 <= chunks < 1 << 31:
            raise ValueError(f"TaskArray.add: needs 0 <= chunks < 2**31, got {chunks}")
        start = len(self.slots)
        self.slots.extend(args)
        self._tasks.append((function, start, chunks, wave))
        return start

    def seal(self) -> int:
        """Fix the memory, so that addresses in it hold from now on, and give its own; the first run does it."""
        if self.address:
            return self.address
        tasks_start = len(self.slots)
        self.slots.extend([0] * (_TASK_WORDS * len(self._tasks)))
        self.slots[_COUNT] = len(self._tasks)
        self._point(tasks_start)
        return self.address

    def _point(self, tasks_start: int) -> None:
        slots = self.slots
        self.address = slots.buffer_info()[0]
        slots[_TASKS] = self.address + 8 * tasks_start
        for number, (function, start, chunks, wave) in enumerate(self._tasks):
            slots[start] = self.address + 8 * _ERROR
            at = tasks_start + _TASK_WORDS * number
            slots[at:at + _TASK_WORDS] = array("q", [function, self.address + 8 * start, chunks, wave, 0])

    @property
    def error_address(self) -> int:
        """Where the error record of the sealed array is."""
        return self.address + 8 * _ERROR

    @property
    def busy_address(self) -> int:
        """A word that is set while native code runs the sealed array with the GIL released, or must not run it."""
        return self.address + 8 * _BUSY

    def keep_native_code_out(self, out: bool) -> None:
        """Whether all runs shall go through Python."""
        self.slots[_BUSY] = out

    def single_call(self) -> tuple[int, int] | None:
        """The function and the address of its arguments when the sealed array is one call of one chunk without scratch."""
        if len(self._tasks) != 1 or self._tasks[0][2] != 1 or self.slots[_SCRATCH]:
            return None
        function, start, _, _ = self._tasks[0]
        return function, self.address + 8 * start

    def set_slot(self, index: int, value: int) -> None:
        """Set one argument; `index` is what `add` returned plus the number of the slot."""
        self.slots[index] = value

    def set_chunks(self, task: int, chunks: int) -> None:
        """Set how many chunks the task with number `task` (in order of `add`) has; 0 leaves it out of the next run."""
        function, start, _, wave = self._tasks[task]
        self._tasks[task] = (function, start, chunks, wave)
        if self.address:
            self.slots[len(self.slots) - _TASK_WORDS * (len(self._tasks) - task) + 2] = chunks

    def copy(self) -> TaskArray:
        """An array with the same calls and arguments in memory of its own."""
        self.seal()
        other = TaskArray()
        other.slots = array("q", self.slots)
        other.slots[_BUSY] = 0
        other._tasks = list(self._tasks)
        other._point(len(other.slots) - _TASK_WORDS * len(other._tasks))
        return other

    def take(self) -> TaskArray:
        """An array like this one that no other thread uses until it is put back."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.copy()

    def put_back(self, tasks: TaskArray) -> None:
        """Return what `take` gave."""
        self._idle.append(tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def run_tasks(tasks: TaskArray, release_gil: bool = False) -> None:
    """Run all tasks and wait for them. With `release_gil` other Python threads go on meanwhile; it costs a little on small work.

    Raises `KernelError` when a kernel reported one (the waves after its own have not run then), and RuntimeError when there is no
    memory for scratch (none has run).
    """
    native = thread_pool.loaded or thread_pool.load()
    address = tasks.address or tasks.seal()
    status = native.run_program_released(address) if release_gil else native.run_program_held(address)
    if status:
        report(tasks, status)


def run_tasks_timed(tasks: TaskArray) -> list[float]:
    """Run the tasks one after another, each on all threads; the seconds that each took. Errors as in `run_tasks`."""
    tasks.seal()
    slots = tasks.slots
    count, first = slots[_COUNT], slots[_TASKS]
    seconds: list[float] = []
    try:
        slots[_COUNT] = 1
        for number in range(count):
            slots[_TASKS] = first + 8 * _TASK_WORDS * number
            started = time.perf_counter()
            run_tasks(tasks)
            seconds.append(time.perf_counter() - started)
    finally:
        slots[_COUNT], slots[_TASKS] = count, first
    return seconds


def report(tasks: TaskArray, status: int) -> None:
    """Raise or warn for a status other than 0 that a run ended with."""
    if status & 2:
        thread_pool.report_missing_threads()
    if status & 1:
        raise out_of_memory(tasks.slots[_SCRATCH])
    if status & 4:
        _, kind, operator, position, value, bound = tasks.slots[_ERROR:_ERROR + _ERROR_WORDS]
        tasks.slots[_ERROR] = 0
        raise KernelError(kind, operator, position, value, bound)
