"""Prim: one primitive operation: its type rule, its numpy meaning, its derivative and its place in scheduling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flambeau.core.aval import Aval
from flambeau.core.symbolic import shapes_differ
from flambeau.ir.node import Node

Gradients = tuple[Node | None, ...]
# The type rule, the numpy meaning and the derivative of a primitive; the forms with few parameters type the lambdas given for them.
Rule = Callable[[Aval], Aval] | Callable[[Aval, Any], Aval] | Callable[[Any, Any, Any], Aval] | Callable[..., Aval]
Reference = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any] | Callable[..., Any]
Derivative = (
    Callable[[Node, Node, Node], Gradients]
    | Callable[[Node, Node, Node, Any], Gradients]
    | Callable[[Node, Node, Node, Any, Any], Gradients]
    | Callable[..., Gradients]
)


class Prim:
    """A primitive. Calling it builds a node.

    ``family`` says how it is scheduled: ``pointwise``, ``view`` (pure index change), ``source`` (no operand),
    ``reduce``, ``index`` (take, scatter), ``matmul``, ``row`` (scan, sort) or ``random``.
    ``rule(*avals, **attributes)`` gives the result's aval and raises on what does not fit.
    ``reference(*arrays, **attributes)`` is the meaning in numpy. ``derivative(g, out, *sources, **attributes)`` gives
    one gradient node (or None) for each source; a primitive without one is not differentiable. ``on_pairs(*sources, **attributes)``
    builds the result from the real and imaginary parts of complex operands, see `prims.complex`.
    """

    __slots__ = ("derivative", "doc", "family", "name", "on_pairs", "reference", "rule")

    def __init__(self, name: str, family: str, rule: Rule, reference: Reference, doc: str) -> None:
        self.name = name
        self.family = family
        self.rule = rule
        self.reference = reference
        self.doc = doc
        self.derivative: Derivative | None = None
        self.on_pairs: Callable[..., Node] | None = None

    def infer(self, sources: tuple[Node, ...], attributes: Mapping[str, Any]) -> Aval:
        for source in sources:
            kind = source.aval.dtype
            if kind.itemsize == 1 and kind.is_float8 and self.family in COMPUTING and self.name not in WITHOUT_ARITHMETIC:
                raise NotImplementedError(f"\"{self.name}\" not implemented for '{kind.scalar_name}'; convert it with .to(torch.float32)")
        return self.rule(*[s.aval for s in sources], **attributes)

    def __call__(self, *sources: Node, **attributes: Any) -> Node:
        for source in sources:
            if source.aval.dtype.is_complex:
                return self.of_complex(*sources, **attributes)
        kind = attributes.get("to") or attributes.get("dtype")
        if kind is not None and kind.is_complex:
            return self.of_complex(*sources, **attributes)
        return Node(self, sources, **attributes)

    def of_complex(self, *sources: Node, **attributes: Any) -> Node:
        """The node for complex operands; NotImplementedError as torch's for a primitive that has no meaning for them."""
        if self.on_pairs is None:
            kind = next((s.dtype for s in sources if s.dtype.is_complex), attributes.get("dtype"))
            name = "ComplexFloat" if kind is not None and kind.itemsize == 8 else "ComplexDouble"
            raise NotImplementedError(f"\"{self.name}\" not implemented for '{name}'; use the real and imaginary parts")
        return self.on_pairs(*sources, **attributes)

    def differentiate(self, derivative: Derivative) -> Derivative:
        """Decorator: declare the derivative."""
        self.derivative = derivative
        return derivative

    def __repr__(self) -> str:
        return f"prims.{self.name}"


ALL: dict[str, Prim] = {}
# What an eight-bit float cannot be an operand of: primitives of these families, but for those.
COMPUTING = ("pointwise", "reduce", "row", "matmul")
WITHOUT_ARITHMETIC = ("where", "cast", "bitcast", "copy", "own", "eq", "ne", "isnan")


def prim(name: str, family: str, rule: Rule, reference: Reference, doc: str) -> Prim:
    """Declare a primitive; its name must be new."""
    if name in ALL:
        raise ValueError(f"primitive {name!r} is declared twice")
    ALL[name] = Prim(name, family, rule, reference, doc)
    return ALL[name]


def require(condition: bool, name: str, message: str) -> None:
    """Raise the error of a body that builds an ill-typed primitive."""
    if not condition:
        raise TypeError(f"prims.{name}: {message}")


def same(*avals: Aval) -> Aval:
    """The rule of pointwise primitives: equal shapes, equal dtypes."""
    first = avals[0]
    for other in avals[1:]:
        if other.dtype is not first.dtype or (other.shape != first.shape and shapes_differ(other.shape, first.shape)):
            raise TypeError(f"primitives neither broadcast nor promote: {', '.join(map(str, avals))}")
    return Aval(first.shape, first.dtype) if first.weak else first
