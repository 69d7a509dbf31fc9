"""The bindings of nn.functional and the Modules over them: every argument reaches its place."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.core import dtypes
from flambeau.nn import functional as F
from tests.unit.random_stream import Stream

RNG = np.random.default_rng()


def tensor(array: Any, requires_grad: bool = False) -> Any:
    return torch.tensor(np.asarray(array).astype(np.float32), requires_grad=requires_grad)


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-4, atol=tolerance)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def normal_below(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x)


ACTIVATIONS: list[tuple[nn.Module, Any]] = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)), (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.Hardtanh(-0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25)),
    (nn.LeakyReLU(0.3), lambda x: np.where(x > 0, x, 0.3 * x)), (nn.ELU(0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    (nn.CELU(0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))), (nn.Threshold(0.1, 5.0), lambda x: np.where(x > 0.1, x, 5.0)),
    (nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))), (nn.Sigmoid(), sigmoid),
    (nn.Tanh(), np.tanh), (nn.SiLU(), lambda x: x * sigmoid(x)), (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.GELU(), lambda x: x * normal_below(x)), (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.GELU("tanh"), lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6), (nn.LogSigmoid(), lambda x: np.log(sigmoid(x))),
    (nn.Softplus(2.0, 1.0), lambda x: np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2)), (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.Softshrink(0.2), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.2, 0)),
    (nn.Hardshrink(0.2), lambda x: np.where(np.abs(x) > 0.2, x, 0)),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)), (nn.RReLU(0.2, 0.4).eval(), lambda x: np.where(x > 0, x, 0.3 * x)),
    (nn.PReLU(3, init=0.2), lambda x: np.where(x > 0, x, 0.2 * x)), (nn.GLU(1), lambda x: None), (nn.Identity(), lambda x: x),
    (nn.Softmax(dim=0), lambda x: np.exp(x) / np.exp(x).sum(0)), (nn.Softmin(dim=0), lambda x: np.exp(-x) / np.exp(-x).sum(0)),
    (nn.LogSoftmax(dim=0), lambda x: x - np.log(np.exp(x).sum(0))),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "formula"), ACTIVATIONS, ids=lambda v: repr(v) if isinstance(v, nn.Module) else "")
def test_activations(layer: nn.Module, formula: Any) -> None:
    x = RNG.standard_normal((4, 3, 2)) * 2
    if isinstance(layer, nn.GLU):
        x = RNG.standard_normal((4, 6, 2))
        close(layer(tensor(x)), x[:, :3] * sigmoid(x[:, 3:]))
        return
    close(layer(tensor(x)), formula(x), 2e-5)


@pytest.mark.parametrize("function", [
    F.relu, F.relu6, F.hardtanh, F.elu, F.selu, F.celu, F.leaky_relu, F.silu, F.mish, F.hardswish, F.hardsigmoid,
    lambda x, inplace=False: F.threshold(x, 0.1, 2.0, inplace), lambda x, inplace=False: F.dropout(x, 0.0, inplace=inplace),
])  # fmt: skip
def test_in_place_activations_give_the_same_gradients(function: Any) -> None:
    x = RNG.standard_normal((3, 4))
    first, second = tensor(x, requires_grad=True), tensor(x, requires_grad=True)
    plain, changed = function(first * 1), second * 1
    assert function(changed, inplace=True) is changed
    close(changed, plain.detach().numpy())
    (plain * plain).sum().backward()
    (changed * changed).sum().backward()
    close(second.grad, first.grad.numpy())


def test_names_with_an_underscore_work_in_place() -> None:
    x = tensor([-1.0, 2.0])
    assert F.relu_(x) is x and x.tolist() == [0, 2]
    for function in (F.elu_, F.selu_, F.celu_, F.leaky_relu_, F.hardtanh_, F.rrelu_):
        y = tensor([-1.0, 0.5])
        assert function(y) is y and y.tolist()[0] != -1 or function is F.hardtanh_
    assert F.threshold_(x, 1.0, 7.0).tolist() == [7, 2]


def test_random_activations() -> None:
    x = tensor(-np.ones(1000))
    out = F.rrelu(x, 0.1, 0.3, training=True).numpy()
    assert -0.3 <= out.min() < -0.25 and -0.15 < out.max() <= -0.1
    torch.manual_seed(3)
    logits = RNG.standard_normal((4, 5))
    hard = F.gumbel_softmax(tensor(logits), tau=0.5, hard=True)
    noise = -np.log(-np.log1p(-Stream(3).uniform(20, dtypes.float64))).reshape(4, 5)
    np.testing.assert_array_equal(hard.numpy().argmax(1), ((logits + noise) / 0.5).argmax(1))
    np.testing.assert_allclose(hard.numpy().sum(1), 1, rtol=1e-6)


def test_softmax_warns_without_a_dimension() -> None:
    x = RNG.standard_normal((2, 3))
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        close(F.softmax(tensor(x)), np.exp(x) / np.exp(x).sum(1, keepdims=True))
    assert F.softmax(tensor(x), 1, dtype=torch.float64).dtype is torch.float64


# -- losses ---------------------------------------------------------------------------------------------
X, Y = RNG.standard_normal((4, 5)), RNG.random((4, 5))
P = RNG.random((4, 5))
CLASSES = np.array([1, 4, 0, 2])
SIGNS = RNG.choice([-1.0, 1.0], (4, 5))
LOG = X - np.log(np.exp(X).sum(1, keepdims=True))
LOSSES: list[tuple[str, nn.Module, tuple[Any, ...], Any]] = [
    ("l1", nn.L1Loss(), (X, Y), lambda: np.abs(X - Y).mean()),
    ("mse", nn.MSELoss(reduction="sum"), (X, Y), lambda: ((X - Y) ** 2).sum()),
    ("mse none", nn.MSELoss(reduction="none"), (X, Y), lambda: (X - Y) ** 2),
    ("smooth", nn.SmoothL1Loss(beta=0.5), (X, Y),
     lambda: np.where(np.abs(X - Y) < 0.5, (X - Y) ** 2, np.abs(X - Y) - 0.25).mean()),
    ("huber", nn.HuberLoss(delta=0.5), (X, Y),
     lambda: np.where(np.abs(X - Y) < 0.5, (X - Y) ** 2 / 2, 0.5 * (np.abs(X - Y) - 0.25)).mean()),
    ("nll", nn.NLLLoss(), (LOG, CLASSES), lambda: -LOG[range(4), CLASSES].mean()),
    ("cross", nn.CrossEntropyLoss(), (X, CLASSES), lambda: -LOG[range(4), CLASSES].mean()),
    ("ignored", nn.CrossEntropyLoss(ignore_index=4), (X, CLASSES), lambda: -LOG[[0, 2, 3], [1, 0, 2]].mean()),
    ("weighted", nn.CrossEntropyLoss(tensor(np.arange(1.0, 6.0))), (X, CLASSES),
     lambda: -(LOG[range(4), CLASSES] * (CLASSES + 1)).sum() / (CLASSES + 1).sum()),
    ("smoothed", nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"), (X, CLASSES),
     lambda: -(0.9 * LOG[range(4), CLASSES] + 0.1 * LOG.mean(1)).sum()),
    ("chances", nn.CrossEntropyLoss(), (X, P), lambda: -(P * LOG).sum(1).mean()),
    ("bce", nn.BCELoss(), (P, Y), lambda: -(Y * np.log(P) + (1 - Y) * np.log(1 - P)).mean()),
    ("logits", nn.BCEWithLogitsLoss(pos_weight=tensor(np.full(5, 2.0))), (X, Y),
     lambda: -(2 * Y * np.log(sigmoid(X)) + (1 - Y) * np.log(sigmoid(-X))).mean()),
    ("kl", nn.KLDivLoss(reduction="batchmean"), (LOG, P), lambda: (P * (np.log(P) - LOG)).sum() / 4),
    ("kl log", nn.KLDivLoss(reduction="sum", log_target=True), (LOG, LOG * 0.5), lambda: (np.exp(LOG / 2) * (LOG / 2 - LOG)).sum()),
    ("poisson", nn.PoissonNLLLoss(), (X, Y), lambda: (np.exp(X) - Y * X).mean()),
    ("gaussian", nn.GaussianNLLLoss(), (X, Y, P), lambda: (0.5 * (np.log(P) + (X - Y) ** 2 / P)).mean()),
    ("hinge", nn.HingeEmbeddingLoss(0.5), (X, SIGNS), lambda: np.where(SIGNS > 0, X, np.maximum(0, 0.5 - X)).mean()),
    ("soft margin", nn.SoftMarginLoss(), (X, SIGNS), lambda: np.log1p(np.exp(-SIGNS * X)).mean()),
    ("multilabel", nn.MultiLabelSoftMarginLoss(), (X, Y), lambda: -(Y * np.log(sigmoid(X)) + (1 - Y) * np.log(sigmoid(-X))).mean()),
    ("ranking", nn.MarginRankingLoss(0.1), (X, Y, SIGNS), lambda: np.maximum(0, -SIGNS * (X - Y) + 0.1).mean()),
    ("multi margin", nn.MultiMarginLoss(margin=0.5), (X, CLASSES), lambda: np.mean([
        sum(max(0, 0.5 - X[i, c] + X[i, j]) for j in range(5) if j != c) / 5 for i, c in enumerate(CLASSES)])),
    ("triplet", nn.TripletMarginLoss(0.5), (X, Y, P),
     lambda: np.maximum(0, np.linalg.norm(X - Y, axis=1) - np.linalg.norm(X - P, axis=1) + 0.5).mean()),
    ("triplet distance", nn.TripletMarginWithDistanceLoss(margin=0.5), (X, Y, P),
     lambda: np.maximum(0, np.linalg.norm(X - Y, axis=1) - np.linalg.norm(X - P, axis=1) + 0.5).mean()),
    ("cosine", nn.CosineEmbeddingLoss(0.1), (X, Y, SIGNS[:, 0]),
     lambda: np.where(SIGNS[:, 0] > 0, 1 - cosine(X, Y), np.maximum(0, cosine(X, Y) - 0.1)).mean()),
]  # fmt: skip


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize(("name", "loss", "arguments", "formula"), LOSSES, ids=[case[0] for case in LOSSES])
def test_losses(name: str, loss: nn.Module, arguments: Any, formula: Any) -> None:
    given = [torch.tensor(a) if a.dtype.kind == "i" else tensor(a) for a in arguments]
    close(loss(*given), formula(), 2e-5)


def test_losses_refuse_and_warn() -> None:
    with pytest.warns(UserWarning, match="reduction='sum' instead"):
        assert nn.L1Loss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(tensor(X), tensor(X[:1]))
    with pytest.raises(IndexError):
        F.cross_entropy(tensor(X), torch.tensor([1, 5, 0, 0]))
    with pytest.raises(ValueError, match="negative entry"):
        F.gaussian_nll_loss(tensor(X), tensor(Y), -1.0)
    with pytest.raises(RuntimeError, match="input_lengths"):
        F.ctc_loss(torch.zeros(2, 1, 3), torch.ones(1, 1).long(), [3], [1])


def _spelled(path: tuple[int, ...]) -> tuple[int, ...]:
    """The labels of a path: repeated ones once, without blanks (0)."""
    return tuple(c for i, c in enumerate(path) if c and (i == 0 or c != path[i - 1]))


def test_ctc_sums_over_all_paths() -> None:
    scores, targets, times, sizes = RNG.normal(size=(5, 3, 3)), np.array([[1, 2, 0], [2, 2, 1], [1, 0, 0]]), [5, 4, 3], [2, 2, 0]
    chances = np.exp(scores) / np.exp(scores).sum(2, keepdims=True)
    expected, gradient = [], chances * (np.arange(5)[:, None] < times)[:, :, None]
    for n, (time, size) in enumerate(zip(times, sizes, strict=True)):
        paths = [path for path in product(range(3), repeat=time) if _spelled(path) == tuple(targets[n, :size])]
        weights = [np.prod([chances[t, n, c] for t, c in enumerate(path)]) for path in paths]
        expected.append(-np.log(sum(weights)))
        for path, weight in zip(paths, weights, strict=True):
            gradient[list(range(time)), n, list(path)] -= weight / sum(weights)
    leaf = tensor(scores, requires_grad=True)
    line = torch.tensor([1, 2, 2, 2])
    loss = F.ctc_loss(leaf.log_softmax(2), torch.tensor(targets), times, torch.tensor(sizes), reduction="none")
    close(loss, expected)
    close(nn.CTCLoss(reduction="sum")(leaf.log_softmax(2), line, times, sizes), sum(expected))
    close(nn.CTCLoss()(leaf[:, 0].log_softmax(1), torch.tensor([1, 2]), torch.tensor(5), torch.tensor(2)), expected[0] / 2)
    loss.sum().backward()
    close(leaf.grad, gradient)
    impossible = F.ctc_loss(leaf.log_softmax(2)[:2], torch.ones(3, 2).long(), [2, 2, 2], [2, 2, 2], reduction="sum", zero_infinity=True)
    assert impossible.item() == 0.0


def test_linear_cross_entropy() -> None:
    features, weight, bias = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 2, 4)), RNG.normal(size=(3, 2))
    labels = RNG.integers(0, 3, (6, 2))
    logits = np.tensordot(features, weight, (1, 2)) + bias
    wanted = F.cross_entropy(tensor(logits), torch.tensor(labels), ignore_index=1)
    found = F.linear_cross_entropy(tensor(features), tensor(weight), torch.tensor(labels), linear_bias=tensor(bias), ignore_index=1)
    close(found, wanted.item())
    with pytest.raises(RuntimeError, match="last dimensions"):
        F.linear_cross_entropy(tensor(features), tensor(weight[..., :3]), torch.tensor(labels))


def test_maxima_go_back_where_they_were() -> None:
    x = RNG.permutation(2 * 3 * 6 * 8).reshape(2, 3, 6, 8)
    pooled, places = nn.MaxPool2d(2, return_indices=True)(tensor(x))
    back = nn.MaxUnpool2d(2)(pooled, places)
    close(back, np.where(np.isin(x, pooled.numpy()), x, 0))
    assert tuple(F.max_unpool2d(pooled, places, 2, output_size=(7, 9)).shape) == (2, 3, 7, 9)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool2d(pooled, places, 2, output_size=(9, 9))
    drawn, places = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.75), return_indices=True)(tensor(x))
    assert tuple(drawn.shape) == (2, 3, 3, 6) and drawn[..., -1, -1].equal(tensor(x)[..., -2:, -2:].amax((-2, -1)))
    close(drawn, np.take_along_axis(x.reshape(2, 3, -1), places.numpy().reshape(2, 3, -1), 2).reshape(2, 3, 3, 6))


# -- others ---------------------------------------------------------------------------------------------
def test_distances() -> None:
    close(F.cosine_similarity(tensor(X), tensor(Y)), cosine(X, Y))
    close(nn.PairwiseDistance(p=1.0, eps=0.0)(tensor(X), tensor(Y)), np.abs(X - Y).sum(1))
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    close(F.pdist(tensor(X)), [np.linalg.norm(X[i] - X[j]) for i, j in pairs])
    close(F.normalize(tensor(X), p=1.0), X / np.abs(X).sum(1, keepdims=True))


def test_one_hot() -> None:
    assert F.one_hot(torch.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(torch.tensor([1]), 2).tolist() == [[0, 1]]
    with pytest.raises(RuntimeError, match="must be smaller than num_classes"):
        F.one_hot(torch.tensor([3]), 2)
    with pytest.raises(RuntimeError, match="must be non-negative"):
        F.one_hot(torch.tensor([-1]))


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"scale_factor": 2, "size": 3}, ValueError, "only one of size or scale_factor"),
    ({}, ValueError, "only one of size or scale_factor"), ({"size": (3, 3, 3)}, ValueError, "same number of spatial dimensions"),
    ({"scale_factor": (2.0,)}, ValueError, "for each spatial dimension"),
    ({"size": 3, "align_corners": True}, ValueError, "align_corners option can only be set"),
    ({"size": 3, "mode": "trilinear"}, NotImplementedError, "trilinear"),
    ({"size": 3, "antialias": True}, ValueError, "Anti-alias option"),
])  # fmt: skip
def test_bad_interpolations_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        F.interpolate(torch.ones(1, 1, 2, 2), **options)


def test_interpolation_of_lines() -> None:
    line = np.array([1.0, 3.0])
    close(F.interpolate(tensor(line.reshape(1, 1, 2)), scale_factor=2, mode="linear")[0, 0], [1, 1.5, 2.5, 3])
    close(F.interpolate(tensor(line.reshape(1, 1, 2)), size=3, mode="linear", align_corners=True)[0, 0], [1, 2, 3])
    close(F.upsample_bilinear(tensor(np.ones((1, 1, 2, 2))), scale_factor=2), np.ones((1, 1, 4, 4)))
    close(F.upsample_nearest(tensor(line.reshape(1, 1, 2)), size=4)[0, 0], [1, 1, 3, 3])
