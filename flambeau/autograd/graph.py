"""torch.autograd.graph: the tape's entries."""

from flambeau.tensor.tape import Entry as Node

__all__ = ["Node"]
