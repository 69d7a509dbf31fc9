"""From a constraint to a transform of unconstrained numbers into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """What maps real numbers onto the values that a constraint allows: ``registry(constraint)`` gives a transform.

    >>> import flambeau as torch
    >>> torch.distributions.biject_to(torch.distributions.constraints.unit_interval)
    SigmoidTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Have ``factory(constraint)`` make the transform for a class of constraints (or that of an instance); also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint; NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _for_both(constraint: Any) -> Callable[[Callable[[Any], Any]], Any]:
    def register(factory: Callable[[Any], Any]) -> Any:
        biject_to.register(constraint, factory)
        return transform_to.register(constraint, factory)

    return register


@_for_both(constraints.real)
def _real(constraint: Any) -> Any:
    return transforms.identity_transform


@_for_both(constraints.positive)
@_for_both(constraints.nonnegative)
@_for_both(constraints.greater_than)
@_for_both(constraints.greater_than_eq)
def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


@_for_both(constraints.less_than)
def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_for_both(constraints.interval)
@_for_both(constraints.half_open_interval)
def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    plain = all(isinstance(b, (int, float)) for b in (low, high)) and low == 0 and high == 1
    return sigmoid if plain else transforms.ComposeTransform([sigmoid, transforms.AffineTransform(low, high - low)])


@_for_both(constraints.corr_cholesky)
def _correlations(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_semidefinite, constraints.positive_definite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())


def _through_parts(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others go to transforms made of theirs."""
    registry.register(
        constraints.independent,
        lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(constraints.cat, lambda c: transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths))
    registry.register(constraints.stack, lambda c: transforms.StackTransform([registry(part) for part in c.cseq], c.dim))


_through_parts(biject_to)
_through_parts(transform_to)
