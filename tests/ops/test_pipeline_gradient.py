"""Gradients through the tape, by compiled backward kernels, against finite differences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.ops.declare import ALL
from flambeau.tensor.gradients import grad
from tests.ops.operator_cases import samples_of
from tests.ops.pipeline_cases import LAYOUTS, Differentiated, describe, layouts_for, tensor_over

# Parameters without a derivative, in torch too.
CONSTANT = {**dict.fromkeys(("nll_loss", "cross_entropy", "binary_cross_entropy"), ("weight",)), "ldl_solve": ("factors",)}
# Samples on a step or in float32, where differences say nothing, and functions without a derivative.
NO_DIFFERENCES = {
    "round": "samples on halves", "nan_to_num": "infinite samples", "to_dtype": "results in float32", "mode": "ties",
    **dict.fromkeys(("cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "eigh", "eigvalsh"), "symmetric changes only"),
    **dict.fromkeys(("ldl_factor", "ldl_factor_ex", "geqrf"), "no derivative"), "svd": "no derivative of bases of null spaces",
    "eig": "vectors of any phase",
    "zeta": "no derivative", "airy_ai": "no derivative", "frexp": "jumps at powers of two",
}  # fmt: skip
DIFFERENTIABLE = sorted(n for n, o in ALL.items() if not o.mutates and n not in NO_DIFFERENCES)


def _checked(name: str, number: int, layout: str) -> bool:
    operator = ALL[name]
    calls = samples_of(operator)
    case = Differentiated(operator, calls[number % len(calls)], LAYOUTS[layout], CONSTANT.get(name, ()))
    if not case.leaves:
        return False
    try:
        if not any(r.requires_grad for r in case.results()):
            return False
    except RuntimeError as error:
        assert operator.kind == "view" and "not compatible" in str(error), error
        return False
    case.check(case.gradients())
    for guard in case.guards:
        guard.check()
    return True


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name: str) -> None:
    names = layouts_for(name, "contiguous", "stepped", "transposed", "expanded")
    count = min(len(samples_of(ALL[name])), 4)
    checked = sum(_checked(name, number, names[number % len(names)]) for number in range(count))
    assert checked <= count


@pytest.mark.parametrize("name", ["zeta", "airy_ai", "geqrf", "ldl_factor"])
def test_missing_derivative(name: str) -> None:
    operator = ALL[name]
    case = Differentiated(operator, samples_of(operator)[0])
    with pytest.raises(NotImplementedError, match="derivative"):
        case.results()


SMOOTH: dict[str, Any] = {
    "exp": lambda x, y: ops.exp(x), "mul": lambda x, y: ops.mul(x, y), "div": lambda x, y: ops.div(x, ops.add(ops.square(y), 1.0)),
    "sigmoid": lambda x, y: ops.sigmoid(x), "tanh": lambda x, y: ops.tanh(x), "gelu": lambda x, y: ops.gelu(x),
    "silu": lambda x, y: ops.silu(x), "softmax": lambda x, y: ops.softmax(x, 1), "log_softmax": lambda x, y: ops.log_softmax(x, 0),
    "logsumexp": lambda x, y: ops.logsumexp(x, 1),
    "matmul": lambda x, y: ops.matmul(x, ops.t(y)), "layer_norm": lambda x, y: ops.layer_norm(x, (5,), ops.select(y, 0, 0), None),
    "var": lambda x, y: ops.var(x, 1), "cumsum": lambda x, y: ops.cumsum(ops.mul(x, x), 1), "prod": lambda x, y: ops.prod(x, 1),
    "pow": lambda x, y: ops.pow(ops.add(ops.square(x), 0.5), y), "index_select": lambda x, y: ops.mul(ops.flip(x, (0,)), x),
    "cat": lambda x, y: ops.square(ops.cat([x, y], 1)), "norm": lambda x, y: ops.vector_norm(ops.add(x, 3.0)),
    "where": lambda x, y: ops.where(ops.gt(x, 0.0), ops.square(x), y),
    "view": lambda x, y: ops.square(ops.transpose(ops.narrow(x, 1, 1, 3), 0, 1)), "mse_loss": lambda x, y: ops.mse_loss(x, y),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SMOOTH))
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_double_backward(name: str, layout: str) -> None:
    """The gradient of a random combination of gradients, against differences of first gradients."""
    random = np.random.default_rng(11)
    guards = [LAYOUTS[layout](random.uniform(-1.5, 1.5, (4, 5))) for _ in range(2)]
    tensors = [g.tensor.requires_grad_() for g in guards]
    directions = [random.uniform(-1, 1, (4, 5)) for _ in guards]

    def first(create_graph: bool) -> Any:
        out = SMOOTH[name](*tensors)
        weights = tensor_over(np.linspace(0.5, 1.5, int(np.prod(out.meta.shape))).reshape(out.meta.shape))
        return grad(out, tensors, weights, create_graph=create_graph, allow_unused=True)

    found = first(True)
    used = [(f, tensor_over(d)) for f, d in zip(found, directions, strict=True) if f is not None and f.requires_grad]
    second = grad([f for f, _ in used], tensors, [d for _, d in used], allow_unused=True)
    for guard, gradient in zip(guards, second, strict=True):
        start, probe, values = guard.view.copy(), random.uniform(-1, 1, (4, 5)), []
        for sign in (1, -1):
            guard.view[...] = start + sign * 1e-5 * probe
            values.append(sum(float((f.array() * d).sum()) for f, d in zip(first(False), directions, strict=True) if f is not None))
        guard.view[...] = start
        derived = 0.0 if gradient is None else float((gradient.array() * probe).sum())
        np.testing.assert_allclose(derived, (values[0] - values[1]) / 2e-5, rtol=1e-4, atol=1e-5, err_msg=describe(((name,), {})))
