"""Operator: one torch-level operation, declared once. Its body is its decomposition, its shape rule and its dtype rule.

    @op("pointwise", promote="float")
    def sigmoid(x: Value) -> Node:
        '''1 / (1 + exp(-x)).'''
        return 1 / (1 + exp(-x))

Parameters annotated ``Value`` take a tensor or a number, ``Values`` a sequence of them, ``Size`` and ``Sizes`` integers
that may change from call to call without a new program; every other parameter is static. The body sees nodes (numbers
stay Python numbers only where they equal the parameter's default) in the type it computes in. What the declaration says
about promotion happens around the body, and there only: operands are cast on entry, float16 and bfloat16 compute in
float32, and the results are rounded once, at the exit of the outermost operator. Only ``stepwise`` operators keep the 16-bit
types inside: their bodies call operators, and each of these rounds, as in PyTorch where the operator is such a composition.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype, dtype_of
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node, carriers
from flambeau.prims.complex import joined, parts, whole
from flambeau.prims.pointwise import cast, number, own
from flambeau.prims.structure import constant, expand, full, reshape

Value = Node
Values = Sequence[Node]
Size = Dim
Sizes = Sequence[Dim]

_T = TypeVar("_T")
ROLES = {"Value": "value", "Values": "values", "Size": "size", "Sizes": "sizes"}
KINDS = ("pointwise", "view", "reshape", "general")


def _default_tails(signature: inspect.Signature) -> dict[int, tuple[Any, ...]]:
    """By the number of positional arguments, the defaults of all parameters after them, where that is all that is missing."""
    parameters = list(signature.parameters.values())
    positional = sum(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)
    if any(p.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY) for p in parameters):
        return {}
    tails = {count: tuple(p.default for p in parameters[count:]) for count in range(positional + 1)}
    return {count: tail for count, tail in tails.items() if inspect.Parameter.empty not in tail}


class Operator:
    """A declared operation; calling it dispatches on its arguments (nodes: build the body inline; tensors: run)."""

    __slots__ = (
        "body",
        "check",
        "complex_derivative",
        "defaults",
        "derivative",
        "kind",
        "mutates",
        "name",
        "names",
        "promote",
        "promoted",
        "roles",
        "samples",
        "signature",
        "stepwise",
        "_tails",
    )

    def __init__(
        self, body: Callable[..., Any], kind: str, promote: str, promoted: Sequence[str] | None,
        mutates: Sequence[str], samples: Callable[..., Iterable[Any]] | None, stepwise: bool,
    ) -> None:  # fmt: skip
        self.name = body.__name__.rstrip("_") if body.__name__.endswith("__") else body.__name__
        self.body = body
        self.kind = kind
        self.promote = promote
        self.stepwise = stepwise
        self.mutates = tuple(mutates)
        self.samples = samples
        self.derivative: Callable[..., Any] | None = None
        # Called with the arguments by name as they are before promotion, which hides their types from the body.
        self.check: Callable[[Mapping[str, Any]], None] | None = None
        # The one for complex operands; without it these are differentiated through the real numbers that they are made of.
        self.complex_derivative: Callable[..., Any] | None = None
        self.signature = inspect.signature(body)
        self.names = tuple(self.signature.parameters)
        self.defaults = {n: p.default for n, p in self.signature.parameters.items() if p.default is not p.empty}
        self._tails = _default_tails(self.signature)
        self.roles = tuple(_role(p.annotation) for p in self.signature.parameters.values())
        values = [n for n, r in zip(self.names, self.roles, strict=True) if r in ("value", "values")]
        self.promoted = frozenset(values if promoted is None else promoted)

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for a in args:
            if type(a) is Node or (type(a) in (list, tuple) and a and type(a[0]) is Node):
                return self.inline(self.bind(args, kwargs))
        for a in kwargs.values():
            if type(a) is Node:
                return self.inline(self.bind(args, kwargs))
        return dispatcher(self, args, kwargs)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in the order of the parameters, defaults filled in; TypeError as Python's for a bad call."""
        if not kwargs and len(args) == len(self.names):
            return args
        if not kwargs and len(args) in self._tails:
            return (*args, *self._tails[len(args)])
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def inline(self, arguments: Sequence[Any]) -> Any:
        """The body on nodes, inside another body or graph, promotion included."""
        by_name = {n: dtype_of(v) if type(v) is type else v for n, v in zip(self.names, arguments, strict=True)}
        if self.check is not None:
            self.check(by_name)
        compute, result = self._types(by_name)
        for name, role in zip(self.names, self.roles, strict=True):
            if role == "value":
                by_name[name] = self._operand(name, by_name[name], compute)
            elif role == "values" and by_name[name] is not None:
                by_name[name] = [self._operand(name, v, compute) for v in by_name[name]]
        if self.kind == "pointwise":
            self._broadcast(by_name)
        is_complex = self.derivative is not None and any(map(_is_complex, by_name.values()))
        if is_complex and self.complex_derivative is not None:
            # As one node each, the operands can be given gradients whatever reads them, and whatever they are made of.
            by_name = {n: whole(v) if isinstance(v, Node) and v.dtype.is_complex else v for n, v in by_name.items()}
        out = (
            self.body(**{n: by_name[n] for n in self.names if n in by_name})
            if _has_keyword_only(self)
            else self.body(*[by_name[n] for n in self.names])
        )
        if is_complex and self.complex_derivative is not None:
            out = map_nodes(lambda n: joined(*parts(n)) if n.dtype.is_complex else n, out)
            keep_region(self, by_name, out, _of_parts(self.complex_derivative, out))
        elif self.derivative is not None and not is_complex and not _is_complex(out):
            keep_region(self, by_name, out, self.derivative)
        if compute is None or compute is result:
            return out
        return map_nodes(lambda n: cast(n, to=result) if n.dtype is compute else n, out)

    def _types(self, by_name: Mapping[str, Any]) -> tuple[dtype | None, dtype | None]:
        """The type to compute in and the type of results; (None, None) when the operator does not promote."""
        if self.promote == "none":
            return None, None
        operands: list[Any] = []
        for name in self.names:
            if name in self.promoted:
                value = by_name[name]
                operands += value if isinstance(value, (list, tuple)) else [value]
        if self.promote == "same":
            _require_same_dtype(self.name, operands)
        wanted = by_name.get("dtype")
        result = result_type(o for o in operands if o is not None) if wanted is None else wanted
        if self.promote == "float" and not (result.is_floating_point or result.is_complex):
            result = default_float()
        return result if self.stepwise else result.compute, result

    def _operand(self, name: str, value: Any, compute: dtype | None) -> Any:
        if value is None or not isinstance(value, Node):
            if isinstance(value, (bool, int, float, complex)) and not (name in self.defaults and _same(value, self.defaults[name])):
                if compute is not None and name in self.promoted:
                    return constant(value, (), compute)
                return full(shape=(), value=value, dtype=exact_type(value), weak=True)
            return value
        if compute is None or name not in self.promoted or value.dtype is compute:
            return value
        return cast(value, to=compute)

    def _broadcast(self, by_name: dict[str, Any]) -> None:
        nodes = [v for v in by_name.values() if isinstance(v, Node)]
        nodes += [n for v in by_name.values() if isinstance(v, list) for n in v]
        shape = broadcast_shapes(*[n.shape for n in nodes], operator=self.name)
        for name, value in by_name.items():
            if isinstance(value, Node):
                by_name[name] = broadcast_to(value, shape)
            elif isinstance(value, list):
                by_name[name] = [broadcast_to(n, shape) for n in value]

    def __repr__(self) -> str:
        return f"ops.{self.name}"


