"""Attention and Transformer layers against float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

RNG = np.random.default_rng()


def tensor(array: np.ndarray) -> Any:
    return torch.tensor(array.astype(np.float32))


def close(actual: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def state(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().astype(np.float64) for name, p in module.named_parameters()}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(
    w: dict[str, np.ndarray], heads: int, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | float = 0.0, prefix: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Batch first: output and weights of each head."""
    width = q.shape[-1]
    parts = np.split(w[prefix + "in_proj_weight"], 3)
    biases = np.split(w[prefix + "in_proj_bias"], 3)

    def split(x: np.ndarray, i: int) -> np.ndarray:
        x = x @ parts[i].T + biases[i]
        return x.reshape(*x.shape[:2], heads, width // heads).transpose(0, 2, 1, 3)

    queries, keys, content = split(q, 0), split(k, 1), split(v, 2)
    chances = softmax(queries @ keys.swapaxes(-1, -2) / np.sqrt(width // heads) + mask)
    out = (chances @ content).transpose(0, 2, 1, 3).reshape(q.shape)
    return out @ w[prefix + "out_proj.weight"].T + w[prefix + "out_proj.bias"], chances


def randomized(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.data.copy_(tensor(RNG.standard_normal(tuple(parameter.shape)) * 0.5))
    return module


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_with_masks(need_weights: bool) -> None:
    layer = randomized(nn.MultiheadAttention(8, 2, batch_first=True))
    q, kv = RNG.standard_normal((3, 5, 8)), RNG.standard_normal((3, 6, 8))
    padding = np.zeros((3, 6), bool)
    padding[0, 4:] = True
    added = RNG.standard_normal((5, 6))
    mask = added + np.where(padding, -np.inf, 0)[:, None, None, :]
    out, weights = layer(
        tensor(q), tensor(kv), tensor(kv), key_padding_mask=torch.tensor(padding), attn_mask=tensor(added), need_weights=need_weights
    )
    expected, chances = attended(state(layer), 2, q, kv, kv, mask)
    close(out, expected)
    if need_weights:
        close(weights, chances.mean(1))
    else:
        assert weights is None


def test_attention_layouts_agree() -> None:
    layer = randomized(nn.MultiheadAttention(8, 2))
    x = RNG.standard_normal((5, 3, 8))
    given = tensor(x)
    out, weights = layer(given, given, given, average_attn_weights=False)
    expected, chances = attended(state(layer), 2, *[x.swapaxes(0, 1)] * 3)
    close(out, expected.swapaxes(0, 1))
    close(weights, chances)
    single, _ = layer(given[:, 1], given[:, 1], given[:, 1])
    close(single, expected[1])
    hidden = torch.tensor(np.triu(np.ones((5, 5), bool), 1))
    causal, _ = layer(given, given, given, attn_mask=hidden, is_causal=True, need_weights=False)
    later = np.where(np.triu(np.ones((5, 5)), 1), -np.inf, 0.0)
    close(causal, attended(state(layer), 2, *[x.swapaxes(0, 1)] * 3, later)[0].swapaxes(0, 1))


def test_attention_options() -> None:
    layer = randomized(nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=4))
    assert layer.in_proj_weight is None and tuple(layer.k_proj_weight.shape) == (8, 6)
    query, key, value = (tensor(RNG.standard_normal(shape)) for shape in ((5, 3, 8), (7, 3, 6), (7, 3, 4)))
    out, weights = layer(query, key, value)
    assert tuple(out.shape) == (5, 3, 8) and tuple(weights.shape) == (3, 5, 9)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), np.ones((3, 5)), rtol=1e-5)
    out.sum().backward()
    assert layer.bias_k.grad is not None and layer.q_proj_weight.grad.abs().sum().item() > 0


def test_attention_refuses() -> None:
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(7, 2)
    layer, x = nn.MultiheadAttention(8, 2), torch.ones(5, 3, 8)
    with pytest.raises(RuntimeError, match="The shape of the 2D attn_mask is"):
        layer(x, x, x, attn_mask=torch.zeros(4, 4))
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        layer(x, x, x, is_causal=True)


def normalized(x: np.ndarray, w: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def forwarded(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    hidden = np.maximum(x @ w["linear1.weight"].T + w["linear1.bias"], 0)
    return hidden @ w["linear2.weight"].T + w["linear2.bias"]


@pytest.mark.parametrize("first", [True, False])
def test_encoder_layer(first: bool) -> None:
    layer = randomized(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=first))
    w, x = state(layer), RNG.standard_normal((3, 5, 8))

    def look(y: np.ndarray) -> np.ndarray:
        return attended(w, 2, y, y, y, prefix="self_attn.")[0]

    if first:
        middle = x + look(normalized(x, w, "norm1"))
        expected = middle + forwarded(normalized(middle, w, "norm2"), w)
    else:
        middle = normalized(x + look(x), w, "norm1")
        expected = normalized(middle + forwarded(middle, w), w, "norm2")
    close(layer(tensor(x)), expected)


def test_stacks_are_copies_of_a_layer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
    x, mask = tensor(RNG.standard_normal((5, 3, 8))), nn.Transformer.generate_square_subsequent_mask(5)
    expected = stack.norm(stack.layers[1](stack.layers[0](x, mask), mask))
    close(stack(x, mask), expected.detach().numpy())
    close(stack.layers[0](x), layer(x).detach().numpy())
    assert stack.layers[0].linear1.weight is not layer.linear1.weight


def test_decoder_and_whole_transformer() -> None:
    model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
    source, target = tensor(RNG.standard_normal((3, 6, 8))), tensor(RNG.standard_normal((3, 5, 8)))
    mask = model.generate_square_subsequent_mask(5)
    out = model(source, target, tgt_mask=mask)
    changed = target.clone()
    changed[:, 4] += 1
    other = model(source, changed, tgt_mask=mask)
    close(other[:, :4], out[:, :4].detach().numpy())
    assert (other[:, 4] - out[:, 4]).abs().max().item() > 1e-3
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(source[:2], target)
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")


def test_any_named_implementation_gives_the_same() -> None:
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    x = tensor(RNG.standard_normal((2, 3, 4)))
    plain = nn.functional.scaled_dot_product_attention(x, x, x)
    for choice in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
        with sdpa_kernel(choice):
            assert nn.functional.scaled_dot_product_attention(x, x, x).tolist() == plain.tolist()
    for choice, error in ((["math"], TypeError), ([], ValueError)):
        with pytest.raises(error, match="sdpa_kernel"), sdpa_kernel(choice):  # type: ignore[arg-type]
            pass
