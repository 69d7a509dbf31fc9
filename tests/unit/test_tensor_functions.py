"""Functions made of several operators, against numpy; torch.testing, queries and settings."""

from __future__ import annotations

import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import ops
from flambeau.ops.declare import ALL, Operator
from flambeau.utils._pytree import tree_flatten, tree_unflatten


def close(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=tolerance, atol=tolerance)


def test_every_operator_is_bound() -> None:
    for operator in ALL.values():
        assert isinstance(getattr(ops, operator.body.__name__), Operator), operator


def test_public_functions_have_docstrings_and_say_out_as_torch() -> None:
    for name, value in vars(torch).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            assert value.__doc__, name
            out = inspect.signature(value).parameters.get("out")
            assert out is None or out.default is None, name


def test_quantiles() -> None:
    array = np.random.rand(4, 7)
    x = torch.tensor(array)
    for interpolation in ("linear", "lower", "higher", "midpoint", "nearest"):
        close(torch.quantile(x, 0.3, dim=1, interpolation=interpolation), np.quantile(array, 0.3, axis=1, method=interpolation))
    shares = np.array([0.1, 0.9])
    close(torch.quantile(x, torch.tensor(shares), dim=0, keepdim=True), np.quantile(array, shares, 0, keepdims=True))
    array[1, 2] = np.nan
    close(torch.nanquantile(torch.tensor(array), 0.5, 1), np.nanquantile(array, 0.5, axis=1))
    assert torch.quantile(torch.tensor(array), 0.5, 1).isnan().tolist() == [False, True, False, False]
    assert torch.nanmedian(torch.tensor([1.0, float("nan"), 3.0, 2.0])).item() == 2.0


def test_covariances() -> None:
    array, weights = np.random.rand(3, 8), np.random.randint(1, 4, 8)
    x = torch.tensor(array)
    close(torch.cov(x), np.cov(array))
    close(torch.cov(x, correction=0, fweights=torch.tensor(weights)), np.cov(array, ddof=0, fweights=weights))
    close(torch.cov(x, aweights=torch.tensor(weights / 3)), np.cov(array, aweights=weights / 3))
    close(torch.corrcoef(x), np.corrcoef(array))


def test_integrals_and_derivatives() -> None:
    array, places = np.random.rand(3, 6), np.sort(np.random.rand(6))
    x = torch.tensor(array)
    close(torch.trapezoid(x, dx=0.5), np.trapezoid(array, dx=0.5) if hasattr(np, "trapezoid") else np.trapz(array, dx=0.5))
    steps = np.diff(places) * (array[:, 1:] + array[:, :-1]) / 2
    close(torch.cumulative_trapezoid(x, torch.tensor(places)), steps.cumsum(1))
    for edge_order in (1, 2):
        for ours, theirs in zip(
            torch.gradient(x, spacing=0.5, edge_order=edge_order), np.gradient(array, 0.5, edge_order=edge_order), strict=True
        ):
            close(ours, theirs)
    close(torch.gradient(x, spacing=[torch.tensor(places)], dim=1)[0], np.gradient(array, places, axis=1))
    close(torch.diff(x, n=2, dim=0), np.diff(array, 2, 0))


def test_distances() -> None:
    a, b = np.random.rand(2, 4, 3), np.random.rand(2, 5, 3)
    for p in (1.0, 2.0, 3.5, float("inf")):
        expected = np.linalg.norm(a[:, :, None] - b[:, None], p, axis=-1)
        close(torch.cdist(torch.tensor(a), torch.tensor(b), p), expected)
    close(torch.dist(torch.tensor(a), torch.tensor(a * 2), 1), np.abs(a).sum())
    scaled = torch.renorm(torch.tensor(a[0]), 2, 0, 0.5)
    np.testing.assert_array_less(np.linalg.norm(scaled.numpy(), axis=1), 0.5 + 1e-6)


def test_incomplete_gamma() -> None:
    shape, place = np.random.default_rng().uniform(0.5, 30, (2, 12))
    density = lambda t, a: np.exp((a - 1) * np.log(t) - t - math.lgamma(a))  # noqa: E731
    nodes, weights = np.polynomial.legendre.leggauss(400)
    # t = place * u ** 4 has no pole at 0.
    u = (nodes + 1) / 2
    below = [float((density(x * u**4, a) * 4 * x * u**3) @ weights / 2) for a, x in zip(shape, place, strict=True)]
    a, x = torch.tensor(shape), torch.tensor(place, requires_grad=True)
    close(torch.igamma(a, x).detach(), below)
    close(torch.special.gammaincc(a, x).detach(), 1 - np.array(below))
    (slope,) = torch.autograd.grad(torch.igammac(a, x).sum(), x)
    close(slope, [-density(v, s) for s, v in zip(shape, place, strict=True)])
    inf = math.inf
    edges = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [2.0, inf], [inf, 2.0], [-1.0, 1.0], [2.0, -1.0]])
    close(torch.igamma(edges[:, 0], edges[:, 1]), [1, 0, math.nan, 1, 0, math.nan, math.nan])
    with pytest.raises(NotImplementedError, match="derivative by 'input'"):
        torch.igamma(x, a)


