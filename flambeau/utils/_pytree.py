"""torch.utils._pytree: containers in containers, taken apart into their leaves and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "GetAttrKey", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "keystr", "register_pytree_node", "tree_all",
    "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_iter", "tree_leaves", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]

# For each class of containers, how its parts and what else it is are found, and how it is made of them.
_nodes: dict[type, tuple[Flatten, Unflatten]] = {
    list: (lambda v: (v, None), lambda parts, _: list(parts)),
    tuple: (lambda v: (list(v), None), lambda parts, _: tuple(parts)),
    dict: (lambda v: (list(v.values()), list(v)), lambda parts, keys: dict(zip(keys, parts, strict=True))),
    OrderedDict: (lambda v: (list(v.values()), list(v)), lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))),
    defaultdict: (
        lambda v: (list(v.values()), (v.default_factory, list(v))),
        lambda parts, known: defaultdict(known[0], zip(known[1], parts, strict=True)),
    ),
    deque: (lambda v: (list(v), v.maxlen), lambda parts, maxlen: deque(parts, maxlen)),
}


@dataclass(frozen=True)
class MappingKey:
    """The place of a part of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, owner: Any) -> Any:
        """The part of ``owner`` at this place."""
        return owner[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """The place of a part of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"

    def get(self, owner: Any) -> Any:
        """The part of ``owner`` at this place."""
        return owner[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """The place of a part that is an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, owner: Any) -> Any:
        """The part of ``owner`` at this place."""
        return getattr(owner, self.name)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), part) for key, part in d.items()], list(d)


# For classes of containers whose parts have names: how the parts are found with them.
_with_keys: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {
    dict: _dict_flatten_with_keys, OrderedDict: _dict_flatten_with_keys, defaultdict: _dict_flatten_with_keys,
}  # fmt: skip


def register_pytree_node(
    cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, *, flatten_with_keys_fn: Any = None, **_names: Any
) -> None:
    """Make instances of a class containers: ``flatten_fn(v)`` gives their parts and a context, ``unflatten_fn(parts, context)`` makes one,
    and ``flatten_with_keys_fn(v)`` gives the parts with their places.

    ValueError for a class that is one already.
    """
    if flatten_with_keys_fn is not None:
        _with_keys[cls] = flatten_with_keys_fn
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _nodes[cls] = (flatten_fn, unflatten_fn)


# PyTorch's older names.
SUPPORTED_NODES, Context, _register_pytree_node = _nodes, Any, register_pytree_node
_dict_flatten, _dict_unflatten = _nodes[dict]


def _get_node_type(tree: Any) -> Any:
    found = _take_apart(tree, None)
    return None if found is None else type(tree)


def _is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return _take_apart(tree, is_leaf) is None


def _take_apart(tree: Any, is_leaf: Callable[[Any], bool] | None) -> tuple[list[Any], Any, Unflatten] | None:
    """A container's parts, its context and how it is made again; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    if kind in _nodes:
        flatten, unflatten = _nodes[kind]
        return (*flatten(tree), unflatten)
    if isinstance(tree, tuple) and (hasattr(tree, "_fields") or hasattr(tree, "n_fields")):
        return list(tree), kind, lambda parts, named: named(*parts)
    return None


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree without its leaves."""

    type: Any
    context: Any
    children_specs: tuple[TreeSpec, ...]
    _unflatten: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine = (self.type, self.context, self.children_specs)
        return mine == (other.type, other.context, other.children_specs)

    __hash__ = None  # type: ignore[assignment]

    @property
    def num_leaves(self) -> int:
        """How many leaves a tree of this structure has."""
        return 1 if self.type is None else sum(s.num_leaves for s in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves; ValueError for too few or too many."""
        many = list(leaves)
        if len(many) != self.num_leaves:
            raise ValueError(f"tree_unflatten: got {len(many)} leaves for a structure that has {self.num_leaves}")
        return self._put_together(iter(many))

    def _put_together(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        return self._unflatten([s._put_together(leaves) for s in self.children_specs], self.context)


def LeafSpec() -> TreeSpec:  # noqa: N802 - torch's name
    """The structure of a leaf."""
    return TreeSpec(None, None, ())


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree and its structure.

    >>> from flambeau.utils._pytree import tree_flatten
    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []

    def walk(part: Any) -> TreeSpec:
        found = _take_apart(part, is_leaf)
        if found is None:
            leaves.append(part)
            return LeafSpec()
        children, known, unflatten = found
        return TreeSpec(type(part), known, tuple([walk(c) for c in children]), unflatten)

    return leaves, walk(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a structure with these leaves."""
    return treespec.unflatten(leaves)


def tree_flatten_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves of a tree, each after the places that lead to it, and the tree's structure.

    >>> from flambeau.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """

    def walk(part: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
        found = _take_apart(part, is_leaf)
        if found is None:
            yield path, part
            return
        named = _with_keys[type(part)](part)[0] if type(part) in _with_keys else [(SequenceKey(i), c) for i, c in enumerate(found[0])]
        if hasattr(part, "_fields"):
            named = [(GetAttrKey(name), child) for name, child in zip(part._fields, part, strict=True)]
        for key, child in named:
            yield from walk(child, (*path, key))

    return list(walk(tree, ())), tree_structure(tree, is_leaf)


def keystr(kp: Iterable[Any]) -> str:
    """The places that lead to a leaf, as Python writes them."""
    return "".join(map(str, kp))


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """As `tree_map`; ``func`` gets the places that lead to the leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_leaves(r, is_leaf) for r in rests]
    return spec.unflatten([func(path, *values) for (path, leaf), *rest in zip(found, *others, strict=True) for values in [(leaf, *rest)]])


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a tree, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with ``func`` of each leaf, and of the leaves in its place in other trees of the same structure.

    >>> from flambeau.utils._pytree import tree_map
    >>> tree_map(lambda x, y: x + y, {"a": (1, 2)}, {"a": (10, 20)})
    {'a': (11, 22)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(r, is_leaf) for r in rests]
    for _, structure in others:
        if structure != spec:
            raise ValueError(f"tree_map: the trees are of different structures: {spec} and {structure}")
    return spec.unflatten([func(*values) for values in zip(leaves, *[found for found, _ in others], strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """As `tree_map`, for what ``func`` does; gives ``tree``."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kind: Any, func: Callable[[Any], Any], otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    asked = (lambda v: isinstance(v, kind)) if isinstance(kind, (type, tuple)) else kind
    return lambda v: func(v) if asked(v) else otherwise(v)


def tree_map_only(type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """As `tree_map` for leaves of a type, of one of several, or that a function chooses."""
    return tree_map(_only(type_or_types_or_pred, func, lambda v: v), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """As `tree_map_only`, for what ``func`` does; gives ``tree``."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether ``pred`` holds for all leaves of a type."""
    return tree_all(_only(type_or_types, pred, lambda _: True), tree, is_leaf)


def tree_any_only(type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether ``pred`` holds for a leaf of a type."""
    return tree_any(_only(type_or_types, pred, lambda _: False), tree, is_leaf)
