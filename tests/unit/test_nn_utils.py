"""Clipping gradients, parameters as a vector, and the Parameter class."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import utils

RNG = np.random.default_rng()


def with_gradients(*shapes: tuple[int, ...]) -> tuple[list[Any], list[np.ndarray]]:
    gradients = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return parameters, [gradient.astype(np.float64) for gradient in gradients]


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("limit", [0.5, 1e3])
@pytest.mark.parametrize("strict", [True, False])
def test_the_total_norm_is_clipped(order: float, limit: float, strict: bool) -> None:
    parameters, gradients = with_gradients((3, 4), (5,))
    total = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]), order)
    unused = nn.Parameter(torch.zeros(2))
    found = utils.clip_grad_norm_(iter([*parameters, unused]), limit, order, error_if_nonfinite=strict)
    assert found.item() == pytest.approx(total, rel=1e-5)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), gradient * min(1.0, limit / (total + 1e-6)), rtol=1e-5)
    assert unused.grad is None


def test_norms_that_are_not_finite() -> None:
    (parameter,), _ = with_gradients((3,))
    parameter.grad[0] = math.inf
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(parameter, 1.0, error_if_nonfinite=True)
    assert parameter.grad.isinf().any()
    utils.clip_grad_norm_(parameter, 1.0)
    assert parameter.grad.isnan().any()
    assert utils.clip_grad_norm_([], 1.0).item() == 0


def test_the_two_halves_of_clipping() -> None:
    parameters, gradients = with_gradients((3, 4), (5,))
    total = utils.get_total_norm([p.grad for p in parameters])
    utils.clip_grads_with_norm_(parameters, 0.5, total)
    expected = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    np.testing.assert_allclose(parameters[1].grad.numpy(), gradients[1] * 0.5 / expected, rtol=1e-5)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        utils.clip_grad_norm(parameters, 1.0)


def test_values_are_clipped() -> None:
    parameters, gradients = with_gradients((3, 4), (5,))
    utils.clip_grad_value_(parameters, 0.4)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), np.clip(gradient, -0.4, 0.4), rtol=1e-6)


def test_parameters_as_a_vector() -> None:
    model = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.tolist() == model.weight.flatten().tolist() + model.bias.tolist()
    changed = torch.arange(8.0)
    utils.vector_to_parameters(changed, model.parameters())
    assert model.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and model.bias.tolist() == [6, 7]
    with pytest.raises(TypeError, match="expected torch.Tensor"):
        utils.vector_to_parameters([1.0], model.parameters())  # type: ignore[arg-type]


def test_weights_as_direction_and_length() -> None:
    layer = nn.Conv1d(3, 4, 2)
    weight, x = layer.weight.detach().numpy().astype(np.float64), torch.tensor(RNG.standard_normal((1, 3, 5)).astype(np.float32))
    plain = layer(x).detach().numpy()
    assert utils.weight_norm(layer) is layer and tuple(layer.weight_g.shape) == (4, 1, 1)
    np.testing.assert_allclose(layer.weight_g.detach().numpy(), np.linalg.norm(weight.reshape(4, -1), axis=1).reshape(4, 1, 1), rtol=1e-5)
    np.testing.assert_allclose(layer(x).detach().numpy(), plain, rtol=1e-4, atol=1e-6)
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None
    # The length is apart: a step of the direction is orthogonal to it.
    inner = (layer.weight_v.grad * layer.weight_v).sum((1, 2)).detach().numpy()
    np.testing.assert_allclose(inner, np.zeros(4), atol=1e-4)
    layer.weight_g.data.mul_(2)
    layer(x)
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * weight, rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        utils.weight_norm(layer)
    utils.remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * weight, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        utils.remove_weight_norm(layer)
    whole = utils.weight_norm(nn.Linear(2, 3), dim=None)
    assert whole.weight_g.dim() == 0


def test_parameters_and_buffers_are_tensors() -> None:
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and parameter.data_ptr() == data.data_ptr()
    assert not nn.Parameter(data, requires_grad=False).requires_grad and nn.Parameter().numel() == 0
    assert type(parameter * 2) is torch.Tensor and type(parameter.data) is torch.Tensor
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    for other in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(other) is nn.Parameter and other.requires_grad and other.tolist() == [1, 1]
        assert other.data_ptr() != parameter.data_ptr()
    shared = [parameter, parameter]
    first, second = copy.deepcopy(shared)
    assert first is second
    assert nn.Buffer(data, persistent=False).persistent is False