def test_histograms() -> None:
    array = np.random.rand(50)
    for ours, theirs in zip(torch.histogram(torch.tensor(array), 7, range=(0.0, 1.0)), np.histogram(array, 7, (0, 1)), strict=True):
        close(ours, theirs)
    edges = np.array([0.0, 0.3, 0.9])
    found = torch.histogram(torch.tensor(array), torch.tensor(edges), weight=torch.tensor(array * 2), density=True)
    close(found.hist, np.histogram(array, edges, weights=array * 2, density=True)[0])
    points = np.random.default_rng().uniform(-1, 1, (60, 2))
    hist, ends = torch.histogramdd(torch.tensor(points), [3, 4], range=[-1.0, 0.5, -0.5, 1.0], density=True)
    close(hist, np.histogramdd(points, [3, 4], range=[(-1, 0.5), (-0.5, 1)], density=True)[0])
    own = torch.histogramdd(torch.tensor(points), [ends[0], ends[1]], weight=torch.tensor(points[:, 0]))
    close(own.hist, np.histogramdd(points, [e.numpy() for e in ends], weights=points[:, 0])[0])
    close(torch.kaiser_window(9, False, 5.0, dtype=torch.float64), np.kaiser(9, 5.0))


def test_products() -> None:
    a, b = np.random.rand(3, 4), np.random.rand(5, 4)
    close(torch.inner(torch.tensor(a), torch.tensor(b)), np.inner(a, b))
    close(torch.tensordot(torch.tensor(a), torch.tensor(b), ([1], [1])), np.tensordot(a, b, ([1], [1])))
    close(torch.einsum("ij,kj->ik", torch.tensor(a), torch.tensor(b)), a @ b.T)
    close(torch.einsum(torch.tensor(a), [0, 1], torch.tensor(b), [2, 1], [2, 0]), b @ a.T)
    close(torch.cross(torch.tensor(a.T[:, :3]), torch.tensor(a.T[:, 1:2] * a.T), dim=1), np.cross(a.T, a.T[:, 1:2] * a.T))
    square = np.random.rand(3, 3)
    close(torch.matrix_power(torch.tensor(square), 5), np.linalg.matrix_power(square, 5))
    close(torch.vander(torch.tensor(a[0]), 3), np.vander(a[0], 3))
    close(torch.kron(torch.tensor(a), torch.tensor(b)), np.kron(a, b))


def test_rearranging() -> None:
    array = np.random.rand(2, 3, 4)
    x = torch.tensor(array)
    close(torch.roll(x, (1, -2), (0, 2)), np.roll(array, (1, -2), (0, 2)))
    close(torch.rot90(x, 3, (1, 2)), np.rot90(array, 3, (1, 2)))
    close(x.flip(0, 2), np.flip(array, (0, 2)))
    close(torch.tile(x, (2, 1)), np.tile(array, (2, 1)))
    close(torch.swapaxes(x, 0, 2), np.swapaxes(array, 0, 2))
    close(torch.hstack([x, x]), np.hstack([array, array]))
    for ours, theirs in zip(torch.tensor_split(x, (1, 3), 2), np.array_split(array, (1, 3), 2), strict=True):
        close(ours, theirs)
    for ours, theirs in zip(torch.meshgrid(x[0, 0], x[0, 1], indexing="xy"), np.meshgrid(array[0, 0], array[0, 1]), strict=True):
        close(ours, theirs)
    assert torch.combinations(torch.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([5, 6])).tolist() == [[1, 5], [1, 6], [2, 5], [2, 6]]
    assert [t.tolist() for t in torch.unravel_index(torch.tensor([5, 7]), (2, 4))] == [[1, 1], [1, 3]]
    copied = torch.permute_copy(x, (2, 0, 1))
    assert copied.is_contiguous() and copied.data_ptr() != x.data_ptr()
    replaced = torch.slice_scatter(x, torch.zeros(2, 1, 4, dtype=torch.float64), 1, 1, 2)
    assert (replaced[:, 1] == 0).all() and torch.equal(replaced[:, 0], x[:, 0])


