"""PyTorch's functions and layers, called with flambeau's tensors in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import flambeau

CALLS = {
    "torch": lambda x: torch.relu(x),
    "functional builtin": lambda x: torch.nn.functional.linear(x, x),
    "functional": lambda x: torch.nn.functional.softmax(x, dim=-1),
    "linalg": lambda x: torch.linalg.inv(x),
    "fft": lambda x: torch.fft.fft(x).real,
    "special": lambda x: torch.special.erf(x),
    "method": lambda x: torch.Tensor.split(x, 2)[0],
    "layer": lambda x: torch.nn.PairwiseDistance()(x, 2 * x),
    "several": lambda x: torch.max(x, dim=1).values,
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_pytorch_mean_those_of_the_same_name(name: str) -> None:
    values = np.random.default_rng().standard_normal((4, 4)).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    got: Any = CALLS[name](flambeau.from_numpy(values))
    assert type(got) is flambeau.Tensor
    np.testing.assert_allclose(got.numpy(), CALLS[name](torch.from_numpy(values)).numpy(), rtol=2e-4, atol=1e-5)


def test_gradients_go_through_them() -> None:
    x = flambeau.randn(3, 4, requires_grad=True)
    torch.nn.functional.gelu(x).sum().backward()
    want = torch.from_numpy(x.detach().numpy()).requires_grad_()
    torch.nn.functional.gelu(want).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="flambeau run"):
        torch.q_scale(flambeau.ones(2))
