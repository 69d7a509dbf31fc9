"""Datasets, samplers, collation and the loader, with PyTorch's order of random draws."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils import data
from tests.unit.random_stream import Stream

RNG = np.random.default_rng()
Point = collections.namedtuple("Point", ["x", "y"])


class Numbers(data.Dataset[Any]):
    def __init__(self, size: int = 23) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return index


class Flow(data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        return iter(range(17)) if info is None else iter(range(info.id, 17, info.num_workers))


class Drawing(Numbers):
    def __getitem__(self, index: int) -> Any:
        return torch.rand(1)


class Failing(Numbers):
    def __getitem__(self, index: int) -> Any:
        raise KeyError("no such sample")


class Vanishing(Numbers):
    def __getitem__(self, index: int) -> Any:
        os._exit(3)


def batches(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


def seeded() -> tuple[Stream, int]:
    seed = int(RNG.integers(2**32))
    torch.manual_seed(seed)
    return Stream(seed), seed


# -- order ----------------------------------------------------------------------------------------------
def test_shuffling_follows_the_stream() -> None:
    stream, seed = seeded()
    loader = data.DataLoader(Numbers(), batch_size=4, shuffle=True)
    for _ in range(2):
        # First a seed for workers, then one for this pass's permutation.
        stream.seed()
        order = Stream(stream.seed() & 0xFFFFFFFF).permutation(23).tolist()
        assert sum(batches(loader), []) == order, seed


def test_a_generator_of_one_s_own() -> None:
    before = torch.get_rng_state().tolist()
    loader = data.DataLoader(Numbers(), 23, True, generator=torch.Generator().manual_seed(5))
    stream = Stream(5)
    stream.seed()
    assert batches(loader) == [stream.permutation(23).tolist()]
    assert torch.get_rng_state().tolist() == before


def test_batches_and_their_last_one() -> None:
    assert batches(data.DataLoader(Numbers(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert batches(data.DataLoader(Numbers(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Numbers(3), batch_size=None)) == [0, 1, 2]
    assert batches(data.DataLoader(Numbers(9), batch_sampler=[[3, 1], [7]])) == [[3, 1], [7]]
    assert list(data.DataLoader(Numbers(4), 2, collate_fn=sum)) == [1, 5]
    for size, drop, length in ((4, False, 6), (4, True, 5), (None, False, 23)):
        assert len(data.DataLoader(Numbers(), batch_size=size, drop_last=drop)) == length


def test_streams() -> None:
    assert batches(data.DataLoader(Flow(), batch_size=7)) == [list(range(7)), list(range(7, 14)), [14, 15, 16]]
    assert len(batches(data.DataLoader(Flow(), batch_size=7, drop_last=True))) == 2
    assert list(data.DataLoader(Flow(), batch_size=None)) == list(range(17))

    class Lying(Flow):
        def __len__(self) -> int:
            return 2

    loader = data.DataLoader(Lying(), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert len(list(loader)) == 17


def test_samplers() -> None:
    stream, _ = seeded()
    own = Stream(stream.seed() & 0xFFFFFFFF)
    assert list(data.RandomSampler(range(23), replacement=True, num_samples=40)) == [int(w) % 23 for w in own.words(40)]
    more = list(data.RandomSampler(range(3), num_samples=7))
    assert len(more) == 7 and sorted(more[:3]) == sorted(more[3:6]) == [0, 1, 2]
    assert sorted(data.SubsetRandomSampler([4, 7, 9])) == [4, 7, 9] and list(data.SequentialSampler("abc")) == [0, 1, 2]
    drawn = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert set(drawn) == {1, 2} and 0.6 < drawn.count(2) / 400 < 0.9
    assert sorted(data.WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]
    assert len(data.BatchSampler(range(5), 2, False)) == 3 and len(data.BatchSampler(range(5), 2, True)) == 2


def test_processes_share_a_dataset() -> None:
    parts = [data.DistributedSampler(range(10), 3, rank, seed=4) for rank in range(3)]
    for part in parts:
        part.set_epoch(2)
    order = Stream(6).permutation(10).tolist()
    assert [list(part) for part in parts] == [(order + order[:2])[rank::3] for rank in range(3)]
    assert len(list(data.DistributedSampler(range(10), 3, 0, drop_last=True))) == 3
    assert list(data.DistributedSampler(range(4), 2, 1, shuffle=False)) == [1, 3]
    with pytest.raises(ValueError, match="Invalid rank 3"):
        data.DistributedSampler(range(4), 2, 3)
    with pytest.raises(RuntimeError, match="pass num_replicas and rank"):
        data.DistributedSampler(range(4))


# -- datasets -------------------------------------------------------------------------------------------
def test_datasets_of_tensors_and_of_datasets() -> None:
    rows = data.TensorDataset(torch.arange(4), torch.arange(4) * 10)
    assert [value.item() for value in rows[3]] == [3, 30] and len(rows) == 4
    both = rows + data.TensorDataset(torch.arange(2), torch.arange(2))
    assert len(both) == 6 and both[4][0].item() == 0 and both[-1][0].item() == 1
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        both[-7]
    assert data.StackDataset(range(3), "abc")[1] == (1, "b") and data.StackDataset(a=range(3))[2] == {"a": 2}
    assert list(data.ChainDataset([Flow(), Flow()])) == list(range(17)) * 2 and list(Flow() + Flow())[17] == 0
    subset = data.Subset(range(10, 20), [5, 1])
    assert subset[1] == 11 and subset.__getitems__([0, 1]) == [15, 11] and len(subset) == 2


def test_random_parts() -> None:
    stream, _ = seeded()
    first, second = data.random_split(range(10), [3, 7])
    order = stream.permutation(10).tolist()
    assert list(first) == order[:3] and list(second) == order[3:]
    assert [len(part) for part in data.random_split(range(10), [0.34, 0.33, 0.33])] == [4, 3, 3]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(range(3), [1, 1])


# -- collation ------------------------------------------------------------------------------------------
def test_samples_become_batches() -> None:
    samples = [
        {"t": torch.tensor([i, i]), "n": (float(i), i, i > 0, str(i)), "a": np.arange(2, dtype=np.float32) + i, "s": np.float32(i),
         "p": Point(i, [i])}
        for i in range(2)
    ]
    batch = data.default_collate(samples)
    assert batch["t"].tolist() == [[0, 0], [1, 1]]
    floats, integers, truths, strings = batch["n"]
    assert floats.dtype is torch.float64 and integers.dtype is torch.int64 and truths.dtype is torch.bool and strings == ("0", "1")
    assert batch["a"].dtype is torch.float32 and batch["a"].tolist() == [[0, 1], [1, 2]]
    assert batch["s"].tolist() == [0, 1] and batch["s"].dtype is torch.float32
    assert isinstance(batch["p"], Point) and batch["p"].x.tolist() == [0, 1] and batch["p"].y[0].tolist() == [0, 1]
    assert isinstance(data.default_collate([collections.OrderedDict(a=1)] * 2), collections.OrderedDict)


def test_single_samples_are_converted() -> None:
    converted = data.default_convert({"a": np.arange(2), "b": (np.float64(1), "x"), "c": Point(np.arange(1), 2), "d": [np.arange(1)]})
    assert converted["a"].tolist() == [0, 1] and converted["b"][0].dtype is torch.float64 and converted["b"][1] == "x"
    assert isinstance(converted["c"], Point) and converted["c"].y == 2 and isinstance(converted["d"][0], torch.Tensor)
    text = np.array(["a"])
    assert data.default_convert(text) is text


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda: data.default_collate([object()]), TypeError, "batch must contain tensors, numpy arrays, numbers, dicts or lists"),
    (lambda: data.default_collate([np.array(["a"])]), TypeError, "found <U1"),
    (lambda: data.default_collate([[1], [1, 2]]), RuntimeError, "should be of equal size"),
    (lambda: data.DataLoader([1], batch_size=0), ValueError, "positive integer value, but got batch_size=0"),
    (lambda: data.DataLoader([1], num_workers=-1), ValueError, "num_workers option should be non-negative"),
    (lambda: data.DataLoader([1], timeout=-1), ValueError, "timeout option should be non-negative"),
    (lambda: data.DataLoader([1], shuffle=True, sampler=[0]), ValueError, "mutually exclusive with shuffle"),
    (lambda: data.DataLoader([1], batch_sampler=[[0]], batch_size=2), ValueError, "batch_sampler option is mutually exclusive"),
    (lambda: data.DataLoader([1], prefetch_factor=2), ValueError, "prefetch_factor option could only be specified"),
    (lambda: data.DataLoader([1], persistent_workers=True), ValueError, "persistent_workers option needs num_workers > 0"),
    (lambda: data.DataLoader([1], multiprocessing_context="spawn"), ValueError, "multiprocessing_context can only be used"),
    (lambda: data.DataLoader([1], batch_size=None, drop_last=True), ValueError, "batch_size=None option disables auto-batching"),
    (lambda: data.DataLoader(Flow(), shuffle=True), ValueError, "expected unspecified shuffle option"),
    (lambda: setattr(data.DataLoader([1]), "batch_size", 3), ValueError, "should not be set after DataLoader is initialized"),
    (lambda: len(data.DataLoader(Flow())), TypeError, "has no len"),
    (lambda: data.RandomSampler([]), ValueError, "got num_samples=0"),
    (lambda: data.RandomSampler([1], replacement=1), TypeError, "replacement should be a boolean"),
    (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError, "1d sequence"),
    (lambda: data.BatchSampler([1], 2, 3), ValueError, "drop_last should be a boolean value"),
    (lambda: data.ConcatDataset([]), AssertionError, "should not be an empty iterable"),
    (lambda: data.ConcatDataset([Flow()]), AssertionError, "does not support IterableDataset"),
    (lambda: data.TensorDataset(torch.zeros(2), torch.zeros(3)), AssertionError, "Size mismatch between tensors"),
    (lambda: data.StackDataset(range(2), range(3)), ValueError, "Size mismatch between datasets"),
    (lambda: data.StackDataset(), ValueError, "At least one dataset"),
    (lambda: data.Dataset()[0], NotImplementedError, "Subclasses of Dataset should implement __getitem__"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        action()


# -- workers --------------------------------------------------------------------------------------------
def test_workers_give_the_same_batches_in_order() -> None:
    for options in ({}, {"persistent_workers": True}, {"prefetch_factor": 1}):
        torch.manual_seed(3)
        loader = data.DataLoader(Numbers(), 4, True, num_workers=2, **options)
        found = batches(loader) + batches(loader)
        torch.manual_seed(3)
        plain = data.DataLoader(Numbers(), 4, True)
        first = batches(plain)
        # Workers that stay do not draw a seed for the second pass.
        if options.get("persistent_workers"):
            assert found[:6] == first and sorted(sum(found[6:], [])) == list(range(23))
        else:
            assert found == first + batches(plain)


def test_workers_share_a_stream_and_know_who_they_are() -> None:
    assert sorted(sum(batches(data.DataLoader(Flow(), 3, num_workers=2)), [])) == list(range(17))
    assert sorted(data.DataLoader(Flow(), None, num_workers=2, persistent_workers=True)) == list(range(17))
    assert data.get_worker_info() is None


def test_workers_have_random_streams_of_their_own() -> None:
    stream, seed = seeded()
    base = stream.seed()
    found = [batch.tolist()[0][0] for batch in data.DataLoader(Drawing(4), 1, num_workers=2)]
    streams = [Stream((base + worker) & 0xFFFFFFFF) for worker in range(2)]
    from flambeau.core import dtypes

    expected = [streams[i % 2].uniform(1, dtypes.float32)[0] for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str(seed))


def test_batches_may_come_out_of_order() -> None:
    loader = data.DataLoader(Numbers(), 4, num_workers=2, in_order=False)
    assert sorted(sum(batches(loader), [])) == list(range(23))


def test_failures_of_workers_reach_the_program() -> None:
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 0"):
        list(data.DataLoader(Failing(), 2, num_workers=1))
    with pytest.raises(ValueError, match="worker 0 says no"):
        list(data.DataLoader(Numbers(), 2, num_workers=1, worker_init_fn=_refuse))


def _refuse(worker: int) -> None:
    raise ValueError(f"worker {worker} says no")


def test_a_dead_worker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau.utils.data import dataloader

    monkeypatch.setattr(dataloader, "_PATIENCE", 0.2)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(data.DataLoader(Vanishing(), 2, num_workers=1))


def test_an_abandoned_pass_ends_its_workers() -> None:
    iterator = iter(data.DataLoader(Numbers(), 4, num_workers=2))
    next(iterator)
    processes = list(iterator.processes)  # type: ignore[attr-defined]
    del iterator
    assert not any(process.is_alive() for process in processes)
