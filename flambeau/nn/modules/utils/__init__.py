"""One size for each spatial dimension from a single number, at the path where PyTorch programs look for it."""

from flambeau.nn.sizes import _ntuple, _pair, _quadruple, _single, _triple

__all__ = ["_ntuple", "_pair", "_quadruple", "_single", "_triple"]
