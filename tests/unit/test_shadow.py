"""Shadow mode: compiled segments are compared with their operators one by one."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.capture.shadow import ShadowWarning
from flambeau.core.config import config
from flambeau.ir.node import Node
from flambeau.passes import simplify


def f(x: Any, w: Any) -> Any:
    y = x @ w
    z = (y * 2).sin()
    z.add_(1)
    return z.exp().sum(), z[0]


@pytest.fixture
def wrong_sine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fault of the compiler that shows only where operators are compiled together."""

    def rule(node: Node, sources: tuple[Node, ...]) -> Node | None:
        return sources[0] if sources[0].op is not None and sources[0].op.name == "mul" else None

    monkeypatch.setitem(simplify.RULES, "sin", rule)
    with config.override(cache=False):
        yield


def test_nothing_is_told_where_results_agree() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(net.parameters())

    @torch.compile(options={"shadow": True})
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    plain, drawn = [], []
    state = {k: v.clone() for k, v in net.state_dict().items()}
    x = torch.randn(6, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShadowWarning)
        torch.manual_seed(1)
        plain = [step(x).item() for _ in range(3)]
    net.load_state_dict(state)
    optimizer.state.clear()
    torch.manual_seed(1)
    drawn = [step.function(x).item() for _ in range(3)]
    assert plain == pytest.approx(drawn, rel=1e-4) and not step.history


def test_the_first_operator_that_differs_is_named(wrong_sine: None) -> None:
    compiled = torch.compile(f, options={"shadow": True})
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    with pytest.warns(ShadowWarning) as told:
        compiled(x, w)
        compiled(x, w)
    assert len(told) == 1
    text = str(told[0].message)
    assert "shadow: f: sin (test_shadow.py:20) gives another result" in text and "largest difference" in text
    assert "the first result of the segment that is apart is number 0" in text and text in str(compiled.explain())


def test_a_setting_puts_all_functions_in_shadow(wrong_sine: None) -> None:
    with config.override(shadow=True):
        compiled = torch.compile(f)
    with pytest.warns(ShadowWarning, match="sin"):
        compiled(torch.randn(4, 4), torch.randn(4, 4))
    quiet = torch.compile(f)
    quiet(torch.randn(4, 4), torch.randn(4, 4))
    assert not quiet.history


def test_own_back_ends_are_compared_too() -> None:
    def backend(graph: Any, inputs: Any, **_: Any) -> Any:
        return lambda *given: tuple([r + 1 for r in graph(*given)])

    compiled = torch.compile(lambda x: (x * 2).cos(), backend=backend, options={"shadow": True})
    with pytest.warns(ShadowWarning, match=r"cos \(test_shadow.py:\d+\) gives another result compiled than by itself, compiled together"):
        compiled(torch.ones(3))


def test_sizes_that_change() -> None:
    compiled = torch.compile(lambda x: x.softmax(0).cumsum(0), options={"shadow": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShadowWarning)
        for n in (2, 3, 4, 5):
            x = torch.randn(n)
            torch.testing.assert_close(compiled(x), x.softmax(0).cumsum(0))
    assert compiled.explain().captures == 2
