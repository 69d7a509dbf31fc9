"""What creation functions make of unusual data and arguments: types of mixed elements, ``out=``, ranges, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch

one, two, whole = torch.tensor(1.0), torch.tensor([2.0]), torch.tensor(3, dtype=torch.int32)


class Letters:
    """A sequence by its methods alone."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> int:
        return [4, 5][place]


@pytest.mark.parametrize(
    ("data", "values", "kind"),
    [
        ([one, 2], [1, 2], torch.float32), ([one, whole], [1, 3], torch.float32), ([whole, 2.5], [3, 2.5], torch.float32),
        ([whole], [3], torch.int32), ([whole, 2], [3, 2], torch.int64), ([one.double(), 2.5], [1, 2.5], torch.float64),
        ([one.bfloat16()], [1], torch.bfloat16), ([one.bfloat16(), one.half()], [1, 1], torch.float32),
        ([two, one], [2, 1], torch.float32), ([[one, two], [3, 4]], [[1, 2], [3, 4]], torch.float32),
        ([one.clone().requires_grad_()], [1], torch.float32), ([torch.tensor(True)], [True], torch.bool),
        ([np.float64(3), 2], [3, 2], torch.float64), ([np.float32(3), 2.5], [3, 2.5], torch.float32), (np.float64(3), 3, torch.float64),
        ([np.int16(3), np.int32(2)], [3, 2], torch.int32), ([np.arange(2.0), [3, 4]], [[0, 1], [3, 4]], torch.float64),
        ([np.arange(2, dtype=np.float32), np.arange(2)], [[0, 1], [0, 1]], torch.float32), ([np.complex64(1)], [1], torch.complex64),
        (Letters(), [4, 5], torch.int64), ([Letters(), Letters()], [[4, 5], [4, 5]], torch.int64), (range(3), [0, 1, 2], torch.int64),
        (torch.Size([2, 3]), [2, 3], torch.int64), (bytearray(b"ab"), [97, 98], torch.int64), ([1, 2j], [1, 2j], torch.complex64),
        ([[], []], [[], []], torch.float32), ([True, 2.5], [1, 2.5], torch.float32),
    ],
)  # fmt: skip
def test_elements_meet_in_a_type(data: Any, values: Any, kind: torch.dtype) -> None:
    made = torch.tensor(data)
    assert made.dtype is kind and made.tolist() == values and not made.requires_grad


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([two.expand(2)], {}, ValueError, "only one element tensors"), ([torch.ones(0)], {}, ValueError, "only one element"),
        (None, {}, RuntimeError, "infer dtype of NoneType"), ([1, None], {}, RuntimeError, "infer dtype of NoneType"),
        ({1: 2}, {}, RuntimeError, "infer dtype of dict"), ({1, 2}, {}, RuntimeError, "infer dtype of set"),
        ([object()], {}, RuntimeError, "infer dtype of object"), ((x for x in "ab"), {}, RuntimeError, "infer dtype of generator"),
        ("ab", {}, TypeError, "invalid data type 'str'"), (b"ab", {}, TypeError, "invalid data type 'bytes'"),
        (["a", "b"], {}, ValueError, "too many dimensions 'str'"), ([[1, 2], [3]], {}, ValueError, "equal lengths"),
        ([2**63], {}, ValueError, "Overflow"), (-(2**63) - 1, {}, ValueError, "Overflow"), (2**70, {}, ValueError, "Overflow"),
        ([300], {"dtype": torch.uint8}, RuntimeError, "without overflow"), (300, {"dtype": torch.int8}, RuntimeError, "without overflow"),
        ([-256], {"dtype": torch.uint8}, RuntimeError, "without overflow"), ([1e20], {"dtype": torch.int64}, RuntimeError,
        "without overflow"),
        ([float("nan")], {"dtype": torch.int64}, RuntimeError, "without overflow"), (1j, {"dtype": torch.float32}, TypeError,
        "not complex"),
        (np.array(["a"]), {}, TypeError, "numpy type"), (np.datetime64("2020"), {}, TypeError, "numpy type"),
    ],
)  # fmt: skip
def test_what_is_no_data_is_refused(data: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        torch.tensor(data, **options)


def test_numbers_that_a_type_holds() -> None:
    assert torch.tensor([-1, -255], dtype=torch.uint8).tolist() == [255, 1]  # as torch's: the negative of what it holds
    assert torch.tensor(2**64 - 1, dtype=torch.uint64).item() == 2**64 - 1
    assert torch.tensor([2**63], dtype=torch.float32).item() == 2.0**63
    assert torch.tensor([1.5, -2.7], dtype=torch.int32).tolist() == [1, -2]
    assert torch.tensor([0.5, 0.0], dtype=torch.bool).tolist() == [True, False]
    assert torch.tensor(np.array([300, -1]), dtype=torch.uint8).tolist() == [44, 255]  # arrays are cast


OUT = {
    "zeros": lambda **o: torch.zeros(2, 3, **o), "ones": lambda **o: torch.ones((2,), **o), "full": lambda **o: torch.full((2,), 3.0, **o),
    "eye": lambda **o: torch.eye(2, **o), "arange": lambda **o: torch.arange(3.0, **o),
    "linspace": lambda **o: torch.linspace(0, 4, 3, **o),
    "logspace": lambda **o: torch.logspace(0, 2, 3, base=2, **o), "range": lambda **o: torch.range(1, 3, **o),
    "rand": lambda **o: torch.rand(3, **o), "randn": lambda **o: torch.randn(3, **o),
    "normal": lambda **o: torch.normal(0.0, 1.0, (3,), **o),
    "empty": lambda **o: torch.empty(3, **o).zero_(),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT)
@pytest.mark.filterwarnings("ignore")
def test_out_decides_the_type(name: str) -> None:
    make: Callable[..., Any] = OUT[name]
    out = torch.empty(0, dtype=torch.float64)
    torch.manual_seed(3)
    assert make(out=out) is out
    torch.manual_seed(3)
    assert torch.equal(out, make(dtype=torch.float64)) and out.numel()
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        make(out=torch.empty(0), dtype=torch.float64)
    if name not in ("rand", "randn", "normal", "empty"):
        integers = torch.empty(0, dtype=torch.int64)
        assert make(out=integers).tolist() == make().long().tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: torch.eye(2.5), TypeError, "'n' must be int, not float"), (lambda: torch.hann_window(4.5), TypeError, "must be int"),
        (lambda: torch.ones(3).expand(2.0, 3), TypeError, "must be int, not float"),
        (lambda: torch.ones(2, 3).narrow(0, 0.5, 1), TypeError, "must be int, not float"),
        (lambda: torch.full(2, 3), TypeError, "tuple of ints"), (lambda: torch.range(3, 0), RuntimeError, "inconsistent with step sign"),
        (lambda: torch.arange(3, 0), RuntimeError, "inconsistent"), (lambda: torch.arange(3, dtype=torch.bool), NotImplementedError,
        "Bool"),
        (lambda: torch.arange(float("inf")), RuntimeError, "unsupported range"), (lambda: torch.arange(0, 3, 0), RuntimeError, "nonzero"),
        (lambda: torch.arange(), TypeError, "'end'"), (lambda: torch.linspace(0, 1, 2.5), TypeError, "'steps' must be int"),
        (lambda: torch.linspace(0, 1, -1), RuntimeError, "non-negative"), (lambda: torch.logspace(0, 1, -1), RuntimeError, "non-negative"),
        (lambda: torch.linspace(torch.ones(2), 1, 3), RuntimeError, "0-dimensional"), (lambda: torch.eye(-1), RuntimeError,
        "greater or equal"),
        (lambda: torch.tril_indices(3, -3), RuntimeError, "non-negative"), (lambda: torch.triu_indices(-1, 2), RuntimeError,
        "non-negative"),
        (lambda: torch.empty_strided((2, 3), (1,)), RuntimeError, "stride"), (lambda: torch.empty_strided((2,), (-1,)), RuntimeError,
        "stride"),
        (lambda: torch.empty_permuted((2, 3), (1, 1)), RuntimeError, "permutation"), (lambda: torch.ones(-1), RuntimeError,
        "negative dimension"),
        (lambda: torch.from_numpy([1]), TypeError, "expected np.ndarray"),
        (lambda: torch.from_numpy(np.arange(3, dtype=">i4")), ValueError, "order"),
        (lambda: torch.frombuffer(5, dtype=torch.int8), ValueError, "buffer protocol"),
        (lambda: torch.frombuffer(b"", dtype=torch.int8), ValueError, "must not be 0"),
        (lambda: torch.frombuffer(b"abcd", dtype=torch.int8, count=0), ValueError, "must not be 0"),
        (lambda: torch.frombuffer(b"abc", dtype=torch.int32), ValueError, "size"),
        (lambda: torch.asarray([1], copy=False), ValueError, "copy"), (lambda: torch.zeros(2, pin_memory=True), NotImplementedError, "pin"),
        (lambda: torch.randint(300, (3,), dtype=torch.uint8), RuntimeError, "out of bounds"),
        (lambda: torch.ones(3, dtype=torch.bool).random_(0, 3), RuntimeError, "out of bounds"),
        (lambda: torch.randint_like(torch.ones(2, dtype=torch.int8), 200), RuntimeError, "out of bounds"),
        (lambda: torch.randint(5, 5, (2,)), RuntimeError, "less than"), (lambda: torch.randperm(300, dtype=torch.uint8), RuntimeError,
        "hold"),
        (lambda: torch.randperm(-1), RuntimeError, "non-negative"), (lambda: torch.normal(0.0, 1.0), TypeError, "'size'"),
        (lambda: torch.normal(0.0, -1.0, (2,)), RuntimeError, "std >= 0"),
        (lambda: torch.normal(torch.zeros(3), torch.ones(2)), RuntimeError, "must match"),
        (lambda: torch.ones(2, dtype=torch.int64).cauchy_(), RuntimeError, "continuous"),
        (lambda: torch.ones(2, dtype=torch.int64).exponential_(), RuntimeError, "continuous"),
        (lambda: torch.ones(2, dtype=torch.int64).log_normal_(), NotImplementedError, "int64"),
        (lambda: torch.ones(2).cauchy_(sigma=0), RuntimeError, "sigma > 0"), (lambda: torch.ones(2).geometric_(1.5), RuntimeError,
        "in \\(0, 1\\)"),
        (lambda: torch.ones(2).log_normal_(std=0), RuntimeError, "std > 0"), (lambda: torch.ones(2).exponential_(0), RuntimeError,
        "lambda > 0"),
        (lambda: torch.ones(2).uniform_(2, 1), RuntimeError, "range"), (lambda: torch.ones(2).uniform_(high=1), TypeError,
        "unexpected keyword"),
        (lambda: torch.poisson(torch.tensor([-1.0])), RuntimeError, "non-negative"),
        (lambda: torch.binomial(torch.tensor([3]), torch.tensor([0.5])), ValueError, "floating-point"),
        (lambda: torch.binomial(torch.ones(1), torch.ones(1).double()), RuntimeError, "one dtype"),
        (lambda: torch.multinomial(torch.tensor([0.0, -1.0]), 1), RuntimeError, "element < 0"),
        (lambda: torch.multinomial(torch.zeros(2), 1), RuntimeError, "sum of probabilities"),
        (lambda: torch.multinomial(torch.ones(2), 1, out=torch.ones(1)), RuntimeError, "Long"),
        (lambda: torch.heaviside(torch.ones(2), torch.tensor(1)), RuntimeError, "different dtypes"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_ranges() -> None:
    np.testing.assert_allclose(torch.logspace(0, 2, 3, dtype=torch.float64).numpy(), [1, 10, 100])
    assert torch.logspace(0, 3, 4, base=2, dtype=torch.int64).tolist() == [1, 2, 4, 8]
    assert torch.linspace(0, 10, 5, dtype=torch.int64).tolist() == np.linspace(0, 10, 5).astype(int).tolist()
    assert torch.linspace(0j, 1, 3).tolist() == [0, 0.5, 1] and torch.linspace(0, 1, 0).shape == (0,)
    assert torch.linspace(2, 9, 1).tolist() == [2]
    with pytest.warns(UserWarning, match="arange"):
        assert torch.range(1, 4, 1.5).tolist() == [1, 2.5, 4]
    assert torch.arange(start=1, end=4).tolist() == [1, 2, 3] and torch.arange(5, 0, -2).tolist() == [5, 3, 1]
    for k in (-2, 0, 1):
        assert torch.tril_indices(3, 4, k).tolist() == [list(x) for x in np.tril_indices(3, k, 4)]
        assert torch.triu_indices(3, 4, k).tolist() == [list(x) for x in np.triu_indices(3, k, 4)]


def test_memory_of_others(tmp_path: Path) -> None:
    data = bytearray(b"abcdefgh")
    shown = torch.frombuffer(data, dtype=torch.int16, offset=2, count=2)
    shown[0] = 0
    assert data[2:4] == b"\0\0" and shown.shape == (2,)
    assert torch.frombuffer(bytearray(8), dtype=torch.float32, requires_grad=True).requires_grad
    assert torch.asarray(b"ab", dtype=torch.uint8).tolist() == [97, 98]
    array = np.arange(3.0)
    assert torch.asarray(array).data_ptr() == array.ctypes.data and torch.asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert torch.asarray(array, requires_grad=True).requires_grad and torch.as_tensor(array).data_ptr() == array.ctypes.data
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(array)
    path = str(tmp_path / "numbers")
    torch.from_file(path, True, 3)[:] = torch.arange(3.0)
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2]
    private = torch.from_file(path, False, 2)
    private.fill_(7)
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2] and torch.from_file(path, size=0).shape == (0,)
    with pytest.raises(RuntimeError, match="elements"):
        torch.from_file(path, False, 4)


