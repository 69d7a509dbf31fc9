"""torch.functional: functions under a second name."""

from flambeau.tensor.functions_index import unique as unique
from flambeau.tensor.functions_index import unique_consecutive as unique_consecutive
from flambeau.tensor.functions_linear import chain_matmul as chain_matmul
from flambeau.tensor.functions_linear import einsum as einsum
from flambeau.tensor.functions_linear import tensordot as tensordot
from flambeau.tensor.functions_math import cdist as cdist
from flambeau.tensor.functions_reduce import norm as norm
from flambeau.tensor.functions_shape import atleast_1d as atleast_1d
from flambeau.tensor.functions_shape import atleast_2d as atleast_2d
from flambeau.tensor.functions_shape import atleast_3d as atleast_3d
from flambeau.tensor.functions_shape import block_diag as block_diag
from flambeau.tensor.functions_shape import broadcast_shapes as broadcast_shapes
from flambeau.tensor.functions_shape import broadcast_tensors as broadcast_tensors
from flambeau.tensor.functions_shape import cartesian_prod as cartesian_prod
from flambeau.tensor.functions_shape import meshgrid as meshgrid
from flambeau.tensor.functions_shape import split as split
