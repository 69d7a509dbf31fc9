"""Rough costs of a kernel's nodes in vector instructions: for unrolling, for what is kept between phases, and for the size of chunks."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.core.symbolic import Atom, atoms_of
from flambeau.ir.kernel import ARGREDUCE, CHECK, INSIDE, LOAD, REDUCE, index_dims
from flambeau.ir.node import Node

# The primitives that take more than one or two.
_INSTRUCTIONS = {
    "full": 0, "div": 8, "truncdiv": 24, "rem": 24, "pow": 60, "sqrt": 8, "rsqrt": 16, "sign": 4, "nextafter": 12,
    "exp": 14, "exp2": 14, "expm1": 26, "log": 22, "log2": 22, "log10": 22, "log1p": 28, "sin": 30, "cos": 30, "tan": 40,
    "asin": 30, "acos": 30, "atan": 30, "atan2": 44, "sinh": 30, "cosh": 26, "tanh": 20, "asinh": 40, "acosh": 40, "atanh": 34,
    "erf": 18, "erfc": 50, "erfinv": 50, "lgamma": 400, "digamma": 400, "maximum": 3, "minimum": 3,
}  # fmt: skip
# A value that costs more than this is kept for the next phase instead of being computed again.
STASH_ABOVE = 10


def instructions(node: Node) -> int:
    """About how many vector instructions the node takes, index arithmetic included that is not the same everywhere."""
    opaque = sum(20 for dim in index_dims(node) for a in getattr(dim, "atoms", ()) if a.kind in ("floordiv", "mod") and moves(a))
    loaded = any(a.kind == "loaded" for dim in index_dims(node) for a in getattr(dim, "atoms", ()))
    if node.op is LOAD:
        return 1 + opaque + (12 if loaded else 0)
    if node.op is CHECK:
        return 6 + opaque
    if node.op is INSIDE:
        return 3 + opaque
    if node.op is REDUCE:
        return 1 if node.attributes["kind"] not in ("max", "min") else 3
    if node.op is ARGREDUCE:
        return 8
    return _INSTRUCTIONS.get(node.op.name, 1) + opaque


def moves(atom: Atom) -> bool:
    """Whether the atom depends on axes or on what is loaded, not on sizes alone."""
    return atom.kind in ("axis", "loaded") or any(moves(a) for argument in atom.arguments for a in atoms_of(argument))


def total(nodes: Iterable[Node]) -> int:
    return sum(instructions(node) for node in nodes)
