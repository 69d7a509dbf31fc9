"""DataLoader: batches of a dataset, fetched here or by worker processes."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import queue
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from flambeau.runtime import generator as generators
from flambeau.runtime.generator import Generator
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from flambeau.utils.data.worker import STREAM_ENDED, Failure, Fetcher, get_worker_info, run_worker

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T = TypeVar("T", covariant=True)

# How long a wait for a worker lasts before it is looked whether the workers still live.
_PATIENCE = 5.0
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class _Endless(Sampler[Any]):
    """No indices: a stream is asked for its next samples."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


class DataLoader(Generic[T]):
    """Iterates over batches of `batch_size` samples of a dataset.

    `shuffle`, or a `sampler` of indices, or a `batch_sampler` of lists of indices, say which; ``batch_size=None`` gives single
    samples. `collate_fn` makes a batch of a list of samples (default: `default_collate`). With `num_workers` > 0 that many
    processes fetch `prefetch_factor` batches each ahead. `timeout` is in seconds. Raises ValueError for arguments that exclude
    one another.

    >>> import flambeau as torch
    >>> list(torch.utils.data.DataLoader(range(5), batch_size=2))
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    __initialized = False

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None, generator: Generator | None = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_processes(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        # There is no accelerator whose copies pinned memory would speed up.
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self._streams = isinstance(dataset, IterableDataset)
        if self._streams:
            _check_stream(shuffle, sampler, batch_sampler)
        self._choose_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self.persistent_workers = persistent_workers
        # Lengths that somebody was told of a stream, in a list that passes share: they must not hold the loader that keeps them.
        self._told_lengths: list[int] = []
        self.__initialized = True
        self._iterator: _Workers | None = None

    def _choose_order(self, shuffle: bool | None, sampler: Any, batch_sampler: Any, batch_size: int | None, drop_last: bool) -> None:
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._streams:
                sampler = _Endless()
            else:
                sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetcher(self) -> Fetcher:
        return Fetcher(self.dataset, self.batch_sampler is not None, self.collate_fn, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _InProcess(self)
        if not self.persistent_workers:
            return _Workers(self)
        if self._iterator is None:
            self._iterator = _Workers(self)
        else:
            self._iterator.restart()
        return self._iterator

    def __len__(self) -> int:
        if not self._streams:
            return len(self._index_sampler)
        length = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        self._told_lengths[:] = [length]
        return length

    def check_worker_number_rationality(self) -> None:
        """Nothing is checked: how many workers help depends on what they do."""


def _check_processes(workers: int, timeout: float, prefetch: int | None, persistent: bool, context: Any) -> None:
    if workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if workers == 0 and prefetch is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable multiprocessing, "
                         "otherwise set prefetch_factor to None.")  # fmt: skip
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None and workers == 0:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0")


def _check_stream(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    for name, given in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if given is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}")


class _Pass(Iterator[Any]):
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.sampler = loader._index_sampler
        self.indices = iter(self.sampler)
        # Drawn first, and also where no worker needs it, so that the stream of numbers is PyTorch's.
        generator = generators.default_generator if loader.generator is None else loader.generator
        self.base_seed = generator.seed_for_another()
        self.dataset = loader.dataset
        self.told_lengths = loader._told_lengths
        self.given = 0

    def __len__(self) -> int:
        return len(self.sampler)

    def _count(self) -> None:
        """Warn of a stream that gives more batches than its length said."""
        self.given += 1
        if self.told_lengths and self.given == self.told_lengths[0] + 1:
            warnings.warn(f"Length of IterableDataset {self.dataset} was reported to be {self.told_lengths[0]} (when accessing "
                          f"len(dataloader)), but {self.given} samples have been fetched. ", stacklevel=3)  # fmt: skip


class _InProcess(_Pass):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self.fetcher = loader._fetcher()

    def __next__(self) -> Any:
        batch = self.fetcher.fetch(next(self.indices))
        self._count()
        return batch


class _Workers(_Pass):
    """Hands out indices to processes in turn and gives their batches in the order of the indices."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self.ahead = loader.prefetch_factor or 1
        self.timeout = loader.timeout
        self.in_order = loader.in_order
        self.persistent = loader.persistent_workers
        context: Any = loader.multiprocessing_context
        context = multiprocessing.get_context(context) if isinstance(context, str) or context is None else context
        self.owner = os.getpid()
        self.results = context.Queue()
        self.tasks: list[Any] = []
        self.processes: list[Any] = []
        make_fetcher = functools.partial(Fetcher, loader.dataset, loader.batch_sampler is not None, loader.collate_fn, loader.drop_last)
        for worker in range(loader.num_workers):
            tasks = context.Queue()
            # Ending the program must not wait for indices that nobody reads any more.
            tasks.cancel_join_thread()
            known = (worker, loader.num_workers, self.base_seed, make_fetcher, loader.dataset)
            process = context.Process(target=run_worker, args=(*known, tasks, self.results, loader.worker_init_fn), daemon=True)
            process.start()
            self.tasks.append(tasks)
            self.processes.append(process)
        self._start()

    def _start(self) -> None:
        self.arrived: dict[int, Any] = {}
        self.sent = 0
        self.next_number = 0
        self.working = set(range(len(self.processes)))
        self.turn = itertools.cycle(range(len(self.processes)))
        # Which worker has which batch, as long as it has not come.
        self.pending: dict[int, int] = {}
        for _ in range(self.ahead * len(self.processes)):
            self._send()

    def restart(self) -> None:
        """Begin another pass with the same processes."""
        while self.pending:
            self._receive()
        for tasks in self.tasks:
            tasks.put((-1, None))
        self.indices = iter(self.sampler)
        self.given = 0
        self._start()

    def _send(self) -> None:
        if not self.working:
            return
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        worker = next(number for number in self.turn if number in self.working)
        self.tasks[worker].put((self.sent, indices))
        self.pending[self.sent] = worker
        self.sent += 1

    def __next__(self) -> Any:
        while True:
            if self.in_order or not self.arrived:
                number = self.next_number
                if number not in self.pending and number not in self.arrived:
                    if number >= self.sent:
                        self._finish()
                        raise StopIteration
                    # Taken out of turn already.
                    self.next_number += 1
                    continue
                while number not in self.arrived and (self.in_order or not self.arrived):
                    self._receive()
            number = self.next_number if self.in_order else next(iter(self.arrived))
            batch = self.arrived.pop(number)
            if batch is not STREAM_ENDED:
                self._send()
                return self._checked(batch)

    def _checked(self, batch: Any) -> Any:
        if isinstance(batch, Failure):
            self._stop()
            batch.reraise()
        self._count()
        return batch

    def _receive(self) -> None:
        """Wait for one batch."""
        timeout = self.timeout
        waited = 0.0
        while True:
            patience = min(_PATIENCE, timeout - waited) if timeout else _PATIENCE
            try:
                number, worker, batch = self.results.get(timeout=patience)
                break
            except queue.Empty:
                waited += patience
                self._check_alive()
                if timeout and waited >= timeout:
                    self._stop()
                    raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
        del self.pending[number]
        if isinstance(batch, str) and batch == STREAM_ENDED:
            self.working.discard(worker)
            batch = STREAM_ENDED
        self.arrived[number] = batch

    def _check_alive(self) -> None:
        dead = [str(process.pid) for process in self.processes if not process.is_alive()]
        if dead:
            self._stop()
            raise RuntimeError(f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly")

    def _finish(self) -> None:
        if not self.persistent:
            self._stop()

    def _stop(self) -> None:
        for tasks, process in zip(self.tasks, self.processes, strict=True):
            if process.is_alive():
                tasks.put(None)
        for process in self.processes:
            process.join(timeout=_PATIENCE)
            if process.is_alive():
                process.terminate()
        self.processes = []
        self.tasks = []

    def __del__(self) -> None:
        # A forked child holds a copy, but the processes are its parent's.
        if getattr(self, "processes", None) and self.owner == os.getpid():
            # Its queues may be gone already, so that no message would reach them.
            for process in self.processes:
                process.terminate()
                process.join()


# PyTorch's names of the passes.
_BaseDataLoaderIter, _SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter = _Pass, _InProcess, _Workers
