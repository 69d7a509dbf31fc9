"""torch.backends: which back ends there are, and settings of theirs that programs may change without effect here."""

from flambeau.backends import cpu as cpu
from flambeau.backends import cuda as cuda
from flambeau.backends import cudnn as cudnn
from flambeau.backends import mps as mps
