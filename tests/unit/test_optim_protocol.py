"""What every optimizer does besides stepping: groups, state dictionaries, hooks, closures, errors."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.optim import optimizer as base


def parameter(*shape: int) -> Any:
    return nn.Parameter(torch.ones(shape or (2,)))


class Fixed(optim.Optimizer):
    """A user's own optimizer."""

    def __init__(self, params: Any, lr: Any = base.required) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(group["lr"])
        return 7


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda: optim.SGD([], 0.1), ValueError, "optimizer got an empty parameter list"),
    (lambda: optim.SGD(torch.ones(2), 0.1), TypeError, "should be an iterable of Tensors or dicts, but got torch.FloatTensor"),
    (lambda: optim.SGD([{"params": {torch.ones(2)}}], 0.1), TypeError, "need to be organized in ordered collections"),
    (lambda: optim.SGD([3], 0.1), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda: optim.SGD([parameter() * 2], 0.1), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: optim.SGD([{"params": p} for p in [parameter()] * 2], 0.1), ValueError, "appear in more than one parameter group"),
    (lambda: Fixed([parameter()]), ValueError, "didn't specify a value of required optimization parameter lr"),
    (lambda: optim.SGD([parameter()], -1), ValueError, "Invalid learning rate: -1"),
    (lambda: optim.SGD([parameter()], torch.ones(2)), ValueError, "Tensor lr must be 1-element"),
    (lambda: optim.SGD([parameter()], 0.1, nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda: optim.SGD([parameter()], 0.1, momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda: optim.Adam([parameter()], betas=(1, 0.9)), ValueError, "Invalid beta parameter at index 0: 1"),
    (lambda: optim.Adam([parameter()], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda: optim.Adam([parameter()], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
    (lambda: optim.Adam([parameter()], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
    (lambda: optim.AdamW([parameter()], differentiable=True), NotImplementedError, "AdamW: differentiable=True"),
    (lambda: optim.Adadelta([parameter()], rho=2), ValueError, "Invalid rho value: 2"),
    (lambda: optim.RMSprop([parameter()], alpha=-1), ValueError, "Invalid alpha value: -1"),
    (lambda: optim.Adagrad([parameter()], lr_decay=-1), ValueError, "Invalid lr_decay value: -1"),
    (lambda: optim.Adam([parameter()]).load_state_dict({"state": {}, "param_groups": []}), ValueError, "different number of"),
    (lambda: optim.Adam([parameter()]).load_state_dict({"state": {}, "param_groups": [{"params": []}]}), ValueError, "the size of"),
    (lambda: optim.Adam([parameter()]).add_param_group(3), TypeError, "param_group must be a dict"),
    (lambda: optim.Optimizer([parameter()], {}).step(), NotImplementedError, "must define step"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        action()


def test_groups_hold_every_setting() -> None:
    optimizer = optim.AdamW([parameter()])
    assert list(optimizer.param_groups[0]) == [
        "params", "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable", "differentiable", "fused",
        "decoupled_weight_decay",
    ]  # fmt: skip
    assert "fused" in inspect.signature(optim.AdamW).parameters
    assert repr(optim.SGD([parameter()], 0.1)).startswith("SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n")
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([parameter()] * 2, 0.1)


def test_named_parameters_keep_their_names() -> None:
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.named_parameters(), 0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_state_dictionaries_number_the_parameters() -> None:
    a, b = parameter(), parameter(3)
    optimizer = optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.5}])
    a.grad, b.grad = torch.ones(2), torch.ones(3)
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert set(state["state"][1]) == {"step", "exp_avg", "exp_avg_sq"} and state["state"][0]["step"].item() == 1
    assert state["state"][0]["step"].dtype is torch.float32 and state["state"][0]["step"].dim() == 0
    other = optim.Adam([{"params": [parameter()]}, {"params": [parameter(3)]}])
    other.load_state_dict(state)
    assert other.param_groups[1]["lr"] == 0.5
    assert other.state[other.param_groups[1]["params"][0]]["exp_avg"].tolist() == pytest.approx([0.1] * 3)


def test_loaded_state_takes_the_parameters_type() -> None:
    a, b = parameter(), nn.Parameter(torch.ones(2, dtype=torch.float64))
    a.grad = torch.ones(2)
    source, target = optim.Adam([a]), optim.Adam([b])
    source.step()
    target.load_state_dict(source.state_dict())
    assert target.state[b]["exp_avg"].dtype is torch.float64 and target.state[b]["step"].dtype is torch.float32


def test_old_state_with_numbers_as_counts() -> None:
    a = parameter()
    a.grad = torch.ones(2)
    optimizer = optim.Adam([a])
    optimizer.step()
    state = optimizer.state_dict()
    state["state"] = {0: {**state["state"][0], "step": 5}}
    optimizer.load_state_dict(state)
    optimizer.step()
    assert float(optimizer.state[a]["step"]) == 6


def test_gradients_are_forgotten() -> None:
    a, b = parameter(), parameter()
    optimizer = optim.SGD([a, b], 0.1)
    a.grad = torch.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0, 0] and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_a_closure_computes_gradients() -> None:
    a = parameter()
    optimizer = optim.SGD([a], 0.25)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 2
    assert a.tolist() == [0.5, 0.5]


def test_hooks_surround_steps_of_any_optimizer() -> None:
    optimizer, seen = Fixed([parameter()], 0.5), []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    everywhere = base.register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("everywhere"))
    assert optimizer.step() == 7
    handle.remove()
    everywhere.remove()
    optimizer.step()
    assert seen == ["everywhere", "before", "after", "after"]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="a pre hook must return None or"):
        optimizer.step()


def test_hooks_of_states() -> None:
    optimizer, seen = optim.SGD([parameter()], 0.1), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state["extra"]))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["save", 1, "loaded"]


def test_pickles() -> None:
    a = parameter()
    a.grad = torch.ones(2)
    optimizer = optim.Adam([a], lr=0.5)
    optimizer.step()
    other = pickle.loads(pickle.dumps(optimizer))
    (b,) = other.param_groups[0]["params"]
    assert isinstance(b, nn.Parameter) and other.state[b]["step"].item() == 1 and other.param_groups[0]["lr"] == 0.5
    b.grad = torch.ones(2)
    other.step()
    assert other.state[b]["step"].item() == 2
