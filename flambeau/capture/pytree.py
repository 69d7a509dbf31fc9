"""Takes nested arguments and results apart into tensors and a description, and puts them together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.tensor.base import TensorBase


@dataclass(frozen=True, slots=True)
class Leaf:
    """Stands for tensor ``index``."""

    index: int


CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def take_apart(value: Any, tensors: list[Any]) -> Any:
    """Collect the tensors of nested lists, tuples and dicts; returns a hashable description with `Leaf` in their place.

    Numbers, strings and None describe themselves (with their type); other objects stand for themselves by identity.
    """
    if isinstance(value, TensorBase):
        for i, known in enumerate(tensors):
            if known is value:
                return Leaf(i)
        tensors.append(value)
        return Leaf(len(tensors) - 1)
    kind = type(value)
    if kind in (list, tuple):
        return (kind, tuple(take_apart(v, tensors) for v in value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (kind, tuple(take_apart(v, tensors) for v in value))
    if kind is dict:
        return (dict, tuple((k, take_apart(v, tensors)) for k, v in dict(value).items()))
    if kind in CONSTANTS:
        return (kind, value)
    return Same(value)


class Same:
    """An object that is only equal to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def put_together(description: Any, tensors: Sequence[Any]) -> Any:
    """The value that `take_apart` described, with these tensors."""
    if isinstance(description, Leaf):
        return tensors[description.index]
    if isinstance(description, Same):
        return description.value
    kind, parts = description
    if kind is dict:
        return {k: put_together(v, tensors) for k, v in parts}
    if kind in (list, tuple):
        return kind(put_together(v, tensors) for v in parts)
    if isinstance(parts, tuple) and hasattr(kind, "_fields"):
        return kind(*(put_together(v, tensors) for v in parts))
    return parts


def is_static(description: Any) -> bool:
    """Whether a description holds only tensors, containers and constants, so that it can be made anew at each call."""
    if isinstance(description, Leaf):
        return True
    if isinstance(description, Same):
        return False
    kind, parts = description
    if kind is dict:
        return all(is_static(v) for _, v in parts)
    if isinstance(parts, tuple) and kind not in CONSTANTS:
        return all(is_static(v) for v in parts)
    return True


def flat_arguments(description: Any) -> list[int] | None:
    """The tensors of a described ``(args, kwargs)`` when these are distinct tensors in their places and nothing else."""
    _, ((_, args), (_, kwargs)) = description
    if kwargs or args != tuple(Leaf(i) for i in range(len(args))):
        return None
    return list(range(len(args)))