class Region:
    """An inlined operator with a derivative of its own: its arguments as the body got them, and what it returned.

    ``operands`` are the nodes that the derivative gives gradients for, in the order of the parameters.
    """

    __slots__ = ("_outputs", "arguments", "derivative", "operands", "operator")

    def __init__(
        self, derivative: Any, arguments: tuple[Any, ...], operands: tuple[Any, ...], outputs: tuple[Any, ...],
        operator: Operator | None = None,
    ) -> None:  # fmt: skip
        self.derivative = derivative
        self.operator = operator  # whose own derivative it is
        self.arguments = arguments
        self.operands = operands
        # Weak, since the table of regions must not keep alive the nodes that it is keyed by.
        self._outputs = tuple(None if o is None else weakref.ref(o) for o in outputs)

    @property
    def outputs(self) -> tuple[Node | None, ...]:
        """What the body returned; None for a result that nothing uses any more."""
        return tuple(None if o is None else o() for o in self._outputs)


_regions: weakref.WeakKeyDictionary[Node, Region] = weakref.WeakKeyDictionary()


def _of_parts(derivative: Callable[..., Any], out: Any) -> Callable[..., Any]:
    """A derivative that gets the cotangents and the values of complex results by their real and imaginary parts."""
    complex_results = [n.dtype.is_complex for n in ((out,) if isinstance(out, Node) else out)]

    def joined_of(found: Iterator[Node | None], is_pair: bool) -> Node | None:
        pair = [next(found) for _ in range(1 + is_pair)]
        known = next((n for n in pair if n is not None), None)
        return joined(*(number(0, known) if n is None else n for n in pair)) if is_pair and known is not None else pair[0]

    def through(cotangents: Sequence[Node | None], outputs: Sequence[Node | None], arguments: Sequence[Any]) -> tuple[Any, ...]:
        given, values = iter(cotangents), iter(outputs)
        return derivative(*(tuple(joined_of(found, k) for k in complex_results) for found in (given, values)), arguments)

    return through


