"""Modules that hold parameters: in a list or a dictionary."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _line(name: str, value: Any, kind_of: Callable[[Tensor], Any]) -> str:
    if not isinstance(value, Tensor):
        return f"({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(length) for length in value.size())
    return f"({name}): {kind} containing: [{kind_of(value)} of size {size}]"


class ParameterList(Module):
    """A list whose tensors become parameters; other values are kept as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name_at(self, index: int) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(getattr(self, str(number)) for number in range(*index.indices(len(self))))
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name_at(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(number)) for number in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end and return self."""
        number = self._size
        self._size += 1
        self[number] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end and return self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_line(str(number), value, lambda tensor: tensor.dtype) for number, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors become parameters, in order of insertion; other values are kept as they are."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Index given to ParameterDict cannot be used as a key as it is not a string (type is '{type(key).__name__}').")
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """A dictionary of its own with the same parameters."""
        return ParameterDict(dict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under `key`, which is set to `default` when there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value under `key`, or `default`."""
        return self[key] if key in self else default

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value under `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dictionary with `keys` that all have the value `default`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names with their values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add all of a mapping, or of pairs of name and value. What a plain ``dict`` holds is added in the order of its keys sorted."""
        if not isinstance(parameters, Iterable):
            raise TypeError(f"ParameterDict.update should be called with key/value pairs, but got {type(parameters).__name__}")
        pairs = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join("  " + _line(key, value, lambda tensor: tensor.type()) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
