"""The Module protocol: registration, state, hooks, conversion, printing and the stamp."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.core.stamps import module_stamp


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)
        self.blocks = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return self.blocks(self.first(x) * self.scale) * factor


KEYS = ["scale", "count", "first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias"]


# -- registration ---------------------------------------------------------------------------------------
def test_assigned_parts_are_registered() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [key for key in KEYS if key != "count"]
    assert [name for name, _ in net.named_buffers()] == ["count", "hidden"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "blocks", "blocks.0", "blocks.1"]
    assert [name for name, _ in net.named_children()] == ["first", "blocks"]
    assert [name for name, _ in net.named_parameters(recurse=False, prefix="net")] == ["net.scale"]
    assert list(net.state_dict()) == KEYS
    assert "scale" in dir(net)


def test_shared_parts_come_once() -> None:
    net = nn.Module()
    net.a = nn.Linear(2, 2)
    net.b = net.a
    assert len(list(net.parameters())) == 2
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(list(net.modules())) == 2 and len(list(net.children())) == 1
    assert len(net.state_dict()) == 4


def test_a_name_changes_its_kind() -> None:
    net = nn.Module()
    net.part = nn.Parameter(torch.ones(1))
    net.part = nn.Linear(1, 1)
    assert list(net._modules) == ["part"] and not net._parameters
    net.part = None
    assert net.part is None
    del net.part
    assert not hasattr(net, "part")
    net.register_buffer("b", torch.ones(1), persistent=False)
    net.b = torch.zeros(1)
    assert net.b.item() == 0 and "b" not in net.state_dict()
    net.plain = 3
    net.plain = nn.Buffer(torch.ones(2))
    assert [name for name, _ in net.named_buffers()] == ["b", "plain"]


@pytest.mark.parametrize(("action", "error", "message"), [
    (lambda m, n: m.add_module("a.b", n), KeyError, "module name can't contain"),
    (lambda m, n: m.add_module("", n), KeyError, "module name can't be empty string"),
    (lambda m, n: m.add_module(3, n), TypeError, "module name should be a string. Got int"),
    (lambda m, n: m.add_module("a", 4), TypeError, "int is not a Module subclass"),
    (lambda m, n: m.add_module("forward", n), KeyError, "attribute 'forward' already exists"),
    (lambda m, n: m.register_parameter("w", torch.zeros(2)), TypeError, "cannot assign 'torch.FloatTensor' object to parameter 'w'"),
    (lambda m, n: m.register_buffer("w", 3), TypeError, "cannot assign 'int' object to buffer 'w'"),
    (lambda m, n: n.register_buffer("weight", None), KeyError, "attribute 'weight' already exists"),
    (lambda m, n: setattr(n, "weight", torch.zeros(2)), TypeError, "cannot assign 'torch.FloatTensor' as parameter 'weight'"),
    (lambda m, n: setattr(Net(), "first", 3), TypeError, "cannot assign 'int' as child module 'first'"),
    (lambda m, n: m.foo, AttributeError, "'Module' object has no attribute 'foo'"),
    (lambda m, n: delattr(n, "q"), AttributeError, "has no attribute 'q'"),
    (lambda m, n: m(3), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
    (lambda m, n: n.train(3), ValueError, "training mode is expected to be boolean"),
    (lambda m, n: n.to(torch.int32), TypeError, "nn.Module.to only accepts floating point or complex dtypes"),
    (lambda m, n: n.to(foo=3), TypeError, "invalid combination of arguments"),
    (lambda m, n: n.get_submodule("weight"), AttributeError, "`weight` is not an nn.Module"),
    (lambda m, n: n.get_parameter("training"), AttributeError, "`training` is not an nn.Parameter"),
    (lambda m, n: n.get_buffer("weight"), AttributeError, "`weight` is not a buffer"),
    (lambda m, n: n.register_backward_hook(print), NotImplementedError, "use register_full_backward_hook"),
])  # fmt: skip
def test_what_is_refused(action: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        action(nn.Module(), nn.Linear(2, 3))
    assert message in str(raised.value).replace("\\'", "'")


@pytest.mark.parametrize(("value", "kind"), [(nn.Linear(1, 1), "module"), (nn.Parameter(torch.ones(1)), "parameters")])
def test_parts_need_the_constructor(value: Any, kind: str) -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.part = value

    with pytest.raises(AttributeError, match=f"cannot assign {kind} before Module"):
        Early()


def test_paths_lead_to_parts() -> None:
    net = Net()
    assert net.get_submodule("blocks.0") is net.blocks[0] and net.get_submodule("") is net
    assert net.get_parameter("blocks.0.weight") is net.blocks[0].weight
    assert net.get_buffer("count") is net.count
    other = nn.Identity()
    net.set_submodule("blocks.1", other)
    assert net.blocks[1] is other


# -- state ----------------------------------------------------------------------------------------------
def test_state_goes_round() -> None:
    source, target = Net(), Net()
    report = target.load_state_dict(source.state_dict())
    assert str(report) == "<All keys matched successfully>"
    x = torch.randn(4, 3)
    np.testing.assert_array_equal(source(x).detach().numpy(), target(x).detach().numpy())
    state = source.state_dict()
    assert state._metadata["first"] == {"version": 1} and not state["scale"].requires_grad
    assert state["scale"].data_ptr() == source.scale.data_ptr()
    assert source.state_dict(keep_vars=True)["scale"] is source.scale
    assert list(source.state_dict(prefix="model."))[0] == "model.scale"


@pytest.mark.parametrize(("state", "message"), [
    ({"weight": torch.zeros(3, 3)}, 'Missing key(s) in state_dict: "bias". \n\tsize mismatch for weight: copying a param with shape '
     "torch.Size([3, 3]) from checkpoint, the shape in current model is torch.Size([3, 2])."),
    ({"weight": torch.zeros(3, 2), "bias": torch.zeros(3), "extra": torch.zeros(1), "a.b": torch.zeros(1)},
     'Unexpected key(s) in state_dict: "extra", "a.b". '),
    ({"weight": 1, "bias": torch.zeros(3)}, 'While copying the parameter named "weight", expected torch.Tensor or Tensor-like object'),
])  # fmt: skip
def test_what_does_not_fit_is_told(state: Any, message: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        nn.Linear(2, 3).load_state_dict(state)
    assert str(raised.value).startswith("Error(s) in loading state_dict for Linear:\n\t" + message)


def test_loading_may_be_lenient_or_assign() -> None:
    layer = nn.Linear(2, 3)
    report = layer.load_state_dict({"bias": torch.ones(3), "z": torch.ones(1)}, strict=False)
    assert report.missing_keys == ["weight"] and report.unexpected_keys == ["z"]
    assert layer.bias.tolist() == [1, 1, 1]
    weight = torch.ones(3, 2)
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(3)}, assign=True)
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.data_ptr() == weight.data_ptr()
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        layer.load_state_dict(5)  # type: ignore[arg-type]


def test_extra_state_and_hooks_of_states() -> None:
    class Counter(nn.Linear):
        seen = 0

        def get_extra_state(self) -> Any:
            return {"seen": self.seen}

        def set_extra_state(self, state: Any) -> None:
            self.seen = state["seen"]

    source, target = Counter(1, 1), Counter(1, 1)
    source.seen = 7
    calls: list[str] = []
    source.register_state_dict_pre_hook(lambda module, prefix, keep: calls.append("before"))
    source.register_state_dict_post_hook(lambda module, state, prefix, meta: calls.append("after"))
    target.register_load_state_dict_pre_hook(lambda module, state, *_: state.pop("odd"))
    target.register_load_state_dict_post_hook(lambda module, keys: calls.append("loaded"))
    target.load_state_dict({**source.state_dict(), "odd": 1})
    assert target.seen == 7 and calls == ["before", "after", "loaded"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "_extra_state"'):
        Counter(1, 1).load_state_dict(nn.Linear(1, 1).state_dict())


def test_modules_are_copied_and_pickled() -> None:
    net = Net()
    x = torch.randn(4, 3)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.scale is not net.scale and isinstance(other.scale, nn.Parameter)
        np.testing.assert_array_equal(other(x).detach().numpy(), net(x).detach().numpy())
        other.scale.data.fill_(0)
        assert net.scale.tolist() == [1, 1]
        assert list(other.state_dict()) == KEYS


def test_states_of_plain_dictionaries_are_taken_up() -> None:
    net = Net()
    state = net.__getstate__()
    state["_parameters"] = OrderedDict(state["_parameters"])
    del state["_load_state_dict_post_hooks"]
    other = Net.__new__(Net)
    other.__setstate__(state)
    assert list(other.state_dict()) == KEYS


# -- modes and conversion -------------------------------------------------------------------------------
def test_modes_reach_all_parts() -> None:
    net = Net()
    assert net.eval() is net and not net.blocks[1].training
    net.train()
    assert all(module.training for module in net.modules())
    net.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in net.parameters())
    seen: list[Any] = []
    assert net.apply(seen.append) is net
    assert seen[-1] is net and len(seen) == 5


def test_gradients_are_forgotten() -> None:
    net = Net()
    net(torch.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(parameter.grad.abs().sum().item() == 0 for parameter in net.parameters())
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize(("convert", "wanted"), [
    (lambda m: m.double(), torch.float64), (lambda m: m.half(), torch.float16), (lambda m: m.bfloat16(), torch.bfloat16),
    (lambda m: m.to(torch.float64), torch.float64), (lambda m: m.to("cpu", torch.float64), torch.float64),
    (lambda m: m.to(torch.ones(1, dtype=torch.float64)), torch.float64), (lambda m: m.double().float(), torch.float32),
    (lambda m: m.type(torch.float64), torch.float64), (lambda m: m.cpu(), torch.float32),
])  # fmt: skip
def test_conversion_keeps_parameters_and_converts_gradients(convert: Any, wanted: Any) -> None:
    net = nn.BatchNorm1d(2)
    net(torch.randn(4, 2)).sum().backward()
    weight = net.weight
    convert(net)
    assert net.weight is weight and weight.dtype is wanted and weight.grad.dtype is wanted and net.running_mean.dtype is wanted
    if wanted is not torch.float64 or net.num_batches_tracked.dtype is torch.int64:
        assert net.num_batches_tracked.item() == 1


def test_printing() -> None:
    net = Net()
    assert repr(net) == (
        "Net(\n  (first): Linear(in_features=3, out_features=2, bias=True)\n  (blocks): Sequential(\n    (0): Linear(in_features=2, "
        "out_features=2, bias=True)\n    (1): ReLU()\n  )\n)"
    )
    assert repr(nn.Identity()) == "Identity()"


# -- hooks ----------------------------------------------------------------------------------------------
def test_forward_hooks_change_arguments_and_output() -> None:
    layer = nn.Linear(2, 2)
    x = torch.randn(3, 2)
    plain = layer(x).detach().numpy()
    doubled = layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    expected = 2 * plain - layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    shifted = layer.register_forward_hook(lambda module, args, output: output + 1)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected + 1, rtol=1e-5, atol=1e-6)
    doubled.remove()
    shifted.remove()
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain)


def test_hooks_see_keywords_and_run_in_order() -> None:
    net, order = Net(), []
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"factor": 3.0}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, output: order.append("second"))
    net.register_forward_hook(lambda module, args, kwargs, output: order.append(kwargs["factor"]), prepend=True, with_kwargs=True)
    x = torch.randn(1, 3)
    np.testing.assert_allclose(net(x, factor=1.0).detach().numpy(), net.forward(x, 3.0).detach().numpy())
    assert order == [3.0, "second"]


def test_some_hooks_run_after_a_failure() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    seen: list[Any] = []
    module = Failing()
    module.register_forward_hook(lambda m, args, output: seen.append("never"))
    module.register_forward_hook(lambda m, args, output: seen.append(output), always_call=True)
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert seen == [None]


def test_backward_hooks_see_and_replace_gradients() -> None:
    layer = nn.Linear(3, 2)
    seen: list[Any] = []

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append((tuple(grad_input[0].shape), grad_output[0].tolist()))
        return (grad_input[0] * 3,)

    layer.register_full_backward_hook(hook)
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    x = torch.randn(4, 3, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [((4, 3), [[2.0, 2.0]] * 4)]
    expected = np.broadcast_to(layer.weight.detach().numpy().sum(0) * 6, (4, 3))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(layer.bias.grad.numpy(), [8, 8])


def test_backward_hooks_without_input_gradients() -> None:
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, len(grad_output))))
    layer(torch.randn(4, 3)).sum().backward()
    assert seen == [((None,), 1)]


def test_global_hooks_run_for_every_module() -> None:
    seen: list[str] = []
    handles = [
        nn.modules.module.register_module_forward_pre_hook(lambda module, args: seen.append("pre " + type(module).__name__)),
        nn.modules.module.register_module_forward_hook(lambda module, args, output: seen.append("post " + type(module).__name__)),
        nn.modules.module.register_module_module_registration_hook(lambda module, name, part: seen.append("part " + name)),
    ]
    try:
        model = nn.Sequential(nn.ReLU())
        model(torch.ones(1))
    finally:
        for handle in handles:
            handle.remove()
    nn.ReLU()(torch.ones(1))
    assert seen == ["part 0", "pre Sequential", "pre ReLU", "post ReLU", "post Sequential"]


# -- the stamp ------------------------------------------------------------------------------------------
def moves(action: Any) -> bool:
    before = module_stamp[0]
    action()
    return module_stamp[0] != before


def test_every_change_moves_the_stamp() -> None:
    net = Net()
    handles: list[Any] = []
    changes: list[Any] = [
        lambda: setattr(net, "scale", nn.Parameter(torch.ones(2))), lambda: setattr(net, "number", 3), lambda: delattr(net, "number"),
        lambda: net.register_buffer("b", None), lambda: net.add_module("m", nn.ReLU()), lambda: net.eval(), lambda: net.double(),
        lambda: handles.append(net.register_forward_hook(print)), lambda: handles[0].remove(), lambda: net.requires_grad_(False),
        lambda: net._parameters.pop("scale"), lambda: net._buffers.clear(), lambda: net._modules.update(first=nn.ReLU()),
        lambda: net._modules.setdefault("z", None), lambda: net._modules.popitem(), lambda: net.__setstate__(net.__getstate__()),
    ]  # fmt: skip
    for number, change in enumerate(changes):
        assert moves(change), number


def test_uses_do_not_move_the_stamp() -> None:
    net = Net()
    x = torch.randn(2, 3)
    uses: list[Any] = [
        lambda: net(x).sum().backward(), lambda: net.zero_grad(), lambda: net.state_dict(), lambda: net.scale.data.fill_(2),
        lambda: list(net.parameters()), lambda: net.train(), lambda: setattr(net, "training", True), lambda: repr(net),
        lambda: net.load_state_dict(net.state_dict()),
    ]  # fmt: skip
    for number, use in enumerate(uses):
        assert not moves(use), number


def test_a_module_compiles_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau.core import compile_hook

    monkeypatch.setattr(compile_hook, "_compile", [])
    layer = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="compiler is not loaded"):
        layer.compile()
    compile_hook.set_compile_function(lambda function, factor: lambda *args: function(*args) * factor)
    x = torch.ones(1)
    plain = layer(x).item()
    layer.compile(factor=2)
    assert layer(x).item() == pytest.approx(2 * plain)
    assert copy.deepcopy(layer)(x).item() == pytest.approx(plain)