def test_layouts_of_new_tensors() -> None:
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2) and torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    image = torch.ones(2, 3, 4, 5)
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() == image.to(memory_format=torch.channels_last).stride()
    turned = torch.arange(6.0).view(2, 3).t()
    for like in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.rand_like, torch.randn_like):
        assert like(turned).stride() == (1, 3) and like(turned, memory_format=torch.contiguous_format).stride() == (2, 1)
        assert like(turned, dtype=torch.float64, requires_grad=True).requires_grad
    assert torch.full_like(turned.int(), 2.5).tolist() == [[2, 2]] * 3 and torch.ones_like(turned, dtype=torch.bool).all()
    assert torch.scalar_tensor(3).dtype is torch.float32 and torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor([2, 3]).tolist() == [2, 3]
    assert torch.tensor(1).new_empty_strided((2, 2), (1, 2)).stride() == (1, 2) and torch.ones(1).new([3, 4]).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("name", "terms"), [("hann", (0.5, 0.5)), ("hamming", (0.54, 0.46)), ("blackman", (0.42, 0.5, 0.08))]
)  # fmt: skip
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name: str, terms: tuple[float, ...], periodic: bool) -> None:
    make = getattr(torch, f"{name}_window")
    turn = 2 * np.pi * np.arange(7) / (7 if periodic else 6)
    wanted = sum((-1) ** k * w * np.cos(k * turn) for k, w in enumerate(terms))
    np.testing.assert_allclose(make(7, periodic, dtype=torch.float64).numpy(), wanted, atol=1e-15)
    assert make(0).shape == (0,) and make(1).tolist() == [1] and make(3, requires_grad=True).requires_grad
    assert torch.bartlett_window(6, periodic).tolist() == pytest.approx(np.bartlett(7)[:6] if periodic else np.bartlett(6))
    with pytest.raises(RuntimeError, match="floating point dtypes"):
        make(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="non-negative"):
        make(-1)


