"""Normalization over the positions of each channel of each sample."""

from __future__ import annotations

from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.modules.batchnorm import _NormBase
from flambeau.tensor import Tensor

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "_InstanceNorm"]


class _InstanceNorm(_NormBase):
    """Instance normalization; without a batch dimension the input has one dimension less."""

    spatial: int

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: dtype | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self.spatial + 1, self.spatial + 2):
            raise ValueError(f"expected {self.spatial + 1}D or {self.spatial + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if input.size(-self.spatial - 1) != self.num_features and self.affine:
            raise ValueError(f"expected input's size at dim={input.dim() - self.spatial - 1} to match num_features ({self.num_features}), "
                             f"but got: {input.size(-self.spatial - 1)}.")  # fmt: skip
        batched = input.dim() == self.spatial + 2
        out = F.instance_norm(
            input if batched else input.unsqueeze(0), self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return out if batched else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L). Ulyanov et al., "Instance Normalization", 2016."""

    spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of images (N, C, H, W) or (C, H, W)."""

    spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3
