"""The tape: gradients, double backward, hooks, retained graphs, modes, and in-place changes under it."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


def leaf(*shape: int) -> torch.Tensor:
    return torch.tensor(np.random.rand(*shape) + 0.5, requires_grad=True)


def test_gradients_add_up_in_leaves() -> None:
    x, y = leaf(3, 4), leaf(4)
    for _ in range(2):
        (x * y + x.exp()).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (np.broadcast_to(y.detach().numpy(), (3, 4)) + np.exp(x.detach().numpy())))
    np.testing.assert_allclose(y.grad.numpy(), 2 * x.detach().numpy().sum(0))
    assert x.is_leaf and x.grad_fn is None and not x.grad.requires_grad


def test_double_backward() -> None:
    x = leaf(5)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = torch.autograd.grad((first * first).sum(), x, create_graph=True)
    np.testing.assert_allclose(second.detach().numpy(), 36 * x.detach().numpy() ** 3)
    (third,) = torch.autograd.grad(second.sum(), x)
    np.testing.assert_allclose(third.numpy(), 108 * x.detach().numpy() ** 2)


def test_gradcheck_of_composites() -> None:
    x, w = leaf(3, 4), leaf(4, 2)
    assert torch.autograd.gradcheck(lambda x, w: torch.softmax(x @ w, 1).log().sum(0), (x, w))
    assert torch.autograd.gradcheck(lambda x: x.t().reshape(-1)[::2].cumsum(0), (x,))
    with pytest.raises(torch.autograd.GradcheckError, match="mismatch"):
        torch.autograd.gradcheck(lambda x: x.detach() * x, (x,))


def test_gradgradcheck_of_composites() -> None:
    x, w = (torch.rand(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4, 2)))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.softmax(x @ w, 1).log().sum(0), (x, w))
    assert torch.autograd.gradgradcheck(torch.logaddexp, (x, x.detach().clone().requires_grad_()), torch.ones(3, 4, dtype=torch.float64))
    with pytest.raises(torch.autograd.GradcheckError, match="mismatch"):
        torch.autograd.gradgradcheck(lambda x: x.detach().square() * x, (x,))
    assert not torch.autograd.gradgradcheck(lambda x: x.detach().square() * x, (x,), raise_exception=False)


def test_grad_of_chosen_tensors_touches_nothing_else() -> None:
    x, y = leaf(2), leaf(2)
    middle = x * y
    result = (middle * middle).sum()
    by_middle, by_y = torch.autograd.grad(result, (middle, y))
    np.testing.assert_allclose(by_middle.numpy(), 2 * middle.detach().numpy())
    np.testing.assert_allclose(by_y.numpy(), 2 * middle.detach().numpy() * x.detach().numpy())
    assert x.grad is None and y.grad is None


def test_unused_inputs() -> None:
    x, y = leaf(2), leaf(2)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(x.sum(), (x, y))
    assert torch.autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    assert torch.autograd.grad(x.sum(), (x, y), materialize_grads=True)[1].tolist() == [0, 0]


def test_backward_into_chosen_leaves() -> None:
    x, y = leaf(2), leaf(2)
    (x * y).sum().backward(inputs=[y])
    assert x.grad is None and y.grad.tolist() == x.tolist()


def test_retain_graph() -> None:
    x = leaf(3)
    result = x.exp().sum()
    result.backward(retain_graph=True)
    result.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(x.detach().numpy()))
    with pytest.raises(RuntimeError, match="second time.*retain_graph=True"):
        result.backward()


def test_results_need_a_gradient_unless_they_have_one_element() -> None:
    x = leaf(2, 2)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64))
    assert x.grad.tolist() == [[2, 0], [0, 4]]
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(torch.ones(2, dtype=torch.float64))


def test_modes() -> None:
    x = leaf(2)
    with torch.no_grad():
        assert not (x * 2).requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert not (x * 2).requires_grad and torch.is_inference_mode_enabled()

    @torch.no_grad()
    def decorated() -> torch.Tensor:
        return x * 2

    @torch.no_grad
    def plainly_decorated() -> torch.Tensor:
        return x * 2

    assert not decorated().requires_grad and not plainly_decorated().requires_grad
    assert torch.is_grad_enabled()
    x.detach().mul_(2)
    assert (x * 2).requires_grad and not x.detach().requires_grad


def test_leaves_change_in_place_only_without_grad_mode() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].add_(1)
    before = x.detach().clone()
    with torch.no_grad():
        x.add_(1)
        x[0] = 0
    np.testing.assert_array_equal(x.detach().numpy()[1:], before.numpy()[1:] + 1)
    assert x.is_leaf


def test_changed_saved_tensors_are_found() -> None:
    x = leaf(3)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*version 1; expected version 0"):
        z.backward()
    y = x.exp()
    z = y.sum()
    y.mul_(2)  # exp's derivative is its result
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_in_place_operations_are_recorded() -> None:
    x = leaf(4)
    y = x * 1
    y.mul_(x).add_(3).clamp_(max=4.0)
    y.sum().backward()
    a = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.where(a * a + 3 > 4, 0, 2 * a))


def test_detach_shares_memory_and_version() -> None:
    x = leaf(3)
    y = x * 2
    z = (y * y).sum()
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert y.detach().data_ptr() == y.data_ptr()
    y.detach_()
    assert y.is_leaf and not y.requires_grad


def test_changes_through_data_do_not_count_until_it_is_saved() -> None:
    x = leaf(3)
    y = x * 2
    z = (y * y).sum()
    y.data[0] = 5.0
    y.data.mul_(2).view(-1)[1:].add_(1)
    assert y._version == 0
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * y.detach().numpy())
    for change in (lambda d: d.mul_(2), lambda d: d[:1].zero_()):
        part = y.data
        product = (x * part).sum()
        change(part)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_gradients_by_a_late_value_do_not_walk_what_is_older() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(3)
    y = x * 1
    part, other = y[:2], y[1:]
    y.mul_(3)  # the views get their place on the tape anew where they are used
    early = Doubled.apply(part)
    late = early * other
    for wanted, factor in ((early, other), (part, 2 * other), (other, early), (x, None)):
        (found,) = torch.autograd.grad(late.sum(), [wanted], retain_graph=True)
        if factor is not None:
            np.testing.assert_allclose(found.numpy(), factor.detach().numpy())
    a = 3 * x.detach().numpy()
    np.testing.assert_allclose(found.numpy(), 6 * np.array([a[1], a[0] + a[2], a[1]]))


def test_tensor_hooks() -> None:
    x = leaf(2)
    y = x * 3
    seen: list[list[float]] = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert seen == [[1, 1]] and x.grad.tolist() == [31, 31]
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1


def test_entry_hooks() -> None:
    x = leaf(2)
    y = x * 3
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward()
    assert seen == [([6, 6], [2, 2])] and x.grad.tolist() == [6, 6]
    assert y.grad_fn.next_functions[0][0].variable is x


def test_retain_grad() -> None:
    x = leaf(2)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.detach().numpy())
    assert y.retains_grad and not x.retains_grad


def test_gradients_of_constant_results_are_zeros() -> None:
    x = leaf(3)
    y = x.floor() + torch.fill(x, 2.0)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    (by_x,) = torch.autograd.grad(torch.fill(x, 2.0).sum(), x)
    assert by_x.tolist() == [0, 0, 0]


def test_several_results_of_one_operator() -> None:
    x = leaf(3, 4)
    values, indices = x.max(1)
    parts = x.split(2, 1)
    (values.sum() + (parts[1] * 2).sum()).backward()
    expected = np.zeros((3, 4))
    expected[:, 2:] = 2
    expected[np.arange(3), indices.numpy()] += 1
    np.testing.assert_allclose(x.grad.numpy(), expected)
    assert not indices.requires_grad


def test_long_chains_need_no_recursion() -> None:
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1


def test_grad_assignment_is_checked() -> None:
    x = leaf(2)
    x.grad = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="size"):
        x.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="type"):
        x.grad = torch.ones(2)
    with pytest.raises(TypeError, match="Tensor or None"):
        x.grad = 1.0
    with pytest.raises(RuntimeError, match="floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()


def test_anomaly_mode_names_the_operation() -> None:
    x = torch.tensor([0.0], requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="LogBackward0.*nan"):
        (x.log() * 0).sum().backward()


def test_functional_jacobian_and_hessian() -> None:
    x = torch.tensor([1.0, 2.0])
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.stack([x[0] * x[1], x.sum()]), x)
    assert jacobian.tolist() == [[2, 1], [1, 1]]
    by_x, by_y = torch.autograd.functional.jacobian(lambda x, y: x * y, (x, x + 1))
    assert by_x.tolist() == [[2, 0], [0, 3]] and by_y.tolist() == [[1, 0], [0, 2]]
    assert torch.autograd.functional.hessian(lambda x: (x**3).sum() + x[0] * x[1], x).tolist() == [[6, 1], [1, 12]]
    result, product = torch.autograd.functional.vjp(lambda x: x * x, x, torch.ones(2))
    assert result.tolist() == [1, 4] and product.tolist() == [2, 4]


def test_sums_of_gradients_leave_what_was_given_alone():
    w = torch.ones(4, requires_grad=True)
    given = [torch.full((4,), float(10**i)) for i in range(4)]
    hooked = []
    w.register_hook(lambda g: hooked.append(g))
    (found,) = torch.autograd.grad([w + 0 for _ in given], w, given)
    assert found.tolist() == [1111.0] * 4 and hooked[0].tolist() == [1111.0] * 4
    assert [g[0].item() for g in given] == [1.0, 10.0, 100.0, 1000.0]


def test_sums_of_gradients_for_second_derivatives():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad([x**3, x**2, 2 * x], x, [torch.ones(2)] * 3, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [3 + 2 + 2, 12 + 4 + 2] and second.tolist() == [6 + 2, 12 + 2]
