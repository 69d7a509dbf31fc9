"""torch.masked: reductions that leave elements out, and tensors that know which of their elements count."""

from flambeau.masked.masked_tensor import MaskedTensor as MaskedTensor
from flambeau.masked.masked_tensor import as_masked_tensor as as_masked_tensor
from flambeau.masked.masked_tensor import is_masked_tensor as is_masked_tensor
from flambeau.masked.masked_tensor import masked_tensor as masked_tensor
from flambeau.masked.reductions import amax as amax
from flambeau.masked.reductions import amin as amin
from flambeau.masked.reductions import argmax as argmax
from flambeau.masked.reductions import argmin as argmin
from flambeau.masked.reductions import cumprod as cumprod
from flambeau.masked.reductions import cumsum as cumsum
from flambeau.masked.reductions import log_softmax as log_softmax
from flambeau.masked.reductions import logaddexp as logaddexp
from flambeau.masked.reductions import logsumexp as logsumexp
from flambeau.masked.reductions import mean as mean
from flambeau.masked.reductions import median as median
from flambeau.masked.reductions import norm as norm
from flambeau.masked.reductions import normalize as normalize
from flambeau.masked.reductions import prod as prod
from flambeau.masked.reductions import softmax as softmax
from flambeau.masked.reductions import softmin as softmin
from flambeau.masked.reductions import std as std
from flambeau.masked.reductions import sum as sum
from flambeau.masked.reductions import var as var
