"""torch.backends: which back ends there are, and settings of theirs that programs may change without effect here."""

from flambeau.backends import cpu as cpu
from flambeau.backends import cuda as cuda
from flambeau.backends import cudnn as cudnn
from flambeau.backends import mkl as mkl
from flambeau.backends import mkldnn as mkldnn
from flambeau.backends import mps as mps
from flambeau.backends import openmp as openmp
from flambeau.backends import opt_einsum as opt_einsum
from flambeau.backends import quantized as quantized
