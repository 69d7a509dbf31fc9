"""Programs with sparse and nested tensors, for any module that is like torch: ``program(torch, make)``, as in `func_programs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Maker = Callable[..., Any]
PROGRAMS: dict[str, Callable[[Any, Maker], Any]] = {}


def program(function: Callable[[Any, Maker], Any]) -> Callable[[Any, Maker], Any]:
    PROGRAMS[function.__name__] = function
    return function


def _places(torch: Any) -> Any:
    return torch.tensor([[0, 1, 1, 2, 0, 2], [2, 0, 2, 1, 2, 1]])


@program
def sparse_matrices(torch: Any, make: Maker) -> Any:
    sparse, d, w = torch.sparse, make(4, 5), make(3, 5)
    a = torch.sparse_coo_tensor(_places(torch), make(6), (3, 4))
    whole = a.coalesce()
    c = whole.to_sparse_csr()
    h = torch.sparse_coo_tensor(torch.tensor([[0, 2, 0]]), make(3, 2), (4, 2))
    texts = [str(t) for t in (a, whole, c, h, whole.to(torch.float64))]
    return (
        texts, [a, whole, whole.indices(), whole.values(), a.t(), a.transpose(0, 1), a.detach(), a.clone()],
        [sparse.mm(a, d), a @ d, a.mm(d), torch.mm(a, d), torch.matmul(a, d), a @ d[:, 0], torch.spmm(a, d), a.mv(d[:, 0])],
        [sparse.addmm(w, a, d, beta=0.5, alpha=2.0), torch.addmm(w, a, d), w @ d.t() @ a.t().coalesce().to_dense()],
        [a + a, make(3, 4) + a, a * 2, a / 2, -a, a - whole * 0.5, whole * whole, a.to(torch.float64), a.double()],
        [sparse.sum(a), sparse.sum(a, 0), sparse.sum(a, 1), a.sum(), sparse.sum(a, (0, 1)), sparse.sum(h, 1), h.coalesce(), h + h],
        [sparse.softmax(a, 1), sparse.softmax(a, 0), sparse.log_softmax(a, 1)],
        [c, c.crow_indices(), c.col_indices(), c.values(), c @ d, sparse.mm(c, d), c * 2, c.to_sparse(), c.to_sparse_coo()],
        [whole.abs(), whole.sin(), whole.sqrt().abs().to_dense().nan_to_num(), whole.tanh(), whole.square(), whole * make(3, 4)],
        [a.is_sparse, c.is_sparse, c.is_sparse_csr, a.is_coalesced(), whole.is_coalesced(), a._nnz(), a.sparse_dim(), h.dense_dim()],
        [tuple(a.shape), a.dim(), a.size(1), str(a.layout), str(c.layout), str(a.dtype), a.requires_grad, whole.numel()],
    )  # fmt: skip


@program
def sparse_from_dense(torch: Any, make: Maker) -> Any:
    x = make(3, 4)
    x[x < 0] = 0
    s = x.to_sparse()
    return s, s.values(), s.indices(), x.to_sparse_csr(), x.to_sparse(1), x.to_sparse(layout=torch.sparse_csr), make(3, 4).sparse_mask(s)


@program
def sparse_gradients(torch: Any, make: Maker) -> Any:
    places, w = _places(torch), make(3, 5)
    v, d = make(6).requires_grad_(), make(4, 5).requires_grad_()
    (torch.sparse.mm(torch.sparse_coo_tensor(places, v, (3, 4)), d) * w).sum().backward()
    u = make(6).requires_grad_()
    (torch.sparse.softmax(torch.sparse_coo_tensor(places, u, (3, 4)).coalesce(), 1).to_dense() * make(3, 4)).sum().backward()
    leaf = torch.sparse_coo_tensor(places, make(6), (3, 4)).coalesce().detach().requires_grad_()
    (torch.sparse.mm(leaf, make(4, 5)) ** 2).sum().backward()
    x = make(3, 4).requires_grad_()
    (x.to_sparse() @ make(4, 2)).sum().backward()
    y = make(6).requires_grad_()
    torch.sparse_coo_tensor(places, y, (3, 4)).to_dense().pow(2).sum().backward()
    return v.grad, d.grad, u.grad, leaf.grad, x.grad, y.grad, leaf.requires_grad, leaf.is_leaf


@program
def graph_convolutions(torch: Any, make: Maker) -> Any:
    """Two layers over a normalized adjacency matrix, trained for some steps."""
    edges = torch.tensor([[0, 1, 1, 2, 3, 3, 4], [1, 0, 2, 1, 4, 0, 3]])
    edges = torch.cat([edges, torch.arange(5).repeat(2, 1)], 1)
    degree = torch.sparse.sum(torch.sparse_coo_tensor(edges, torch.ones(12), (5, 5)), 1).to_dense()
    weights = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    adjacency = torch.sparse_coo_tensor(edges, weights, (5, 5)).coalesce()
    layers = [torch.nn.Linear(3, 8), torch.nn.Linear(8, 2)]
    for layer in layers:
        layer.weight.data, layer.bias.data = make(*layer.weight.shape), make(*layer.bias.shape)
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
    x, y, losses = make(5, 3), torch.tensor([0, 1, 1, 0, 1]), []
    for matrix in (adjacency, adjacency.to_sparse_csr()) * 2:
        optimizer.zero_grad()
        out = matrix @ layers[1](torch.relu(torch.sparse.mm(matrix, layers[0](x))))
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [layer.weight.detach() for layer in layers]


@program
def sparse_tables(torch: Any, make: Maker) -> Any:
    found = []
    for kind, options in (("SGD", {}), ("SparseAdam", {}), ("Adagrad", {"lr_decay": 0.1}), ("SGD", {"momentum": 0.9})):
        table = torch.nn.Embedding(6, 3, sparse=True, padding_idx=2)
        table.weight.data = make(6, 3)
        optimizer = getattr(torch.optim, kind)(list(table.parameters()), lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (table(torch.tensor([[0, 1, 2], [1, 1, 5]])) ** 2).sum() + table(torch.tensor([3])).sum()
            loss.backward()
            assert table.weight.grad.is_sparse
            found.append(table.weight.grad)
            optimizer.step()
        found.append(table.weight.detach())
    bags = torch.nn.EmbeddingBag(6, 3, mode="mean", sparse=True)
    bags.weight.data = make(6, 3)
    (bags(torch.tensor([[0, 1], [1, 5]])) ** 2).sum().backward()
    return found, bags.weight.grad


@program
def nested_tensors(torch: Any, make: Maker) -> Any:
    nested, functional = torch.nested, torch.nn.functional
    nt = nested.nested_tensor([make(2, 4), make(5, 4), make(1, 4)], layout=torch.jagged)
    w, b = make(6, 4), make(6)
    return (
        [nt, nt.offsets(), nt.unbind(), nt[1], nt.to_padded_tensor(0.0), nested.to_padded_tensor(nt, -1.0), nt.clone(), nt.detach()],
        [nt.sum(1), nt.sum(1, keepdim=True), nt.mean(1), nt.sum(), nt.mean(), nt.sum(-1), nt.mean(-1, keepdim=True), nt.amax(1)],
        [nt * 2, 2 * nt, nt + nt, nt - 1, 1 - nt, nt / 2, nt.exp(), torch.sin(nt), -nt, nt**2],
        [nt + make(4), nt * make(3, 1, 4), nt * make(1, 1, 4)],
        [nt.relu(), functional.gelu(nt), functional.silu(nt), nt.clamp(min=0.0), nt.sigmoid(), torch.tanh(nt), functional.relu(nt)],
        [torch.softmax(nt, -1), functional.softmax(nt, 1), nt.softmax(1), functional.log_softmax(nt, -1), functional.layer_norm(nt, (4,))],
        [functional.linear(nt, w, b), nt @ make(4, 3), torch.matmul(nt, make(4, 3)), torch.zeros_like(nt), torch.ones_like(nt)],
        [nt.chunk(2, dim=-1), torch.cat([nt, nt], -1), nt.unsqueeze(-1), nt.unflatten(-1, [2, 2]), nt.view(3, -1, 2, 2)],
        [nt.to(torch.float64)],
        [nt.dim(), nt.numel(), str(nt.layout), nt.is_nested, nt.size(0), len(nt), nt.is_contiguous(), str(nt.dtype)],
    )  # fmt: skip


@program
def nested_attention(torch: Any, make: Maker) -> Any:
    nt = torch.nested.nested_tensor([make(2, 4), make(5, 4), make(1, 4)], layout=torch.jagged)
    q, k, v = (x.unflatten(-1, [2, 2]).transpose(1, 2) for x in (nt, nt * 2, nt + 1))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return out.transpose(1, 2).flatten(-2)


@program
def nested_gradients(torch: Any, make: Maker) -> Any:
    nested, functional = torch.nested, torch.nn.functional
    parts, w = [make(2, 4).requires_grad_(), make(3, 4).requires_grad_()], make(4, 4).requires_grad_()
    nt = nested.as_nested_tensor(parts, layout=torch.jagged)
    (functional.softmax((nt @ w).relu() + nt, -1).values() * make(5, 4)).sum().backward()
    v, bounds = make(5, 4).requires_grad_(), torch.tensor([0, 2, 5])
    product = nested.nested_tensor_from_jagged(v, bounds) * nested.nested_tensor_from_jagged(v * 2, bounds)
    (product.values() ** 2).sum().backward()
    linear, norm = torch.nn.Linear(4, 2), torch.nn.LayerNorm(2)
    linear.weight.data, linear.bias.data = make(2, 4), make(2)
    out = torch.nn.Sequential(linear, torch.nn.ReLU(), norm, torch.nn.Dropout(0.0))(nt.detach())
    (out.values() * make(5, 2)).sum().backward()
    table = torch.nn.Embedding(5, 3)
    table.weight.data = make(5, 3)
    ids = nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([0, 4, 3])], layout=torch.jagged)
    return [p.grad for p in parts], w.grad, v.grad, out, linear.weight.grad, table(ids)
