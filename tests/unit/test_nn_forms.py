"""Layers that learn their shapes from data, softmax in clusters, and the forms of layers' functions that ``torch`` itself has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

RNG = np.random.default_rng(19)
F = nn.functional


def draw(*shape: int) -> Any:
    return torch.tensor(RNG.standard_normal(shape))


LAZY: dict[str, tuple[Callable[[], Any], Callable[[], Any], tuple[int, ...]]] = {
    "LazyLinear": (lambda: nn.LazyLinear(3), lambda: nn.Linear(5, 3), (2, 5)),
    **{f"LazyConv{n}d": (lambda n=n: getattr(nn, f"LazyConv{n}d")(4, 2, groups=2), lambda n=n: getattr(nn, f"Conv{n}d")(6, 4, 2,
        groups=2), (2, 6, *[4] * n)) for n in (1, 2, 3)},
    **{f"LazyConvTranspose{n}d": (
        lambda n=n: getattr(nn, f"LazyConvTranspose{n}d")(4, 2, bias=False), lambda n=n: getattr(nn, f"ConvTranspose{n}d")(6, 4, 2,
        bias=False), (2, 6, *[4] * n),
    ) for n in (1, 2, 3)},
    **{f"LazyBatchNorm{n}d": (lambda n=n: getattr(nn, f"LazyBatchNorm{n}d")(), lambda n=n: getattr(nn, f"BatchNorm{n}d")(6),
    (2, 6, *[4] * n)) for n in (1, 2, 3)},
    **{f"LazyInstanceNorm{n}d": (
        lambda n=n: getattr(nn, f"LazyInstanceNorm{n}d")(affine=True), lambda n=n: getattr(nn, f"InstanceNorm{n}d")(6, affine=True,
        track_running_stats=True), (2, 6, *[4] * n),
    ) for n in (1, 2, 3)},
}  # fmt: skip


@pytest.mark.parametrize("name", LAZY)
def test_layers_learn_their_shapes(name: str) -> None:
    lazy, plain, shape = LAZY[name]
    made, wanted, x = lazy(), plain(), draw(*shape).float()
    assert made.has_uninitialized_params() and all(nn.parameter.is_lazy(p) for p in made.parameters())
    with pytest.raises((ValueError, RuntimeError), match="[Uu]ninitialized"):
        _ = made.weight.shape
    torch.manual_seed(3)
    out = made(x)
    assert type(made) is type(wanted) and repr(made) == repr(wanted)
    assert {k: v.shape for k, v in made.state_dict().items()} == {k: v.shape for k, v in wanted.state_dict().items()}
    wanted.load_state_dict(made.state_dict())
    np.testing.assert_allclose(out.detach().numpy(), wanted(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    fresh = lazy()
    fresh.load_state_dict(made.state_dict())  # shapes come from the state
    assert not fresh.has_uninitialized_params()
    fresh.eval()(x)
    assert repr(fresh) == repr(wanted)
    np.testing.assert_allclose(fresh.eval()(x).detach().numpy(), made.eval()(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_lazy_layers_refuse() -> None:
    with pytest.raises(RuntimeError, match="batched"):
        nn.LazyConv2d(4, 2)(torch.ones(2, 2))
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.LazyConv1d(4, 2, groups=4)(torch.ones(1, 6, 5))

    class Unfinished(nn.modules.lazy.LazyModuleMixin, nn.Linear):
        def initialize_parameters(self, *args: Any) -> None:
            pass

    layer = Unfinished(2, 2)
    layer.weight = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="not been fully initialized"):
        layer(torch.ones(2, 2))
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict(nn.Linear(5, 3).state_dict())
    with pytest.raises(AssertionError, match="in_features"):
        loaded(torch.ones(1, 4))


@pytest.mark.parametrize("bias", [False, True])
def test_softmax_in_clusters(bias: bool) -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 7], div_value=2.0, head_bias=bias).double()
    x, target = draw(9, 8), torch.tensor([0, 3, 4, 6, 7, 11, 1, 5, 9])
    logs = layer.log_prob(x)
    assert logs.shape == (9, 12) and torch.allclose(logs.exp().sum(1), torch.ones(9, dtype=torch.float64))
    # Each chance is that of the cluster times that within it.
    head = (x @ layer.head.weight.mT + (layer.head.bias if bias else 0)).log_softmax(1)
    wanted = torch.cat([head[:, :4]] + [head[:, 4 + i : 5 + i] + part(x).log_softmax(1) for i, part in enumerate(layer.tail)], 1)
    assert torch.allclose(logs, wanted) and [part[0].out_features for part in layer.tail] == [4, 2]
    out, loss = layer(x, target)
    assert torch.allclose(out, logs[torch.arange(9), target]) and torch.allclose(loss, -out.mean())
    assert torch.equal(layer.predict(x), logs.argmax(1)) and torch.allclose(layer(x[0], target[0]).output, out[0])
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())
    before = layer.head.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.head.weight)
    sure = nn.AdaptiveLogSoftmaxWithLoss(2, 4, [2])
    with torch.no_grad():
        sure.head.weight.copy_(torch.tensor([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]]))
    assert sure.predict(torch.eye(2)).tolist() == [0, 1]
    for bad in ([], [7, 4], [0, 4], [4, 12], [4, 4], [1.5]):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 12, bad)
    for given, message in (((x, target[None]), "multi-target"), ((x, target[:3]), "same size"), ((x[0], target[:8]), "2D input"),
    ((x, target + 9), "in range")):
        with pytest.raises(RuntimeError, match=message):
            layer(*given)


P, Q, SIGNS = draw(4, 5).sigmoid(), draw(4, 5).sigmoid(), torch.tensor(RNG.choice([-1.0, 1.0], (4, 5)))
W = draw(6)
IMAGE, MEAN, VARIANCE = draw(2, 6, 8), draw(6), draw(6).abs() + 0.5
FORMS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "bce": (lambda: torch.binary_cross_entropy_with_logits(SIGNS, P, reduction=1), lambda: F.binary_cross_entropy_with_logits(SIGNS, P)),
    "kl_div": (lambda: torch.kl_div(P.log(), Q, 2), lambda: F.kl_div(P.log(), Q, reduction="sum")),
    "kl_div default": (lambda: torch.kl_div(P.log(), Q, 0), lambda: F.kl_div(P.log(), Q, reduction="none")),
    "hinge": (lambda: torch.hinge_embedding_loss(P, SIGNS, 0.5, 1), lambda: F.hinge_embedding_loss(P, SIGNS, 0.5)),
    "margin": (lambda: torch.margin_ranking_loss(P, Q, SIGNS, 0.3, 1), lambda: F.margin_ranking_loss(P, Q, SIGNS, 0.3)),
    "cosine": (lambda: torch.cosine_embedding_loss(P, Q, SIGNS[:, 0], 0.1, 2), lambda: F.cosine_embedding_loss(P, Q, SIGNS[:, 0], 0.1,
        reduction="sum")),
    "triplet": (lambda: torch.triplet_margin_loss(P, Q, SIGNS, 2.0, reduction=1), lambda: F.triplet_margin_loss(P, Q, SIGNS, 2.0)),
    "poisson": (lambda: torch.poisson_nll_loss(P, Q, True, False, 1e-8, 1), lambda: F.poisson_nll_loss(P, Q)),
    "batch_norm": (lambda: torch.batch_norm(IMAGE, W, None, MEAN, VARIANCE, False, 0.1, 1e-5, False), lambda: F.batch_norm(IMAGE, MEAN,
        VARIANCE, W)),
    "instance_norm": (lambda: torch.instance_norm(IMAGE, W, W, None, None, True, 0.1, 1e-5, False), lambda: F.instance_norm(IMAGE,
        weight=W, bias=W)),
    "max_pool1d": (lambda: torch.max_pool1d(IMAGE, 2), lambda: IMAGE.view(2, 6, 4, 2).amax(-1)),
    "max_pool2d": (lambda: torch.max_pool2d(IMAGE, (3, 2), (), 0), lambda: IMAGE.view(2, 2, 3, 4, 2).amax((2, 4))),
    "max_pool3d": (lambda: torch.max_pool3d(IMAGE[None], 2, 2), lambda: IMAGE.view(1, 2, 3, 2, 4, 2).amax((1, 3, 5))[None]),
    "avg_pool1d": (lambda: torch.avg_pool1d(IMAGE, 4), lambda: IMAGE.view(2, 6, 2, 4).mean(-1)),
    "adaptive_max_pool1d": (lambda: torch.adaptive_max_pool1d(IMAGE, 2)[0], lambda: IMAGE.view(2, 6, 2, 4).amax(-1)),
    "norm_except_dim": (lambda: torch.norm_except_dim(IMAGE, 2, 1), lambda: IMAGE.square().sum((0, 2), True).sqrt()),
    "norm_except_dim all": (lambda: torch.norm_except_dim(IMAGE, 2, -1), lambda: IMAGE.square().sum().sqrt()),
    "conv_tbc": (lambda: torch.conv_tbc(IMAGE, KERNEL, W[:3], 1), lambda: F.conv1d(IMAGE.permute(1, 2, 0), KERNEL.permute(2, 1, 0), W[:3],
        padding=1).permute(2, 0, 1)),
    "convolution": (lambda: torch.convolution(IMAGE, KERNEL2, None, [2], [1], [1], False, [0], 2), lambda: F.conv1d(IMAGE, KERNEL2, None,
        2, 1, 1, 2)),
    "convolution turned": (lambda: torch.convolution(IMAGE, KERNEL3, None, [2], [1], [1], True, [1], 1), lambda: F.conv_transpose1d(IMAGE,
        KERNEL3, None, 2, 1, 1)),
    "affine_grid": (lambda: torch.affine_grid_generator(P[None, :2, :3], [1, 1, 2, 3], True), lambda: F.affine_grid(P[None, :2, :3], [1,
        1, 2, 3], True)),
    "celu_": (lambda: torch.celu_(P - 0.5, 2.0), lambda: F.celu(P - 0.5, 2.0)),
    "selu_": (lambda: torch.selu_(P - 0.5), lambda: F.selu(P - 0.5)),
    "rrelu": (lambda: torch.rrelu(P - 0.5, 0.2, 0.4), lambda: F.leaky_relu(P - 0.5, 0.3)),
    "rrelu_": (lambda: torch.rrelu_(P - 0.5, 0.2, 0.4), lambda: F.leaky_relu(P - 0.5, 0.3)),
    "bags": (lambda: torch.embedding_bag(IMAGE[0].mT, torch.tensor([1, 2, 5, 0]), torch.tensor([0, 3]), mode=0)[0],
        lambda: torch.stack([IMAGE[0].mT[[1, 2, 5]].sum(0), IMAGE[0].mT[0]])),
    "bag owners": (lambda: torch.embedding_bag(IMAGE[0].mT, torch.tensor([1, 2, 5, 0]), torch.tensor([0, 3, 4]), mode=1,
        include_last_offset=True)[1], lambda: torch.tensor([0, 0, 0, 1])),
    "dropped nothing": (lambda: torch.alpha_dropout_(P.clone(), 0.0, True), lambda: P),
    "features kept": (lambda: torch.feature_dropout_(IMAGE.clone(), 0.5, False), lambda: IMAGE),
    "alpha features kept": (lambda: torch.feature_alpha_dropout_(IMAGE.clone(), 0.5, False), lambda: IMAGE),
    "alpha features": (lambda: torch.feature_alpha_dropout(IMAGE, 0.5, False), lambda: IMAGE),
    "renormed": (lambda: torch.embedding_renorm_(IMAGE[0].clone(), torch.tensor([1, 1]), 0.5, 2.0)[1].norm(), lambda: torch.tensor(0.5,
        dtype=torch.float64)),
}  # fmt: skip
KERNEL, KERNEL2, KERNEL3 = draw(3, 8, 3), draw(4, 3, 3), draw(6, 4, 3)


@pytest.mark.parametrize("name", FORMS)
def test_forms_without_modules(name: str) -> None:
    found, wanted = (make() for make in FORMS[name])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-9)


def test_dropped_elements_and_features() -> None:
    torch.manual_seed(0)
    kept, mask = torch.native_dropout(torch.ones(1000), 0.25, True)
    assert set(kept.tolist()) == {0.0, torch.tensor(1 / 0.75).item()} and torch.equal(mask, kept != 0) and 650 < mask.sum().item() < 850
    x = torch.ones(40, 5, 7)
    assert torch.feature_dropout_(x, 0.5, True) is x
    assert torch.equal((x != 0).all(-1), (x != 0).any(-1)) and 0 < (x == 0).sum().item() < x.numel()
    y = torch.randn(20_000, dtype=torch.float64)
    assert torch.alpha_dropout_(y, 0.2, True) is y and abs(y.mean().item()) < 0.05 and abs(y.var().item() - 1) < 0.05
    ctc = torch.ctc_loss(torch.randn(6, 1, 3).log_softmax(-1), torch.tensor([[1]]), torch.tensor([6]), torch.tensor([1]), reduction=2)
    assert ctc.item() > 0
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        torch.kl_div(P, Q, 3)
    with pytest.raises(RuntimeError, match="3 to 5 dimensions"):
        torch.convolution(IMAGE, W, None, [1], [0], [1], False, [0], 1)
    with pytest.raises(NotImplementedError, match="generator"):
        torch.rrelu(P, generator=torch.Generator())
    with pytest.raises(NotImplementedError, match="maxima"):
        torch.embedding_bag(IMAGE[0].mT, torch.tensor([1]), torch.tensor([0]), mode=2)
