"""The processes that fetch batches for a DataLoader."""

from __future__ import annotations

import queue
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.runtime import generator as generators
from flambeau.utils.data.dataset import IterableDataset

__all__ = ["Failure", "Fetcher", "WorkerInfo", "get_worker_info", "run_worker"]


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this process is: its `id` of `num_workers`, its `seed`, and its copy of the `dataset`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """What is known of this worker; None in the main process."""
    return _info[0] if _info else None


class Fetcher:
    """Gets samples and makes batches of them; a stream keeps its place."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.stream = iter(dataset) if isinstance(dataset, IterableDataset) else None
        self.ended = False

    def fetch(self, indices: Any) -> Any:
        """The batch for some indices, or the stream's next one of that length. Raises StopIteration at the stream's end."""
        if self.stream is None:
            return self.collate(self._samples(indices))
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.stream))
        samples: list[Any] = []
        for _ in indices:
            try:
                samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return self.collate(samples)

    def _samples(self, indices: Any) -> Any:
        if not self.batched:
            return self.dataset[indices]
        several = getattr(self.dataset, "__getitems__", None)
        return several(indices) if callable(several) else [self.dataset[index] for index in indices]


class Failure:
    """An exception of a worker on its way to the main process."""

    def __init__(self, error: BaseException, worker: int) -> None:
        self.kind = type(error)
        self.text = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\nOriginal {traceback.format_exc()}"

    def reraise(self) -> None:
        """Raise an exception of the same type with the worker's traceback as its message."""
        try:
            error = self.kind(self.text)
        except Exception:
            # A type with arguments of its own: what happened is in the text.
            raise RuntimeError(self.text) from None
        raise error


STREAM_ENDED = "stream ended"


def run_worker(
    worker: int, workers: int, seed: int, make_fetcher: Callable[[], Fetcher], dataset: Any, tasks: Any, results: Any,
    init: Callable[[int], None] | None,
) -> None:  # fmt: skip
    """Answer tasks (number, indices) until None comes; an "again" task starts the stream anew."""
    seed = seed + worker
    random.seed(seed)
    generators.default_generator.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    _info[:] = [WorkerInfo(worker, workers, seed, dataset)]
    fetcher: Fetcher | Failure
    try:
        if init is not None:
            init(worker)
        fetcher = make_fetcher()
    except Exception as error:
        fetcher = Failure(error, worker)
    while True:
        try:
            task = tasks.get(timeout=5.0)
        except queue.Empty:
            continue
        if task is None:
            return
        number, indices = task
        if number < 0:
            fetcher = make_fetcher()
            continue
        results.put((number, worker, fetcher if isinstance(fetcher, Failure) else _answer(fetcher, indices, worker)))


def _answer(fetcher: Fetcher, indices: Any, worker: int) -> Any:
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        return STREAM_ENDED
    except Exception as error:
        return Failure(error, worker)
