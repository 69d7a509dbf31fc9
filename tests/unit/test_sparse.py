"""Sparse tensors against the dense ones that they stand for: values, gradients, errors, compiled functions, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

PLACES = torch.tensor([[0, 1, 1, 2, 0, 2], [2, 0, 2, 1, 2, 1]])


def _random(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(len(shape)).standard_normal(shape))


def _matrix(requires_grad: bool = False) -> Any:
    return torch.sparse_coo_tensor(PLACES, _random(6), (3, 4), requires_grad=requires_grad)


def _close(found: Any, wanted: Any) -> None:
    found, wanted = (t.to_dense() for t in (found, wanted))
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", [lambda a: a, lambda a: a.coalesce(), lambda a: a.to_sparse_csr()])
def test_operations_are_those_of_the_dense_matrix(form: Callable[[Any], Any]) -> None:
    a, d, left = form(_matrix()), _random(4, 5), _random(5, 3)
    dense = a.to_dense()
    assert dense[0, 2].item() == pytest.approx(sum(_random(6).tolist()[k] for k in (0, 4)))
    _close(a @ d, dense @ d)
    _close(left @ a, left @ dense)
    _close(a.t(), dense.t())
    _close(a + a, dense + dense)
    _close(torch.ones(3, 4, dtype=torch.float64) + a, dense + 1)
    _close(a * 3 - a / 2, dense * 3 - dense / 2)
    _close(torch.sparse.sum(a, 0), dense.sum(0))
    _close(torch.sparse.sum(a), dense.sum())
    softmax = torch.sparse.softmax(a, 1).to_dense()
    _close(softmax, torch.where(dense == 0, -torch.inf, dense).softmax(1))


def test_sums_with_dense_tensors_of_another_type() -> None:
    whole = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2], (2, 2))
    assert (torch.eye(2) + whole).tolist() == torch.eye(2).add_(whole).tolist() == [[1.0, 1.0], [2.0, 1.0]]
    assert (torch.eye(2, dtype=torch.int64) + whole / 2).tolist() == [[1.0, 0.5], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="cannot be stored"):
        torch.eye(2, dtype=torch.int64).add_(whole / 2)


def test_gradients_of_products() -> None:
    values, d, w = _random(6).requires_grad_(), _random(4, 5).requires_grad_(), _random(3, 5)
    (torch.sparse.mm(torch.sparse_coo_tensor(PLACES, values, (3, 4)), d) * w).sum().backward()
    _close(values.grad, (w @ d.detach().t())[PLACES[0], PLACES[1]])
    dense = torch.sparse_coo_tensor(PLACES, values.detach(), (3, 4)).to_dense()
    _close(d.grad, dense.t() @ w)
    a = _matrix(requires_grad=True)
    assert a.requires_grad and a.is_leaf and a.grad is None
    (a @ d.detach()).sum().backward()
    assert a.grad.is_sparse and a.grad.shape == a.shape
    assert torch.autograd.gradcheck(lambda v, x: torch.sparse_coo_tensor(PLACES, v, (3, 4)) @ x, (values, d))
    assert torch.autograd.gradcheck(
        lambda v: torch.sparse.log_softmax(torch.sparse_coo_tensor(PLACES, v, (3, 4)), 0).to_dense(), (values,)
    )


def test_gradients_of_tables_add_up_and_have_no_padding() -> None:
    table = torch.nn.Embedding(6, 3, sparse=True, padding_idx=1)
    dense = torch.nn.Embedding(6, 3, padding_idx=1)
    dense.weight.data = table.weight.detach().clone()
    for layer in (table, dense):
        for rows in ([[0, 1, 2]], [[2, 2, 5]]):
            (layer(torch.tensor(rows)) ** 2).sum().backward()
    assert table.weight.grad.is_sparse
    np.testing.assert_allclose(table.weight.grad.to_dense().numpy(), dense.weight.grad.numpy(), rtol=1e-6)
    table.weight.grad = None
    assert table.weight.grad is None
    with pytest.raises(RuntimeError, match="SparseAdam"):
        (table(torch.tensor([0]))).sum().backward()
        torch.optim.Adam(table.parameters()).step()


def test_optimizers_move_the_rows_that_were_looked_up() -> None:
    for make in (torch.optim.SparseAdam, torch.optim.Adagrad, torch.optim.SGD):
        table = torch.nn.Embedding(5, 2, sparse=True)
        before = table.weight.detach().clone()
        optimizer = make(table.parameters(), lr=0.1)
        table(torch.tensor([3, 3])).sum().backward()
        optimizer.step()
        assert (table.weight != before).any(1).tolist() == [False, False, False, True, False]
    plain = torch.nn.Parameter(torch.ones(2))
    plain.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="dense gradients"):
        torch.optim.SparseAdam([plain]).step()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda a: torch.cumsum(a, 0), NotImplementedError, r"torch\.cumsum is not implemented for sparse COO.*to_dense"),
        (lambda a: a.exp(), NotImplementedError, "sparse COO"),
        (lambda a: a.to_sparse_csr().exp(), NotImplementedError, "sparse CSR"),
        (lambda a: a @ a.t(), NotImplementedError, "two sparse matrices"),
        (lambda a: a.values(), RuntimeError, "uncoalesced"),
        (lambda a: a @ torch.ones(3, 2), RuntimeError, "cannot be multiplied"),
        (lambda a: a.numpy(), NotImplementedError, "not implemented|do not lie"),
        (lambda a: a.tolist(), NotImplementedError, "not implemented|do not lie"),
        (lambda a: torch.ops.exp(a), RuntimeError, "sparse or nested"),
        (lambda a: torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,)), RuntimeError, "inconsistent"),
        (lambda a: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), RuntimeError, "negative index -1"),
        (lambda a: torch.sparse_coo_tensor([[0, 1]], [1.0]), RuntimeError, "same nnz"),
        (lambda a: torch.sparse_coo_tensor([0, 1], [1.0, 2.0]), RuntimeError, "sparse_dim x nnz"),
        (lambda a: torch.sparse_csr_tensor([0, 2], [0], [1.0]), RuntimeError, "2 elements by crow_indices"),
        (lambda a: torch.ones(2).coalesce(), RuntimeError, "Strided"),
        (lambda a: torch.ones(2).to_sparse(layout=torch.jagged), NotImplementedError, "layout"),
    ],
)
def test_errors(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(torch.sparse_coo_tensor(PLACES, torch.ones(6), (3, 4)))


def test_compiled_copied_and_pickled() -> None:
    a, d = _matrix(), _random(4, 2)
    compiled = torch.compile(lambda a, d: torch.relu(a @ d) * 2)
    for _ in range(3):
        _close(compiled(a, d), torch.relu(a.to_dense() @ d) * 2)
    _close(copy.deepcopy(a), a)
    for form in (a, a.to_sparse_csr()):
        _close(pickle.loads(pickle.dumps(form)), a)
    found = torch.vmap(lambda v: torch.sparse_coo_tensor(PLACES, v, (3, 4)) @ d)(torch.stack([a._values(), a._values() * 2]))
    _close(found[1], 2 * (a @ d))


def test_large_products_against_dense_ones() -> None:
    random = np.random.default_rng(0)
    places = torch.tensor(random.integers(0, 500, (2, 20000)))
    a = torch.sparse_coo_tensor(places, torch.tensor(random.standard_normal(20000)), (500, 500))
    d = torch.tensor(random.standard_normal((500, 16)))
    np.testing.assert_allclose((a @ d).numpy(), (a.to_dense() @ d).numpy(), rtol=1e-9, atol=1e-9)
    _close(a.coalesce(), a)
    assert a.coalesce()._nnz() == len(np.unique(places[0].numpy() * 500 + places[1].numpy()))


def test_old_names_of_products_do_not_lead_to_themselves() -> None:
    a = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    for name in ("spmm", "smm"):
        assert getattr(torch, name)(a, torch.ones(3, 2)).tolist() == [[3.0, 3.0], [4.0, 4.0]]
    assert torch.sparse.mm(a, torch.ones(3, 2)).tolist() == [[3.0, 3.0], [4.0, 4.0]]