def keep_region(operator: Operator, by_name: Mapping[str, Any], out: Any, derivative: Callable[..., Any]) -> None:
    """Remember for differentiation that ``out`` came from ``operator``, which declares its derivative."""
    operands: list[Any] = []
    for name, role in zip(operator.names, operator.roles, strict=True):
        if role == "value":
            operands.append(by_name[name])
        elif role == "values":
            operands += by_name[name]
    results = (out,) if isinstance(out, Node) else out
    outputs = tuple(half for n in results for half in (n.sources if n is not None and n.dtype.is_complex else (n,)))
    arguments = tuple(by_name[n] for n in operator.names)
    keep(Region(derivative, arguments, tuple(operands), outputs, operator if derivative is operator.derivative else None))


def keep(region: Region) -> None:
    """Remember a region by its outputs: they are differentiated as a whole."""
    for node in region.outputs:
        if node is not None:
            _regions.setdefault(node, region)


def carry_region(node: Node, new: Node, replace: Any, known: dict[Node, Node]) -> None:
    """Give the copy of a node a region like that of the node; the other results of the region come to it later, or have been."""
    region = _regions.get(node)
    if region is None or new in _regions:
        return
    others = (_regions.get(known[o]) for o in region.outputs if o is not None and o in known)
    found = next((r for r in others if r is not None), None)
    if found is None:
        found = Region(region.derivative.moved(replace, known), (), tuple(known[n] for n in region.operands), (None,) * len(region.outputs))
    place = region.outputs.index(node)
    found._outputs = (*found._outputs[:place], weakref.ref(new), *found._outputs[place + 1 :])
    _regions[new] = found


carriers[own] = carry_region


def region_of(node: Node) -> Region | None:
    """The region that ``node`` is a result of, if its operator declares a derivative."""
    return _regions.get(node)


