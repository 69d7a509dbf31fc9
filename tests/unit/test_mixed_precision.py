"""Scaled losses, autocast's types and its settings, by their rules."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


def scaler(**settings: Any) -> Any:
    return torch.amp.GradScaler("cpu", **{"init_scale": 8.0, "growth_interval": 2, **settings})


def step(grad_scaler: Any, optimizer: Any, w: Any, value: float) -> None:
    optimizer.zero_grad()
    grad_scaler.scale((w * value).sum()).backward()
    grad_scaler.step(optimizer)
    grad_scaler.update()


def test_the_scale_grows_and_backs_off() -> None:
    w = torch.zeros(2, requires_grad=True)
    optimizer, made = torch.optim.SGD([w], lr=1.0), scaler(growth_factor=4.0, backoff_factor=0.25)
    assert made.scale(torch.ones(1)).item() == 8 and [t.item() for t in made.scale([torch.ones(()), torch.tensor(2.0)])] == [8, 16]
    scales, places = [], []
    for value in (1.0, 1.0, 1.0, math.inf, 1.0, math.nan, 1.0, 1.0):
        step(made, optimizer, w, value)
        scales.append(made.get_scale())
        places.append(w[0].item())
    assert scales == [8, 32, 32, 8, 8, 2, 2, 8] and places == [-1, -2, -3, -3, -4, -4, -5, -6]
    made.update(128.0)
    assert made.get_scale() == 128 and made.state_dict()["_growth_tracker"] == 0
    huge = scaler(init_scale=2.0**127, growth_interval=1)
    step(huge, optimizer, w, 0.0)
    assert huge.get_scale() == 2.0**127  # it would overflow


def test_gradients_are_unscaled_once() -> None:
    w, v = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    first, second, made = torch.optim.SGD([w], lr=1.0), torch.optim.SGD([v], lr=1.0), scaler()
    made.scale((3 * w).sum() + (v * math.inf).sum()).backward()
    assert w.grad.tolist() == [24, 24]
    made.unscale_(first)
    assert w.grad.tolist() == [3, 3]
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    with pytest.raises(RuntimeError, match="already been called"):
        made.unscale_(first)
    made.step(first)
    assert w.norm().item() == pytest.approx(1.0)
    for again, message in ((made.step, "already been called"), (made.unscale_, "after step")):
        with pytest.raises(RuntimeError, match=message):
            again(first)
    assert made.step(second) is None and v.item() == 0  # left out
    made.update()
    assert made.get_scale() == 4
    with pytest.raises(AssertionError, match="No inf checks"):
        made.update()
    first.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks"):
        made.step(first)
    with pytest.raises(RuntimeError, match="Closure"):
        made.step(first, closure=lambda: 0)
    with pytest.raises(ValueError, match="iterable of Tensors"):
        made.scale(3)
    half = torch.zeros(1, dtype=torch.float16, requires_grad=True)
    half.grad = torch.ones(1, dtype=torch.float16)
    with pytest.raises(ValueError, match="FP16 gradients"):
        made.unscale_(torch.optim.SGD([half], lr=1.0))


def test_settings_and_states_of_scalers() -> None:
    made = scaler()
    made.set_growth_factor(3.0)
    made.set_backoff_factor(0.1)
    made.set_growth_interval(7)
    assert (made.get_growth_factor(), made.get_backoff_factor(), made.get_growth_interval()) == (3.0, 0.1, 7) and made.is_enabled()
    other = scaler()
    other.scale(torch.ones(1))
    other.load_state_dict(made.state_dict() | {"scale": 2.0})
    assert other.get_scale() == 2 and other.scale(torch.ones(1)).item() == 2 and other.get_growth_interval() == 7
    off = scaler(enabled=False)
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    step(off, optimizer, w, 1.0)
    off.unscale_(optimizer)
    off.load_state_dict({})
    assert w.item() == -1 and off.get_scale() == 1 and off.state_dict() == {} and not off.is_enabled()
    with pytest.raises(RuntimeError, match="state dict is empty"):
        made.load_state_dict({})
    for bad in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(AssertionError, match="factor must be"):
            scaler(**bad)


LAYERS = {"linear": nn.Linear(3, 2), "conv": nn.Conv1d(3, 2, 1), "norm": nn.LayerNorm(3)}
A, B = torch.ones(3, 3), torch.ones(3, 3, dtype=torch.bfloat16)
RESULTS: dict[str, tuple[Any, torch.dtype]] = {
    "products": (lambda: A @ A, torch.bfloat16), "mm": (lambda: torch.mm(A, B), torch.bfloat16),
    "linear": (lambda: LAYERS["linear"](A), torch.bfloat16),
    "conv": (lambda: LAYERS["conv"](A), torch.bfloat16),
    "attention": (lambda: nn.functional.scaled_dot_product_attention(A, A, A), torch.bfloat16),
    "cdist": (lambda: torch.cdist(B, B), torch.float32), "losses": (lambda: nn.functional.mse_loss(B, B), torch.float32),
    "sums": (lambda: B.sum(), torch.bfloat16), "pointwise": (lambda: B.relu(), torch.bfloat16), "float": (lambda: A.relu(), torch.float32),
    "mixed": (lambda: torch.cat([A, B]), torch.float32), "stack": (lambda: torch.stack([B, A]), torch.float32),
    "double": (lambda: A.double() @ A.double(), torch.float64),
    "integers": (lambda: torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64), torch.int64),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_types_of_results(name: str) -> None:
    make, wanted = RESULTS[name]
    with torch.autocast("cpu"):
        found = make()
        with torch.autocast("cpu", enabled=False):
            if name == "products":
                assert make().dtype is torch.float32
    assert found.dtype is wanted


def test_modes_nest_and_end() -> None:
    assert not torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
    with torch.amp.autocast("cpu", dtype=torch.float16, cache_enabled=False) as mode:
        assert mode.fast_dtype is torch.float16 and torch.is_autocast_cpu_enabled() and torch.get_autocast_cpu_dtype() is torch.float16
        assert not torch.is_autocast_cache_enabled() and (A @ A).dtype is torch.float16
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (A @ A).dtype is torch.bfloat16 and torch.is_autocast_cache_enabled() is False
        assert (A @ A).dtype is torch.float16
    assert not torch.is_autocast_cpu_enabled() and torch.is_autocast_cache_enabled() and torch.get_autocast_cpu_dtype() is torch.bfloat16
    decorated = torch.autocast("cpu")(lambda x: x @ x)
    assert decorated(A).dtype is torch.bfloat16 and (A @ A).dtype is torch.float32
    try:
        torch.set_autocast_dtype("cpu", torch.float16)
        torch.set_autocast_enabled("cpu", True)
        assert (A @ A).dtype is torch.float16
        torch.set_autocast_cpu_dtype(torch.bfloat16)
        assert (A @ A).dtype is torch.bfloat16
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(False)
        assert not torch.is_autocast_cache_enabled()
    finally:
        torch.set_autocast_cpu_enabled(False)
        torch.set_autocast_cpu_dtype(torch.bfloat16)
        torch.set_autocast_cache_enabled(True)
    before = torch.get_autocast_gpu_dtype()
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    assert torch.get_autocast_dtype("cuda") is torch.bfloat16
    torch.set_autocast_gpu_dtype(before)
    assert torch.amp.is_autocast_available("cpu") and not torch.amp.is_autocast_available("meta")


def test_refused_modes() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(3)
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'abacus'"):
        torch.autocast("abacus")
    with pytest.warns(UserWarning, match="target dtype is not supported"), torch.autocast("cpu", dtype=torch.float64):
        assert (A @ A).dtype is torch.float32


@pytest.mark.parametrize("cast", [None, torch.float32])
def test_functions_choose_their_mode(cast: Any) -> None:
    seen: list[Any] = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast)
        def forward(ctx: Any, x: Any, more: Any) -> Any:
            ctx.save_for_backward(x, more["y"][0])
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x @ more["y"][0]

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            seen.append(torch.is_autocast_enabled("cpu"))
            return (g.to(y.dtype) @ y.mT).to(x.dtype), None

    x = torch.ones(2, 2, requires_grad=True)
    given = x.bfloat16()
    with torch.autocast("cpu"):
        out = Product.apply(given, {"y": [torch.ones(2, 2, dtype=torch.bfloat16)]})
    out.sum().backward()
    assert seen == [(torch.float32 if cast else torch.bfloat16, not cast), not cast] and out.dtype is (cast or torch.bfloat16)
    assert x.grad.tolist() == [[2, 2], [2, 2]]
    Product.apply(x, {"y": [torch.ones(2, 2)]}).sum().backward()
    assert seen[2:] == [(torch.float32, False), False]
