"""Tensors on a GPU against the same on the CPU.

On a machine with an NVIDIA GPU: ``python -m pytest tests/gpu/test_cuda.py -n 8``. Without one, the same on a simulated GPU, where
Triton's interpreter runs the kernels: ``TRITON_INTERPRET=1 python -m pytest tests/gpu/test_cuda.py``.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core import dtypes
from flambeau.ops.declare import ALL, Operator
from flambeau.ops.samples import Call
from flambeau.runtime.cuda import driver
from tests.ops.operator_cases import samples_of
from tests.ops.pipeline_cases import TOLERANCES, convert, map_arrays

SIMULATED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(not SIMULATED and not driver.is_present(), reason="no NVIDIA GPU; TRITON_INTERPRET=1 simulates one"),
    pytest.mark.filterwarnings("ignore:.*on a GPU is done on the CPU so far"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def gpu() -> Iterator[Any]:
    """The GPU, or one that is simulated."""
    if not SIMULATED:
        yield None
        return
    from tests.gpu.simulated import install

    simulated = install()
    yield simulated
    simulated.check_guards()


# -- operators --------------------------------------------------------------------------------------------
def tensors(operator: Operator, call: Call, device: str, kind: Any, track: bool = False) -> tuple[Call, list[Any]]:
    """A sample with tensors on a device, and those among them that gradients are wanted for."""
    leaves: list[Any] = []

    def one(_: str, array: Any) -> Any:
        tensor = torch.from_numpy(np.ascontiguousarray(convert(array, kind)).reshape(array.shape).copy()).to(device)
        if track and tensor.dtype.is_inexact:
            leaves.append(tensor.requires_grad_())
        return tensor

    return map_arrays(operator, call, one), leaves


def flat(results: Any) -> list[Any]:
    if isinstance(results, torch.Tensor):
        return [results]
    return [t for part in results for t in flat(part)] if isinstance(results, (tuple, list)) else []


def compare(found: Any, expected: Any, name: str) -> None:
    """The same shapes, strides, types and, on the CPU, values."""
    assert len(flat(found)) == len(flat(expected))
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert a.device.type == "cuda" and a.shape == b.shape and a.dtype is b.dtype and a.stride() == b.stride(), name
        x, y = a.detach().cpu().array(), b.detach().array()
        if b.dtype.is_inexact:
            tolerance = TOLERANCES[b.dtype.name] * (1 if b.dtype in (dtypes.float64, dtypes.complex128) else 3)
            wide = np.complex128 if b.dtype.is_complex else np.float64
            np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


def check_operator(name: str, kind: Any, samples: int) -> None:
    if SIMULATED and name in ("polygamma", "zeta"):
        pytest.skip("Triton's interpreter cannot combine comparisons of single numbers")
    operator = ALL[name]
    for call in samples_of(operator)[:samples]:
        on_cpu, _ = tensors(operator, call, "cpu", kind)
        on_gpu, _ = tensors(operator, call, "cuda", kind)
        torch.manual_seed(3)
        try:
            expected = operator(*on_cpu[0], **on_cpu[1])
        except Exception as error:
            with pytest.raises(type(error)):
                compare(operator(*on_gpu[0], **on_gpu[1]), None, name)
            continue
        if not flat([*on_cpu[0], *on_cpu[1].values()]):
            continue  # no operand says where it is to run
        torch.manual_seed(3)
        compare(operator(*on_gpu[0], **on_gpu[1]), expected, name)
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", sorted(ALL))
def test_operator(name: str) -> None:
    check_operator(name, dtypes.float32, 2 if SIMULATED else 100)


@pytest.mark.parametrize("kind", [dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.uint8], ids=repr)
@pytest.mark.parametrize("name", ["add", "mul", "true_divide", "pow", "softmax", "sum", "amax", "matmul", "where", "cat", "index_add"])
def test_types(name: str, kind: Any) -> None:
    if SIMULATED and name == "matmul" and kind is torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies bfloat16 wrongly")
    check_operator(name, kind, 2 if SIMULATED else 100)


@pytest.mark.parametrize("name", ["mul", "pow", "softmax", "layer_norm", "matmul", "index_select", "gather", "amax", "prod", "cat", "gelu",
                                  "conv2d", "embedding", "cross_entropy", "var", "cumsum"])  # fmt: skip
def test_gradient(name: str) -> None:
    operator = ALL[name]
    for call in samples_of(operator)[: 1 if SIMULATED else 100]:
        gradients = []
        for device in ("cpu", "cuda"):
            made, leaves = tensors(operator, call, device, dtypes.float32, track=True)
            try:
                (result, *_) = flat(operator(*made[0], **made[1]))
                (result * 1.5).sum().backward()
            except RuntimeError as error:
                gradients.append(str(error)[:40])
                continue
            gradients.append([leaf.grad for leaf in leaves if leaf.grad is not None])
        if isinstance(gradients[0], list):
            compare(gradients[1], gradients[0], name)
        else:
            assert gradients[0] == gradients[1]


# -- tensors ------------------------------------------------------------------------------------------------
def test_making_and_moving() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    y = x.cuda()
    assert y.device == torch.device("cuda", 0) and y.is_cuda and y.get_device() == 0 and not x.is_cuda
    assert y.cpu().tolist() == x.tolist() == y.tolist() and y.to("cuda:0") is y and y.cuda() is y
    assert x.t().cuda().stride() == x.t().stride()
    assert torch.equal(x[:, ::2].cuda().cpu(), x[:, ::2])
    on: dict[str, Any] = {"device": "cuda"}
    for made in (torch.zeros(2, **on), torch.ones(2, **on), torch.full((2,), 7, **on), torch.empty(2, **on), torch.tensor([1, 2], **on),
                 torch.arange(2, **on), torch.randn(2, **on), torch.eye(2, **on), torch.zeros_like(y), torch.ones_like(y),
                 torch.empty_like(y), torch.rand_like(y), y.new_zeros(2), y.new_tensor([1.0])):  # fmt: skip
        assert made.is_cuda
    assert torch.ones(2, device="cuda").tolist() == [1, 1] and torch.full((2,), 7, device="cuda").tolist() == [7, 7]
    assert y.double().dtype is torch.float64 and y.to("cpu", torch.int64).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_text_numbers_and_numpy() -> None:
    x = torch.tensor([1.5, 2.0], device="cuda")
    assert repr(x) == "tensor([1.5000, 2.0000], device='cuda:0')"
    assert x[0].item() == 1.5 and float(x[1]) == 2.0 and bool(x[0] > 1) and x.max().item() == 2.0
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    assert np.array_equal(x.cpu().numpy(), [1.5, 2.0])


def test_devices_do_not_mix() -> None:
    x, y = torch.ones(3), torch.ones(3, device="cuda")
    told = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for call in (lambda: x + y, lambda: y @ x, lambda: torch.cat([x, y]), lambda: y.index_select(0, torch.tensor([1]))):
        with pytest.raises(RuntimeError, match=told):
            call()
    assert (y + torch.tensor(2.0)).tolist() == [3, 3, 3]
    y += torch.tensor(1.0)
    assert y.tolist() == [2, 2, 2] and x.copy_(y).tolist() == [2, 2, 2]


def test_complex_numbers() -> None:
    z = torch.randn(6, 5, dtype=torch.complex64)
    found = []
    for device in ("cuda", "cpu"):
        x = z.to(device).requires_grad_()
        y = (x.exp() * (1 + 2j) / (x.abs() + 1)) @ x.mH
        y.real.mul_(2)
        (torch.fft.fft(y).abs() ** 2).sum().backward()
        found.append([y.detach(), x.grad])
    compare(*found, "complex")


def test_views_and_changes_in_place() -> None:
    y = torch.zeros(3, 4, device="cuda")
    y[1] = 5
    y[:, 2] += torch.arange(3.0, device="cuda")
    y.t()[3].mul_(0).sub_(1)
    assert y.tolist() == [[0, 0, 0, -1], [5, 5, 6, -1], [0, 0, 2, -1]]
    y[y > 4] = 9
    assert y[1].tolist() == [9, 9, 9, -1] and y.view(-1)[5:7].tolist() == [9, 9]


def test_other_views_of_the_same_memory() -> None:
    y = torch.arange(6.0, device="cuda")
    wide, windows = y.view(torch.int32), y[1:].as_strided((2, 2), (2, 1), 2)
    assert wide.is_cuda and wide.view(torch.float32).tolist() == y.tolist() and wide.data_ptr() == y.data_ptr()
    assert windows.is_cuda and windows.tolist() == [[2, 3], [4, 5]] and y.view(torch.uint8).shape == (24,)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8], ids=repr)
def test_rows_are_scanned_and_sorted(kind: Any) -> None:
    for shape, dim in (((3, 20), 1), ((2, 9, 4), 1)) if SIMULATED else (((5, 70), 1), ((70, 3), 0), ((2, 2100), 1), ((2, 9, 4), 1)):
        x = (torch.randn(*shape) * 4).to(kind)
        if kind is torch.float32:
            x[x > 5] = float("nan")
            x[(x > 0) & (x < 1)] = -0.0
        compare(x.cuda().cumsum(dim), x.cumsum(dim), str(shape))
        compare(x.cuda().cummax(dim), x.cummax(dim), str(shape))
        for descending in (False, True):
            compare(torch.sort(x.cuda(), dim, descending, stable=True), torch.sort(x, dim, descending, stable=True), str(shape))


def test_bad_indices_are_told_when_one_waits() -> None:
    y = torch.arange(4.0, device="cuda")
    wrong = y.index_select(0, torch.tensor([1, 9], device="cuda"))
    with pytest.raises(IndexError, match="index_select: index 9 is out of bounds for dimension with size 4"):
        wrong.cpu()
    torch.cuda.synchronize()
    assert y.tolist() == [0, 1, 2, 3]


def test_gradients_cross_devices() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x.cuda() ** 2).sum().backward()
    assert x.grad is not None and not x.grad.is_cuda and x.grad.tolist() == [2, 4]
    y = torch.tensor([3.0], device="cuda", requires_grad=True)
    (first,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), y)
    assert second.is_cuda and second.item() == 18.0


def test_copies_and_pickles() -> None:
    y = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    z, w = copy.deepcopy(y), pickle.loads(pickle.dumps(y))
    with torch.no_grad():
        y.add_(1)
    assert z.tolist() == w.tolist() == [1, 2] and w.is_cuda and w.requires_grad and z.data_ptr() != y.data_ptr()


def test_memory_comes_back() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 18, device="cuda")
    held = torch.cuda.memory_allocated()
    assert held >= before + (1 << 20)
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() >= before and torch.cuda.max_memory_allocated() >= held
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory. Tried to allocate"):
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")


def test_long_rows_and_columns() -> None:
    for shape, dim in (((3, 20000), 1), ((5000, 7), 0), ((70000,), 0), ((2, 300, 40), (0, 2))):
        x = torch.rand(*shape)
        compare(x.cuda().sum(dim), x.sum(dim), str(shape))
        compare(x.cuda().amax(dim), x.amax(dim), str(shape))
        if isinstance(dim, int):
            compare(torch.softmax(x.cuda(), dim), torch.softmax(x, dim), str(shape))
            compare(x.cuda().argmin(dim), x.argmin(dim), str(shape))


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (5, 3, 7), (64, 64, 64), (130, 70, 33), (17, 200, 100)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=repr)
def test_products_of_all_sizes(m: int, n: int, k: int, kind: Any) -> None:
    if SIMULATED and kind is torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies bfloat16 wrongly")
    a, b = torch.randn(m, k, dtype=torch.float64).to(kind), torch.randn(k, n, dtype=torch.float64).to(kind)
    exact = a.double() @ b.double()
    for left, right in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        found = (left.cuda() @ right.cuda()).cpu().double()
        error = ((found - exact).norm() / exact.norm()).item()
        assert error < {torch.float64: 1e-14, torch.float32: 1e-6}.get(kind, 6e-3)


def train(device: str) -> list[float]:
    """The losses of a small network with every usual part."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x, y = torch.randn(12, 6).to(device), (torch.arange(12) % 3).to(device)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_follows_the_cpu() -> None:
    np.testing.assert_allclose(train("cuda"), train("cpu"), rtol=1e-4)


