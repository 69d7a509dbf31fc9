"""cond, while_loop, scan, associative_scan, map, foreach_map, and trees of containers."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import flambeau as torch
from flambeau._higher_order_ops import associative_scan, foreach_map, scan, while_loop
from flambeau._higher_order_ops import map as map_slices
from flambeau._higher_order_ops.cond import cond
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
X = torch.linspace(-1, 1, 6).reshape(3, 2)


def gradient(function, *leaves):
    """The gradients of the sum of what a function gives."""
    tracked = [leaf.clone().requires_grad_() for leaf in leaves]
    sum(t.sum() for t in pytree.tree_leaves(function(*tracked))).backward()
    return [t.grad for t in tracked]


# -- cond -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pred", [True, False, torch.tensor(True), torch.tensor([0]), torch.tensor([[2.0]])])
def test_cond_runs_one_branch(pred):
    ran = []

    def branch(name):
        return lambda x, d: ran.append(name) or x * d["k"]

    found = torch.cond(pred, branch("yes"), branch("no"), (X, {"k": torch.tensor(2.0)}))
    assert ran == ["yes" if bool(pred) else "no"] and torch.equal(found, X * 2)


def test_cond_has_gradients():
    assert cond is torch.cond
    (g,) = gradient(lambda x: cond(x.sum() > 100, torch.sin, lambda t: t * t, (x,)), X)
    assert torch.equal(g, 2 * X)


def test_cond_refuses():
    with pytest.raises(RuntimeError, match="Expected pred to be bool or tensor"):
        torch.cond("yes", torch.sin, torch.cos, (X,))
    with pytest.raises(RuntimeError, match="single-element tensor"):
        torch.cond(X, torch.sin, torch.cos, (X,))
    with pytest.raises(RuntimeError, match="callable"):
        torch.cond(True, 3, torch.cos, (X,))
    with pytest.raises(RuntimeError, match="operands"):
        torch.cond(True, torch.sin, torch.cos, ("text",))


# -- while_loop -----------------------------------------------------------------------------------------
def test_while_loop():
    n, x = torch.while_loop(lambda i, x: x.sum() < 50, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(3)))
    assert n.item() == 5 and x.tolist() == [32.0] * 3
    (y,) = while_loop(lambda x, k: x < k, lambda x, k: (x + k,), (torch.tensor(1.0),), (torch.tensor(4.0),))
    assert y.item() == 5.0


def test_while_loop_without_a_turn_copies():
    x = torch.ones(2)
    (y,) = while_loop(lambda x: torch.tensor(False), lambda x: (x + 1,), (x,))
    y.add_(1)
    assert x.tolist() == [1.0, 1.0]


def test_while_loop_has_gradients():
    (g,) = gradient(lambda x: while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * t), (torch.tensor(0), x))[1], X)
    assert torch.allclose(g, 8 * X**7)


def test_while_loop_refuses():
    with pytest.raises(RuntimeError, match="another structure"):
        while_loop(lambda x: True, lambda x: (x, x), (X,))
    with pytest.raises(RuntimeError, match="tuple of tensors"):
        while_loop(lambda x: True, lambda x: x, X)
    with pytest.raises(RuntimeError, match="callable"):
        while_loop(1, lambda x: x, (X,))
    with pytest.raises(RuntimeError, match="result of cond_fn"):
        while_loop(lambda x: x, lambda x: (x,), (X,))


# -- scan -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_loop(dim, reverse):
    places = list(range(X.shape[dim]))
    carry, ys = torch.zeros(()), {}
    for i in reversed(places) if reverse else places:
        x = X.select(dim, i)
        carry, ys[i] = carry + x.sum(), carry * x
    last, stacked = scan(lambda c, x: (c + x.sum(), c * x), torch.zeros(()), X, dim=dim, reverse=reverse)
    assert torch.equal(last, carry) and torch.equal(stacked, torch.stack([ys[i] for i in places]))


def test_scan_of_containers_and_its_gradients():
    def step(carry, x):
        h = torch.tanh(carry["h"] + x["a"] * x["b"])
        return {"h": h}, (h, x["a"].clone())

    last, (hs, copies) = scan(step, {"h": torch.zeros(2)}, {"a": X, "b": X + 1})
    assert torch.equal(hs[-1], last["h"]) and torch.equal(copies, X)
    (g,) = gradient(lambda x: scan(lambda c, v: (c * v, c + v), torch.ones(2), x), X)
    rows = [r.detach().requires_grad_() for r in X]
    total, carry = 0, torch.ones(2)
    for row in rows:
        total, carry = total + (carry + row).sum(), carry * row
    (total + carry.sum()).backward()
    assert torch.allclose(g, torch.stack([r.grad for r in rows]))


def test_scan_refuses():
    with pytest.raises(RuntimeError, match="callable"):
        scan(1, X, X)
    with pytest.raises(RuntimeError, match="dimension 2"):
        scan(lambda c, x: (c, x), X, X, dim=2)
    with pytest.raises(RuntimeError, match="not empty"):
        scan(lambda c, x: (c, x), X, torch.ones(0, 2))
    with pytest.raises(RuntimeError, match="different sizes"):
        scan(lambda c, x: (c, x[0]), X, [X, torch.ones(2, 2)])
    with pytest.raises(RuntimeError, match="another structure"):
        scan(lambda c, x: ((c, c), x), torch.ones(2), X)
    with pytest.raises(RuntimeError, match="a carry and an output"):
        scan(lambda c, x: c, torch.ones(2), X)
    with pytest.raises(RuntimeError, match="must be tensors"):
        scan(lambda c, x: (c, x), X, 3)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(dim, reverse):
    found = associative_scan(torch.add, X, dim, reverse=reverse, combine_mode="generic")
    want = X.flip(dim).cumsum(dim).flip(dim) if reverse else X.cumsum(dim)
    assert torch.allclose(found, want)
    with pytest.raises(RuntimeError, match="Combine_mode"):
        associative_scan(torch.add, X, 0, combine_mode="other")


def test_map_of_slices():
    assert torch.equal(map_slices(lambda x, k: x.sum() * k, X, 3), X.sum(1) * 3)
    a, b = map_slices(lambda d: (d["x"] + d["y"], d["x"].sum()), {"x": X, "y": X})
    assert torch.equal(a, X + X) and torch.equal(b, X.sum(1))
    assert torch.equal(gradient(lambda x: map_slices(torch.square, x), X)[0], 2 * X)


# -- foreach_map ----------------------------------------------------------------------------------------
def test_foreach_map():
    xs, ys = [torch.ones(2), X], [torch.zeros(2), X * 2]
    found = foreach_map(lambda a, b, k, c: a * k + b - c, xs, ys, 3.0, c=torch.tensor(1.0))
    assert all(torch.equal(f, a * 3 + b - 1) for f, a, b in zip(found, xs, ys, strict=True))
    assert [g.tolist() for g in gradient(lambda a, b: foreach_map(torch.mul, [a, b], [b, a]), torch.ones(1), torch.full((1,), 3.0))] == [
        [6.0],
        [2.0],
    ]
    with pytest.raises(RuntimeError, match="lists of one length"):
        foreach_map(torch.add, [X], [X, X])
    with pytest.raises(RuntimeError, match="lists of one length"):
        foreach_map(torch.neg, X)


# -- trees ----------------------------------------------------------------------------------------------
TREES = [
    1, None, [], (), [1, (2, 3)], {"b": 1, "a": [2]}, Point(1, [2]), OrderedDict(z=1, a=2), deque([1, 2], 3), {"k": (Point(1, 2), {})},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_trees_are_put_together_again(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = spec.unflatten(leaves)
    assert again == tree and type(again) is type(tree) and spec.num_leaves == len(leaves)
    assert pytree.tree_unflatten(leaves, pytree.tree_structure(tree)) == tree and list(pytree.tree_iter(tree)) == leaves


def test_a_defaultdict_keeps_what_it_makes():
    again = pytree.tree_map(lambda v: v + 1, defaultdict(list, a=1))
    assert again == {"a": 2} and again["new"] == []


def test_maps_of_trees():
    assert pytree.tree_map(lambda a, b: a + b, (1, [2]), (10, [20])) == (11, [22])
    with pytest.raises(ValueError, match="different structures"):
        pytree.tree_map(lambda a, b: a, (1, [2]), (1, (2,)))
    assert pytree.tree_map_only(int, lambda v: -v, [1, "a", (2.0,)]) == [-1, "a", (2.0,)]
    assert pytree.tree_map_only(lambda v: v == "a", str.upper, [1, "a"]) == [1, "A"]
    assert pytree.tree_map(sum, [[1, 2], [3]], is_leaf=lambda v: isinstance(v, list) and isinstance(v[0], int)) == [3, 3]
    seen: list = []
    assert pytree.tree_map_(seen.append, (1, 2)) == (1, 2) and seen == [1, 2]
    assert pytree.tree_map_only_(str, seen.append, ["x"]) == ["x"] and seen[-1] == "x"
    assert pytree.tree_all(bool, [1, [2]]) and not pytree.tree_any(bool, [0, ()]) and pytree.tree_all_only(int, bool, ["", 1])
    assert pytree.tree_any_only(str, bool, [1, "x"]) and not pytree.tree_any_only(str, bool, [1, ""])
    with pytest.raises(ValueError, match="leaves"):
        pytree.tree_unflatten([1], pytree.tree_structure((1, 2)))


def test_own_nodes():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_pytree_node(Box, lambda b: ([b.value], None), lambda parts, _: Box(*parts), serialized_type_name="Box")
    assert pytree.tree_map(lambda v: v * 2, [Box(3)])[0].value == 6
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, lambda b: ([], None), lambda parts, _: Box(1))
    assert pytree.LeafSpec().is_leaf() and not pytree.tree_structure([1]).is_leaf()
