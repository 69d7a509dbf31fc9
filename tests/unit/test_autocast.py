"""Autocast: compiled functions, threads, what is cast once, and that its tables name what exists."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import flambeau as torch
from flambeau.ops.declare import ALL
from flambeau.tensor.autocasting import POLICIES, cast_operands

FUNCTIONS = {"cdist", "ctc_loss", "dist", "lstm_cell", "lstsq", "nanquantile",
             "pdist", "quantile", "renorm", "stft", "trace", "triangular_solve"}  # fmt: skip


def test_tables_name_operators():
    for names in POLICIES.values():
        assert names.keys() - ALL.keys() <= FUNCTIONS
    assert POLICIES["cuda"]["exp"] == "float32" and POLICIES["cuda"]["addcmul"] == "widest" and "exp" not in POLICIES["cpu"]


# PyTorch's reference of operators on GPUs, in the names that it uses, by what they do; those of modules and operators left out.
CUDA_REFERENCE = {
    "lower": """addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        linear matmul mm mv prelu""",
    "float32": """acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist cosine_similarity cross_entropy cumprod cumsum
        dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2 margin_ranking_loss
        mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize pdist poisson_nll_loss pow prod reciprocal rsqrt sinh
        smooth_l1_loss soft_margin_loss softmax softmin softplus sum renorm tan triplet_margin_loss""",
    "widest": "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot",
    "banned": "binary_cross_entropy",
}


def test_tables_are_those_of_the_reference(monkeypatch):
    for policy, names in CUDA_REFERENCE.items():
        assert {name: POLICIES["cuda"].get(name) for name in names.split()} == dict.fromkeys(names.split(), policy)
    # What the tables of GPUs do to operands, seen on the CPU.
    monkeypatch.setitem(POLICIES, "cpu", POLICIES["cuda"])
    half, single, double = (torch.ones(2, 2, dtype=kind) for kind in (torch.float16, torch.float32, torch.float64))

    def kinds(name: str, *args: Any, **kwargs: Any) -> list[Any]:
        args, kwargs = cast_operands(ALL[name], args, kwargs)
        return [v.dtype if isinstance(v, torch.Tensor) else v for v in (*args, *kwargs.values())]

    with torch.autocast("cpu", dtype=torch.float16):
        assert kinds("mm", single, half) == [torch.float16] * 2 and kinds("exp", half) == [torch.float32]
        assert kinds("addcmul", half, single, half, value=2) == [torch.float32] * 3 + [2]
        assert kinds("addcmul", half, half, half) == [torch.float16] * 3 and kinds("mm", double, single) == [torch.float64, torch.float16]
        assert kinds("add", half, single) == [torch.float16, torch.float32]
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            kinds("binary_cross_entropy", single, single)


def test_compiled_functions_know_the_mode():
    layer = torch.nn.Linear(4, 4)

    @torch.compile
    def inside(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
            loss = torch.nn.functional.mse_loss(y, x)
        return y, loss, x @ x.mT

    @torch.compile
    def outside(x: Any) -> Any:
        return layer(x)

    x = torch.randn(3, 4)
    for _ in range(3):
        y, loss, z = inside(x)
        assert (y.dtype, loss.dtype, z.dtype) == (torch.bfloat16, torch.float32, torch.float32)
        assert outside(x).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert outside(x).dtype is torch.bfloat16
            with torch.autocast("cpu", enabled=False):
                assert outside(x).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.float16):
            assert outside(x).dtype is torch.float16
    with torch.autocast("cpu"):
        assert torch.equal(y, layer(x))
    assert not torch.is_autocast_enabled("cpu")


def training(compiled: bool) -> list[tuple[float, float]]:
    """Losses and scales of a whole training step, the fifth of which overflows."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scaler, mode = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3), torch.autocast("cpu", dtype=torch.bfloat16)
    x, y = torch.randn(32, 8), torch.randn(32, 1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with mode:
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    run = torch.compile(step) if compiled else step
    return [(run(x * (float("inf") if i == 4 else 1.0), y).item(), scaler.get_scale()) for i in range(8)]


def test_compiled_training_steps():
    eager, compiled = training(False), training(True)
    assert [s for _, s in eager] == [s for _, s in compiled] == [16.0, 16.0, 32.0, 32.0, 16.0, 16.0, 16.0, 32.0]
    losses = [loss for loss, _ in eager]
    assert losses[-1] < losses[0] and [loss for loss, _ in compiled] == pytest.approx(losses, rel=2e-2, nan_ok=True)


def test_parameters_are_cast_once():
    weight, x = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    for cached, casts in ((True, 1), (False, 3)):
        with torch.autocast("cpu", cache_enabled=cached):
            products = [x @ weight for _ in range(3)]
            with torch.no_grad():
                assert not (x @ weight).requires_grad
        assert len({id(p.grad_fn.next_functions[0][0]) for p in products}) == casts
        weight.grad = None
        sum(p.float().sum() for p in products).backward()
        assert torch.equal(weight.grad, torch.full((2, 2), 6.0))
    with torch.autocast("cpu"):
        one = x @ weight
        with torch.no_grad():
            weight.mul_(2.0)
        assert torch.equal(x @ weight, one * 2)  # a change is seen


def test_threads_have_modes_of_their_own():
    seen: list[Any] = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype))
        thread.start()
        thread.join()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    assert seen == [torch.float32]


def test_an_exception_ends_the_mode():
    with pytest.raises(ValueError, match="inside"), torch.autocast("cpu"):
        raise ValueError("inside")
    assert not torch.is_autocast_enabled("cpu")


def test_half_precision_gradients_are_refused():
    w = torch.ones(2, dtype=torch.float16, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)
    empty = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(empty)
