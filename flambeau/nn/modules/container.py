"""Modules that hold Modules: in a chain, a list or a dictionary."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


def _position(index: int, length: int, owner: str) -> int:
    """An index from 0 on; IndexError outside ``[-length, length)``."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"{owner}: index {index} is out of range; it has {length} entries")
    return index % length


class _Numbered(Module):
    """Children under the names "0", "1", ..."""

    _modules: Any

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: int) -> str:
        return next(itertools.islice(self._modules, _position(index, len(self), type(self).__name__), None))

    def _replace_all(self, modules: Iterable[Any]) -> None:
        modules = list(modules)
        self._modules.clear()
        for number, module in enumerate(modules):
            self._modules[str(number)] = module

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[index if isinstance(index, slice) else _position(index, len(self), type(self).__name__)]
        self._replace_all(modules)

    def append(self, module: Module) -> Any:
        """Add a Module at the end and return self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a Module before position `index` and return self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"{type(self).__name__}.insert: index {index} is out of range; it has {len(modules)} entries")
        modules.insert(index, module)
        self._replace_all(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add Modules at the end and return self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the Module at a position, and return it."""
        module = self[key]
        del self[key]
        return module

    def __getitem__(self, index: int | slice) -> Any:
        raise NotImplementedError


class Sequential(_Numbered):
    """A chain: each Module gets what the one before returned.

    Takes Modules, or one ordered dictionary of named ones. Positions, slices, ``+`` and ``*`` work as on a list.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    >>> tuple(model(torch.ones(3, 4)).shape)
    (3, 2)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def forward(self, input: Any) -> Any:
        """The last Module's result."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__


class ModuleList(_Numbered):
    """A list of Modules that registers its items."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name_at(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __repr__(self) -> str:
        """As a Module's, with runs of equal items on one line."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        lines: list[str] = []
        start = 0
        for text, run in itertools.groupby(texts):
            count = len(list(run))
            label = f"({start})" if count == 1 else f"({start}-{start + count - 1})"
            times = "" if count == 1 else f"{count} x "
            lines.append(f"{label}: {times}" + text.replace("\n", "\n  "))
            start += count
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of Modules that registers its values, in order of insertion."""

    _modules: Any

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the Module under `key`."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names with their Modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The Modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add all of a mapping, or of pairs of name and Module."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}")
        pairs: Any = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for number, pair in enumerate(pairs):
            if not isinstance(pair, Iterable) or len(tuple(pair)) != 2:
                raise ValueError(f"ModuleDict update sequence element #{number} is no pair of name and Module")
            name, module = pair
            self[name] = module
