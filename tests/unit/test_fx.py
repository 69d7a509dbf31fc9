"""torch.fx: graphs of modules give what the modules give, also after they were changed, copied and pickled."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import pytest

import flambeau as torch
from flambeau import fx


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.scale = torch.nn.Parameter(torch.randn(4))
        self.rest = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x: Any, shift: float = 2.0) -> Any:
        y = self.first(x) * self.scale + shift
        a, b = torch.chunk(torch.relu(y), 2, dim=1)
        z = torch.cat([a, b], 1).sum(dim=-1, keepdim=True).view(x.shape[0], 1)
        return self.rest(y)[:, 1:3] - z, {"rows": x.size(0)}


def same(traced: Any, module: Any) -> bool:
    x = torch.randn(5, 3)
    got, expected = traced(x), module(x)
    return torch.equal(got[0], expected[0]) and got[1] == expected[1] == {"rows": 5}


def test_a_traced_module_does_the_same() -> None:
    module = Block()
    traced = fx.symbolic_trace(module)
    traced.graph.lint()
    assert same(traced, module) and set(traced.state_dict()) == set(module.state_dict())
    assert [n.target for n in traced.graph.find_nodes(op="call_module")] == ["first", "rest.0", "rest.1"]
    copied = copy.deepcopy(traced)
    assert same(copied, module) and copied.first.weight is not traced.first.weight
    assert same(pickle.loads(pickle.dumps(traced)), module)
    assert torch.equal(fx.Interpreter(traced).run(torch.ones(2, 3))[0], module(torch.ones(2, 3))[0])


def test_a_changed_graph_does_something_else() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    (relu,) = traced.graph.find_nodes(op="call_function", target=torch.relu)
    with traced.graph.inserting_after(relu):
        tanh = traced.graph.call_function(torch.tanh, relu.args)
    relu.replace_all_uses_with(tanh)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        traced.graph.erase_node(tanh)
    assert traced.graph.eliminate_dead_code() and not traced.graph.find_nodes(op="call_function", target=torch.relu)
    traced.recompile()
    x = torch.randn(4)
    assert torch.equal(traced(x), torch.tanh(x) + 1)


def test_a_transformer_rewrites() -> None:
    class Minus(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(operator.sub if target is operator.add else target, args, kwargs)

    assert Minus(fx.symbolic_trace(lambda x: x + 1)).transform()(torch.ones(1)).item() == 0


@fx.wrap
def sign_of_sum(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def test_branches_are_errors_unless_wrapped() -> None:
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    traced = fx.symbolic_trace(lambda x: sign_of_sum(x) * 2)
    assert traced(torch.tensor([-3.0])).item() == 6


def test_shapes_are_written_to_nodes() -> None:
    traced = fx.symbolic_trace(torch.nn.Linear(3, 4))
    fx.passes.shape_prop.ShapeProp(traced).propagate(torch.ones(2, 3))
    assert traced.graph.output_node().args[0].meta["tensor_meta"].shape == (2, 4)


def test_a_wrapped_function_may_be_gone() -> None:
    exec("from flambeau import fx\nfx.wrap('gone')", {"__name__": "program"})  # noqa: S102
    module = Block()
    assert same(fx.symbolic_trace(module), module) and module(torch.randn(5, 3))[1] == {"rows": 5}
