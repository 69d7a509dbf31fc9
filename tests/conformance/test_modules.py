"""Every layer of torch.nn: from the same seed the same parameters, results, gradients and text, and states that travel both ways."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.cli.api import torch_names

RNG = np.random.default_rng()


class Input:
    """A random tensor of a shape; integers below a limit, or values near zero, if asked for."""

    def __init__(self, *shape: int, below: int = 0, kind: str = "normal") -> None:
        self.shape, self.below, self.kind = shape, below, kind

    def draw(self) -> np.ndarray:
        if self.below:
            return RNG.integers(0, self.below, self.shape)
        if self.kind == "signs":
            return RNG.choice([-1.0, 1.0], self.shape)
        if self.kind == "chances":
            values = RNG.uniform(0.1, 0.9, self.shape)
            return values / values.sum(1, keepdims=True) if len(self.shape) > 1 else values
        return np.asarray(RNG.normal(size=self.shape))


def layer(name: str, *inputs: Input, args: tuple[Any, ...] = (), **kwargs: Any) -> tuple[str, tuple[Any, ...], dict[str, Any], Any]:
    return name, args, kwargs, inputs


ROWS, LINE, IMAGE, VOLUME = Input(4, 6), Input(2, 4, 9), Input(2, 4, 6, 5), Input(2, 4, 5, 4, 3)
CHANCES, CLASSES = Input(4, 6, kind="chances"), Input(4, below=6)
PLACES = {1: LINE, 2: IMAGE, 3: VOLUME}
LAYERS = [
    *(layer(n, ROWS) for n in (
        "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU", "LogSigmoid", "Mish",
        "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "RReLU", "Dropout",
        "AlphaDropout", "FeatureAlphaDropout",
    )),
    layer("PReLU", IMAGE, num_parameters=4), layer("GELU", ROWS, approximate="tanh"), layer("Threshold", ROWS, args=(0.1, 20)),
    *(layer(n, ROWS, dim=1) for n in ("Softmax", "LogSoftmax", "Softmin")), layer("Softmax2d", IMAGE),
    *(layer(f"Dropout{d}d", PLACES[d]) for d in PLACES),
    layer("Linear", ROWS, args=(6, 3)), layer("Linear", ROWS, args=(6, 3), bias=False),
    layer("Bilinear", ROWS, Input(4, 3), args=(6, 3, 5)),
    layer("Flatten", IMAGE), layer("Unflatten", ROWS, args=(1, (2, 3))), layer("ChannelShuffle", IMAGE, args=(2,)),
    layer("PixelShuffle", IMAGE, args=(2,)), layer("PixelUnshuffle", Input(2, 3, 4, 6), args=(2,)),
    layer("Fold", Input(2, 8, 9), output_size=(4, 4), kernel_size=(2, 2)), layer("Unfold", IMAGE, kernel_size=(2, 3), padding=1),
    *(layer(f"Conv{d}d", PLACES[d], args=(4, 6, 3), padding=1, groups=2) for d in PLACES),
    layer("Conv2d", IMAGE, args=(4, 3, (2, 3)), stride=2, dilation=(1, 2), padding_mode="circular", padding=2),
    layer("Conv1d", LINE, args=(4, 3, 4), padding="same", bias=False),
    *(layer(f"ConvTranspose{d}d", PLACES[d], args=(4, 6, 3), stride=2, output_padding=1) for d in PLACES),
    *(layer(f"{kind}Pool{d}d", PLACES[d], kernel_size=2) for d in PLACES for kind in ("Max", "Avg")),
    *(layer(f"LPPool{d}d", PLACES[d], norm_type=2, kernel_size=2) for d in PLACES),
    *(layer(f"Adaptive{kind}Pool{d}d", PLACES[d], output_size=2) for d in PLACES for kind in ("Max", "Avg")),
    *(layer(f"FractionalMaxPool{d}d", Input(2, 3, *[6] * d), kernel_size=2, output_size=2) for d in (2, 3)),
    *(layer(f"BatchNorm{d}d", PLACES[d], args=(4,)) for d in PLACES), layer("BatchNorm1d", ROWS, args=(6,), bias=False, momentum=None),
    *(layer(f"InstanceNorm{d}d", PLACES[d], args=(4,), affine=True, track_running_stats=True) for d in PLACES),
    layer("GroupNorm", IMAGE, args=(2, 4)), layer("LayerNorm", IMAGE, args=((6, 5),)), layer("RMSNorm", ROWS, args=(6,)),
    layer("LocalResponseNorm", IMAGE, args=(3,)),
    *(layer(f"{kind}Pad{d}d", PLACES[d], args=(1,)) for d in PLACES for kind in ("Circular", "Reflection", "Replication", "Zero")),
    *(layer(f"ConstantPad{d}d", PLACES[d], args=(1, 3.5)) for d in PLACES),
    *(layer(n, IMAGE, scale_factor=2) for n in ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d")),
    layer("Upsample", IMAGE, size=(9, 7), mode="bicubic", align_corners=True), layer("CosineSimilarity", ROWS, ROWS),
    layer("PairwiseDistance", ROWS, ROWS, p=1), layer("Embedding", Input(3, 5, below=7), args=(7, 4), padding_idx=2),
    layer("EmbeddingBag", Input(3, 5, below=7), args=(7, 4), mode="sum"),
    layer("EmbeddingBag", Input(3, 5, below=7), args=(7, 4), mode="max"),
    *(layer(n, Input(5, 3, 6), args=(6, 4, 2), bidirectional=True, batch_first=True, dropout=0.3) for n in ("GRU", "LSTM", "RNN")),
    layer("LSTM", Input(5, 3, 6), args=(6, 4), proj_size=2), *(layer(n, ROWS, args=(6, 3)) for n in ("GRUCell", "LSTMCell", "RNNCell")),
    layer("MultiheadAttention", *[Input(5, 2, 8)] * 3, args=(8, 2), bias=True), layer("MultiheadAttention", Input(5, 2, 8), Input(4, 2, 6),
          Input(4, 2, 3), args=(8, 2), kdim=6, vdim=3, add_bias_kv=True, add_zero_attn=True),
    layer("TransformerEncoderLayer", Input(5, 2, 8), args=(8, 2, 16)), layer("TransformerDecoderLayer", Input(5, 2, 8), Input(4, 2, 8),
          args=(8, 2, 16), norm_first=True, activation="gelu"),
    layer("Transformer", Input(5, 2, 8), Input(4, 2, 8), args=(8, 2, 1, 2, 16), dropout=0.0),
    layer("AdaptiveLogSoftmaxWithLoss", ROWS, Input(4, below=20), args=(6, 20, [4, 9]), div_value=2.0),
    layer("AdaptiveLogSoftmaxWithLoss", ROWS, Input(4, below=20), args=(6, 20, [2]), head_bias=True),
    *(layer(n, ROWS, ROWS) for n in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss")),
    layer("BCELoss", CHANCES, CHANCES), layer("BCEWithLogitsLoss", ROWS, CHANCES), layer("KLDivLoss", ROWS, CHANCES, reduction="batchmean"),
    layer("CrossEntropyLoss", ROWS, CLASSES, label_smoothing=0.1), layer("NLLLoss", ROWS, CLASSES), layer("NLLLoss2d", IMAGE, Input(2, 6, 5,
          below=4)), layer("MultiMarginLoss", ROWS, CLASSES, p=2), layer("MultiLabelMarginLoss", ROWS, Input(4, 6, below=6)),
    layer("MultiLabelSoftMarginLoss", ROWS, CHANCES), layer("SoftMarginLoss", ROWS, Input(4, 6, kind="signs")),
    layer("HingeEmbeddingLoss", ROWS, Input(4, 6, kind="signs"), margin=2.0),
    layer("CosineEmbeddingLoss", ROWS, ROWS, Input(4, kind="signs")),
    layer("MarginRankingLoss", Input(4), Input(4), Input(4, kind="signs"), margin=0.3),
    layer("GaussianNLLLoss", ROWS, ROWS, CHANCES, full=True),
    layer("TripletMarginLoss", ROWS, ROWS, ROWS, swap=True), layer("TripletMarginWithDistanceLoss", ROWS, ROWS, ROWS, margin=2.0),
    layer("LinearCrossEntropyLoss", ROWS, Input(4, below=5), args=(6, 5), bias=True), layer("LinearCrossEntropyLoss", ROWS,
          Input(4, 2, below=5), args=(6, 5), out_features=(2,), reduction="sum"),
    layer("LazyLinear", ROWS, args=(3,)), *(layer(f"LazyConv{d}d", PLACES[d], args=(6, 3), groups=2) for d in PLACES),
    *(layer(f"LazyConvTranspose{d}d", PLACES[d], args=(6, 3), stride=2) for d in PLACES),
    *(layer(f"Lazy{kind}Norm{d}d", PLACES[d]) for d in PLACES for kind in ("Batch", "Instance")),
]  # fmt: skip
# What is tested elsewhere, or cannot be compared by calling it with random tensors.
ELSEWHERE = {
    "Buffer", "CTCLoss", "Container", "CrossMapLRN2d", "DataParallel", "LinearCrossEntropyOptions", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase",
    "Sequential", "SyncBatchNorm", "TransformerDecoder", "TransformerEncoder", "UninitializedBuffer", "UninitializedParameter",
}  # fmt: skip


def test_every_layer_is_compared() -> None:
    layers = {name.name for name in torch_names() if name.section == "torch.nn" and name.name[0].isupper()}
    assert layers - ELSEWHERE == {name for name, *_ in LAYERS}


def tensors_of(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [t for part in value for t in tensors_of(part)]
    return [] if value is None else [value]


class Run:
    """One layer in one library: made from a seed, called, and differentiated."""

    def __init__(self, library: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.library = library
        library.manual_seed(17)
        self.module = getattr(library.nn, name)(*args, **kwargs)
        self.first_text = repr(self.module)

    def go(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        tensors = [self.library.tensor(x, dtype=self.library.float32 if x.dtype == np.float64 else None) for x in inputs]
        if tensors[0].is_floating_point():
            tensors[0].requires_grad_()
        found = tensors_of(self.module(*tensors))
        results = [t.detach().numpy() for t in found]
        if found[0].requires_grad:
            sum((t * t.detach().cos()).sum() for t in found if t.requires_grad).backward()
        if tensors[0].grad is not None:
            results.append(tensors[0].grad.numpy())
        return results + [p.grad.numpy() for p in self.module.parameters() if p.grad is not None]

    def state(self) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in self.module.state_dict().items()}


def close(a: list[Any], b: list[Any]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), LAYERS, ids=lambda value: value if isinstance(value, str) else "")
def test_layers_are_pytorchs(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: tuple[Input, ...]) -> None:
    ours, theirs = (Run(library, name, args, kwargs) for library in (flambeau, torch))
    assert ours.first_text == theirs.first_text
    values = [x.draw() for x in inputs]
    close(*(run.go(values) for run in (ours, theirs)))
    assert repr(ours.module) == repr(theirs.module) and type(ours.module).__name__ == type(theirs.module).__name__
    states = [run.state() for run in (ours, theirs)]
    assert list(states[0]) == list(states[1])
    close(*(list(state.values()) for state in states))
    for source, target in ((ours, theirs), (theirs, ours)):
        file = io.BytesIO()
        source.library.save({n: p + 1 if p.is_floating_point() else p for n, p in source.module.state_dict().items()}, file)
        file.seek(0)
        target.module.load_state_dict(target.library.load(file))
        sent, arrived = ([v for v in run.state().values() if v.dtype.kind == "f"] for run in (source, target))
        close([v + 1 for v in sent], arrived)


UNPOOLED: list[tuple[int, Callable[[Any], Any]]] = [(d, lambda nn, d=d: getattr(nn, f"MaxUnpool{d}d")(2)) for d in (1, 2, 3)]


@pytest.mark.parametrize(("dimensions", "make"), UNPOOLED)
def test_unpooling_puts_maxima_back(dimensions: int, make: Callable[[Any], Any]) -> None:
    x = PLACES[dimensions].draw().astype("f")
    found = []
    for library in (flambeau, torch):
        pool = getattr(library.nn, f"MaxPool{dimensions}d")(2, return_indices=True)
        t = library.tensor(x, requires_grad=True)
        values, places = pool(t)
        unpool = make(library.nn)
        out = unpool(values, places, output_size=t.shape)
        (out * out).sum().backward()
        found.append((repr(unpool), [out.detach().numpy(), places.numpy(), t.grad.numpy()]))
    assert found[0][0] == found[1][0]
    close(found[0][1], found[1][1])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_normalization(size: int) -> None:
    """By its formula: PyTorch's own never takes channel 0 out of the running sum, so that only channels next to it can be compared."""
    x = RNG.normal(size=(2, 6, 3, 3))
    half = (size - 1) // 2
    sums = np.stack([(x[:, max(0, c - half) : c + half + 1] ** 2).sum(1) for c in range(6)], 1)
    ours, theirs = (library.nn.CrossMapLRN2d(size, 0.3, 0.5, 2.0) for library in (flambeau, torch))
    assert repr(ours) == repr(theirs)
    found = ours(flambeau.tensor(x)).numpy()
    np.testing.assert_allclose(found, x * (2.0 + 0.3 / size * sums) ** -0.5, rtol=1e-9)
    np.testing.assert_allclose(found[:, : half + 1], theirs(torch.tensor(x)).numpy()[:, : half + 1], rtol=1e-9)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss(reduction: str) -> None:
    scores, targets = RNG.normal(size=(9, 3, 5)).astype("f"), RNG.integers(1, 5, (3, 4))
    found = []
    for library in (flambeau, torch):
        x = library.tensor(scores, requires_grad=True)
        loss = library.nn.CTCLoss(reduction=reduction)(
            x.log_softmax(2), library.tensor(targets), library.tensor([9, 8, 9]), library.tensor([4, 2, 3])
        )
        loss.sum().backward()
        found.append([loss.detach().numpy(), x.grad.numpy()])
    close(*found)


