"""Native entries of compiled graphs: what they compute, and that they decline whatever is not as it was."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import ops
from flambeau.core.aval import Aval
from flambeau.core.context import context
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph, graph_input
from flambeau.runtime.native import library
from flambeau.tensor.dispatch import CallPlan, make_plan
from flambeau.tensor.native_graph import graph_entry

pytestmark = pytest.mark.skipif(library.load() is None, reason="native code is off")


def make(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng().standard_normal(shape).astype("f4"))


def plan_of(x: Any, y: Any, wanted: tuple[bool, ...] = (), into: tuple[int | None, ...] = ()) -> CallPlan:
    """relu(x * y + y), and the sum of that."""
    a, b = (graph_input(f"x{i}", Aval(tuple(t.shape), torch.float32)) for i, t in enumerate((x, y)))
    first = ops.relu(ops.add(ops.mul(a, b), b))
    function = GraphFunction("example", Graph((a, b), (first, ops.sum(first))), 2)
    return make_plan(function, None, (x.meta, y.meta), {}, [None, None], [(None, None)] * 2, wanted, into)


def entry_for(x: Any, y: Any, **options: Any) -> Any:
    arguments = [(t.meta, t.requires_grad) for t in (x, y)]
    wanted = tuple(t.requires_grad for t in (x, y))
    plan = plan_of(x, y, wanted if any(wanted) else ())
    return graph_entry(plan, arguments, [("argument", 0), ("argument", 1)], **{"mode": 0, "storages": 2, **options})


def check(found: Any, x: Any, y: Any) -> None:
    a, b = x.detach().array().astype("f8"), y.detach().array().astype("f8")
    expected = np.maximum(a * b + b, 0)
    np.testing.assert_allclose(found[0].detach().array(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1].detach().array(), expected.sum(), rtol=1e-5)


def test_results_are_a_tuple_of_new_tensors():
    x, y = make(5, 7), make(5, 7)
    run = entry_for(x, y)
    for _ in range(3):
        found = run([x, y])
        assert type(found) is tuple and [type(t) for t in found] == [torch.Tensor] * 2
        check(found, x, y)
    other = make(5, 7)
    check(run((other, y)), other, y)
    assert len(entry_for(x, y, returned=1)([x, y])) == 1


def test_what_is_not_as_it_was_is_declined():
    x, y = make(4, 4), make(4, 4)
    run = entry_for(x, y)
    check(run([x, y]), x, y)
    assert run([x]) is NotImplemented
    assert run([x, y, y]) is NotImplemented
    assert run([x, x]) is NotImplemented
    assert run([x, y[0]]) is NotImplemented
    assert run([x, y.t()]) is NotImplemented
    assert run([x, y.double()]) is NotImplemented
    assert run([x, 1.0]) is NotImplemented
    assert run(None) is NotImplemented
    assert run([x, y.clone().requires_grad_()]) is NotImplemented
    with torch.no_grad():
        assert run([x, y]) is NotImplemented
    check(run([x, y]), x, y)
    with torch.no_grad():
        mode = context.bits()
        check(entry_for(x, y, mode=mode)([x, y]), x, y)


def test_objects_in_their_places():
    x, y = make(4), make(4)
    stamps, names, value = [object()], {"a": object()}, object()

    def closure() -> Any:
        return value

    cell = closure.__closure__[0]
    checks = [("item", stamps, 0, stamps[0]), ("value", names, "a", names["a"]), ("cell", cell, value)]
    run = entry_for(x, y, checks=checks)
    check(run([x, y]), x, y)
    kept = stamps[0]
    stamps[0] = object()
    assert run([x, y]) is NotImplemented
    stamps.clear()
    assert run([x, y]) is NotImplemented
    stamps.append(kept)
    check(run([x, y]), x, y)
    known = names.pop("a")
    assert run([x, y]) is NotImplemented
    names["a"] = known
    check(run([x, y]), x, y)
    value = 1
    assert run([x, y]) is NotImplemented


def test_operands_that_are_held_and_gradients():
    x, y = make(4), make(4)
    leaf = make(4).requires_grad_()
    run = graph_entry(plan_of(x, y), [(x.meta, False)], [("argument", 0), ("gradient", leaf)], mode=0, storages=2)
    assert run([x]) is NotImplemented
    leaf.grad = y
    check(run([x]), x, y)
    leaf.grad = make(4)
    check(run([x]), x, leaf.grad)
    leaf._grad = make(5)
    assert run([x]) is NotImplemented
    run = graph_entry(plan_of(x, y), [], [("held", x), ("held", y)], mode=0, storages=2)
    check(run([]), x, y)


def test_the_tape():
    x, y = make(4).requires_grad_(), make(4)
    run = entry_for(x, y)
    found = run([x, y])
    assert found[0].requires_grad and found[0].grad_fn is found[1].grad_fn and found[1].output_nr == 1
    found[1].backward()
    expected = np.where(x.detach().array() * y.array() + y.array() > 0, y.array(), 0)
    np.testing.assert_allclose(x.grad.array(), expected, rtol=1e-6)
    x.requires_grad_(False)
    assert run([x, y]) is NotImplemented


def test_references_are_balanced():
    x, y = make(4), make(4)
    run = entry_for(x, y, checks=[("value", {"a": x}, "a", x)])
    run([x, y])
    watched = [x, y, x.meta, x.memory, torch.Tensor]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(500):
        run([x, y])
        run([x, x])
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True))
    count = sys.getrefcount(x.meta)
    del run
    assert sys.getrefcount(x.meta) < count


def test_numbers_are_read_at_each_call():
    x = make(6)
    a = graph_input("x0", Aval((6,), torch.float32))
    c = graph_input("c0", Aval((), torch.float64, weak=True))
    plan = make_plan(GraphFunction("scaled", Graph((a, c), (ops.mul(a, c),)), 1), None, (x.meta,), {}, [None], [(None, None)], ())
    values = [2.0]
    run = graph_entry(plan, [(x.meta, False)], [("argument", 0)], mode=0, storages=1, reads=[lambda: values[0]])
    np.testing.assert_allclose(run([x])[0].array(), x.array() * 2)
    values[0] = -0.5
    np.testing.assert_allclose(run([x])[0].array(), x.array() * -0.5)
    values.clear()
    with pytest.raises(IndexError):
        run([x])
