"""Transforms of random variables: inverses, determinants against autograd's Jacobians, shapes; constraints and what leads into them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd.functional import jacobian
from tests.unit.test_distributions import wide

D = torch.distributions
C = D.constraints
STEPS = wide(0.5, 1.0, 2.0)
# Each with a domain like that of its argument; the argument is one event where the transform works on events.
TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "exp": (D.ExpTransform(), STEPS), "sigmoid": (D.SigmoidTransform(), STEPS), "tanh": (D.TanhTransform(), STEPS),
    "softplus": (D.SoftplusTransform(), STEPS), "power": (D.PowerTransform(wide(2.0, 0.5, -1.0)), STEPS),
    "affine": (D.AffineTransform(0.5, wide(2.0, -1.0, 0.5)), STEPS), "affine event": (D.AffineTransform(STEPS, STEPS, event_dim=1), -STEPS),
    "affine number": (D.AffineTransform(1.0, -2.0), STEPS), "affine number event": (D.AffineTransform(1.0, -2.0, event_dim=1), STEPS),
    "stick": (D.StickBreakingTransform(), wide(0.3, -1.0, 0.5)), "correlation": (D.CorrCholeskyTransform(), wide(0.3, -1.0, 0.5)),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), STEPS), "reshape": (D.ReshapeTransform((3,), (3, 1)), STEPS),
    "compose": (D.ComposeTransform([D.AffineTransform(0.0, 0.5), D.SigmoidTransform(), D.PowerTransform(wide(2.0))]), STEPS),
    "compose event": (D.ComposeTransform([D.ExpTransform(), D.AffineTransform(STEPS, STEPS, event_dim=1)]), STEPS),
    "compose stick": (D.ComposeTransform([D.TanhTransform(), D.StickBreakingTransform()]), STEPS),
    "cat": (D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]), STEPS),
    "cat events": (D.CatTransform([D.IndependentTransform(D.ExpTransform(), 1), D.AffineTransform(1.0, 2.0, 1)], -1, [1, 2]), STEPS),
    "stack": (D.StackTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0), D.TanhTransform()], dim=-1), STEPS),
    "normal": (D.CumulativeDistributionTransform(D.Normal(wide(0.5, 1.0, 0.0), 2.0)), STEPS), "identity": (D.identity_transform, STEPS),
    "inverse": (D.ExpTransform().inv, STEPS),

    "inverse compose": (D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)]).inv, STEPS),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_inverses_and_determinants(name: str) -> None:
    t, x = TRANSFORMS[name]
    y = t(x)
    assert torch.allclose(t.inv(y), x) and t.inv.inv is t
    if name != "cat events":  # whose constraints check a batch
        assert bool(t.domain.check(x).all()) and bool(t.codomain.check(y).all())
    assert tuple(t.forward_shape(x.shape)) == tuple(y.shape) and tuple(t.inverse_shape(y.shape)) == tuple(x.shape) and t.bijective
    slopes = jacobian(t, x)
    if name == "correlation":  # of the elements below the diagonal
        rows, columns = torch.tril_indices(3, 3, -1)
        slopes = slopes[rows, columns]
    slopes = slopes.reshape(-1, 3)[:3]  # the last part of a broken stick is what is left
    found = t.log_abs_det_jacobian(x, y)
    rank = x.dim() - (0 if name == "stack" else t.domain.event_dim)  # a stack has the determinants of its parts
    wanted = torch.linalg.slogdet(slopes)[1] if rank == 0 else slopes.diagonal().abs().log()
    assert found.shape == wanted.shape and torch.allclose(found, wanted)
    assert torch.allclose(t.inv.log_abs_det_jacobian(y, x), -found)
    many, batch = torch.stack([x, x]), t
    if name != "identity" and not name.startswith("cat"):
        assert torch.allclose(batch.log_abs_det_jacobian(many, t(many)), torch.stack([found, found]))


@pytest.mark.parametrize("name", ["exp", "sigmoid", "softplus", "tanh", "power", "affine", "normal", "inverse", "compose", "independent"])
def test_signs_are_those_of_slopes(name: str) -> None:
    t, x = TRANSFORMS[name]
    slopes = jacobian(t, x).diagonal()
    assert torch.equal(torch.as_tensor(t.sign, dtype=torch.float64).expand(3), slopes.sign())


def test_transforms_without_determinants() -> None:
    x = torch.tensor([[0.5, 9.0], [1.0, -0.5]], dtype=torch.float64)
    lower = D.LowerCholeskyTransform()
    assert torch.allclose(lower(x), torch.tensor([[math.exp(0.5), 0.0], [1.0, math.exp(-0.5)]], dtype=torch.float64))
    assert torch.allclose(lower.inv(lower(x)), x.tril())
    definite = D.PositiveDefiniteTransform()
    assert torch.allclose(definite(x), lower(x) @ lower(x).mT) and torch.allclose(definite.inv(definite(x)), x.tril())
    assert D.AbsTransform()(wide(-1.0, 2.0)).tolist() == [1, 2] and D.AbsTransform().inv(wide(1.0)).tolist() == [1]
    shares = D.SoftmaxTransform()(wide(0.0, math.log(3.0)))
    assert torch.allclose(shares, wide(0.25, 0.75)) and torch.allclose(D.SoftmaxTransform().inv(shares).softmax(-1), shares)
    assert not D.AbsTransform().bijective and not D.SoftmaxTransform().bijective
    for t in (D.AbsTransform(), D.SoftmaxTransform()):
        with pytest.raises(NotImplementedError):
            t.log_abs_det_jacobian(x, x)


def test_equality_caching_and_copies() -> None:
    equal = (
        (D.ExpTransform, ()), (D.SigmoidTransform, ()), (D.TanhTransform, ()), (D.SoftplusTransform, ()), (D.AbsTransform, ()),
        (D.SoftmaxTransform, ()), (D.StickBreakingTransform, ()), (D.LowerCholeskyTransform, ()), (D.PositiveDefiniteTransform, ()),
        (D.PowerTransform, (wide(2.0),)), (D.AffineTransform, (1.0, 2.0)), (D.AffineTransform, (STEPS, 2.0)),
        (D.ComposeTransform, ([D.ExpTransform(), D.TanhTransform()],)),
    )  # fmt: skip
    for kind, arguments in equal:
        assert kind(*arguments) == kind(*arguments) and kind(*arguments) != D.identity_transform, kind
    assert D.ExpTransform() != D.TanhTransform() and D.ExpTransform().inv == D.ExpTransform().inv
    assert D.ExpTransform().inv != D.ExpTransform()
    assert D.AffineTransform(0, 1) != D.AffineTransform(0, 2) and D.AffineTransform(STEPS, 1.0) != D.AffineTransform(-STEPS, 1.0)
    assert D.PowerTransform(wide(2.0)) != D.PowerTransform(wide(3.0))
    for name, (t, x) in TRANSFORMS.items():
        if name in ("normal", "inverse compose", "identity", "correlation"):
            continue
        cached = t.with_cache()
        assert cached.with_cache() is cached and t.with_cache(0) is t, name
        y = cached(x)
        assert cached(x) is y and cached.inv(y) is x, name
        for twin in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            assert torch.equal(twin(x), t(x))
    with pytest.raises(ValueError, match="0 or 1"):
        D.ExpTransform(cache_size=2)
    assert repr(D.ExpTransform()) == "ExpTransform()" and repr(D.ExpTransform().inv) == "_InverseTransform(ExpTransform())"
    both = D.ComposeTransform([D.ExpTransform(), D.TanhTransform()])
    assert repr(both) == "ComposeTransform(\n    ExpTransform(),\n    TanhTransform()\n)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: D.ReshapeTransform((2,), (3,)), ValueError, "different sizes|differ"),
        (lambda: D.ReshapeTransform((3,), (3, 1)).forward_shape((2,)), ValueError, "mismatch|expected|end"),
        (lambda: D.StickBreakingTransform().event_dim + D.ReshapeTransform((3,), (3, 1)).event_dim, ValueError, "event_dim"),
        (lambda: D.StickBreakingTransform().forward_shape(()), ValueError, "Too few dimensions"),
        (lambda: D.SoftmaxTransform().forward_shape(()), ValueError, "Too few dimensions"),
        (lambda: D.CorrCholeskyTransform().forward_shape((4,)), ValueError, "flattened lower-diagonal"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((3, 2)), ValueError, "not square"),
        (lambda: D.CatTransform([D.ExpTransform()], lengths=[1, 2]), AssertionError, "as many lengths"),
        (lambda: D.CatTransform([1]), AssertionError, "Transform instances"), (lambda: D.StackTransform([1]), AssertionError,
        "Transform instances"),
        (lambda: D.CatTransform([D.ExpTransform()], 0, [2])(STEPS), ValueError, "needs size 2"),
        (lambda: D.StackTransform([D.ExpTransform()], 0)(STEPS), ValueError, "needs size 1"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 2)(STEPS), ValueError, "Too few dimensions"),
        (lambda: D.PowerTransform(STEPS).forward_shape((2,)), RuntimeError, "not broadcastable|match|broadcast"),
    ],
)  # fmt: skip
def test_misuse(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


ROOT = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
CONSTRAINTS: dict[str, tuple[Any, list[tuple[Any, Any]]]] = {
    "boolean": (C.boolean, [(wide(0, 1, 0.5), [True, True, False])]),
    "one_hot": (C.one_hot, [(torch.tensor([[0, 1, 0], [0, 1, 1], [0, 2, -1]]), [True, False, False])]),
    "integer_interval": (C.integer_interval(0, 2), [(wide(-1, 0, 1.5, 2, 3), [False, True, False, True, False])]),
    "nonnegative_integer": (C.nonnegative_integer, [(wide(-1, 0, 1.5), [False, True, False])]),
    "positive_integer": (C.positive_integer, [(wide(0, 1, 1.5), [False, True, False])]),
    "real": (C.real, [(wide(0, math.inf, math.nan), [True, True, False])]),
    "real_vector": (C.real_vector, [(torch.tensor([[0.0, 1.0], [math.nan, 1.0]]), [True, False])]),
    "positive": (C.positive, [(wide(0, 1), [False, True])]), "nonnegative": (C.nonnegative, [(wide(-1, 0), [False, True])]),
    "greater_than": (C.greater_than(0.5), [(wide(0.5, 0.6), [False, True])]),
    "greater_than_eq": (C.greater_than_eq(0.5), [(wide(0.4, 0.5), [False, True])]),
    "less_than": (C.less_than(0.5), [(wide(0.4, 0.5), [True, False])]),
    "interval": (C.interval(0.0, 2.0), [(wide(-1, 0, 2, 3), [False, True, True, False])]),
    "half_open_interval": (C.half_open_interval(0.0, 2.0), [(wide(0, 2), [True, False])]),
    "unit_interval": (C.unit_interval, [(wide(0, 1, 1.1), [True, True, False])]),
    "simplex": (C.simplex, [(torch.tensor([[0.2, 0.8], [0.5, 0.6], [-0.5, 1.5]]), [True, False, False])]),
    "multinomial": (C.multinomial(3), [(torch.tensor([[1, 2], [2, 2], [-1, 2]]), [True, False, False])]),
    "lower_triangular": (C.lower_triangular, [(ROOT, True), (ROOT.mT, False)]),
    "lower_cholesky": (C.lower_cholesky, [(ROOT, True), (-ROOT, False), (ROOT.mT, False)]),
    "corr_cholesky": (C.corr_cholesky, [(ROOT, True), (2 * ROOT, False)]),
    "square": (C.square, [(ROOT, True), (torch.ones(2, 3), False)]), "symmetric": (C.symmetric, [(ROOT, False), (ROOT @ ROOT.mT, True)]),
    "positive_semidefinite": (C.positive_semidefinite, [(torch.diag(torch.tensor([1.0, 0.0])), True),
    (torch.diag(torch.tensor([1.0, -1.0])), False)]),
    "positive_definite": (C.positive_definite, [(ROOT @ ROOT.mT, True), (torch.diag(torch.tensor([1.0, -1.0])), False), (ROOT, False)]),
    "independent": (C.independent(C.positive, 1), [(torch.tensor([[1.0, 2.0], [1.0, -2.0]]), [True, False])]),
    "cat": (C.cat([C.positive, C.real], -1), [(wide(-1, -1), [False, True])]),
    "cat lengths": (C.cat([C.positive, C.real], 0, [2, 1]), [(wide(1, -1, -1), [True, False, True])]),
    "stack": (C.stack([C.positive, C.real], -1), [(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]), [[True, True], [False, True]])]),
    "mixture": (C.MixtureSameFamilyConstraint(C.positive), [(wide(-1, 1), [False, True])]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CONSTRAINTS))
def test_constraints(name: str) -> None:
    constraint, cases = CONSTRAINTS[name]
    for value, wanted in cases:
        assert constraint.check(value).tolist() == wanted
    assert isinstance(constraint.is_discrete, bool) and constraint.event_dim in (0, 1, 2) and repr(constraint)


WITHOUT = {"biject_to": ("lower_cholesky", "positive_semidefinite", "positive_definite"), "transform_to": ()}


@pytest.mark.parametrize("name", sorted(CONSTRAINTS.keys() - {"boolean", "one_hot", "mixture", "square", "symmetric", "lower_triangular"}))
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_lead_into_constraints(name: str, registry: str) -> None:
    constraint = CONSTRAINTS[name][0]
    try:
        t = getattr(D, registry)(constraint)
    except NotImplementedError as error:
        assert "Cannot transform" in str(error)
        assert constraint.is_discrete or name in WITHOUT[registry]
        return
    torch.manual_seed(2)
    size = (4, 3, 3) if constraint.event_dim == 2 and name != "corr_cholesky" else {"stack": (4, 2), "cat": (2,)}.get(name, (3,))
    x = torch.randn(size, dtype=torch.float64)
    y = t(x)
    assert constraint.check(y).all()
    assert torch.allclose(t(t.inv(y)), y)


def test_dependent_constraints_and_registries() -> None:
    for use in (lambda: C.dependent.check(STEPS), lambda: C.dependent.is_discrete, lambda: C.dependent.event_dim):
        with pytest.raises((ValueError, NotImplementedError), match="dependent|statically"):
            use()
    made = C.dependent(is_discrete=False, event_dim=1)
    assert made.event_dim == 1 and made.is_discrete is False and C.is_dependent(made) and C.is_dependent(D.Uniform.support)
    with pytest.raises(ValueError, match="dim"):
        C.independent(C.positive, 2).check(STEPS)
    for bad in (lambda: C.cat([1]), lambda: C.stack([1]), lambda: C.cat([C.real], 0, [1, 2])):
        with pytest.raises(AssertionError):
            bad()
    registry = D.constraint_registry.ConstraintRegistry()

    class Even(C.Constraint):
        pass

    registry.register(Even())(lambda constraint: D.ExpTransform())
    assert registry(Even()) == D.ExpTransform()
    for bad in (int, 3):
        with pytest.raises(TypeError, match="Constraint subclass or instance"):
            registry.register(bad, lambda constraint: D.ExpTransform())
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        registry(C.real)
    with pytest.raises(NotImplementedError):
        Even().check(STEPS)
