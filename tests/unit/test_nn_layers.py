"""Layers against float64 numpy: values, gradients, first values and random masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.core import dtypes
from tests.unit.random_stream import Stream

RNG = np.random.default_rng()


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def tensor(array: np.ndarray, requires_grad: bool = False) -> Any:
    return torch.tensor(array.astype(np.float32), requires_grad=requires_grad)


def close(actual: Any, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance * 10, atol=tolerance)


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().astype(np.float64) for name, p in module.named_parameters()}


# -- first values ---------------------------------------------------------------------------------------
def uniform(stream: Stream, shape: tuple[int, ...], bound: float) -> np.ndarray:
    drawn = stream.uniform(math.prod(shape), dtypes.float32).astype(np.float32)
    return (drawn * np.float32(2 * bound) + np.float32(-bound)).reshape(shape)


@pytest.mark.parametrize(("make", "shapes", "fan_in"), [
    (lambda: nn.Linear(6, 5), ((5, 6), (5,)), 6),
    (lambda: nn.Conv2d(4, 6, 3, groups=2), ((6, 2, 3, 3), (6,)), 18),
    (lambda: nn.ConvTranspose1d(4, 6, 3), ((4, 6, 3), (6,)), 18),
    (lambda: nn.Bilinear(6, 2, 3), ((3, 6, 2), (3,)), 6),
])  # fmt: skip
def test_weights_start_uniform(make: Any, shapes: Any, fan_in: int) -> None:
    seed = int(RNG.integers(2**32))
    torch.manual_seed(seed)
    parameters = list(make().parameters())
    stream = Stream(seed)
    for parameter, shape in zip(parameters, shapes, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), uniform(stream, shape, 1 / math.sqrt(fan_in)), atol=1e-7, err_msg=str(seed))


def test_other_first_values() -> None:
    torch.manual_seed(5)
    table = nn.Embedding(20, 3, padding_idx=4).weight.detach().numpy()
    expected = Stream(5).normal(60, dtypes.float32).reshape(20, 3)
    expected[4] = 0
    np.testing.assert_allclose(table, expected, atol=3e-6)
    for layer in (nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.RMSNorm(4)):
        assert layer.weight.tolist() == [1] * 4 and (not hasattr(layer, "bias") or layer.bias.tolist() == [0] * 4)
    assert nn.PReLU(3, init=0.5).weight.tolist() == [0.5] * 3


# -- affine maps and tables -----------------------------------------------------------------------------
def test_linear_and_its_gradients() -> None:
    layer, x, g = nn.Linear(6, 5), values(3, 2, 6), values(3, 2, 5)
    w = weights(layer)
    given = tensor(x, requires_grad=True)
    out = layer(given)
    close(out, x @ w["weight"].T + w["bias"])
    out.backward(tensor(g))
    close(given.grad, g @ w["weight"])
    close(layer.weight.grad, np.einsum("abo,abi->oi", g, x))
    close(layer.bias.grad, g.sum((0, 1)))
    assert nn.Linear(2, 3, bias=False).bias is None


def test_bilinear() -> None:
    layer, a, b = nn.Bilinear(3, 4, 5), values(7, 3), values(7, 4)
    w = weights(layer)
    close(layer(tensor(a), tensor(b)), np.einsum("ni,oij,nj->no", a, w["weight"], b) + w["bias"])
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 1, 1)


def test_embedding_and_its_gradient() -> None:
    layer = nn.Embedding(10, 3, padding_idx=-8)
    index = np.array([[1, 2, 4], [4, 9, 2]])
    out = layer(torch.tensor(index))
    close(out, weights(layer)["weight"][index])
    out.sum().backward()
    counts = np.bincount(index.ravel(), minlength=10).astype(float)
    counts[2] = 0
    close(layer.weight.grad, np.repeat(counts[:, None], 3, 1))
    with pytest.raises(IndexError):
        layer(torch.tensor([10]))
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=5)
    rows = nn.Embedding(3, 2, sparse=True)
    rows(torch.tensor([0])).sum().backward()
    assert rows.weight.grad.is_sparse and rows.weight.grad.to_dense().tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_embedding_shrinks_long_rows() -> None:
    table = values(5, 4) * 3
    layer = nn.Embedding.from_pretrained(tensor(table), max_norm=1.0)
    out = layer(torch.tensor([1, 3, 1]))
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    expected = np.where(lengths > 1, table / (lengths + 1e-7), table)
    close(out, expected[[1, 3, 1]])
    close(layer.weight, np.where(np.isin(np.arange(5), [1, 3])[:, None], expected, table))
    assert not layer.weight.requires_grad


@pytest.mark.parametrize(("mode", "combine"), [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_bags_of_rows(mode: str, combine: Any) -> None:
    layer = nn.EmbeddingBag(10, 3, mode=mode)
    table, index = weights(layer)["weight"], np.array([1, 2, 4, 4, 9, 2])
    close(layer(torch.tensor(index.reshape(2, 3))), combine(table[index.reshape(2, 3)], axis=1))
    if mode == "max":
        return
    bags = layer(torch.tensor(index), torch.tensor([0, 1]))
    close(bags, np.stack([combine(table[index[:1]], axis=0), combine(table[index[1:]], axis=0)]))


# -- normalization --------------------------------------------------------------------------------------
def standardized(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def with_random_affine(layer: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    w, b = values(*layer.weight.shape), values(*layer.weight.shape)
    layer.weight.data.copy_(tensor(w))
    layer.bias.data.copy_(tensor(b))
    return w, b


def test_normalization_of_features() -> None:
    x = values(2, 4, 6)
    layer = nn.LayerNorm((4, 6))
    w, b = with_random_affine(layer)
    close(layer(tensor(x)), standardized(x, (1, 2)) * w + b)
    grouped = nn.GroupNorm(2, 4)
    w, b = with_random_affine(grouped)
    expected = standardized(x.reshape(2, 2, 2, 6), (2, 3)).reshape(2, 4, 6) * w[:, None] + b[:, None]
    close(grouped(tensor(x)), expected)
    close(nn.RMSNorm(6, eps=1e-3)(tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3))
    close(nn.InstanceNorm1d(4)(tensor(x)), standardized(x, (2,)))
    close(nn.InstanceNorm1d(4)(tensor(x[0])), standardized(x[0], (1,)))
    with pytest.raises(ValueError, match="must be divisible by num_groups"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ValueError, match="expected 3D or 4D input"):
        nn.InstanceNorm2d(4)(tensor(values(2, 4)))


def test_local_response_norm() -> None:
    x = values(2, 5, 3)
    windows = np.stack([(np.pad(x**2, ((0, 0), (1, 1), (0, 0))))[:, i : i + 3].mean(1) for i in range(5)], 1)
    close(nn.LocalResponseNorm(3, alpha=0.5, k=2.0)(tensor(x)), x / (2 + 0.5 * windows) ** 0.75)


@pytest.mark.parametrize("momentum", [0.3, None])
def test_batch_norm_follows_its_batches(momentum: float | None) -> None:
    layer = nn.BatchNorm2d(3, momentum=momentum)
    w, b = with_random_affine(layer)
    mean, variance = np.zeros(3), np.ones(3)
    shape = (1, 3, 1, 1)
    for step in range(1, 4):
        x = values(4, 3, 2, 2) * 2 + 1
        share = 1 / step if momentum is None else momentum
        close(layer(tensor(x)), standardized(x, (0, 2, 3)) * w.reshape(shape) + b.reshape(shape))
        mean = mean + share * (x.mean((0, 2, 3)) - mean)
        variance = variance + share * (x.var((0, 2, 3), ddof=1) - variance)
        close(layer.running_mean, mean)
        close(layer.running_var, variance)
        assert layer.num_batches_tracked.item() == step
    x = values(4, 3, 2, 2)
    scaled = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-5)
    close(layer.eval()(tensor(x)), scaled * w.reshape(shape) + b.reshape(shape), 2e-5)
    assert layer.num_batches_tracked.item() == 3
    layer.reset_running_stats()
    assert layer.running_var.tolist() == [1, 1, 1] and layer.num_batches_tracked.item() == 0


def test_batch_norm_trains_several_steps_and_then_evaluates() -> None:
    layer = nn.BatchNorm1d(3)
    for _ in range(3):
        layer(tensor(values(5, 3))).sum().backward()
    assert not layer.running_mean.requires_grad
    layer.eval()
    x = tensor(values(5, 3), requires_grad=True)
    layer(x).sum().backward()
    expected = layer.weight.detach().numpy() / np.sqrt(layer.running_var.numpy().astype(float) + 1e-5)
    close(x.grad, np.broadcast_to(expected, (5, 3)))


def test_batch_norm_checks_and_old_states() -> None:
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(tensor(values(2, 3)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(tensor(values(1, 3)))
    state = nn.BatchNorm1d(3).state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    assert nn.BatchNorm1d(3).load_state_dict(state).missing_keys == []
    untracked = nn.BatchNorm1d(3, track_running_stats=False, affine=False).eval()
    x = values(4, 3)
    close(untracked(tensor(x)), standardized(x, (0,)))
    assert list(untracked.state_dict()) == []


# -- dropout --------------------------------------------------------------------------------------------
def test_dropout_takes_the_stream_s_mask() -> None:
    seed, x = int(RNG.integers(2**32)), values(6, 7)
    torch.manual_seed(seed)
    given = tensor(x, requires_grad=True)
    out = nn.Dropout(0.3)(given)
    kept = Stream(seed).uniform(42, dtypes.float64).reshape(6, 7) < 0.7
    close(out, np.where(kept, x / 0.7, 0))
    out.sum().backward()
    close(given.grad, kept / 0.7)


def test_dropout_of_channels() -> None:
    x = np.ones((3, 4, 2, 2))
    out = nn.Dropout2d(0.5)(tensor(x)).numpy()
    for channel in out.reshape(12, 4):
        assert set(channel) in ({0.0}, {2.0})
    alone = nn.Dropout1d(0.5)(tensor(values(3, 4))).numpy()
    assert all((row == 0).all() or (row != 0).all() for row in alone)


@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_may_do_nothing(layer: Any) -> None:
    x = tensor(values(2, 3, 2, 2, 2) if layer is nn.Dropout3d else values(2, 3, 2, 2))
    before = torch.get_rng_state().tolist()
    assert layer(0.4).eval()(x).tolist() == x.tolist()
    assert layer(0.0)(x).tolist() == x.tolist()
    assert torch.get_rng_state().tolist() == before
    assert not layer(1.0)(x).any()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        layer(1.5)


# -- convolution and pooling ----------------------------------------------------------------------------
def convolved(x: np.ndarray, weight: np.ndarray, stride: int, dilation: int) -> np.ndarray:
    span = dilation * (weight.shape[2] - 1) + 1
    columns = [x[:, :, i : i + span : dilation] for i in range(0, x.shape[2] - span + 1, stride)]
    return np.stack([np.einsum("nck,ock->no", column, weight) for column in columns], 2)


@pytest.mark.parametrize(("options", "pad", "mode"), [
    ({}, (0, 0), "constant"), ({"stride": 2, "padding": 1}, (1, 1), "constant"), ({"dilation": 2, "padding": "same"}, (2, 2), "constant"),
    ({"padding": 2, "padding_mode": "circular"}, (2, 2), "wrap"), ({"padding": 2, "padding_mode": "reflect"}, (2, 2), "reflect"),
    ({"padding": 2, "padding_mode": "replicate"}, (2, 2), "edge"), ({"padding": "valid", "bias": False}, (0, 0), "constant"),
])  # fmt: skip
def test_convolution(options: Any, pad: tuple[int, int], mode: Any) -> None:
    layer, x = nn.Conv1d(4, 6, 3, **options), values(2, 4, 9)
    w = weights(layer)
    padded = np.pad(x, ((0, 0), (0, 0), pad), mode=mode)
    expected = convolved(padded, w["weight"], options.get("stride", 1), options.get("dilation", 1))
    close(layer(tensor(x)), expected + (w["bias"][:, None] if "bias" in w else 0))
    close(layer(tensor(x[0])), expected[0] + (w["bias"][:, None] if "bias" in w else 0))


def test_transposed_convolution_is_the_gradient() -> None:
    layer, x = nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, bias=False), values(2, 4, 5)
    given = tensor(values(2, 6, 9), requires_grad=True)
    nn.functional.conv1d(given, layer.weight, stride=2, padding=1).backward(tensor(x))
    close(layer(tensor(x)), given.grad.numpy())
    assert tuple(layer(tensor(x), output_size=[10]).shape) == (2, 6, 10)
    with pytest.raises(ValueError, match="requested an output size of"):
        layer(tensor(x), output_size=[20])


@pytest.mark.parametrize(("options", "message"), [
    ({"groups": 3}, "in_channels must be divisible by groups"), ({"groups": 0}, "groups must be a positive integer"),
    ({"padding": "full"}, "Invalid padding string 'full'"), ({"padding": "same", "stride": 2}, "not supported for strided"),
    ({"padding_mode": "odd"}, "padding_mode must be one of"),
])  # fmt: skip
def test_bad_convolutions_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(4, 6, 3, **options)


def test_pooling() -> None:
    x = values(2, 3, 8, 6)
    blocks = x.reshape(2, 3, 4, 2, 3, 2)
    close(nn.MaxPool2d(2)(tensor(x)), blocks.max((3, 5)))
    close(nn.AvgPool2d(2)(tensor(x)), blocks.mean((3, 5)))
    close(nn.LPPool2d(2, 2)(tensor(x)), np.sqrt((blocks**2).sum((3, 5))), 1e-4)
    close(nn.AdaptiveAvgPool2d((4, None))(tensor(x)), x.reshape(2, 3, 4, 2, 6).mean(3))
    close(nn.AdaptiveMaxPool2d(1)(tensor(x)), x.max((2, 3), keepdims=True))
    out, places = nn.MaxPool2d(2, return_indices=True)(tensor(x))
    found = np.take_along_axis(x.reshape(2, 3, 48), places.numpy().reshape(2, 3, 12), 2)
    np.testing.assert_allclose(found, out.numpy().reshape(2, 3, 12), rtol=1e-6)
    line = values(2, 3, 9)
    close(nn.AvgPool1d(3)(tensor(line)), line.reshape(2, 3, 3, 3).mean(3))
    close(nn.MaxPool1d(3, 1)(tensor(line)), np.maximum(np.maximum(line[..., :-2], line[..., 1:-1]), line[..., 2:]))


# -- rearranging ----------------------------------------------------------------------------------------
def test_rearranging() -> None:
    x = values(2, 4, 3, 5)
    shuffled = x.reshape(2, 1, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 6, 10)
    close(nn.PixelShuffle(2)(tensor(x)), shuffled)
    close(nn.PixelUnshuffle(2)(tensor(shuffled)), x)
    close(nn.ChannelShuffle(2)(tensor(x)), x.reshape(2, 2, 2, 3, 5).swapaxes(1, 2).reshape(2, 4, 3, 5))
    close(nn.Flatten()(tensor(x)), x.reshape(2, 60))
    close(nn.Unflatten(1, (2, 2))(tensor(x)), x.reshape(2, 2, 2, 3, 5))
    close(nn.Upsample(scale_factor=2)(tensor(x)), x.repeat(2, 2).repeat(2, 3))
    close(nn.Upsample((6, 5), mode="area")(tensor(x)), x.repeat(2, 2))
    columns = nn.Unfold(2)(tensor(x))
    close(columns[:, :, 0], x[:, :, :2, :2].reshape(2, 16))
    counts = nn.Fold((3, 5), 2)(nn.Unfold(2)(torch.ones(1, 1, 3, 5)))
    assert counts[0, 0].tolist() == [[1, 2, 2, 2, 1], [2, 4, 4, 4, 2], [1, 2, 2, 2, 1]]


@pytest.mark.parametrize(("layer", "mode", "options"), [
    (nn.ZeroPad2d, "constant", {}), (nn.ReflectionPad2d, "reflect", {}), (nn.ReplicationPad2d, "edge", {}), (nn.CircularPad2d, "wrap", {}),
])  # fmt: skip
def test_borders(layer: Any, mode: Any, options: Any) -> None:
    x = values(2, 3, 4, 5)
    close(layer((1, 2, 3, 0))(tensor(x)), np.pad(x, ((0, 0), (0, 0), (3, 0), (1, 2)), mode=mode))
    close(nn.ConstantPad1d(1, 2.5)(tensor(x)), np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)), constant_values=2.5))


def test_sampling_at_a_grid() -> None:
    x = values(1, 2, 3, 4)
    turned = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    square = values(1, 2, 5, 5)
    grid = nn.functional.affine_grid(turned, (1, 2, 5, 5), align_corners=True)
    close(nn.functional.grid_sample(tensor(square), grid, align_corners=True), np.rot90(square, 1, (2, 3)), 1e-4)
    same = nn.functional.affine_grid(torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]), (1, 2, 3, 4), align_corners=False)
    for mode in ("bilinear", "nearest"):
        close(nn.functional.grid_sample(tensor(x), same, mode, align_corners=False), x, 1e-4)
    outside = torch.full((1, 1, 1, 2), 9.0)
    assert not nn.functional.grid_sample(tensor(x), outside).any()
    close(nn.functional.grid_sample(tensor(x), outside, padding_mode="border")[..., 0, 0], x[..., -1, -1])
    with pytest.raises(ValueError, match="grid_sample"):
        nn.functional.grid_sample(tensor(x), same, "cubic")
    volume = values(1, 2, 3, 2, 4)
    still = nn.functional.affine_grid(torch.eye(3, 4).reshape(1, 3, 4), (1, 2, 3, 2, 4), align_corners=True)
    close(nn.functional.grid_sample(tensor(volume), still, align_corners=True), volume, 1e-4)
