"""Linear algebra, as ``torch.linalg``: every dimension before the last two is a batch."""

from __future__ import annotations

from flambeau.core.linear_algebra_errors import LinAlgError as LinAlgError
from flambeau.linalg.decompositions import cholesky as cholesky
from flambeau.linalg.decompositions import cholesky_ex as cholesky_ex
from flambeau.linalg.decompositions import eig as eig
from flambeau.linalg.decompositions import eigh as eigh
from flambeau.linalg.decompositions import eigvals as eigvals
from flambeau.linalg.decompositions import eigvalsh as eigvalsh
from flambeau.linalg.decompositions import householder_product as householder_product
from flambeau.linalg.decompositions import ldl_factor as ldl_factor
from flambeau.linalg.decompositions import ldl_factor_ex as ldl_factor_ex
from flambeau.linalg.decompositions import ldl_solve as ldl_solve
from flambeau.linalg.decompositions import lu as lu
from flambeau.linalg.decompositions import lu_factor as lu_factor
from flambeau.linalg.decompositions import lu_factor_ex as lu_factor_ex
from flambeau.linalg.decompositions import lu_solve as lu_solve
from flambeau.linalg.decompositions import qr as qr
from flambeau.linalg.decompositions import svd as svd
from flambeau.linalg.decompositions import svdvals as svdvals
from flambeau.linalg.norms import cond as cond
from flambeau.linalg.norms import matrix_norm as matrix_norm
from flambeau.linalg.norms import matrix_rank as matrix_rank
from flambeau.linalg.norms import norm as norm
from flambeau.linalg.norms import vector_norm as vector_norm
from flambeau.linalg.products import cross as cross
from flambeau.linalg.products import diagonal as diagonal
from flambeau.linalg.products import matmul as matmul
from flambeau.linalg.products import matrix_exp as matrix_exp
from flambeau.linalg.products import matrix_power as matrix_power
from flambeau.linalg.products import multi_dot as multi_dot
from flambeau.linalg.products import vander as vander
from flambeau.linalg.products import vecdot as vecdot
from flambeau.linalg.systems import det as det
from flambeau.linalg.systems import inv as inv
from flambeau.linalg.systems import inv_ex as inv_ex
from flambeau.linalg.systems import lstsq as lstsq
from flambeau.linalg.systems import pinv as pinv
from flambeau.linalg.systems import slogdet as slogdet
from flambeau.linalg.systems import solve as solve
from flambeau.linalg.systems import solve_ex as solve_ex
from flambeau.linalg.systems import solve_triangular as solve_triangular
from flambeau.linalg.systems import tensorinv as tensorinv
from flambeau.linalg.systems import tensorsolve as tensorsolve
