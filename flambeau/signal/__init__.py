"""torch.signal: window functions."""

from flambeau.signal import windows as windows
