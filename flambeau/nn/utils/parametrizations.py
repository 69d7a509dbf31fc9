"""Parametrizations for weights: orthogonal matrices, bounded spectral norm, direction times length."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.functional.torch_forms import norm_except_dim
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize
from flambeau.tensor import Tensor
from flambeau.tensor.creation import eye, zeros_like
from flambeau.tensor.functions_factor import geqrf, matrix_exp, orgqr
from flambeau.tensor.functions_random import randn
from flambeau.tensor.functions_reduce import allclose
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.type_info import finfo

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


# -- orthogonal matrices ----------------------------------------------------------------------------------
def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    return allclose(q.mH @ q, eye(k, dtype=q.dtype, device=q.device), atol=10.0 * n * finfo(q.dtype).eps)


def _made_orthogonal(a: Tensor) -> Tensor:
    """Q of A = Q R where the diagonal of R is not negative."""
    x, tau = geqrf(a)
    return orgqr(x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """An orthogonal matrix from any one, times a fixed orthogonal one (`base`) with trivialization."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        x = x.mT if wide else x
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            vectors = x.tril(-1)
            q = orgqr(vectors, 2.0 / (1.0 + (vectors * vectors).sum(-2)))
            # Signs, which are integers in exact arithmetic and must not get gradients.
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            x = x.tril()
            if n != k:
                x = ops.cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], -1)
            skew = x - x.mH
            if self.orthogonal_map == "matrix_exp":
                q = matrix_exp(skew)
            else:
                one = eye(n, dtype=skew.dtype, device=skew.device)
                q = ops.solve(one - 0.5 * skew, one + 0.5 * skew)
            q = q[..., :k]
        q = self.base @ q if hasattr(self, "base") else q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        """What gives `q`, made orthogonal."""
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}.")
        with no_grad():
            like, wide = q, q.size(-2) < q.size(-1)
            q = q.mT if wide else q
            if not hasattr(self, "base"):
                return self._householder_of(q, wide)
            n, k = q.shape[-2:]
            if n != k:
                q = _made_orthogonal(ops.cat([q, randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)], -1))
            else:
                q = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
            self.base = q
            # The identity comes out of minus the identity by Householder's reflections, and of any diagonal by the other maps.
            out = zeros_like(like)
            out.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return out

    def _householder_of(self, q: Tensor, wide: bool) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                                      "use_trivialization=False.")  # fmt: skip
        a, tau = geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(ops.where(tau == 0.0, -diagonal.sign(), diagonal.sign()))
        return a.mT if wide else a


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Module:
    """Keep a matrix, or a batch of them, orthogonal: by the exponential of a skew matrix, Cayley's map, or Householder's reflections.

    The default is "matrix_exp" for square and complex matrices, "householder" for others. `use_trivialization` starts from the
    orthogonal matrix next to the weight of now (Lezcano-Casado, 2019).

    >>> import flambeau as torch
    >>> q = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3)).weight
    >>> torch.allclose(q @ q.T, torch.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# -- direction times length -------------------------------------------------------------------------------
class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn the length along `dim` (None: one for all) and the direction of a weight (Salimans and Kingma, 2016)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take the entries that torch.nn.utils.weight_norm saves."""
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# -- bounded spectral norm --------------------------------------------------------------------------------
class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        """Power iterations for the first singular vectors."""
        with no_grad():
            for _ in range(times):
                F.normalize(matrix.mv(self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies, since a later call changes the vectors in place before this one's backward.
        return weight / self._u.clone().vdot(matrix.mv(self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, as a matrix with `dim` first (Miyato et al., 2018).

    That is followed by power iterations at each use in training. `dim` is 1 for transposed convolutions, else 0, where it is None.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = int(getattr(module, "transposed", False))
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
