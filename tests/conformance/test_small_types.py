"""Eight-bit floats, unsigned integers and functions of few programs, held against PyTorch."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import numpy as np
import pytest
import torch as reference

import flambeau as torch

FLOATS = ("float8_e4m3fn", "float8_e5m2")
UNSIGNED = ("uint16", "uint32", "uint64")


def _same(ours: Any, theirs: Any, **limits: Any) -> None:
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), **limits)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
def test_rounding_to_eight_bits(name: str, source: str) -> None:
    random = np.random.default_rng(0)
    x = (random.normal(size=5000) * np.exp(random.uniform(-15, 13, 5000))).astype(np.float32)
    x[:12] = [0, -0.0, np.inf, -np.inf, np.nan, 464, 463.9, 57344, 61440, 61439, 2.0**-10, 2.0**-17]
    ours = torch.tensor(x).to(getattr(torch, source)).to(getattr(torch, name)).view(torch.uint8).numpy()
    theirs = reference.tensor(x).to(getattr(reference, source)).to(getattr(reference, name)).view(reference.uint8).numpy()
    assert ((ours == theirs) | (np.isnan(x) & (ours & 0x7F == 0x7F))).all()
    every = np.arange(256, dtype=np.uint8)
    back = [lib.tensor(every).view(getattr(lib, name)).to(getattr(lib, source)).float().numpy() for lib in (torch, reference)]
    np.testing.assert_array_equal(*back)


@pytest.mark.parametrize("name", FLOATS)
def test_eight_bits_are_moved_and_not_computed_with(name: str) -> None:
    def results(lib: Any) -> list[Any]:
        kind = getattr(lib, name)
        t = lib.tensor([1.5, -2.0, 0.1, 3.0]).to(kind)
        pick, mask = lib.tensor([2, 0]), lib.tensor([True, False, True, False])
        other = t.clone()
        other[1] = 4.0
        moved = [
            lib.cat([t, t]), lib.stack([t, t], 1), t[pick], t[mask], t.reshape(2, 2).t().contiguous(), lib.where(mask, t, other), other,
            lib.zeros(2, dtype=kind).fill_(3.0), lib.full((2,), 6.0, dtype=kind), t.index_select(0, pick),
            lib.tensor([500, 3]).to(kind), lib.tensor([True]).to(kind), lib.zeros(4).copy_(t), lib.zeros(4, dtype=kind).copy_(mask),
        ]  # fmt: skip
        texts = [repr(t), t.tolist(), t[2].item(), (t == 1.5).tolist(), (t != other).tolist(), t.isnan().tolist(), repr(lib.finfo(kind))]
        return [*texts, *((repr(m.dtype), m.float().tolist()) for m in moved), t.to(lib.int32).tolist(), t.bool().tolist()]

    assert results(torch) == results(reference)
    t = torch.tensor([1.0, 2.0]).to(getattr(torch, name))
    for refused in (lambda: t + t, lambda: t * 2, lambda: t.sum(), lambda: -t, lambda: t.sort(), lambda: t < t, lambda: t.exp()):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float8_"):
            refused()
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        torch.cat([t, t.float()])
    with pytest.raises(TypeError, match="ScalarType Float8_"):
        t.numpy()


@pytest.mark.parametrize("name", [*FLOATS, *UNSIGNED])
def test_files_of_the_new_types(name: str) -> None:
    for writer, reader in ((torch, reference), (reference, torch)):
        file = io.BytesIO()
        writer.save({"a": writer.tensor([1.0, 2.0, 3.0]).to(getattr(writer, name))[1:]}, file)
        file.seek(0)
        found = reader.load(file)["a"]
        assert str(found.dtype) == f"torch.{name}" and found.float().tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers(name: str) -> None:
    def results(lib: Any) -> list[Any]:
        kind = getattr(lib, name)
        most = lib.iinfo(kind).max
        t = lib.tensor([1, 2, most, 7], dtype=kind)
        made = [
            t & t, t | 1, t ^ 5, t * t, t / 2, t == 2, t != t, t.sum(), t.sort().values, t.sqrt(), t.float(), t.to(lib.int64), t[t == 2],
            t.to(lib.uint8), lib.tensor([-1]).to(kind), lib.tensor([3.7, 2.0**31]).to(kind), lib.full((2,), most, dtype=kind), t.unique(),
            lib.tensor([1.5e19 if name == "uint64" else 3.0], dtype=lib.float64).to(kind), t + lib.tensor([0.5]), t.view(lib.uint8),
        ]  # fmt: skip
        return [*((repr(m.dtype), m.tolist()) for m in made), repr(t), t[2].item(), lib.iinfo(kind).bits, str(t.numpy().dtype)]

    assert results(torch) == results(reference)
    t = torch.tensor([1, 5], dtype=getattr(torch, name))
    assert (t + t).tolist() == [2, 10] and (t < 2).tolist() == [True, False] and (t // 2).tolist() == [0, 2] and t.amax().item() == 5
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        t + torch.tensor([1])


def test_scaled_product() -> None:
    random = np.random.default_rng(1)
    a, w = random.normal(size=(4, 8)).astype(np.float32), random.normal(size=(16, 8)).astype(np.float32)

    def result(lib: Any, out: Any, row: bool) -> Any:
        x, y = lib.tensor(a).to(lib.float8_e4m3fn), lib.tensor(w).to(lib.float8_e4m3fn).t()
        scales = (lib.full((4, 1), 2.0), lib.full((1, 16), 0.5)) if row else (lib.tensor(2.0), lib.tensor(0.5))
        return lib._scaled_mm(x, y, *scales, bias=lib.ones(16), out_dtype=out)

    for out in ("float32", "bfloat16", None):
        for row in (False, True):
            ours = result(torch, out and getattr(torch, out), row)
            theirs = result(reference, out and getattr(reference, out), row)
            assert str(ours.dtype) == str(theirs.dtype)
            _same(ours.float(), theirs.float(), rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="Float8 matrix"):
        torch._scaled_mm(torch.ones(2, 2), torch.ones(2, 2), torch.tensor(1.0), torch.tensor(1.0))


def test_hash_and_segments() -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=(3, 5, 7)).astype(np.float32)
    for args in ((), (1,), ((0, 2),), (-1,)):
        assert torch.hash_tensor(torch.tensor(x), *args).tolist() == reference.hash_tensor(reference.tensor(x), *args).tolist()
    assert torch.tensor([1, -2, 7]).hash_tensor(keepdim=True).tolist() == reference.tensor([1, -2, 7]).hash_tensor(keepdim=True).tolist()
    for kind in ("sum", "mean", "max", "min", "prod"):
        for initial in (None, 1.5):
            both = []
            for lib in (torch, reference):
                data = lib.tensor(x, requires_grad=True)
                lengths = lib.tensor([[2, 0, 3], [5, 0, 0], [1, 1, 3]])
                made = lib.segment_reduce(data, kind, lengths=lengths, axis=1, initial=initial)
                made.nan_to_num(0.0, 0.0, 0.0).sum().backward()
                both += [made, data.grad]
            _same(both[0], both[2], rtol=1e-5)
            _same(both[1].nan_to_num(), both[3].nan_to_num(), rtol=1e-5)
    flat = torch.segment_reduce(torch.tensor(x[0]), "sum", offsets=torch.tensor([0, 1, 5]))
    _same(flat, reference.segment_reduce(reference.tensor(x[0]), "sum", offsets=reference.tensor([0, 1, 5])), rtol=1e-5)
    with pytest.raises(RuntimeError, match="sum to"):
        torch.segment_reduce(torch.ones(3), "sum", lengths=torch.tensor([1, 1]))


def test_from_file() -> None:
    with tempfile.NamedTemporaryFile() as file:
        shared = torch.from_file(file.name, shared=True, size=4, dtype=torch.float32)
        shared.copy_(torch.arange(4.0))
        private = torch.from_file(file.name, size=2)
        private += 10.0
        assert reference.from_file(file.name, size=4).tolist() == [0.0, 1.0, 2.0, 3.0] and private.tolist() == [10.0, 11.0]
        with pytest.raises(RuntimeError, match="bytes"):
            torch.from_file(file.name, size=40)


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg(largest: bool) -> None:
    random = np.random.default_rng(3)
    a = random.normal(size=(60, 60))
    a, b = a @ a.T, np.diag(random.uniform(1, 2, 60))
    for metric in (None, torch.tensor(b)):
        values, vectors = torch.lobpcg(torch.tensor(a), 3, metric, largest=largest, tol=1e-10)
        whitened = a if metric is None else a / np.sqrt(np.outer(np.diag(b), np.diag(b)))
        expected = np.linalg.eigvalsh(whitened)
        np.testing.assert_allclose(values.numpy(), expected[::-1][:3] if largest else expected[:3], rtol=1e-6)
        right = vectors.numpy() if metric is None else b @ vectors.numpy()
        np.testing.assert_allclose(a @ vectors.numpy(), right * values.numpy(), atol=1e-4 * expected[-1])
    with pytest.raises(NotImplementedError, match="derivatives"):
        torch.lobpcg(torch.tensor(a, requires_grad=True), 1)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "var", "std", "norm", "logsumexp", "softmax",
             "log_softmax", "softmin", "cumsum", "cumprod", "normalize"],
)  # fmt: skip
def test_masked_reductions(name: str) -> None:
    random = np.random.default_rng(4)
    x, mask = random.normal(size=(4, 6)).astype(np.float32), random.random((4, 6)) < 0.7
    mask[:, 0] = True
    for dim in (1, None) if name in ("sum", "prod", "amax", "mean", "var", "norm") else (1,):
        args = (2.0, dim) if name in ("norm", "normalize") else (dim,)
        both = []
        for lib in (torch, reference):
            data = lib.tensor(x, requires_grad=name not in ("argmax", "argmin"))
            made = getattr(lib.masked, name)(data, *args, mask=lib.tensor(mask))
            if data.requires_grad:
                (made.nan_to_num(0.0, 0.0, 0.0) * 2).sum().backward()
            # What PyTorch leaves where elements are left out is not defined.
            both += [lib.where(lib.tensor(mask), made, 0) if made.shape == (4, 6) else made, data.grad]
        _same(both[0], both[2], rtol=1e-5, atol=1e-6)
        if both[1] is not None and name not in ("softmax", "log_softmax", "softmin", "logsumexp"):
            _same(both[1].nan_to_num(), both[3].nan_to_num(), rtol=1e-4, atol=1e-5)


def test_masked_tensors() -> None:
    def results(lib: Any) -> list[Any]:
        data, mask = lib.tensor([[1.0, 2.0], [3.0, 4.0]]), lib.tensor([[True, False], [False, False]])
        x = lib.masked.masked_tensor(data, mask)
        y = (x * 2 + x).exp().sqrt()
        total = x.sum(1)
        return [y.to_tensor(-1).tolist(), y.get_mask().tolist(), total.get_data()[0].item(), total.get_mask().tolist(),
                x.amax().get_data().item(), lib.masked.is_masked_tensor(y), x.shape]  # fmt: skip

    ours, theirs = results(torch), results(reference)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert ours[1:] == theirs[1:]
    x = torch.masked.as_masked_tensor(torch.ones(2, 3), torch.ones(2, 3).bool())
    assert x.t().get_mask().shape == (3, 2) and "mask=" in repr(x)
    with pytest.raises(ValueError, match="masks must match"):
        _ = x + torch.masked.masked_tensor(torch.ones(2, 3), torch.zeros(2, 3).bool())


def test_streams_events_and_switches() -> None:
    stream, (start, end) = torch.Stream("cpu"), (torch.Event(enable_timing=True) for _ in range(2))
    start.record(stream)
    with stream:
        stream.record_event(end)
    torch.ones(2).record_stream(stream)
    assert stream.query() and end.query() and start.elapsed_time(end) >= 0
    with pytest.raises(RuntimeError, match="recorded"):
        torch.Event().elapsed_time(end)
    torch.set_anomaly_enabled(True)
    assert torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()
    assert isinstance(torch.ones(2).sort(), torch.return_types.sort) and torch.GradScaler is torch.amp.GradScaler
    with torch.accelerator.device_index(None):
        pass


def test_grouped_products() -> None:
    random = np.random.default_rng(5)
    shapes = (((7, 3), (2, 3, 4)), ((2, 5, 3), (3, 7)), ((4, 7), (7, 5)))
    for shape_a, shape_b in shapes:
        a, b = random.normal(size=shape_a).astype(np.float32), random.normal(size=shape_b).astype(np.float32)
        made = torch.nn.functional.grouped_mm(torch.tensor(a), torch.tensor(b), offs=torch.tensor([3, 7], dtype=torch.int32)).numpy()
        parts = (slice(0, 3), slice(3, 7))
        if len(shape_a) == len(shape_b):
            expected = np.stack([a[:, p] @ b[p] for p in parts])
        elif len(shape_a) == 2:
            expected = np.concatenate([a[p] @ b[i] for i, p in enumerate(parts)])
        else:
            expected = np.concatenate([a[i] @ b[:, p] for i, p in enumerate(parts)], 1)
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_options_of_files() -> None:
    file = io.BytesIO()
    with torch.serialization.skip_data():
        torch.save({"a": torch.ones(3), "b": np.float64}, file)
        with pytest.raises(NotImplementedError, match="skip_data"):
            torch.load(file)
    file.seek(0)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    assert len(unsafe) == 1 and unsafe[0] == "numpy.float64"
    file.seek(0)
    assert torch.load(file, weights_only=False)["a"].tolist() == [0.0, 0.0, 0.0]
    torch.serialization.set_crc32_options(False)
    assert not torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    with pytest.raises(NotImplementedError, match="big-endian"):
        torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
