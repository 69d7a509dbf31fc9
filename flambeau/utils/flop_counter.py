"""torch.utils.flop_counter: how many floating-point operations the products, convolutions and attention of a program take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.tensor.tensor_class import Tensor
from flambeau.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode", "register_flop_formula"]

_formulas: dict[str, Callable[..., int]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorator: count operators, given by name or one by one, by a function of their arguments and of ``out_val``, their result.

    Without ``get_raw`` tensors come as their shapes, and the result as ``out_shape``.
    """
    names = [getattr(t, "__name__", t) for t in (targets if isinstance(targets, (list, tuple)) else [targets])]

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for name in names:
            _formulas[name] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def shape_of(value: Any) -> Any:
        return tuple(value.shape) if isinstance(value, Tensor) else value

    def counted(*args: Any, out_val: Any, **kwargs: Any) -> int:
        return formula(*map(shape_of, args), out_shape=shape_of(out_val), **{k: shape_of(v) for k, v in kwargs.items()})

    return counted


@register_flop_formula(["matmul", "mm", "bmm", "mv", "dot", "linear"])
def _product(a: Any, b: Any, *_: Any, out_shape: Any, **kwargs: Any) -> int:
    return 2 * math.prod(out_shape) * a[-1]


@register_flop_formula(["addmm", "baddbmm", "addmv"])
def _product_with_term(x: Any, a: Any, b: Any, *_: Any, out_shape: Any, **kwargs: Any) -> int:
    return 2 * math.prod(out_shape) * a[-1]


@register_flop_formula(["conv1d", "conv2d", "conv3d"])
def _convolution(x: Any, weight: Any, *_: Any, out_shape: Any, **kwargs: Any) -> int:
    return 2 * math.prod(out_shape) * math.prod(weight[1:])


@register_flop_formula(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"])
def _transposed_convolution(x: Any, weight: Any, *_: Any, out_shape: Any, **kwargs: Any) -> int:
    return 2 * math.prod(x) * math.prod(weight[1:])


@register_flop_formula("scaled_dot_product_attention")
def _attention(q: Any, k: Any, v: Any, *_: Any, out_shape: Any, **kwargs: Any) -> int:
    return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


@register_flop_formula("einsum", get_raw=True)
def _einsum(equation: str, operands: Sequence[Any], *_: Any, out_val: Any, **kwargs: Any) -> int:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    sizes = {c: n for term, x in zip(terms, operands, strict=True) for c, n in zip(term.replace("...", ""), x.shape, strict=False)}
    return 2 * math.prod(sizes.values()) if len(operands) > 1 else 0


class FlopCounterMode(TorchDispatchMode):
    """A block that counts: of forward what its operators take, of backward as much for each operand that gets a gradient.

    Elementwise functions, reductions and what compiled functions do are not counted. ``custom_mapping`` has further formulas, as
    `register_flop_formula` takes them. Everything stands under "Global"; ``mods`` and ``depth`` are accepted.

    >>> import flambeau as torch
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> layer = torch.nn.Linear(8, 4)
    >>> with FlopCounterMode(display=False) as counter:
    ...     layer(torch.ones(2, 8)).sum().backward()
    >>> counter.get_flop_counts()
    {'Global': {'linear': 128, 'linear_backward': 128}}
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Mapping[Any, Any] | None = None) -> None:
        self.display, self._counts = display, dict[str, int]()
        given = {getattr(k, "__name__", k): _of_shapes(formula) for k, formula in (custom_mapping or {}).items()}
        self._formulas = {**_formulas, **given}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = self._formulas.get(func.__name__)
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=out)
            self._add(func.__name__, flops)
            entry = getattr(out, "grad_fn", None)
            if entry is not None:
                operands = [a for v in args for a in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(a, Tensor)]
                factors = operands[1:3] if func.__name__.startswith(("addm", "badd")) else operands[:2]
                # Attention multiplies twice, once for the scores and once with the values: so does each of its gradients' parts.
                wanted = 2 if "attention" in func.__name__ else sum(f.requires_grad for f in factors)
                entry.register_hook(lambda *_: self._add(f"{func.__name__}_backward", wanted * flops))
        return out

    def _add(self, name: str, flops: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + flops

    def __enter__(self) -> FlopCounterMode:
        self._counts.clear()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self._counts.values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By the operators' names."""
        return {"Global": dict(self._counts)}

    def get_table(self, depth: int | None = None) -> str:
        """Lines with each operator's count and share."""
        total = max(self.get_total_flops(), 1)
        rows = [("Global", self.get_total_flops()), *((f" - {name}", flops) for name, flops in self._counts.items())]
        return "\n".join(f"{name:<40}{flops:>20,}{100 * flops / total:>9.2f}%" for name, flops in rows)
