"""torch.autograd.graph: hooks of what is kept for backward and of several gradients, edges, and changes by other means."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd import graph


def cube(x: Any) -> Any:
    return (x * x * x).sum()


def test_kept_tensors_are_packed_and_unpacked() -> None:
    packed: list[Any] = []
    unpacked: list[int] = []

    def pack(t: Any) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    def unpack(number: int) -> Any:
        unpacked.append(number)
        return packed[number]

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(pack, unpack):
        y = cube(x)
    assert packed and not unpacked
    outside = (x * 2).exp().sum()
    count = len(packed)
    y.backward()
    assert x.grad.tolist() == [3, 12] and sorted(set(unpacked)) == sorted(unpacked) == list(range(count)) == list(range(len(packed)))
    outside.backward()
    assert len(packed) == count
    # The hooks decide what backward computes with.
    z = torch.tensor([3.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        z.exp().backward()
    assert z.grad.item() == pytest.approx(10 * torch.tensor(3.0).exp().item())


def test_the_innermost_hooks_are_asked() -> None:
    seen: list[str] = []
    x = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        assert set(seen) == {"inner"}
        x.exp()
    assert seen[-1] == "outer"
    x.exp()
    assert seen.count("outer") == 1


def test_hooks_can_be_refused() -> None:
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
        with graph.disable_saved_tensors_hooks("nor there"), pytest.raises(RuntimeError, match="nor there"):
            graph.save_on_cpu().__enter__()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        torch.ones(1, requires_grad=True).exp()
    with pytest.raises(NotImplementedError, match="inside a compiled function"):

        @torch.compile
        def compiled(x: Any) -> Any:
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return x.exp()

        compiled(torch.ones(2))


@pytest.mark.parametrize("block", [graph.save_on_cpu, lambda: graph.save_on_cpu(pin_memory=True), graph.allow_mutation_on_saved_tensors])
def test_what_is_kept_may_change(block: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with block():
        y = x * 1
        z = y.square()
        with torch.no_grad():
            y.fill_(100)
    z.sum().backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("many", [False, True])
def test_changes_by_other_means(many: bool) -> None:
    x = torch.ones(2, requires_grad=True) * 1
    y = x.square().sum()
    before = x._version
    graph.increment_version([x] if many else x)
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_edges() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0 and isinstance(edge.node, graph.Node)
    leaf = graph.get_gradient_edge(x)
    assert "AccumulateGrad" in type(leaf.node).__name__
    parts = torch.ones(4, requires_grad=True).split(2)
    assert [graph.get_gradient_edge(p).output_nr for p in parts] in ([0, 1], [0, 0])
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(torch.ones(1))
    ((node, number),) = [edge for edge in y.grad_fn.next_functions if edge[0] is not None]
    assert "AccumulateGrad" in node.name() and number == 0 and y.grad_fn.name() == "MulBackward0"


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_of_several_gradients(mode: str) -> None:
    calls: list[Any] = []
    a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
    handle = graph.register_multi_grad_hook((a, b), lambda found: calls.append(found), mode=mode)
    (2 * a + 3 * b + c).sum().backward()
    assert len(calls) == 1
    if mode == "all":
        assert [g.item() for g in calls[0]] == [2, 3]
    else:
        assert calls[0].item() in (2, 3)
    (5 * a).sum().backward()  # not all come by
    assert len(calls) == (1 if mode == "all" else 2)
    (2 * a + 3 * b).sum().backward()
    assert len(calls) == (2 if mode == "all" else 3)
    handle.remove()
    (2 * a + 3 * b).sum().backward()
    assert len(calls) == (2 if mode == "all" else 3)
    with pytest.raises(ValueError, match="Expects mode"):
        graph.register_multi_grad_hook((a,), print, mode="some")