def test_window_functions() -> None:
    close(torch.hann_window(8, periodic=False, dtype=torch.float64), np.hanning(8))
    close(torch.hamming_window(8, periodic=False, dtype=torch.float64), np.hamming(8))
    close(torch.signal.windows.blackman(9, dtype=torch.float64), np.blackman(9))
    close(torch.signal.windows.bartlett(9, dtype=torch.float64), np.bartlett(9))
    close(torch.hann_window(8, dtype=torch.float64), np.hanning(9)[:-1])
    places = np.arange(7) - 3
    close(torch.signal.windows.gaussian(7, std=2.0, dtype=torch.float64), np.exp(-(places**2) / 8))
    close(torch.signal.windows.exponential(7, tau=2.0, dtype=torch.float64), np.exp(-np.abs(places) / 2))
    assert torch.hann_window(0).shape == (0,) and torch.hann_window(1).tolist() == [1]


def test_in_place_functions_and_python_functions() -> None:
    x = torch.tensor([1.0, 4.0])
    assert torch.sqrt_(x) is x and x.tolist() == [1, 2]
    assert torch.clamp_(x, max=1.5).tolist() == [1, 1.5] and torch.zero_(x).tolist() == [0, 0]
    x.apply_(lambda v: v + 3).map_(torch.tensor([1.0, 2.0]), lambda a, b: a * b)
    assert x.tolist() == [3, 6]


def test_assert_close() -> None:
    torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    torch.testing.assert_close({"a": [torch.ones(2), 1.0]}, {"a": [torch.ones(2), 1.0]})
    torch.testing.assert_close(torch.tensor([float("nan")]), torch.tensor([float("nan")]), equal_nan=True)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 2 \(50.0%\)[\s\S]*0.5 at index \(1,\)"):
        torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    with pytest.raises(AssertionError, match="shape"):
        torch.testing.assert_close(torch.ones(2), torch.ones(3))
    with pytest.raises(AssertionError, match="dtype"):
        torch.testing.assert_close(torch.ones(2), torch.ones(2, dtype=torch.float64))
    made = torch.testing.make_tensor(3, 4, dtype=torch.float32, low=1, high=2, noncontiguous=True, requires_grad=True)
    assert made.requires_grad and not made.is_contiguous() and made.min().item() >= 1 and made.max().item() <= 2


def test_hooks_after_accumulation() -> None:
    x = torch.ones(2, requires_grad=True)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [[2, 2], [4, 4]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_queries_and_settings() -> None:
    x = torch.ones(2, 3)
    assert x.is_cpu and not x.is_cuda and not x.is_sparse and x.is_signed() and x.dim_order() == (0, 1) and x.t().dim_order() == (1, 0)
    assert x.is_set_to(x.view(2, 3)) and not x.is_set_to(x.clone()) and x.layout is torch.strided
    assert torch.is_tensor(x) and not torch.is_tensor(1) and torch.numel(x) == 6 and torch.typename(x) == "torch.FloatTensor"
    assert torch.finfo(torch.bfloat16).max == pytest.approx(3.3895e38, rel=1e-4) and torch.finfo(torch.float32).eps == np.finfo("f4").eps
    assert torch.iinfo(torch.uint8).max == 255 and torch.iinfo(torch.int64).min == -(2**63)
    assert torch.cuda.is_available() == (torch.cuda.device_count() > 0) and not torch.backends.mps.is_available()
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="highest, high, medium"):
        torch.set_float32_matmul_precision("low")
    with pytest.raises(AttributeError, match="no_such_name"):
        torch.no_such_name  # noqa: B018
    with torch.random.fork_rng():
        first = torch.rand(2)
    assert torch.equal(first, torch.rand(2))


def test_named_results_are_tuples_like_those_of_torch():
    x = torch.tensor([[1.0, 4.0], [3.0, 2.0]])
    for found in (x.max(0), torch.sort(x), torch.linalg.qr(x), torch.frexp(x), torch.aminmax(x), torch.histogram(x, 2)):
        assert isinstance(found, tuple) and not hasattr(found, "_fields") and found.n_fields == found.n_sequence_fields == len(found) == 2
        again = type(found)([t * 2 for t in found])
        assert type(again) is type(found) and torch.equal(again[0], found[0] * 2)
        copied = pickle.loads(pickle.dumps(found))
        assert type(copied) is type(found) and torch.equal(copied[1], found[1])
        leaves, spec = tree_flatten(found)
        assert len(leaves) == 2 and type(tree_unflatten(leaves, spec)) is type(found)
    assert torch.equal(x.max(0).values, torch.tensor([3.0, 4.0])) and x.max(0).indices.tolist() == [1, 0]
