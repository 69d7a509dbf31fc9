"""torch.nn.parallel.scatter_gather: batches split over devices and put together, as far as there is one device."""

from flambeau.nn.parallel import gather as gather
from flambeau.nn.parallel import scatter as scatter

__all__ = ["gather", "scatter"]
