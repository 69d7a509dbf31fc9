"""torch._inductor: settings of PyTorch's compiler that programs make."""

from flambeau._inductor import config as config
