"""Complex tensors: values against numpy, views, gradients, captures, exchange and errors."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.config import config
from flambeau.core.events import counters


def numbers(*shape: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(size=shape) + 1j * random.normal(size=shape)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": lambda z: np.exp(z * np.log(2)), "expm1": np.expm1, "log": np.log, "log2": lambda z: np.log(z) / np.log(2),
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "reciprocal": lambda z: 1 / z,
    "square": np.square, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "neg": np.negative,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    z = numbers(40) * np.exp(np.linspace(-3, 2, 40))
    for kind, limit in ((np.complex64, 4e-6), (np.complex128, 1e-14)):
        given = z.astype(kind)
        found = getattr(torch, name)(torch.from_numpy(given)).numpy()
        wanted = FUNCTIONS[name](given.astype(np.complex128))
        assert found.dtype == kind
        assert (np.abs(found - wanted) / np.abs(wanted)).max() < limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_functions(name: str) -> None:
    """A gradient is the cotangent times the conjugate of the derivative, also where it is differentiated itself."""
    function = getattr(torch, name)
    z, step = numbers(8, seed=1), 1e-6
    x = torch.tensor(z, requires_grad=True)
    weight = torch.tensor(numbers(8, seed=2))
    (slope,) = torch.autograd.grad(function(x), x, weight, create_graph=True)
    rate = (FUNCTIONS[name](z + step) - FUNCTIONS[name](z - step)) / (2 * step)
    np.testing.assert_allclose(slope.detach().numpy(), weight.numpy() * rate.conj(), rtol=1e-7, atol=1e-7)
    if name in ("neg",):
        return
    (second,) = torch.autograd.grad(slope, x, torch.ones(8, dtype=torch.complex128))

    def first(value: Any) -> Any:
        y = torch.tensor(value, requires_grad=True)
        return torch.autograd.grad(function(y), y, weight)[0].numpy()

    along = [(first(z + d) - first(z - d)).real / 2e-6 for d in (1e-6, 1e-6j)]
    np.testing.assert_allclose(second.numpy(), along[0] + 1j * along[1], rtol=1e-5, atol=1e-5)


def test_arithmetic_and_promotion() -> None:
    a, b, r = numbers(3, 4), numbers(4, seed=1), np.random.default_rng(5).normal(size=(3, 4))
    x, y, real = torch.tensor(a), torch.tensor(b), torch.tensor(r)
    for found, wanted in (
        (x + y, a + b), (x - 2 * y, a - 2 * b), (x * y, a * b), (x / y, a / b), (x * real, a * r), (real / x, r / a), (x**y, a**b),
        (x**2, a**2), (x**-1, 1 / a), (2**x, 2**a), (real * 1j, r * 1j), (real + (1 + 2j), r + (1 + 2j)), (x - 1, a - 1),
        (torch.where(real > 0, x, real), np.where(r > 0, a, r)), (x.abs(), np.abs(a)), (torch.addcmul(x, x, y, value=2j), a + 2j * a * b),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    assert (torch.ones(2) * 1j).dtype is torch.complex64
    assert (torch.ones(2, dtype=torch.float64) + 1j).dtype is torch.complex128
    assert (torch.ones(2, dtype=torch.int64) * 1j).dtype is torch.complex64
    assert (torch.ones(2, dtype=torch.complex64) + torch.ones(2, dtype=torch.float64)).dtype is torch.complex128
    assert (torch.ones(2, dtype=torch.complex64) * torch.tensor(1.0, dtype=torch.float64)).dtype is torch.complex64
    assert torch.full((2,), 1j).dtype is torch.complex64 and torch.tensor(1j).item() == 1j
    assert bool((x == x).all()) and not bool((x != x).any()) and bool(torch.isclose(x, x + 1e-12).all())
    assert torch.sum(x).item() == pytest.approx(a.sum()) and torch.mean(x).item() == pytest.approx(a.mean())


def test_extreme_values() -> None:
    x = torch.tensor([3e30 + 4e30j, 1e-30 + 1e-30j, 0j], dtype=torch.complex64)
    np.testing.assert_allclose(x.abs().numpy(), [5e30, 2**0.5 * 1e-30, 0], rtol=1e-6)
    np.testing.assert_allclose((x / x)[:2].numpy(), [1, 1], rtol=1e-6)
    np.testing.assert_allclose(torch.sqrt(torch.tensor([-4 + 0j, complex(-4, -0.0)])).numpy(), [2j, -2j])
    z = torch.tensor([0j, 1j], requires_grad=True)
    z.abs().sum().backward()
    assert z.grad is not None and z.grad.tolist() == [0, 1j]


def test_products() -> None:
    a, b, v = numbers(5, 7), numbers(7, 3, seed=1), numbers(7, seed=2)
    x, y, w = torch.tensor(a), torch.tensor(b), torch.tensor(v)
    for found, wanted in (
        (x @ y, a @ b), (x @ w, a @ v), (torch.dot(w, w), v @ v), (torch.vdot(w, w), np.vdot(v, v)), (x.mH @ x, a.conj().T @ a),
        (torch.einsum("ij,jk->ki", x, y), (a @ b).T), (torch.nn.functional.linear(x, y.t()), a @ b), (torch.outer(w, w), np.outer(v, v)),
        (x.real @ y.real, a.real @ b.real), (torch.prod(x, 1), a.prod(1)),
        (torch.cumprod(w, 0), v.cumprod()), (torch.cumsum(x, 1), a.cumsum(1)),
        (x.var(), a.var(ddof=1)), (x.norm(), np.linalg.norm(a)),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-11)


def test_parts_are_views() -> None:
    a = numbers(3, 4)
    x = torch.from_numpy(a)
    assert x.real.stride() == (8, 2) and x.imag.storage_offset() == 1 and torch.view_as_real(x).shape == (3, 4, 2)
    x.real.zero_()
    x.imag[1] = 5
    torch.view_as_real(x)[0, 0, 1] = 7
    x[2].copy_(torch.tensor(1 - 1j))
    assert (a.real[:2] == 0).all() and (a[1] == 5j).all() and a[0, 0] == 7j and (a[2] == 1 - 1j).all()
    again = torch.view_as_complex(torch.view_as_real(x))
    assert again.data_ptr() == x.data_ptr() and again.stride() == x.stride()
    x.imag = torch.ones(3, 4, dtype=torch.float64)
    assert (a.imag == 1).all()
    with pytest.raises(RuntimeError, match="stride 1"):
        torch.view_as_complex(torch.zeros(2, 3).t())
    with pytest.raises(RuntimeError, match="divisible by 2"):
        torch.view_as_complex(torch.zeros(2, 3)[:, 1:])
    with pytest.raises(RuntimeError, match="non-complex"):
        torch.imag(torch.zeros(2))


def _changed(x: Any, y: Any) -> Any:
    z = x * 1
    z[1:3] *= y[:2]
    z.real.mul_(2)
    z.imag[0] = 3
    torch.view_as_real(z)[3, :, 1] = y.real[0]
    return z * z.real + z.conj() / (1 + z.abs())


def _mixed(x: Any, y: Any) -> Any:
    z = (x * y.exp()).t().reshape(-1)
    w = torch.cat([z[::2], z.real[:3], x[[0, 2, 2]].reshape(-1)])
    return torch.fft.fft(w) * torch.stack([w, w * 1j]).sum(0)


@pytest.mark.parametrize("program", [_changed, _mixed])
def test_programs_have_the_gradients_of_differences(program: Callable[..., Any]) -> None:
    a, b, weight = numbers(4, 5), numbers(4, 5, seed=1), None
    x, y = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    out = program(x, y)
    weight = numbers(*out.shape, seed=2)
    found = torch.autograd.grad(out, [x, y], torch.tensor(weight))
    for position, start in enumerate((a, b)):
        for seed in (3, 4):
            direction = numbers(4, 5, seed=seed)
            values = []
            for sign in (1e-6, -1e-6):
                given = [a, b]
                given[position] = start + sign * direction
                values.append((weight.conj() * program(*map(torch.tensor, given)).numpy()).real.sum())
            derived = (found[position].numpy().conj() * direction).real.sum()
            assert derived == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("program", [_changed, _mixed])
def test_compiled_programs_equal_eager_ones(program: Callable[..., Any]) -> None:
    compiled = torch.compile(program)
    for seed in (0, 1, 2):
        x, y = (torch.tensor(numbers(4, 5, seed=seed + k), requires_grad=True) for k in (0, 7))
        wanted, found = program(x, y), compiled(x, y)
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
        weight = torch.ones_like(wanted)
        for g, h in zip(torch.autograd.grad(wanted, [x, y], weight), torch.autograd.grad(found, [x, y], weight), strict=True):
            np.testing.assert_allclose(h.numpy(), g.numpy(), rtol=1e-10, atol=1e-12)


def test_real_inputs_have_real_gradients() -> None:
    x = torch.randn(5, requires_grad=True)
    (torch.exp(1j * x) * x).abs().sum().backward()
    assert x.grad is not None and x.grad.dtype is torch.float32
    np.testing.assert_allclose(x.grad.numpy(), np.sign(x.detach().numpy()), rtol=1e-5)
    z = torch.tensor([1 + 1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="real scalar outputs but got torch.complex64"):
        z.sum().backward()
    (z * 2).real.sum().backward()
    assert z.grad is not None and z.grad.tolist() == [2]


@pytest.mark.skipif(not config.native, reason="native code is off")
def test_calls_are_native() -> None:
    x, y = torch.randn(16, dtype=torch.complex64), torch.randn(16, dtype=torch.complex64, requires_grad=True)
    for _ in range(4):
        (x * y).real.sum()
    before = counters["native_calls"]
    for _ in range(10):
        _ = (x * y).real
    assert counters["native_calls"] - before >= 20


def test_random_numbers_have_halved_variance() -> None:
    torch.manual_seed(0)
    z = torch.randn(20000, dtype=torch.complex64)
    assert abs(z.real.var().item() - 0.5) < 0.02 and abs(z.abs().square().mean().item() - 1) < 0.03
    torch.manual_seed(0)
    np.testing.assert_allclose(torch.view_as_real(z).reshape(-1).numpy(), torch.randn(40000).numpy() * np.float32(0.5**0.5), rtol=1e-6)


def test_exchange_and_printing() -> None:
    z = torch.tensor([[1 + 2j, -0.5j], [3, 1e-3]])
    assert repr(torch.tensor([1.5 + 2j, -0.5j])) == "tensor([1.5000+2.0000j, -0.0000-0.5000j])"
    buffer = io.BytesIO()
    torch.save(z, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer), z)
    assert torch.equal(torch.from_dlpack(z), z) and torch.from_numpy(z.numpy()).data_ptr() == z.data_ptr()
    assert z.type() == "torch.ComplexFloatTensor"
    assert complex(z[0, 0]) == 1 + 2j and z.tolist()[0][1] == -0.5j and z.is_complex() and not z.is_conj()
    assert z.to(torch.complex128).dtype is torch.complex128 and z.real.to(torch.complex64).imag.eq(0).all()


@pytest.mark.parametrize("name", ["sort", "argmax", "floor", "erf", "sign"])
def test_what_needs_an_order_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="not implemented|no order|complex"):
        getattr(torch, name)(torch.tensor([1 + 1j, 2j]))


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adagrad": {}, "RMSprop": {"centered": True},
    "NAdam": {}, "RAdam": {}, "Adadelta": {}, "Adamax": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_update_the_parts_as_numbers_of_their_own(name: str) -> None:
    start, weight = numbers(6), torch.tensor(numbers(6, seed=1))
    values = []
    for as_complex in (True, False):
        z = torch.tensor(start)
        parameter = (z if as_complex else torch.view_as_real(z).clone()).requires_grad_()
        optimizer = getattr(torch.optim, name)([parameter], lr=0.1, **OPTIMIZERS[name])
        for _ in range(5):
            optimizer.zero_grad()
            seen = parameter if as_complex else torch.view_as_complex(parameter)
            (seen * seen - weight).abs().square().sum().backward()
            optimizer.step()
        values.append((parameter if as_complex else torch.view_as_complex(parameter)).detach().numpy())
    np.testing.assert_allclose(values[0], values[1], rtol=1e-10)
    assert not np.allclose(values[0], start)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"])
def test_convolutions_are_four_of_real_numbers(name: str, groups: int) -> None:
    function, count = getattr(torch.nn.functional, name), int(name[-2])
    length, shape = (7, 6)[:count], (4, 4 // groups, *(3, 2)[:count])
    transposed = "transpose" in name
    options = {"stride": 2, "padding": 1, "groups": groups} | ({"output_padding": 1} if transposed else {"dilation": 1})
    arrays = numbers(2, 4, *length), numbers(*shape, seed=1), numbers(4, seed=2)
    results = []
    for together in (True, False):
        x, weight, bias = (torch.tensor(v, requires_grad=True) for v in arrays)
        if together:
            out = function(x, weight, bias, **options)
        else:
            apply = lambda a, b: function(a, b, None, **options)  # noqa: E731
            real = apply(x.real, weight.real) - apply(x.imag, weight.imag)
            imaginary = apply(x.real, weight.imag) + apply(x.imag, weight.real)
            out = torch.complex(real, imaginary) + bias.reshape(4, *(1,) * count)
        loss = (out * torch.linspace(0.5, 1.5, out.numel(), dtype=torch.float64).reshape(out.shape)).abs().square().sum()
        gradients = torch.autograd.grad(loss, [x, weight, bias])
        results.append([out.detach().numpy(), *(g.numpy() for g in gradients), function(x[0], weight, bias, **options).detach().numpy()])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(results[0][-1], results[0][0][0], rtol=1e-9)
