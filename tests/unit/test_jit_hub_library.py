"""torch.jit runs programs as they are, torch.hub loads what is there, torch.library adds operators with derivatives."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

import flambeau as torch

# -- jit --------------------------------------------------------------------------------------------------


def test_scripted_functions_are_compiled_and_modules_stay_as_they_are() -> None:
    @torch.jit.script
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x * 2
        return x

    x = torch.rand(3)
    assert torch.equal(f(x, 3), x * 8) and f.__name__ == "f"

    class Layer(torch.jit.ScriptModule):
        @torch.jit.script_method
        def forward(self, x: Any) -> Any:
            return self.helper(x) + 1

        @torch.jit.ignore
        def helper(self, x: Any) -> Any:
            return x

        @torch.jit.export
        def other(self, x: Any) -> Any:
            return x - 1

        @torch.jit.ignore(drop=True)
        def dropped(self, x: Any) -> Any:
            return -x

        @torch.jit.unused
        def unused(self) -> int:
            return 3

    layer = Layer()
    assert torch.jit.script(layer) is layer
    assert layer(x).tolist() == (x + 1).tolist() and layer.unused() == 3 and torch.equal(layer.dropped(x), -x)
    assert not torch.jit.is_scripting() and not torch.jit.is_tracing()
    assert torch.jit.freeze(layer.eval()) is layer
    with pytest.raises(RuntimeError, match="eval"):
        torch.jit.freeze(layer.train())
    with pytest.raises(NotImplementedError, match="TorchScript"):
        torch.jit.CompilationUnit("def f(): pass")


def test_traces_call_once_and_give_back_what_they_get() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return x * 2

    assert torch.jit.trace(f, torch.ones(1)) is f and len(calls) == 1
    layer = torch.nn.Linear(2, 3)
    assert torch.jit.trace_module(layer, {"forward": torch.ones(1, 2)}) is layer
    with pytest.raises(RuntimeError):
        torch.jit.trace(layer, torch.ones(1, 5))


def test_modules_are_saved_whole(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 3)
    torch.jit.save(layer, tmp_path / "layer.pt")
    loaded = torch.jit.load(tmp_path / "layer.pt")
    assert torch.equal(loaded(torch.ones(1, 2)), layer(torch.ones(1, 2)))


def test_forks_and_types() -> None:
    future = torch.jit.fork(lambda x: x + 1, 2)
    assert torch.jit.wait(future) == 3 and future.then(lambda f: f.value() * 2).wait() == 6
    assert torch.jit.isinstance([1, 2], list[int]) and not torch.jit.isinstance([1, "a"], list[int])
    assert torch.jit.isinstance({"a": 1}, dict[str, int]) and torch.jit.isinstance(None, Optional[int])  # noqa: UP045
    assert torch.jit.isinstance((1, "a"), tuple[int, str]) and not torch.jit.isinstance((1,), tuple[int, str])
    assert torch.jit.annotate(list[int], []) == []


# -- hub --------------------------------------------------------------------------------------------------
@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}", folder
        serving.shutdown()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def test_states_are_loaded_once(server: tuple[str, Path], hub: Path) -> None:
    url, folder = server
    state = {"weight": torch.arange(3.0)}
    torch.save(state, folder / "model.pt")
    digest = hashlib.sha256((folder / "model.pt").read_bytes()).hexdigest()[:8]
    name = f"model-{digest}.pt"
    (folder / "model.pt").rename(folder / name)
    assert torch.equal(torch.hub.load_state_dict_from_url(f"{url}/{name}", check_hash=True)["weight"], state["weight"])
    (folder / name).unlink()
    assert torch.equal(torch.hub.load_state_dict_from_url(f"{url}/{name}")["weight"], state["weight"])
    assert (hub / "checkpoints" / name).exists()


def test_faults_of_downloads_leave_nothing_behind(server: tuple[str, Path], hub: Path) -> None:
    url, folder = server
    (folder / "model-12345678.pt").write_bytes(b"other")
    with pytest.raises(RuntimeError, match="invalid hash"):
        torch.hub.load_state_dict_from_url(f"{url}/model-12345678.pt", check_hash=True)
    with pytest.raises(RuntimeError, match="cannot be reached.*other means"):
        torch.hub.load_state_dict_from_url(f"{url}/absent.pt")
    with pytest.raises(RuntimeError, match="cannot be reached"):
        torch.hub.load_state_dict_from_url("http://127.0.0.1:9/absent.pt")
    assert list((hub / "checkpoints").iterdir()) == []


CONFIGURATION = '''
dependencies = ["numpy"]
import flambeau as torch

def linear(width, bias=True):
    """A layer."""
    return torch.nn.Linear(width, 2, bias=bias)
'''


def test_models_come_from_folders_and_kept_repositories(tmp_path: Path, hub: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "hubconf.py").write_text(CONFIGURATION)
    assert torch.hub.load(str(local), "linear", 3, source="local", bias=False).bias is None
    kept = hub / "someone_models_main"
    kept.mkdir(parents=True)
    (kept / "hubconf.py").write_text(CONFIGURATION)
    assert torch.hub.load("someone/models", "linear", 4).in_features == 4
    assert "linear" in torch.hub.list("someone/models") and torch.hub.help("someone/models:main", "linear") == "A layer."
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        torch.hub.load("someone/models", "nothing")
    with pytest.raises(RuntimeError, match="trust_repo=True"):
        torch.hub.load("someone/absent", "linear")
    with pytest.raises(ValueError, match="Unknown source"):
        torch.hub.load("someone/models", "linear", source="elsewhere")


# -- library ----------------------------------------------------------------------------------------------
def test_operators_have_their_own_gradients() -> None:
    @torch.library.custom_op("tests::scaled_sum", mutates_args=())
    def scaled_sum(parts: Sequence[torch.Tensor], weight: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return sum(parts[1:], parts[0]) * weight * factor

    @scaled_sum.register_fake
    def _(parts: Any, weight: Any, factor: float = 1.0) -> Any:
        return torch.empty_like(parts[0])

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        parts, weight, factor = inputs
        ctx.save_for_backward(weight, output)
        ctx.count, ctx.factor = len(parts), factor

    def backward(ctx: Any, gradient: Any) -> Any:
        weight, output = ctx.saved_tensors
        return [gradient * weight * ctx.factor] * ctx.count, gradient * output / weight, None

    torch.library.register_autograd("tests::scaled_sum", backward, setup_context=setup)
    parts = [torch.rand(3, requires_grad=True) for _ in range(2)]
    weight = (torch.rand(3) + 1).requires_grad_()
    torch.ops.tests.scaled_sum(parts, weight, 2.0).sum().backward()
    assert torch.allclose(weight.grad, 2 * (parts[0] + parts[1]).detach())
    assert all(torch.allclose(part.grad, 2 * weight.detach()) for part in parts)
    compiled = torch.compile(lambda a, w: torch.ops.tests.scaled_sum.default([a, a], w, 2.0))
    assert torch.allclose(compiled(parts[0], weight), 4 * parts[0] * weight)


def test_operators_without_a_formula_refuse_backward() -> None:
    plain = torch.library.custom_op("tests::plain", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    out = plain(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()


def test_libraries_define_and_implement() -> None:
    library = torch.library.Library("tests_library", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no kernel for cpu"):
        torch.ops.tests_library.twice(torch.ones(1))
    library.impl("twice", lambda x: x * 2, "CPU")
    assert torch.ops.tests_library.twice(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(ValueError, match="Unsupported kind"):
        torch.library.Library("tests_library", "OTHER")
    with pytest.raises(RuntimeError, match="there is no operator"):
        torch.library.impl("tests_library::absent", "cpu", lambda x: x)


def test_schemas_come_from_annotations() -> None:
    def f(x: torch.Tensor, n: int, y: Optional[torch.Tensor] = None, *, sizes: Sequence[int] = (), name: str = "a") -> torch.Tensor:  # noqa: UP045
        return x

    schema = torch.library.infer_schema(f, mutates_args=("x",))
    assert schema == "(Tensor(a0!) x, SymInt n, Tensor? y=None, *, SymInt[] sizes=(), str name='a') -> Tensor"
    with pytest.raises(ValueError, match="type annotation"):
        torch.library.infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="namespace::operator"):
        torch.library.custom_op("plain", lambda x: x, mutates_args=(), schema="")