def test_events_take_times() -> None:
    first, then = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    torch.ones(1000, device="cuda").add_(1)
    then.record()
    then.synchronize()
    assert then.query() and first.elapsed_time(then) >= 0


def test_what_the_gpu_is() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1 and torch.cuda.current_device() == 0
    assert torch.cuda.get_device_name() and torch.cuda.get_device_capability()[0] >= 7
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:99")


def test_compiled_functions_run_there() -> None:
    def function(x: Any, w: Any) -> Any:
        return F.gelu(x @ w).softmax(-1) * 2

    x, w = torch.randn(5, 7), torch.randn(7, 4)
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        compare(compiled(x.cuda(), w.cuda()), function(x, w), "compiled")
    compare(compiled(torch.ones(9, 7, device="cuda"), w.cuda()), function(torch.ones(9, 7), w), "another size")
    assert not compiled(x, w).is_cuda and "on cuda:0" in str(compiled.explain())
    assert "tl.dot(a, b, total" in compiled.explain().kernels[0] and "@triton.jit" not in compiled.explain().kernels[2]


def compiled_losses(device: str) -> list[float]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    @torch.compile(fullgraph=True)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.randn(12, 6).to(device), (torch.arange(12) % 3).to(device)
    return [step(x, y).item() for _ in range(5)]


def test_compiled_training_follows_the_cpu() -> None:
    np.testing.assert_allclose(compiled_losses("cuda"), compiled_losses("cpu"), rtol=1e-4)
    assert compiled_losses("cpu")[-1] < compiled_losses("cpu")[0]


def test_a_capture_with_two_devices_goes_on_without() -> None:
    @torch.compile
    def function(x: Any) -> Any:
        return x.cuda() * 2 + x.cuda()

    x = torch.arange(3.0)
    assert [function(x).tolist() for _ in range(2)] == [[0, 3, 6]] * 2
