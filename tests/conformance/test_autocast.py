"""Autocast on the CPU against PyTorch's: the types of results, training, Functions, and the scaling of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

LIBRARIES = (flambeau, torch)
NUMBERS = np.random.default_rng(0).uniform(0.1, 0.9, (4, 4)).astype(np.float32)


def tree(value: Any) -> Any:
    """The types in a result."""
    if hasattr(value, "dtype"):
        return str(value.dtype)
    return [tree(v) for v in value] if isinstance(value, (tuple, list)) else type(value).__name__


def image(t: Any, x: Any, *shape: int) -> Any:
    return t.ones(shape).to(x.dtype) * 0.5


# Each takes the library and a matrix [4, 4], float32 or bfloat16.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda t, x: t.matmul(x, x),
    "operator": lambda t, x: x @ x,
    "mm": lambda t, x: t.mm(x, x),
    "mv": lambda t, x: t.mv(x, x[0]),
    "matvec": lambda t, x: x @ x[0],
    "bmm": lambda t, x: t.bmm(x[None], x[None]),
    "dot": lambda t, x: t.dot(x[0], x[0]),
    "inner": lambda t, x: x[0] @ x[0],
    "addmm": lambda t, x: t.addmm(x, x, x),
    "baddbmm": lambda t, x: t.baddbmm(x[None], x[None], x[None]),
    "addbmm": lambda t, x: t.addbmm(x, x[None], x[None]),
    "chain_matmul": lambda t, x: t.chain_matmul(x, x, x),
    "multi_dot": lambda t, x: t.linalg.multi_dot([x, x, x]),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x),
    "tensordot": lambda t, x: t.tensordot(x, x, 1),
    "vecdot": lambda t, x: t.linalg.vecdot(x, x),
    "outer": lambda t, x: t.outer(x[0], x[0]),
    "linear": lambda t, x: t.nn.functional.linear(x, x, x[0]),
    "kron": lambda t, x: t.kron(x, x),
    "prelu": lambda t, x: t.nn.functional.prelu(x, x[0, :1]),
    "bilinear": lambda t, x: t.nn.functional.bilinear(x, x, x[None]),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x[None], image(t, x, 2, 4, 3)),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x[None, None], image(t, x, 2, 1, 3, 3)),
    "conv3d": lambda t, x: t.nn.functional.conv3d(image(t, x, 1, 1, 4, 4, 4), image(t, x, 1, 1, 2, 2, 2)),
    "conv_transpose1d": lambda t, x: t.nn.functional.conv_transpose1d(x[None], image(t, x, 4, 2, 3)),
    "conv_transpose2d": lambda t, x: t.nn.functional.conv_transpose2d(x[None, None], image(t, x, 1, 2, 3, 3)),
    "conv_transpose3d": lambda t, x: t.nn.functional.conv_transpose3d(image(t, x, 1, 1, 4, 4, 4), image(t, x, 1, 1, 2, 2, 2)),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "add": lambda t, x: x + x,
    "mul": lambda t, x: x * 2.5,
    "exp": lambda t, x: x.exp(),
    "pow": lambda t, x: x**2,
    "sum": lambda t, x: x.sum(),
    "softmax": lambda t, x: x.softmax(-1),
    "log_softmax": lambda t, x: x.log_softmax(-1),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "cumsum": lambda t, x: x.cumsum(0),
    "norm": lambda t, x: x.norm(),
    "prod": lambda t, x: x.prod(),
    "trace": lambda t, x: x.trace(),
    "quantile": lambda t, x: x.quantile(0.5),
    "nanquantile": lambda t, x: x.nanquantile(0.5),
    "cdist": lambda t, x: t.cdist(x, x),
    "polar": lambda t, x: t.polar(x, x),
    "stft": lambda t, x: t.stft(x.flatten(), 4, window=t.ones(4), return_complex=True),
    "view_as_complex": lambda t, x: t.view_as_complex(x[:, :2]),
    "cholesky": lambda t, x: t.linalg.cholesky(x @ x.mT + t.eye(4)),
    "inverse": lambda t, x: t.inverse(x + t.eye(4)),
    "inv": lambda t, x: t.linalg.inv(x + t.eye(4)),
    "qr": lambda t, x: t.linalg.qr(x),
    "svdvals": lambda t, x: t.linalg.svdvals(x),
    "svd": lambda t, x: t.linalg.svd(x),
    "eigvalsh": lambda t, x: t.linalg.eigvalsh(x),
    "eigh": lambda t, x: t.linalg.eigh(x),
    "eig": lambda t, x: t.linalg.eig(x),
    "eigvals": lambda t, x: t.linalg.eigvals(x),
    "solve": lambda t, x: t.linalg.solve(x + t.eye(4), x),
    "cond": lambda t, x: t.linalg.cond(x + t.eye(4)),
    "lstsq": lambda t, x: t.linalg.lstsq(x, x).solution,
    "matrix_rank": lambda t, x: t.linalg.matrix_rank(x),
    "cholesky_ex": lambda t, x: t.linalg.cholesky_ex(x @ x.mT + t.eye(4)).L,
    "cholesky_inverse": lambda t, x: t.cholesky_inverse(x),
    "cholesky_solve": lambda t, x: t.cholesky_solve(x, x),
    "inv_ex": lambda t, x: t.linalg.inv_ex(x).inverse,
    "geqrf": lambda t, x: t.geqrf(x),
    "pinverse": lambda t, x: t.pinverse(x),
    "householder": lambda t, x: t.linalg.householder_product(x, x[0]),
    "ormqr": lambda t, x: t.ormqr(x, x[0], x),
    "lu_solve": lambda t, x: t.lu_solve(x, x, t.ones(4, dtype=t.int32)),
    "triangular_solve": lambda t, x: t.triangular_solve(x, x).solution,
    "tensorinv": lambda t, x: t.linalg.tensorinv(x + t.eye(4), 1),
    "tensorsolve": lambda t, x: t.linalg.tensorsolve(x + t.eye(4), x[0]),
    "fft": lambda t, x: t.fft.fft(x),
    "rfft": lambda t, x: t.fft.rfft(x),
    "fft2": lambda t, x: t.fft.fft2(x),
    "ifft": lambda t, x: t.fft.ifft(x),
    "irfft": lambda t, x: t.fft.irfft(x.to(t.complex64)),
    "hfft": lambda t, x: t.fft.hfft(x),
    "ihfft": lambda t, x: t.fft.ihfft(x),
    "reflect": lambda t, x: t.nn.functional.pad(x, (1, 1), mode="reflect"),
    "constant pad": lambda t, x: t.nn.functional.pad(x, (1, 1)),
    "replicate": lambda t, x: t.nn.functional.pad(x[None], (1, 1, 1, 1), mode="replicate"),
    "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x[None], 2),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x[None], 2),
    "avg_pool3d": lambda t, x: t.nn.functional.avg_pool3d(image(t, x, 1, 4, 4, 4), 2),
    "max_pool3d": lambda t, x: t.nn.functional.max_pool3d(image(t, x, 1, 4, 4, 4), 2),
    "adaptive_avg_pool3d": lambda t, x: t.nn.functional.adaptive_avg_pool3d(image(t, x, 1, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t, x: t.nn.functional.adaptive_max_pool3d(image(t, x, 1, 4, 4, 4), 2),
    "fractional": lambda t, x: t.nn.functional.fractional_max_pool2d(x[None, None], 2, output_size=2),
    "unpool": lambda t, x: t.nn.functional.max_unpool2d(x[None, None, :2, :2], t.arange(4).reshape(1, 1, 2, 2), 2),
    "grid_sample": lambda t, x: t.nn.functional.grid_sample(x[None, None], image(t, x, 1, 2, 2, 2), align_corners=False),
    "interpolate": lambda t, x: t.nn.functional.interpolate(x[None, None], scale_factor=2),
    "bce": lambda t, x: t.nn.functional.binary_cross_entropy(x, x),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x, t.arange(4)),
    "bce_with_logits": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x, t.arange(4)),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x),
    "l1_loss": lambda t, x: t.nn.functional.l1_loss(x, x),
    "smooth_l1": lambda t, x: t.nn.functional.smooth_l1_loss(x, x),
    "huber": lambda t, x: t.nn.functional.huber_loss(x, x),
    "kl_div": lambda t, x: t.nn.functional.kl_div(x, x, reduction="sum"),
    "poisson_nll": lambda t, x: t.nn.functional.poisson_nll_loss(x, x),
    "hinge": lambda t, x: t.nn.functional.hinge_embedding_loss(x, x.sign()),
    "soft_margin": lambda t, x: t.nn.functional.soft_margin_loss(x, x.sign()),
    "margin": lambda t, x: t.nn.functional.margin_ranking_loss(x, x, x),
    "multi_margin": lambda t, x: t.nn.functional.multi_margin_loss(x, t.arange(4)),
    "triplet": lambda t, x: t.nn.functional.triplet_margin_loss(x, x, x),
    "multilabel": lambda t, x: t.nn.functional.multilabel_margin_loss(x, t.zeros(4, 4, dtype=t.int64)),
    "cosine_loss": lambda t, x: t.nn.functional.cosine_embedding_loss(x, x, x[0].sign()),
    "ctc_loss": lambda t, x: t.nn.functional.ctc_loss(x[:, None].log_softmax(-1), t.tensor([[1, 2]]), t.tensor([4]), t.tensor([2])),
    "cat": lambda t, x: t.cat([x, x.float()]),
    "stack": lambda t, x: t.stack([x, x.float()]),
    "cat lower": lambda t, x: t.cat([x, x.bfloat16()]),
    "index_copy": lambda t, x: t.index_copy(x, 0, t.tensor([1]), x[:1].bfloat16()),
    "double": lambda t, x: x.double() @ x.double(),
    "integers": lambda t, x: x.int() @ x.int(),
    "where": lambda t, x: t.where(x > 0, x, 0.0),
}


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_types_of_results(name, kind):
    found: list[Any] = []
    for library in LIBRARIES:
        x = library.tensor(NUMBERS).to(getattr(library, kind))
        try:
            with library.autocast("cpu", dtype=library.bfloat16):
                found.append(tree(CALLS[name](library, x)))
        except Exception as error:  # noqa: BLE001 - bfloat16 is not known everywhere
            found.append(error)
    if isinstance(found[1], Exception):
        pytest.skip(f"PyTorch: {str(found[1])[:60]}")
    assert found[0] == found[1]


def network(t: Any) -> Any:
    t.manual_seed(0)
    return t.nn.Sequential(
        t.nn.Conv2d(1, 4, 3, padding=1), t.nn.BatchNorm2d(4), t.nn.ReLU(), t.nn.GroupNorm(2, 4), t.nn.MaxPool2d(2), t.nn.Flatten(),
        t.nn.Linear(64, 16), t.nn.LayerNorm(16), t.nn.GELU(), t.nn.Dropout(0.0), t.nn.Linear(16, 3),
    )  # fmt: skip


LAYERS: dict[str, Callable[[Any], tuple[Any, tuple[int, ...]]]] = {
    "network": lambda t: (network(t), (2, 1, 8, 8)),
    "lstm": lambda t: (t.nn.LSTM(4, 5), (3, 2, 4)),
    "gru": lambda t: (t.nn.GRU(4, 5, bidirectional=True), (3, 2, 4)),
    "rnn": lambda t: (t.nn.RNN(4, 5), (3, 2, 4)),
    "lstm cell": lambda t: (t.nn.LSTMCell(4, 5), (2, 4)),
    "gru cell": lambda t: (t.nn.GRUCell(4, 5), (2, 4)),
    "attention": lambda t: (Attention(t), (3, 2, 4)),
    "encoder": lambda t: (t.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (3, 2, 4)),
    "embedding": lambda t: (t.nn.Sequential(t.nn.Linear(4, 4), t.nn.InstanceNorm1d(4)), (3, 2, 4)),
    "rms": lambda t: (t.nn.Sequential(t.nn.Linear(4, 4), t.nn.RMSNorm(4)), (2, 4)),
}


def Attention(t: Any) -> Any:
    class SelfAttention(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = t.nn.MultiheadAttention(4, 2)

        def forward(self, x: Any) -> Any:
            return self.inner(x, x, x)

    return SelfAttention()


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers(name):
    found: list[Any] = []
    for library in LIBRARIES:
        library.manual_seed(0)
        layer, shape = LAYERS[name](library)
        library.manual_seed(1)
        x = library.randn(*shape)
        try:
            with library.autocast("cpu", dtype=library.bfloat16):
                y = layer(x)
        except RuntimeError as error:
            if library is not torch or "primitive descriptor" not in str(error):
                raise
            pytest.skip(f"PyTorch has no such layer in bfloat16 on a machine without AVX-512: {error}")
        first = y
        while isinstance(first, tuple):
            first = first[0]
        first.float().square().sum().backward()
        found.append(
            (
                tree(y),
                first.detach().float().numpy(),
                [p.grad.float().numpy() for p in layer.parameters()],
                tree([p.grad for p in layer.parameters()]),
            )
        )
    assert found[0][0] == found[1][0] and found[0][3] == found[1][3]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0.1, atol=0.1)
    for ours, theirs in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.15, atol=0.15 * max(1.0, np.abs(theirs).max()))


def test_state():
    found: list[list[Any]] = []
    for t in LIBRARIES:
        seen: list[Any] = []

        def look(t: Any = t, seen: list[Any] = seen) -> None:
            seen.append([t.is_autocast_enabled("cpu"), t.is_autocast_enabled("cuda"), str(t.get_autocast_dtype("cpu")),
                         str(t.get_autocast_dtype("cuda")), t.is_autocast_cache_enabled(), t.is_autocast_enabled()])  # fmt: skip

        look()
        with t.autocast("cpu"):
            look()
            with t.amp.autocast("cpu", enabled=False):
                look()
            with t.autocast("cpu", dtype=t.float16, cache_enabled=False):
                look()
            look()
        with pytest.warns(UserWarning, match="CUDA is not available"), t.autocast("cuda"):
            look()
        with pytest.warns(UserWarning, match="target dtype is not supported"), t.autocast("cpu", dtype=t.float32):
            look()
        t.set_autocast_enabled("cpu", True)
        t.set_autocast_dtype("cpu", t.float16)
        look()
        t.set_autocast_enabled("cpu", False)
        t.set_autocast_dtype("cpu", t.bfloat16)
        look()

        @t.autocast("cpu")
        def product(x: Any) -> Any:
            return x @ x

        seen += [str(product(t.ones(2, 2)).dtype), t.amp.is_autocast_available("cpu")]
        with t.cpu.amp.autocast() if t is flambeau else t.autocast("cpu"):
            seen.append(str((t.ones(2, 2) @ t.ones(2, 2)).dtype))
        for bad, error in ((1, ValueError), ("tea", RuntimeError)):
            with pytest.raises(error):
                t.autocast(bad)
        found.append(seen)
    assert found[0] == found[1]


def test_functions():
    found: list[Any] = []
    for t in LIBRARIES:
        seen: list[Any] = []

        class Product(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu")
            def forward(ctx: Any, a: Any, b: Any, seen: list[Any] = seen) -> Any:
                ctx.save_for_backward(a, b)
                out = a @ b
                seen.append(str(out.dtype))
                return out

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, grad: Any, seen: list[Any] = seen) -> Any:
                a, b = ctx.saved_tensors
                seen.append(str((grad @ b.mT).dtype))
                return grad.float() @ b.mT.float(), a.mT.float() @ grad.float()

        class Wide(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
            def forward(ctx: Any, a: Any, seen: list[Any] = seen, t: Any = t) -> Any:
                seen += [str(a.dtype), t.is_autocast_enabled("cpu")]
                return a * 2

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, grad: Any, seen: list[Any] = seen, t: Any = t) -> Any:
                seen.append(t.is_autocast_enabled("cpu"))
                return grad * 2

        a, b = t.ones(2, 2).requires_grad_(), t.ones(2, 2).requires_grad_()
        with t.autocast("cpu", dtype=t.bfloat16):
            y = Product.apply(a, b)
            z = Wide.apply(y)
        z.sum().backward()
        found.append([*seen, a.grad.tolist(), b.grad.tolist()])
    assert found[0] == found[1]


def test_gradients_are_scaled():
    found: list[Any] = []
    for t in LIBRARIES:
        w = t.ones(3).requires_grad_()
        optimizer = t.optim.SGD([w], lr=0.1, momentum=0.9)
        scaler = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        seen: list[Any] = []
        for factor in (1.0, 2.0, float("inf"), 3.0, 1.0, float("nan"), 2.0):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.unscale_(optimizer)
            with pytest.raises(RuntimeError, match="has already been called"):
                scaler.unscale_(optimizer)
            t.nn.utils.clip_grad_norm_([w], 100.0)
            scaler.step(optimizer)
            with pytest.raises(RuntimeError, match="has already been called"):
                scaler.step(optimizer)
            scaler.update()
            seen.append((w.tolist(), scaler.get_scale(), scaler.state_dict()))
        other = t.amp.GradScaler("cpu")
        other.load_state_dict(scaler.state_dict())
        seen.append(
            (other.get_scale(), other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval(), other.is_enabled())
        )
        other.scale(t.ones(1))
        other.update(4.0)
        seen.append(other.get_scale())
        off = t.amp.GradScaler("cpu", enabled=False)
        seen += [off.scale(t.ones(1)).tolist(), off.get_scale(), off.state_dict()]
        with pytest.raises(RuntimeError, match="source state dict is empty"):
            scaler.load_state_dict({})
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not t.amp.GradScaler().is_enabled()
        found.append(seen)
    np.testing.assert_allclose(np.array([w for w, *_ in found[0][:7]]), np.array([w for w, *_ in found[1][:7]]), rtol=1e-6)
    assert [s for _, *s in found[0][:7]] == [s for _, *s in found[1][:7]] and found[0][7:] == found[1][7:]
