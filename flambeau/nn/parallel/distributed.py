"""torch.nn.parallel.distributed: models whose gradients several processes average, of which there is one."""

from flambeau.nn.parallel import DistributedDataParallel as DistributedDataParallel

__all__ = ["DistributedDataParallel"]
