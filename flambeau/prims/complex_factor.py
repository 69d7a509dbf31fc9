"""Factorizations of complex matrices, which are real ones with a last axis of size 2 here: what LAPACK's complex functions compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.aval import Aval
from flambeau.ir.node import Node
from flambeau.prims import complex as c
from flambeau.prims import factor as f
from flambeau.prims.declare import Gradients, Prim, prim


def _bare(x: Aval) -> Aval:
    return Aval(x.shape[:-1], x.dtype) if x.dtype.is_floating_point else x


def _joined(x: Any) -> Any:
    return x[..., 0] + 1j * x[..., 1] if x.dtype.kind == "f" else x


def complex_form(real: Prim, *real_parts: int) -> Prim:
    """A primitive that does with complex matrices what ``real`` does, and becomes its meaning for them; its ``real_parts`` are real.

    The rule, the meaning in numpy and the derivative are those of ``real``, which hold for complex matrices too.
    """

    def is_real(attributes: dict[str, Any]) -> bool:
        return attributes.get("part", 0) in real_parts

    def rule(*avals: Aval, **attributes: Any) -> Aval:
        out = real.rule(*map(_bare, avals), **attributes)
        return out if is_real(attributes) else Aval((*out.shape, 2), out.dtype)

    def reference(*arrays: Any, **attributes: Any) -> Any:
        out = real.reference(*map(_joined, arrays), **attributes)
        return out if is_real(attributes) else np.stack([out.real, out.imag], -1).astype(arrays[0].dtype)

    form = prim(f"complex_{real.name}", "factor", rule, reference, f"`{real.name}` of complex matrices")

    def on_pairs(*sources: Node, **attributes: Any) -> Node:
        out = form(*(c.as_real(z) if z.dtype.is_complex else z for z in sources), **attributes)
        return out if is_real(attributes) else c.as_complex(out)

    def derivative(g: Node, out: Node, *sources: Node, **attributes: Any) -> Gradients:
        assert real.derivative is not None
        g, out = (x if is_real(attributes) else c.as_complex(x) for x in (g, out))
        given = (c.as_complex(x) if x.dtype.is_floating_point else x for x in sources)
        return tuple(None if d is None else c.as_real(d) for d in real.derivative(g, out, *given, **attributes))

    real.on_pairs = on_pairs
    if real.derivative is not None:
        form.derivative = derivative
    return form


cholesky = complex_form(f.cholesky, 1)
triangular_solve = complex_form(f.triangular_solve)
lu = complex_form(f.lu, 1, 2)
solve = complex_form(f.solve, 1)
inverse = complex_form(f.inverse, 1)
eigh = complex_form(f.eigh, 0)
eig = complex_form(f.eig)
svd = complex_form(f.svd, 1)
qr = complex_form(f.qr)
geqrf = complex_form(f.geqrf)
ldl = complex_form(f.ldl, 1, 2)
ldl_solve = complex_form(f.ldl_solve)
