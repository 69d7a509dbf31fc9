"""Modules and parameters in chains, lists and dictionaries."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


def names(module: nn.Module) -> list[str]:
    return list(module._modules)


def kinds(modules: Any) -> list[str]:
    return [type(module).__name__ for module in modules]


def test_a_chain_is_indexed_cut_and_joined() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert type(chain[0]) is nn.ReLU and type(chain[-1]) is nn.Sigmoid and len(chain) == 3
    assert isinstance(chain[1:], nn.Sequential) and names(chain[1:]) == ["1", "2"]
    assert kinds(chain + chain[:1]) == ["ReLU", "Tanh", "Sigmoid", "ReLU"]
    assert kinds(2 * chain[:2]) == ["ReLU", "Tanh"] * 2
    assert torch.allclose(chain(torch.ones(2)), torch.ones(2).relu().tanh().sigmoid())
    for index in (3, -4):
        with pytest.raises(IndexError, match="out of range"):
            chain[index]


def test_a_chain_changes() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    chain.insert(1, nn.GELU())
    chain.append(nn.Sigmoid()).extend([nn.ELU()])
    assert kinds(chain) == ["ReLU", "GELU", "Tanh", "Sigmoid", "ELU"]
    del chain[0]
    assert names(chain) == ["0", "1", "2", "3"]
    assert type(chain.pop(-1)) is nn.ELU
    chain[0] = nn.SiLU()
    assert kinds(chain) == ["SiLU", "Tanh", "Sigmoid"]
    del chain[:2]
    assert kinds(chain) == ["Sigmoid"] and names(chain) == ["0"]


def test_a_chain_of_named_modules() -> None:
    chain = nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())]))
    assert names(chain) == ["a", "b"] and type(chain.b) is nn.Tanh and names(chain[:1]) == ["a"]


def test_a_list() -> None:
    modules = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ReLU()])
    assert repr(modules) == "ModuleList(\n  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)\n  (3): ReLU()\n)"
    assert len(list(modules.parameters())) == 6 and isinstance(modules[1:3], nn.ModuleList)
    modules += [nn.Tanh()]
    assert kinds(modules[-2:]) == ["ReLU", "Tanh"]
    modules.insert(0, nn.GELU())
    assert kinds(modules)[:2] == ["GELU", "Linear"] and names(modules) == [str(i) for i in range(6)]
    assert kinds(modules + [nn.SELU()])[-1] == "SELU"
    with pytest.raises(NotImplementedError, match="missing the required"):
        modules(1)
    with pytest.raises(TypeError, match="extend should be called with an iterable"):
        modules.extend(3)  # type: ignore[arg-type]


def test_a_dictionary() -> None:
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    modules.update([("c", nn.GELU())])
    modules["d"] = nn.ELU()
    assert list(modules) == ["a", "b", "c", "d"] == list(modules.keys()) and "a" in modules and len(modules) == 4
    assert kinds(modules.values()) == ["ReLU", "Tanh", "GELU", "ELU"] and dict(modules.items())["b"] is modules["b"]
    assert type(modules.pop("a")) is nn.ReLU and "a" not in modules
    del modules["b"]
    modules.clear()
    assert len(modules) == 0
    with pytest.raises(ValueError, match="is no pair"):
        modules.update([("a", nn.ReLU(), 3)])  # type: ignore[list-item]


def test_a_list_of_parameters() -> None:
    values = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1)), 3])
    assert [name for name, _ in values.named_parameters()] == ["0", "1"] and values[2] == 3
    values.append(torch.ones(1))
    values += [torch.zeros(3)]
    assert len(values) == 5 and isinstance(values[-1], nn.Parameter) and len(values[1:3]) == 2
    values[0] = torch.zeros(2)
    assert values[0].tolist() == [0, 0] and [type(v).__name__ for v in values][2] == "int"
    assert "(0): Parameter containing: [torch.float32 of size 2]" in repr(values)
    with pytest.raises(RuntimeError, match="should not be called"):
        values()
    with pytest.raises(IndexError):
        values[9]


def test_a_dictionary_of_parameters() -> None:
    values = nn.ParameterDict({"a": torch.ones(2), "n": 3})
    values["b"] = nn.Parameter(torch.zeros(1))
    assert [name for name, _ in values.named_parameters()] == ["a", "b"]
    assert list(values) == ["a", "n", "b"] and list(reversed(values))[0] == "b"
    assert values.get("x", 5) == 5 and values.setdefault("n", 9) == 3 and isinstance(values.setdefault("s", torch.ones(1)), nn.Parameter)
    both = values | {"z": torch.ones(1)}
    assert "z" in both and "z" not in values and len(values.copy()) == 4
    assert values.pop("n") == 3 and values.popitem()[0] == "s"
    del values["a"]
    assert [key for key, _ in values.items()] == ["b"] and [v.tolist() for v in values.values()] == [[0]]
    assert list(values.fromkeys(["p", "q"], 1).keys()) == ["p", "q"]
    values |= {"c": torch.ones(1)}
    values.clear()
    assert not list(values.parameters())
    with pytest.raises(TypeError, match="not a string"):
        values[3] = torch.ones(1)  # type: ignore[index]
    with pytest.raises(KeyError):
        values["absent"]


def test_parameter_dict_sorts_a_plain_dict_and_shows_types() -> None:
    made = nn.ParameterDict({"b": nn.Parameter(torch.zeros(2, 3)), "a": torch.ones(1)})
    assert list(made) == ["a", "b"] == [name for name, _ in made.named_parameters()]
    assert list(nn.ParameterDict([("b", torch.zeros(1)), ("a", torch.zeros(1))])) == ["b", "a"]
    made.update(nn.ParameterDict([("d", torch.zeros(1)), ("c", torch.zeros(1))]))
    assert list(made)[2:] == ["d", "c"]
    assert repr(made).splitlines()[2] == "    (b): Parameter containing: [torch.FloatTensor of size 2x3]"
