"""Gradients of gradients of usual operators against PyTorch's, on the samples of its database; each day another share of them."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

pytest.importorskip("expecttest", reason="PyTorch's database of operators needs expecttest: pip install expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

SHARES = 4
MOST_SAMPLES, MOST_ELEMENTS = 6, 1000
UNSMOOTH = ("singular", "subgradients_at_zero")  # variants of operators in the database
OPERATORS = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr amax amin asin asinh atan atan2 atanh baddbmm bmm cat ceil clamp clone cos cosh
cross cummax cumprod cumsum deg2rad diag diagonal diff digamma dist div dot erf erfc erfinv exp exp2 expand expm1 flip fmod gather hypot
index_add index_copy index_select kron lerp lgamma linalg.cholesky linalg.det linalg.eigvalsh linalg.inv linalg.matrix_norm linalg.norm
linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_triangular linalg.svdvals linalg.vector_norm log log10 log1p log2
log_softmax logaddexp logaddexp2 logcumsumexp logit logsumexp masked_fill masked_select matmul max maximum mean min minimum mm mul mv
nan_to_num nansum narrow neg nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.bilinear
nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.celu nn.functional.conv1d
nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.elu
nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardswish nn.functional.huber_loss nn.functional.interpolate
nn.functional.kl_div nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid
nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize nn.functional.pad
nn.functional.pairwise_distance nn.functional.pixel_shuffle nn.functional.prelu nn.functional.relu nn.functional.rms_norm
nn.functional.selu nn.functional.silu nn.functional.smooth_l1_loss nn.functional.softmin nn.functional.softplus
nn.functional.softsign nn.functional.tanhshrink nn.functional.unfold norm outer permute pow prod reciprocal remainder renorm repeat roll
rsqrt scatter scatter_add select sigmoid sin sinc sinh softmax sort split sqrt square squeeze stack std sub sum t take take_along_dim tan
tanh tensordot topk trace transpose tril triu true_divide unfold unsqueeze var xlogy
""".split()


def public(module: Any, name: str) -> Any:
    """A function of that name, or a method."""
    return functools.reduce(getattr, name.split("."), module if "." in name or hasattr(torch, name) else module.Tensor)


def converted(value: Any, leaves: list[Any]) -> Any:
    """A sample's argument for flambeau; tensors that want gradients go into ``leaves``."""
    if isinstance(value, torch.Tensor):
        out = flambeau.from_numpy(value.detach().numpy().copy())
        if value.requires_grad:
            leaves.append(out.requires_grad_())
        return out
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(converted(v, leaves) for v in value)
    return getattr(flambeau, str(value).split(".")[-1]) if isinstance(value, torch.dtype) else value


def wanting(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor) and value.requires_grad:
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from wanting(v)


def second(module: Any, results: Any, leaves: list[Any]) -> list[Any]:
    """The gradients of a weighted sum of the gradients of a weighted sum of results."""

    def weighted(values: Any) -> Any:
        return sum(
            (v * module.linspace(0.3, 1.1, v.numel(), dtype=module.float64).reshape(v.shape).to(v.dtype)).sum() for v in values
        )

    results = results if isinstance(results, (list, tuple)) else [results]
    total = weighted([r for r in results if r.requires_grad])
    first = module.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    found = module.autograd.grad(weighted(again), leaves, allow_unused=True) if again else [None] * len(leaves)
    # None stands for zeros; clones have memory, which PyTorch's symbolic zeros have not.
    return [np.zeros(()) if g is None else g.detach().clone().numpy() for g in (*first, *found)]


@pytest.mark.parametrize("name", OPERATORS[datetime.date.today().toordinal() % SHARES :: SHARES])
def test_double_backward(name: str) -> None:
    checked = 0
    for operator in (o for o in op_db if o.name == name and o.supports_gradgrad and o.variant_test_name not in UNSMOOTH):
        torch.manual_seed(0)
        for sample in list(operator.sample_inputs("cpu", torch.float64, requires_grad=True))[:MOST_SAMPLES]:
            arguments = [sample.input, *sample.args]
            theirs = list(wanting([*arguments, *sample.kwargs.values()]))
            if not theirs or max(t.numel() for t in theirs) > MOST_ELEMENTS:
                continue
            ours: list[Any] = []
            given = converted(arguments, ours), {k: converted(v, ours) for k, v in sample.kwargs.items()}
            wanted = second(torch, operator.op(*arguments, **sample.kwargs), theirs)
            found = second(flambeau, public(flambeau, name)(*given[0], **given[1]), ours)
            assert len(found) == len(wanted)
            for a, b in zip(found, wanted, strict=True):
                scale = max(1.0, float(np.abs(b).max(initial=0.0)))
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8 * scale, err_msg=f"{name}: {sample.summary()}")
            checked += 1
    assert checked
