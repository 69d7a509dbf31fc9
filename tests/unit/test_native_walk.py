"""The native walk of the tape gives what the one in Python gives: gradients to the bit, and hooks in the same order."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.events import counters
from flambeau.runtime import allocator
from tests.native_switch import loaded, python_path

pytestmark = pytest.mark.skipif(loaded is None, reason="native code is off")


def leaves(seed: int) -> list[Any]:
    numbers = np.random.default_rng(seed)
    return [torch.tensor(numbers.standard_normal((4, 6)).astype("f4")).requires_grad_() for _ in range(4)]


GROW: list[Callable[[Any, Any], list[Any]]] = [
    lambda a, b: [a + b],
    lambda a, b: [a * b],
    lambda a, b: [torch.tanh(a)],
    lambda a, b: [torch.cat(list(a.split(2, 1))[::-1], 1)],
    lambda a, b: [part.expand(4, 6) for part in a.unbind(0)[:2]],
    lambda a, b: [a.reshape(6, 4).t().clone().reshape(4, 6)],
    lambda a, b: [(a.reshape(24) * 0.5).view(4, 6)],
    lambda a, b: [(a * 0.1).mul_(b)],
]


def grow(seed: int, log: list[Any]) -> tuple[list[Any], Any]:
    """A random graph over four leaves, with some hooks that write to ``log``: the leaves, and a loss."""
    choose = random.Random(seed)
    inputs = leaves(seed)
    known: list[Any] = list(inputs)
    for number in range(choose.randrange(3, 25)):
        a, b = choose.choice(known), choose.choice(known)
        made = choose.choice(GROW)(a, b)
        for tensor in made:
            if tensor.requires_grad and choose.random() < 0.2:
                tensor.register_hook(lambda g, n=number: log.append((n, g.numpy().tobytes())) or (g * 0.5 if n % 2 else None))
            if tensor.grad_fn is not None and choose.random() < 0.1:
                tensor.grad_fn.register_prehook(lambda gs, n=number: log.append(("before", n, len(gs))))
            if tensor.grad_fn is not None and choose.random() < 0.1:
                tensor.grad_fn.register_hook(lambda gs, outs, n=number: log.append(("after", n, len(gs), len(outs))))
        known += made
    for number, leaf in enumerate(inputs):
        if choose.random() < 0.3:
            leaf.register_hook(lambda g, n=number: log.append(("leaf", n)) or g * 2)
        if choose.random() < 0.3:
            leaf.register_post_accumulate_grad_hook(lambda p, n=number: log.append(("done", n, p.grad.numpy().tobytes())))
    total = known[-1].sum()
    for tensor in choose.sample(known, 3):
        total = total + (tensor * 0.25).sum()
    return inputs, total


def gradients(seed: int, passes: int) -> tuple[list[bytes | None], list[Any]]:
    log: list[Any] = []
    inputs, loss = grow(seed, log)
    for i in range(passes):
        loss.backward(retain_graph=i + 1 < passes)
    return [None if leaf.grad is None else leaf.grad.numpy().tobytes() for leaf in inputs], log


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    with python_path():
        expected = gradients(seed, 2)
    for _ in range(3):
        assert gradients(seed, 2) == expected


def test_a_wide_and_a_long_graph() -> None:
    """More stops than there is room for at first, and more consumers than bits."""
    x = torch.ones(3, requires_grad=True)
    parts = x.unsqueeze(0).expand(200, 3).unbind(0)
    y: Any = x
    for i, part in enumerate(parts):
        y = y + part * i
    for _ in range(300):
        y = y * 1.0
    before = counters["native_backwards"]
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert counters["native_backwards"] > before
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2 * (1 + sum(range(200))), "f4"))


def test_saved_values_are_released_unless_kept() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.exp(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_an_error_in_a_hook_comes_out_and_leaves_nothing() -> None:
    def run() -> None:
        x = torch.ones(1000, requires_grad=True)
        y = torch.exp(x)
        torch.tanh(x).register_hook(fail)
        z = y * torch.tanh(y)
        z.register_hook(fail)
        with pytest.raises(ZeroDivisionError):
            (z + torch.tanh(x)).sum().backward()

    def fail(gradient: Any) -> Any:
        raise ZeroDivisionError

    for _ in range(3):
        run()
    gc.collect()
    before = allocator.stats().allocated
    for _ in range(5):
        run()
    gc.collect()
    assert allocator.stats().allocated == before


def test_hooks_that_return_too_much_are_told() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.exp(x)
    y.grad_fn.register_hook(lambda gs, outs: (gs[0], gs[0]))
    with pytest.raises(ValueError, match="returned 2 gradients"):
        y.sum().backward()


def test_a_backward_inside_a_hook() -> None:
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    y = x * 2

    def inner(gradient: Any) -> None:
        with torch.enable_grad():
            (w * w).sum().backward()

    y.register_hook(inner)
    for _ in range(4):
        torch.tanh(y).sum().backward(retain_graph=True)
    np.testing.assert_array_equal(w.grad.numpy(), np.full(3, 8, "f4"))


def test_a_hook_that_changes_the_root_in_place() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = torch.tanh(y) * 1
    y.register_hook(lambda g: [z.detach_()][1:] or None)
    z.sum().backward()
    assert x.grad is not None


def test_attributes_of_a_leaf_keep_it_native_and_its_gradient_its_own() -> None:
    x: Any = torch.ones(2, 3, requires_grad=True)
    x.note = "something"
    w: Any = torch.ones(3, 2, requires_grad=True)
    for _ in range(3):
        x.grad = w.grad = None
        (x + w.t()).sum().backward()
        assert x.grad is not w.grad and x.grad.data_ptr() != w.grad.data_ptr()
        assert w.grad.is_contiguous() and x.grad.is_contiguous()
    with torch.no_grad():
        x.grad.add_(1)
    np.testing.assert_array_equal(w.grad.numpy(), np.ones((3, 2), "f4"))


def test_threads_go_through_one_graph_at_once() -> None:
    x = torch.ones(200, 200, requires_grad=True)
    w = torch.ones(200, 200)
    y = torch.tanh((x @ w) * 1e-3) @ w
    loss = y.sum()
    loss.backward(retain_graph=True)
    expected = x.grad.clone()
    found: list[Any] = []

    def run() -> None:
        for _ in range(20):
            (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
            found.append(gradient)
            loss.backward(retain_graph=True)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60 and all(torch.equal(g, expected) for g in found)
    assert torch.isfinite(x.grad).all()


def both(run: Callable[[], Any]) -> None:
    with python_path():
        expected = run()
    for _ in range(4):
        assert run() == expected


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40, 700])
def test_lists_of_tensors(count: int) -> None:
    """Lists longer than a key usually is, with tensors that come again."""
    source = [torch.full((1, 2), float(i)) for i in range(count)]
    repeated = [*source, *source[::3], source[0]]
    both(lambda: torch.cat(source).numpy().tobytes())
    both(lambda: torch.cat(repeated).numpy().tobytes())
    both(lambda: torch.cat([*repeated, *source]).numpy().tobytes())
    before = counters["native_calls"]
    torch.cat(repeated)
    assert counters["native_calls"] - before == 1


def test_static_arguments_of_any_form() -> None:
    x, y = torch.arange(24.0).view(2, 3, 4), torch.arange(24.0).view(3, 4, 2)
    both(lambda: torch.ops.tensordot(x, y, ((1, 2), (0, 1))).numpy().tobytes())
    both(lambda: torch.nn.functional.adaptive_avg_pool2d(x, (None, 2)).numpy().tobytes())
    both(lambda: x[:, torch.tensor([2, 0])].numpy().tobytes() + x[torch.tensor([1])].numpy().tobytes())
    before = counters["python_for_arguments"]
    x[:, torch.tensor([2, 0])]
    torch.ops.tensordot(x, y, ((1, 2), (0, 1)))
    assert counters["python_for_arguments"] == before
    itself: list[Any] = []
    itself.append(itself)
    for _ in range(3):
        with pytest.raises((RecursionError, TypeError, ValueError)):
            torch.ops.tensordot(x, y, itself)


def test_lists_that_are_too_long_go_to_python() -> None:
    from flambeau.runtime.native.keys import MAX_LISTED

    one = torch.ones(1)
    before = counters["python_for_arguments"]
    for _ in range(3):
        assert torch.cat([one] * (MAX_LISTED + 1)).sum().item() == MAX_LISTED + 1
    assert counters["python_for_arguments"] - before == 3


def test_steps_of_optimizers_and_clipping_are_native_and_the_same() -> None:
    def run() -> Any:
        params = [torch.nn.Parameter(torch.full((3, i % 3 + 1), 0.1 * i)) for i in range(40)]
        out: list[Any] = []
        for make in (torch.optim.AdamW, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adam(p, amsgrad=True)):
            optimizer = make(params)
            for _ in range(5):
                for p in params:
                    p.grad = torch.ones_like(p)
                out.append(torch.nn.utils.clip_grad_norm_(params, 1.0).item())
                optimizer.step()
            out += [p.detach().numpy().tobytes() for p in params]
        return out

    both(run)


def test_overwriting_leaves_is_refused_after_steps_without_gradients() -> None:
    """A plan that was made where nothing is recorded does not serve where something is."""
    p, g = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    with torch.no_grad():
        for _ in range(4):
            torch.ops.sgd_step([p], [g], None, 0.1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            torch.ops.sgd_step([p], [g], None, 0.1)
    for _ in range(4):
        torch.ops.sgd_step([g], [g.clone()], None, 0.1)


def test_results_of_which_only_some_are_used() -> None:
    """Backward functions for some of the cotangents, one after another and in turn."""
    norm: Any = torch.nn.BatchNorm1d(3)

    def run() -> Any:
        norm.reset_running_stats()
        x: Any = torch.arange(12.0).view(4, 3).requires_grad_()
        out: list[Any] = []
        for used in (0, 1, 1, 0, 0, 1):
            x.grad = None
            values, _ = torch.sort(x, 0, descending=bool(used))
            parts = values.unbind(1)
            (norm(x)[:, used].exp().sum() + (parts[used] * parts[2 * used]).sum()).backward()
            out += [x.grad.numpy().tobytes(), norm.running_var.numpy().tobytes(), norm.weight.grad.numpy().tobytes()]
            norm.weight.grad = None
        return out

    both(run)
    before = counters.snapshot()
    run()
    after = counters.snapshot()
    assert after["eager_backwards"] == before["eager_backwards"]
    assert after["native_backwards"] > before["native_backwards"]


def test_cotangents_laid_out_otherwise_than_what_was_saved() -> None:
    """They are copied before; first and second derivatives, against the formula, in both paths."""
    numbers = np.random.default_rng(3)
    a, b = numbers.standard_normal((4, 3)).astype("f4"), numbers.standard_normal((3, 4)).astype("f4")

    def run() -> Any:
        x: Any = torch.tensor(a).requires_grad_()
        w: Any = torch.tensor(b).requires_grad_()
        (first,) = torch.autograd.grad(x.t().exp(), x, w, create_graph=True)
        second = torch.autograd.grad(first.sum(), [x, w])
        x.t().exp().backward(w.detach())
        np.testing.assert_allclose(first.detach().numpy(), np.exp(a) * b.T, rtol=1e-6)
        np.testing.assert_allclose(second[0].numpy(), np.exp(a) * b.T, rtol=1e-6)
        np.testing.assert_allclose(second[1].numpy(), np.exp(a).T, rtol=1e-6)
        return [t.detach().numpy().tobytes() for t in (first, *second, x.grad)]

    both(run)
    x: Any = torch.tensor(a).requires_grad_()
    before = counters.snapshot()
    x.t().exp().backward(torch.tensor(b))
    after = counters.snapshot()
    assert (after["native_backwards"] - before["native_backwards"], after["eager_backwards"]) == (2, before["eager_backwards"])


def test_reshapes_that_copy() -> None:
    def run() -> Any:
        x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
        y = x.transpose(0, 2).reshape(6, 4)
        (y * torch.arange(24.0).view(6, 4)).sum().backward()
        z = x.detach().t() if x.dim() == 2 else x.detach().permute(2, 0, 1).flatten(1)
        return y.view_of is not None, y.is_contiguous(), y.detach().numpy().tobytes(), x.grad.numpy().tobytes(), z.numpy().tobytes()

    both(run)
    assert run()[0] is False
    x = torch.arange(6.0).view(2, 3)
    y = x.t().reshape(6)
    y[0] = 9
    assert x[0, 0] == 0
