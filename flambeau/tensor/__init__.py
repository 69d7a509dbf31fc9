"""Tensors: the class, what makes them, and the tape that records them."""

from flambeau.tensor.creation import arange as arange
from flambeau.tensor.creation import empty as empty
from flambeau.tensor.creation import empty_like as empty_like
from flambeau.tensor.creation import full as full
from flambeau.tensor.creation import full_like as full_like
from flambeau.tensor.creation import linspace as linspace
from flambeau.tensor.creation import ones as ones
from flambeau.tensor.creation import ones_like as ones_like
from flambeau.tensor.creation import tensor as tensor
from flambeau.tensor.creation import zeros as zeros
from flambeau.tensor.creation import zeros_like as zeros_like
from flambeau.tensor.functions_shape import cat as cat
from flambeau.tensor.functions_shape import stack as stack
from flambeau.tensor.tensor_class import Tensor as Tensor
