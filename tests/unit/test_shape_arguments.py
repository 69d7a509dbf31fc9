"""Functions of shapes with unusual arguments: against numpy where it has the function, by their rules elsewhere, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

ARRAY = np.arange(24.0).reshape(2, 3, 4)
X = torch.tensor(ARRAY)
ones = torch.ones
NUMPY: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "flip": (lambda: torch.flip(X, (0, -1)), lambda: np.flip(ARRAY, (0, -1))), "flip none": (lambda: torch.flip(X, ()), lambda: ARRAY),
    "fliplr": (lambda: torch.fliplr(X), lambda: np.fliplr(ARRAY)), "flipud": (lambda: torch.flipud(X), lambda: np.flipud(ARRAY)),
    "roll": (lambda: torch.roll(X, 5), lambda: np.roll(ARRAY, 5)), "roll dims": (lambda: X.roll((1, -2),
    (0, 2)), lambda: np.roll(ARRAY, (1, -2), (0, 2))),
    "rot90": (lambda: torch.rot90(X, -1, (1, 2)), lambda: np.rot90(ARRAY, -1, (1, 2))),
    "rot90 five": (lambda: X.rot90(5), lambda: np.rot90(ARRAY, 5)),
    "tile": (lambda: torch.tile(X, (2, 1)), lambda: np.tile(ARRAY, (2, 1))),
    "repeat": (lambda: X.repeat(2, 1, 2), lambda: np.tile(ARRAY, (2, 1, 2))),
    "movedim": (lambda: torch.movedim(X, (0, 1), (1, 0)), lambda: np.moveaxis(ARRAY, (0, 1), (1, 0))),
    "swapaxes": (lambda: torch.swapaxes(X, 0, 2), lambda: np.swapaxes(ARRAY, 0, 2)),
    "ravel": (lambda: torch.ravel(X), lambda: ARRAY.ravel()),
    "squeeze": (lambda: X[:1].squeeze((0, 1)), lambda: ARRAY[0]),
    "expand": (lambda: X[:, :1].expand(-1, 3, -1), lambda: np.repeat(ARRAY[:, :1], 3, 1)),
    "broadcast_to": (lambda: torch.broadcast_to(X[0], (5, 3, 4)), lambda: np.broadcast_to(ARRAY[0], (5, 3, 4))),
    "atleast": (lambda: torch.atleast_3d(X[0]), lambda: np.atleast_3d(ARRAY[0])),
    "tril": (lambda: torch.tril(X, 1), lambda: np.tril(ARRAY, 1)),
    "triu": (lambda: X.triu(-1), lambda: np.triu(ARRAY, -1)), "trace": (lambda: torch.trace(X[0]), lambda: np.trace(ARRAY[0])),
    "diagonal": (lambda: torch.diagonal(X, 1, 0, 2), lambda: np.diagonal(ARRAY, 1, 0, 2)),
    "diagflat": (lambda: torch.diagflat(X[0], 1), lambda: np.diagflat(ARRAY[0], 1)),
    "vstack": (lambda: torch.vstack((X[0, 0], X[0])), lambda: np.vstack((ARRAY[0, 0], ARRAY[0]))),
    "hstack": (lambda: torch.hstack((X, X)), lambda: np.hstack((ARRAY, ARRAY))),
    "dstack": (lambda: torch.dstack((X[0], X[0])), lambda: np.dstack((ARRAY[0], ARRAY[0]))),
    "column_stack": (lambda: torch.column_stack((X[0, 0], X[0, 0])), lambda: np.column_stack((ARRAY[0, 0], ARRAY[0, 0]))),
    "repeat_interleave": (lambda: torch.repeat_interleave(X, 2, 1), lambda: np.repeat(ARRAY, 2, 1)),
    "repeat_interleave all": (lambda: X.repeat_interleave(2), lambda: np.repeat(ARRAY, 2)),
    "repeat_interleave counts": (lambda: torch.repeat_interleave(X, torch.tensor([1, 0, 2]), 1, output_size=3), lambda: np.repeat(ARRAY,
        [1, 0, 2], 1)),
    "repeat_interleave one count": (lambda: torch.repeat_interleave(X, torch.tensor([2]), 0), lambda: np.repeat(ARRAY, 2, 0)),
    "narrow": (lambda: torch.narrow(X, 2, torch.tensor(1), 2), lambda: ARRAY[:, :, 1:3]),
    "select": (lambda: torch.select(X, 1, -1), lambda: ARRAY[:, -1]),
    "kron": (lambda: torch.kron(X[0], X[1]), lambda: np.kron(ARRAY[0], ARRAY[1])),
    "diff": (lambda: torch.diff(X, 2, 1), lambda: np.diff(ARRAY, 2, 1)),
    "msort": (lambda: torch.msort(-X), lambda: np.sort(-ARRAY, 0)),
    "argsort": (lambda: torch.argsort(-X, 1), lambda: np.argsort(-ARRAY, 1, kind="stable")),
    "histc": (lambda: torch.histc(X, 4, 0, 24), lambda: np.histogram(ARRAY, 4, (0, 24))[0]),
    "unravel": (lambda: torch.stack(torch.unravel_index(torch.tensor([5, 17]),
    (2, 3, 4))), lambda: np.stack(np.unravel_index([5, 17], (2, 3, 4)))),
    "isin": (lambda: torch.isin(X, torch.tensor([3.0, 7.0])), lambda: np.isin(ARRAY, [3, 7])),
    "argwhere": (lambda: torch.argwhere(X > 20), lambda: np.argwhere(ARRAY > 20)),
    "frobenius": (lambda: torch.frobenius_norm(X, (1, 2)), lambda: np.linalg.norm(ARRAY, axis=(1, 2))),
    "nuclear": (lambda: torch.nuclear_norm(X[0]), lambda: np.linalg.norm(ARRAY[0], "nuc")),
    "nuclear kept": (lambda: torch.nuclear_norm(X, (1, 2), True), lambda: np.linalg.norm(ARRAY, "nuc", (1, 2), True)),
    "vander": (lambda: torch.vander(X[0, 0], 3), lambda: np.vander(ARRAY[0, 0], 3)),
    "vdot": (lambda: torch.vdot(X[0, 0], X[0, 1]), lambda: np.vdot(ARRAY[0, 0], ARRAY[0, 1])),
    "matrix_power": (lambda: torch.matrix_power(X[:, :, :3] / 9, 3), lambda: np.linalg.matrix_power(ARRAY[:, :, :3] / 9, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_as_numpy_does(name: str) -> None:
    ours, theirs = (make() for make in NUMPY[name])
    assert tuple(ours.shape) == np.shape(theirs)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9)


PARTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "split": (lambda: torch.split(X, 3, 2), lambda: np.split(ARRAY, [3], 2)),
    "sizes": (lambda: X.split([1, 3], -1), lambda: np.split(ARRAY, [1], 2)),
    "unsafe": (lambda: torch.unsafe_split(X, 2, 2), lambda: np.split(ARRAY, 2, 2)),
    "with sizes": (lambda: torch.split_with_sizes(X, (1, 2), 1), lambda: np.split(ARRAY, [1], 1)),
    "chunk": (lambda: torch.chunk(X, 2, 1), lambda: np.split(ARRAY, [2], 1)),
    "tensor_split": (lambda: torch.tensor_split(X, 3, 2), lambda: np.array_split(ARRAY, 3, 2)),
    "places": (lambda: torch.tensor_split(X, torch.tensor([1, 3]), 2), lambda: np.split(ARRAY, [1, 3], 2)),
    "hsplit": (lambda: torch.hsplit(X, 3), lambda: np.hsplit(ARRAY, 3)),
    "hsplit vector": (lambda: torch.hsplit(X[0, 0], [1]), lambda: np.hsplit(ARRAY[0, 0], [1])),
    "vsplit": (lambda: torch.vsplit(X, 2), lambda: np.vsplit(ARRAY, 2)),
    "dsplit": (lambda: torch.dsplit(X, (1, 2)), lambda: np.dsplit(ARRAY, (1, 2))),
    "unbind": (lambda: torch.unbind(X, 1), lambda: list(np.moveaxis(ARRAY, 1, 0))),
    "meshgrid": (lambda: torch.meshgrid(X[0, 0], X[0, :, 0]), lambda: np.meshgrid(ARRAY[0, 0], ARRAY[0, :, 0], indexing="ij")),
    "meshgrid xy": (lambda: torch.meshgrid([X[0, 0], X[0, :, 0]], indexing="xy"), lambda: np.meshgrid(ARRAY[0, 0], ARRAY[0, :, 0])),
    "broadcast": (lambda: torch.broadcast_tensors(X[:, :1], X[0]), lambda: np.broadcast_arrays(ARRAY[:, :1], ARRAY[0])),
    "aminmax": (lambda: torch.aminmax(X, dim=1), lambda: [ARRAY.min(1), ARRAY.max(1)]),
    "var_mean": (lambda: torch.var_mean(X, 1), lambda: [ARRAY.var(1, ddof=1), ARRAY.mean(1)]),
    "std_mean": (lambda: torch.std_mean(X, (0, 1), correction=0), lambda: [ARRAY.std((0, 1)), ARRAY.mean((0, 1))]),
    "unique": (lambda: torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True),
        lambda: np.unique([3, 1, 3], return_inverse=True, return_counts=True)),
    "nonzero": (lambda: torch.nonzero(X > 20, as_tuple=True), lambda: np.nonzero(ARRAY > 20)),
    "atleast": (lambda: torch.atleast_2d(X[0, 0], torch.tensor(1.0)), lambda: [ARRAY[0, :1], np.ones((1, 1))]),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_as_numpys(name: str) -> None:
    ours, theirs = (make() for make in PARTS[name])
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.numpy(), other)


def test_combinations_and_products() -> None:
    assert torch.combinations(torch.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(torch.tensor([1, 2]), 2, True).tolist() == [[1, 1], [1, 2], [2, 2]]
    assert torch.combinations(ones(2), 3).shape == (0, 3)
    assert torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4])).tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]
    assert torch.cartesian_prod(torch.tensor([1, 2])).tolist() == [1, 2] and torch.block_diag().shape == (1, 0)
    assert torch.block_diag(ones(2, 1), torch.tensor(3.0), ones(2)).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 3, 0, 0], [0, 0, 1, 1]]
    assert torch.repeat_interleave(torch.tensor([2, 0, 1])).tolist() == [0, 0, 2] and torch.broadcast_shapes((2, 1), 3, (1, 3)) == (2, 3)
    assert torch.unique_consecutive(torch.tensor([1, 1, 2, 1]), return_counts=True)[1].tolist() == [2, 1, 1]
    x = ones(3, 3)
    assert torch.select_scatter(x, torch.zeros(3), 0, 1).sum().item() == 6 and x.slice_scatter(torch.zeros(3, 1), 1, 0, 1).sum().item() == 6
    assert torch.diagonal_scatter(x, torch.zeros(3)).sum().item() == 6 and x.sum().item() == 9
    assert torch.adjoint(torch.tensor([[1j, 2.0]])).tolist() == [[-1j], [2]] and torch.tensor(1j).adjoint().item() == -1j


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_segments(reduce: str) -> None:
    data, lengths = RNG_DATA, torch.tensor([2, 0, 4])
    plain = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}[reduce]
    found = torch.segment_reduce(torch.tensor(data), reduce, lengths=lengths)
    for k, part in enumerate((data[:2], data[2:])):
        np.testing.assert_allclose(found[2 * k].numpy(), plain(part, 0))
    assert np.isnan(found[1, 0].item()) or found[1, 0].item() == {"sum": 0, "max": -np.inf, "min": np.inf, "prod": 1}[reduce]
    by_offsets = torch.segment_reduce(torch.tensor(data), reduce, offsets=torch.tensor([0, 2, 2, 6]))
    np.testing.assert_array_equal(by_offsets.numpy(), found.numpy())
    started = torch.segment_reduce(torch.tensor(data), "sum", lengths=lengths, initial=1.0)
    np.testing.assert_allclose(started.numpy(), np.stack([data[:2].sum(0) + 1, np.ones(2), data[2:].sum(0) + 1]))


RNG_DATA = np.random.default_rng(3).standard_normal((6, 2))


def test_hashes_are_folded_bits() -> None:
    whole = torch.arange(6).view(2, 3)
    assert torch.hash_tensor(whole, 1).tolist() == [0 ^ 1 ^ 2, 3 ^ 4 ^ 5]
    assert torch.hash_tensor(whole, (0,), keepdim=True).tolist() == [[3, 5, 7]]
    bits = np.arange(5.0).view(np.uint64)
    assert torch.hash_tensor(torch.arange(5.0)).item() == int(np.bitwise_xor.reduce(bits))
    assert torch.hash_tensor(whole).dtype is torch.uint64
    with pytest.raises(RuntimeError, match="mode"):
        torch.hash_tensor(whole, mode=1)
    with pytest.raises(RuntimeError, match="dim"):
        torch.hash_tensor(torch.ones(0))


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: torch.split(torch.tensor(1), 1), RuntimeError, "1-dimensional"),
    (lambda: torch.tensor_split(torch.tensor(1), 2), RuntimeError, "1-dimensional"),
    (lambda: torch.split(ones(4), -1), RuntimeError, "positive"), (lambda: torch.split(ones(4), [1, 1]), RuntimeError, "sum"),
    (lambda: torch.chunk(ones(4), 0), RuntimeError, "chunk"),
    (lambda: torch.hsplit(ones(4), 3), RuntimeError, "divisible|split"), (lambda: torch.vsplit(ones(4), 2), RuntimeError, "at least 2"),
    (lambda: torch.dsplit(ones(4, 4), 2), RuntimeError, "at least 3"),
    (lambda: torch.hsplit(torch.tensor(1), 1), RuntimeError, "at least"), (lambda: torch.squeeze(ones(1, 2), (0, 0)), RuntimeError,
    "multiple times"),
    (lambda: torch.block_diag(ones(1, 1, 1)), RuntimeError, "2 or fewer"), (lambda: torch.meshgrid(), RuntimeError, "non-empty"),
    (lambda: torch.meshgrid(ones(2), torch.arange(2)), RuntimeError, "one dtype"),
    (lambda: torch.meshgrid(ones(2, 2)), RuntimeError, "0-D or 1-D"), (lambda: torch.combinations(ones(2), -1), RuntimeError,
    "non-negative"), (lambda: torch.combinations(ones(2, 2)), RuntimeError, "1D"),
    (lambda: torch.adjoint(ones(2)), RuntimeError, "1-D tensor"), (lambda: torch.broadcast_shapes((-1,)), ValueError, "0 or more"),
    (lambda: torch.broadcast_shapes((2,), (3,)), RuntimeError, "broadcast|match"),
    (lambda: torch.fliplr(ones(2)), RuntimeError, "2-d"), (lambda: torch.flipud(torch.tensor(1)), RuntimeError, "1-d"),
    (lambda: torch.roll(ones(2), ()), RuntimeError, "shifts"), (lambda: torch.rot90(ones(2)), RuntimeError, "dims"),
    (lambda: torch.repeat_interleave(ones(2), -1), RuntimeError, "negative"),
    (lambda: torch.repeat_interleave(ones(2), torch.tensor([1, 2, 3])), RuntimeError, "repeats"),
    (lambda: torch.trace(ones(2)), RuntimeError, "matrix"),
    (lambda: torch.narrow(torch.tensor(1), 0, 0, 1), RuntimeError, "0-dim"),
    (lambda: torch.narrow(ones(3), 0, torch.tensor([1]), 1), RuntimeError, "0-dim"), (lambda: torch.diff(torch.tensor(1)), RuntimeError,
    "one-dim"),
    (lambda: torch.diff(ones(3), -1), RuntimeError, "non-negative"), (lambda: torch.frobenius_norm(ones(2, 2, 2),
    (0, 1, 2)), RuntimeError, "at most 2"), (lambda: torch.nuclear_norm(ones(2)), RuntimeError, "2 dim"),
    (lambda: torch.numel(3), TypeError, "must be Tensor"), (lambda: torch.is_complex(3), TypeError, "must be Tensor"),
    (lambda: torch.promote_types(torch.uint8, 3), TypeError, "torch.dtype"),
    (lambda: torch.segment_reduce(ones(2), "median", lengths=torch.tensor([2])), RuntimeError, "reduce"),
    (lambda: torch.segment_reduce(ones(2), "sum"), RuntimeError, "lengths or offsets"),
    (lambda: torch.segment_reduce(ones(2), "sum", lengths=torch.tensor([3])), RuntimeError, "lengths"),
    (lambda: torch.aminmax(ones(2), out=(torch.ones(1).int(), torch.ones(1))), RuntimeError, "dtype"),
    (lambda: torch.var_mean(ones(2), wrong=1), TypeError, "unexpected keyword"),
    (lambda: torch.matrix_power(ones(2, 3), 2), RuntimeError, "square"), (lambda: torch.is_nonzero(ones(2)), RuntimeError, "ambiguous"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number: int) -> None:
    call, error, message = ERRORS[number]
    with pytest.raises(error, match=message):
        call()
