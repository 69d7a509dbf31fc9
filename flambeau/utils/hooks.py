"""The handle of hooks, at the path where PyTorch programs look for it."""

from flambeau.core.handles import RemovableHandle

__all__ = ["RemovableHandle"]
