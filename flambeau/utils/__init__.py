"""What programs need besides tensors: data loading and hook handles."""

from flambeau.utils import data, hooks

__all__ = ["data", "hooks"]
