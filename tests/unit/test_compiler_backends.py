"""Own back ends of compile(), and the names of torch._dynamo."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.backends import BackendCompilerFailed

X = torch.ones(3)


@pytest.fixture
def config() -> Any:
    before = {name: getattr(torch._dynamo.config, name) for name in ("recompile_limit", "automatic_dynamic_shapes")}
    yield torch._dynamo.config
    for name, value in before.items():
        setattr(torch._dynamo.config, name, value)


@pytest.mark.parametrize("way", ["forward", "reference"])
def test_a_back_end_gets_graph_and_inputs_and_its_function_runs(way: str) -> None:
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any, **options: Any) -> Any:
        seen.append((graph, inputs, options))
        run = getattr(graph, way)
        return lambda *given: seen.append(len(given)) or run(*given)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh())
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend=backend, options={"level": 2})
    for _ in range(3):
        x = torch.randn(5, 3)
        net.zero_grad()
        twin.zero_grad()
        compiled(x).sum().backward()
        twin(x).sum().backward()
        for a, b in zip([*net.parameters(), *net.buffers()], [*twin.parameters(), *twin.buffers()], strict=True):
            torch.testing.assert_close(a, b)
            if a.requires_grad:
                torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-4)
    graphs = [s for s in seen if isinstance(s, tuple)]
    assert len(graphs) == 1 and len(seen) == 4
    graph, inputs, options = graphs[0]
    assert options == {"options": {"level": 2}} and torch.equal(inputs[0], inputs[0]) and len(inputs) == 8
    ops = [n.op for n in graph.graph.nodes]
    assert ops[:8] == ["placeholder"] * 8 and ops[-1] == "output" and ops.count("call_function") == len(ops) - 9
    product = next(n for n in graph.graph.nodes if str(n.target) == "prims.matmul")
    assert product.meta["val"].shape == (5, 4) and all(product in a.users for a in product.args)
    assert "prims.matmul" in graph.print_readable() == graph.code


def test_numbers_and_sizes_are_given_to_back_ends() -> None:
    compiled = torch.compile(lambda x, k: (x * k).cumsum(0) + torch.arange(x.shape[0]), backend=lambda graph, inputs: graph)
    for n, k in ((2, 1.5), (3, 2.5), (4, 0.5), (3, 2.5)):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x, k), (x * k).cumsum(0) + torch.arange(n))


def test_whole_steps_go_through_back_ends() -> None:
    w = torch.ones(3, requires_grad=True)
    counter = torch._dynamo.testing.CompileCounter()

    @torch.compile(backend=counter)
    def step(x: Any) -> Any:
        loss = (w * x).square().sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None
        return loss.detach()

    losses = [step(torch.ones(3)).item() for _ in range(3)]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor([3.0, 3 * 0.64, 3 * 0.64**2]))
    assert counter.frame_count == 1 and counter.op_count > 3


def test_faults_of_back_ends_are_told() -> None:
    with pytest.raises(BackendCompilerFailed, match="ZeroDivisionError"):
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: 1 / 0)(X)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="must return a function"):
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: 3)(X)
    with pytest.raises(RuntimeError, match="gave 2 results"):
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda x: (x, x))(X)
    with pytest.raises(RuntimeError, match="convert it there"):
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda x: x[:1])(X)


def test_names_modes_and_options() -> None:
    for backend in ("inductor", "eager", "aot_eager"):
        for mode in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
            assert torch.compile(lambda x: x + 1, backend=backend, mode=mode)(X).tolist() == [2.0] * 3
    assert torch.compile(lambda x: x + 1, options={"max_autotune": True})(X).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="unknown backend 'none'"):
        torch.compile(lambda x: x, backend="none")
    with pytest.raises(RuntimeError, match="unknown mode"):
        torch.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="not both"):
        torch.compile(lambda x: x, mode="default", options={})

    @torch._dynamo.register_backend(name="registered", tags=("debug",))
    def registered(graph: Any, inputs: Any) -> Any:
        return graph.forward

    assert torch._dynamo.lookup_backend("registered") is registered
    assert "registered" in torch.compiler.list_backends(None) and "registered" not in torch.compiler.list_backends()
    assert torch.compile(lambda x: x * 3, backend="registered")(X).tolist() == [3.0] * 3


def test_disabled_functions_are_called_as_they_are_and_the_capture_goes_on() -> None:
    seen = []

    @torch.compiler.disable(recursive=False, reason="it looks")
    def look(x: Any) -> Any:
        seen.append((torch.compiler.is_compiling(), x.sum().item()))
        return x + 1

    class Quiet(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append(torch.compiler.is_compiling())
            return x * 2

    quiet = torch.compiler.disable(Quiet())
    compiled = torch.compile(lambda x: quiet(look(x * 2)) * 3)
    for _ in range(2):
        assert compiled(X).tolist() == [18.0] * 3
    assert seen == [(False, 6.0), False] * 2
    assert not compiled.tree.left and compiled.explain().segments == 2
    with pytest.raises(RuntimeError, match="look"):
        torch.compile(lambda x: look(x), fullgraph=True)(X)


def test_graph_break_and_explain() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    found = torch._dynamo.explain(f)(X)
    assert (found.graph_count, found.graph_break_count) == (2, 1) and "# a graph ends: graph_break() was called" in str(found)
    with pytest.raises(RuntimeError, match="graph_break"):
        torch.compile(f, fullgraph=True)(X)
    f(X)


def test_settings_of_dynamo(config: Any) -> None:
    config.cache_size_limit = 2
    assert config.recompile_limit == 2
    f = torch.compile(lambda x, k: x * (1 if k == "a" else 2), dynamic=False)
    for k in "abcdef":
        f(X, k)
    assert f.tree.left
    with torch._dynamo.config.patch(recompile_limit=50, error_on_recompile=True):
        assert config.cache_size_limit == 50
        g = torch.compile(lambda x: x * 2)
        g(X)
        with pytest.raises(RuntimeError, match="error_on_recompile"):
            g(torch.ones(2, 2))
    assert config.cache_size_limit == 2 and config.suppress_errors is False
    config.suppress_errors = config.verbose = True
    with pytest.raises(AttributeError, match="does not exist"):
        config.no_such_setting = 1
    with pytest.raises(AttributeError, match="does not exist"):
        _ = config.no_such_setting
    config.automatic_dynamic_shapes = False
    h = torch.compile(lambda x: x * 2)
    for n in (2, 3, 4):
        h(torch.ones(n))
    assert h.explain().captures == 3


def test_reset_forgets() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    f = torch.compile(lambda x: x + 1, backend=counter)
    f(X)
    torch._dynamo.reset()
    assert not f.artifacts
    assert f(X).tolist() == [2.0] * 3 and counter.frame_count == len(counter.graphs) == 2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1


def test_older_names() -> None:
    assert torch._dynamo.optimize("inductor", nopython=True)(lambda x: x + 1)(X).tolist() == [2.0] * 3
    forbidden = torch._dynamo.forbid_in_graph(lambda x: x)
    assert forbidden(X) is X
    with pytest.raises(RuntimeError, match="forbid_in_graph"):
        torch.compile(lambda x: forbidden(x))(X)
    torch._dynamo.mark_static_address(X)
    with pytest.raises(NotImplementedError, match="export"):
        torch._dynamo.export(lambda x: x)
    inside = torch._dynamo.disallow_in_graph(lambda x: x + 1)
    assert torch.compile(lambda x: inside(x) * 2)(X).tolist() == [4.0] * 3
    f = torch.compile(lambda x: x + 1)
    assert torch._dynamo.run(f)(X).tolist() == [2.0] * 3 and not f.artifacts


def test_compiled_modules_are_known_and_keep_their_names() -> None:
    net = torch.compile(nn.Sequential(nn.Linear(2, 2)))
    assert isinstance(net, torch._dynamo.eval_frame.OptimizedModule) and isinstance(net, torch._dynamo.OptimizedModule)
    assert list(net.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [n for n, _ in net.named_parameters()] == list(net.state_dict())
    plain = nn.Sequential(nn.Linear(2, 2))
    plain.load_state_dict(net._orig_mod.state_dict())
    x = torch.randn(3, 2)
    torch.testing.assert_close(net(x), plain(x))
    assert torch.compile(net)._orig_mod is net._orig_mod
    net.eval()
    assert not net._orig_mod[0].training


def test_methods_and_nested_compiled_functions() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0

        @torch.compile
        def decorated(self, x: Any) -> Any:
            return x * self.scale

        @torch.compile(dynamic=True)
        def both(self, x: Any) -> Any:
            return self.decorated(x) + inner(x)

        @staticmethod
        @torch.compile
        def fixed(x: Any) -> Any:
            return x - 1

        def plain(self, x: Any) -> Any:
            return x + self.scale

    inner = torch.compile(lambda x: x + 1)
    model = Model()
    assert model.decorated(X).tolist() == [2.0] * 3 and model.both(X).tolist() == [4.0] * 3 and model.fixed(X).tolist() == [0.0] * 3
    bound = torch.compile(model.plain)
    assert bound(X).tolist() == [3.0] * 3
    model.scale = 5.0
    assert model.decorated(X).tolist() == [5.0] * 3 and bound(X).tolist() == [6.0] * 3 and model.both(X).tolist() == [7.0] * 3
    assert model.decorated.explain().segments >= 1
    assert Model.both.explain().segments >= 1


def test_compile_in_place() -> None:
    net = nn.Linear(2, 2)
    keys = list(net.state_dict())
    before = net(torch.ones(1, 2))
    net.compile()
    torch.testing.assert_close(net(torch.ones(1, 2)), before)
    assert list(net.state_dict()) == keys