def test_draws() -> None:
    torch.manual_seed(0)
    assert torch.normal(torch.zeros(3, 1), torch.ones(2, 1, 4)).shape == (2, 3, 4)
    assert torch.normal(torch.full((2,), 5.0), 0.0).tolist() == [5, 5] and torch.normal(2.0, torch.zeros(2)).tolist() == [2, 2]
    assert torch.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [0, 1] and torch.bernoulli(torch.ones(2), 0.0).tolist() == [0, 0]
    assert torch.ones(2).bernoulli_(torch.tensor([1.0, 0.0])).tolist() == [1, 0] and torch.tensor([1.0, 0.0]).bernoulli().tolist() == [1, 0]
    assert torch.multinomial(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 1).tolist() == [[1], [0]]
    assert sorted(torch.randperm(5).tolist()) == list(range(5)) and torch.randperm(0).numel() == 0
    assert set(torch.ones(200, dtype=torch.bool).random_().tolist()) == {True, False}
    for low, high, bounds in ((0, 3, (3,)), (2, 5, (2, 5)), (2, 5, (2, 5))):
        assert set(torch.ones(200, dtype=torch.int64).random_(*bounds).tolist()) == set(range(low, high))
        assert set(torch.randint_like(torch.ones(200), *bounds).tolist()) == set(range(low, high))
    x = torch.empty(20_000, dtype=torch.float64)
    assert x.log_normal_(0.5, 0.25).log().mean().item() == pytest.approx(0.5, abs=0.01)
    assert x.log().std().item() == pytest.approx(0.25, abs=0.01)
    assert x.exponential_(2.0).mean().item() == pytest.approx(0.5, abs=0.02)
    assert x.cauchy_(3.0, 2.0).median().item() == pytest.approx(3.0, abs=0.1)
    assert x.geometric_(0.25).mean().item() == pytest.approx(4.0, abs=0.15) and x.min().item() == 1
    assert x.uniform_(2.0, 4.0).mean().item() == pytest.approx(3.0, abs=0.02)
    assert x.normal_(1.0, 2.0).std().item() == pytest.approx(2.0, abs=0.05)
    z = torch.empty(20_000, dtype=torch.complex128).normal_()
    assert z.abs().square().mean().item() == pytest.approx(1.0, abs=0.03)
    assert torch.empty(9, dtype=torch.complex64).uniform_().imag.min().item() >= 0
    assert torch.binomial(torch.tensor([5.0, 7.0]), torch.tensor([0.0, 1.0])).tolist() == [0, 7]
    assert torch.poisson(torch.zeros(2)).tolist() == [0, 0]


def test_states_of_generators() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(3), first) and torch.initial_seed() == 5
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(torch.rand(3, generator=generator), first) and generator.device.type == "cpu"
    assert torch.seed() == torch.initial_seed()