def _role(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return ROLES.get(text.split("|")[0].strip(), "static")


def _require_same_dtype(operator: str, operands: Iterable[Any]) -> None:
    found = list(dict.fromkeys(o.dtype for o in operands if isinstance(o, Node) and not o.aval.weak))
    if len(found) > 1:
        names = " and ".join(map(str, found))
        raise RuntimeError(f"{operator}: expected operands of the same dtype, but got {names}; convert one with .to(dtype)")


def _is_complex(value: Any) -> bool:
    return value.dtype.is_complex if isinstance(value, Node) else isinstance(value, (list, tuple)) and any(map(_is_complex, value))


def _has_keyword_only(operator: Operator) -> bool:
    return any(p.kind is p.KEYWORD_ONLY for p in operator.signature.parameters.values())


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


ALL: dict[str, Operator] = {}


def op(
    kind: str = "general", *, promote: str = "none", promoted: Sequence[str] | None = None,
    mutates: Sequence[str] = (), samples: Callable[..., Iterable[Any]] | None = None, stepwise: bool = False,
) -> Callable[[Callable[..., Any]], Operator]:  # fmt: skip
    """Declare an operator.

    ``kind``: ``pointwise`` (operands broadcast, the body works element by element), ``view`` (the body uses view
    primitives on its first operand only, the result shares memory), ``reshape`` (a view where strides allow, else a
    copy) or ``general``. ``promote``: ``none``, ``arithmetic`` (torch's result type), ``float`` (integers become the
    default float type) or ``same`` (tensors of different dtypes are an error), over the parameters ``promoted``
    (default: all values). A parameter ``dtype`` that is not None is the type instead. ``mutates`` names the parameters
    that the first results are written into. ``stepwise``: the body works in the result type. ``samples(make)`` yields
    ``(args, kwargs)`` that tests are made from.
    """
    if kind not in KINDS or promote not in ("none", "arithmetic", "float", "same"):
        raise ValueError(f"unknown kind {kind!r} or promotion {promote!r}")

    def declare(body: Callable[..., Any]) -> Operator:
        if not body.__doc__:
            raise ValueError(f"operator {body.__name__!r} has no docstring")
        operator = Operator(body, kind, promote, promoted, mutates, samples, stepwise)
        if operator.name in ALL:
            raise ValueError(f"operator {operator.name!r} is declared twice")
        ALL[operator.name] = operator
        return operator

    return declare


def _no_dispatcher(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    raise TypeError(f"{operator.name}: no tensor argument, got {', '.join(type(a).__name__ for a in args)}")


dispatcher: Callable[[Operator, tuple[Any, ...], Mapping[str, Any]], Any] = _no_dispatcher


def set_dispatcher(function: Callable[[Operator, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
    """Called once by the eager interpreter: what an operator called on tensors does."""
    global dispatcher
    dispatcher = function


# -- promotion and broadcasting -------------------------------------------------------------------------
_default_float: list[dtype] = [dtypes.float32]
_made_for_default: list[Callable[[], None]] = []


def default_float() -> dtype:
    """The type of float numbers and of ``torch.rand`` and friends."""
    return _default_float[0]


def default_float_check() -> tuple[Any, ...]:
    """What native code must find unchanged as long as the default type is what it is now: (item, list, index, value)."""
    return "item", _default_float, 0, _default_float[0]


def set_default_float(value: dtype) -> None:
    if not value.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {value}")
    if value is not _default_float[0]:
        _default_float[0] = value
        for forget in _made_for_default:
            forget()


def forget_with_default_float(forget: Callable[[], None]) -> None:
    """Have ``forget()`` called whenever the default type changes: of caches whose contents were traced under it."""
    _made_for_default.append(forget)


def number_type(value: bool | int | float | complex) -> dtype:
    """The type a Python number has where nothing else decides."""
    if isinstance(value, complex):
        return default_float().to_complex()
    return dtypes.bool_ if isinstance(value, bool) else dtypes.int64 if isinstance(value, int) else default_float()


def exact_type(value: bool | int | float | complex) -> dtype:
    """The type that holds a Python number unrounded, for numbers that take no part in promotion."""
    return dtypes.complex128 if isinstance(value, complex) else dtypes.float64 if isinstance(value, float) else number_type(value)


_CATEGORY = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}


def result_type(operands: Iterable[Any]) -> dtype:
    """torch's result type: tensors with dimensions decide, then 0-d tensors, then numbers, each only by category."""
    tiers: list[dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, (bool, int, float, complex)):
            tier, kind = 2, number_type(operand)
        else:
            aval: Aval = operand.aval
            tier = 2 if aval.weak else 1 if not aval.shape else 0
            kind = aval.dtype
            if aval.weak and kind.is_inexact:
                kind = default_float() if kind.is_floating_point else default_float().to_complex()
        tiers[tier] = kind if tiers[tier] is None else dtypes.promote(tiers[tier], kind)  # type: ignore[arg-type]
    out: dtype | None = None
    for kind in tiers:
        if kind is not None and (out is None or _CATEGORY[kind.category] > _CATEGORY[out.category]):
            out = kind if out is None or not out.is_floating_point or not kind.is_complex else out.to_complex()
    if out is None:
        raise TypeError("no operand decides a type")
    return out


def broadcast_shapes(*shapes: Sequence[Dim], operator: str = "broadcast_shapes") -> tuple[Dim, ...]:
    """The shape that all shapes expand to; RuntimeError as torch's when they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(reversed(shape)):
            at = rank - 1 - i
            if out[at] is size or size == 1:
                continue
            if out[at] == 1:
                out[at] = size
            elif not out[at] == size:
                raise RuntimeError(
                    f"{operator}: the size of tensor a ({out[at]}) must match the size of tensor b ({size}) at non-singleton "
                    f"dimension {at}; shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast"
                )
    return tuple(out)


def broadcast_to(x: Node, shape: Sequence[Dim]) -> Node:
    """Expand ``x`` to ``shape``, adding leading axes."""
    if len(x.shape) == len(shape) and x.shape == tuple(shape):
        return x
    if x.op is full:
        return full(shape=tuple(shape), value=x.attributes["value"], dtype=x.dtype)
    if len(x.shape) < len(shape):
        x = reshape(x, shape=(1,) * (len(shape) - len(x.shape)) + x.shape)
    return x if x.shape == tuple(shape) else expand(x, shape=tuple(shape))


def named_results(kind: type[_T]) -> type[_T]:
    """Decorate a NamedTuple of results: as torch's, it has ``n_fields`` in place of ``_fields`` and can be made of one sequence."""
    kind.n_fields = kind.n_sequence_fields = len(kind._fields)  # type: ignore[attr-defined]
    kind.__new__ = staticmethod(lambda cls, *items: tuple.__new__(cls, items if len(items) > 1 else items[0]))  # type: ignore[method-assign]
    for name in ("_fields", "_replace", "_asdict", "_make", "_field_defaults"):
        delattr(kind, name)
    return kind


def map_nodes(function: Callable[[Node], Node], value: Any) -> Any:
    """Apply ``function`` to a node, or to every node in a tuple, list or named tuple."""
    if isinstance(value, Node):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_nodes(function, v) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_nodes(function, v) for v in value)
    return value


def normalize_dim(dim: int, rank: int, operator: str) -> int:
    """A dimension in [0, rank); IndexError as torch's outside [-rank, rank)."""
    span = max(rank, 1)
    if not -span <= dim < span:
        raise IndexError(f"{operator}: Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})")
    return dim % span


def normalize_dims(dims: int | Sequence[int] | None, rank: int, operator: str) -> tuple[int, ...]:
    """Sorted distinct dimensions; None or an empty sequence means all. RuntimeError for a repeated one."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return tuple(range(rank))
    given = [dims] if isinstance(dims, int) else list(dims)
    out = sorted(normalize_dim(d, rank, operator) for d in given)
    if len(set(out)) != len(out):
        raise RuntimeError(
            f"{operator}: dim {next(d for d in out if out.count(d) > 1)} appears multiple times in the list of dims {tuple(given)}"
        )
    return tuple(out)
