"""torch.fx.passes: what is done with graphs."""

from flambeau.fx.passes import shape_prop as shape_prop