def test_adaptive_softmax_gives_chances_and_classes() -> None:
    x = RNG.normal(size=(16, 6)).astype("f")
    found = []
    for library in (flambeau, torch):
        library.manual_seed(2)
        module = library.nn.AdaptiveLogSoftmaxWithLoss(6, 12, [2, 5], div_value=1.5)
        found.append([module.log_prob(library.tensor(x)).detach().numpy(), module.predict(library.tensor(x)).numpy()])
    close(*found)
    assert np.array_equal(found[0][1], found[0][0].argmax(1))


BAD: list[Callable[[Any], Any]] = [
    lambda t: t.nn.Linear(3, 2)(t.ones(4, 5)), lambda t: t.nn.Conv2d(3, 4, 3, groups=2), lambda t: t.nn.BatchNorm1d(3)(t.ones(2, 3, 4, 5)),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(6, 12, [5, 2]), lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(6, 12, []),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(6, 12, [2])(t.ones(3, 6), t.tensor([1, 2, 12])),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(6, 12, [2])(t.ones(6), t.tensor([1])),
    lambda t: t.nn.LazyConv2d(4, 3)(t.ones(2, 3)), lambda t: t.nn.LazyLinear(3).weight.shape, lambda t: t.nn.LazyLinear(3).weight + 1,
    lambda t: t.nn.LSTM(3, 4, proj_size=5), lambda t: t.nn.GRU(3, 4, proj_size=1), lambda t: t.nn.MultiheadAttention(5, 2),
    lambda t: t.nn.Hardtanh(1.0, 0.0), lambda t: t.nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2.0),
    lambda t: t.nn.LinearCrossEntropyLoss(3, 4, weight=t.ones(3)), lambda t: t.nn.Embedding(3, 4, padding_idx=5),
    lambda t: t.nn.PixelShuffle(2)(t.ones(1, 3, 2, 2)), lambda t: t.nn.Bilinear(0, 2, 3), lambda t: t.nn.factory_kwargs({"bias": 1}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_arguments_raise_the_type_that_pytorch_raises(number: int) -> None:
    kinds = []
    for library in (flambeau, torch):
        with pytest.raises(Exception) as caught:
            BAD[number](library)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1], caught.value


def test_batch_normalizations_become_synchronous_ones() -> None:
    x, found = RNG.normal(size=(5, 3)).astype("f"), []
    for library in (flambeau, torch):
        library.manual_seed(8)
        nn = library.nn
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=True), nn.ModuleDict({"a": nn.BatchNorm2d(2, bias=False)}))
        model[0](library.tensor(x))
        converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        out = converted[1](converted[0](library.tensor(x)))
        found.append((repr(converted), list(converted.state_dict()), out.detach().numpy(), converted[1].running_mean.numpy()))
    assert found[0][:2] == found[1][:2]
    close(list(found[0][2:]), list(found[1][2:]))
    assert flambeau.nn.SyncBatchNorm(3)(flambeau.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    with pytest.raises(ValueError, match="at least 2D"):
        flambeau.nn.SyncBatchNorm(3)(flambeau.ones(3))
