"""Random numbers whose distribution differs from place to place, and how they move with its parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.runtime.generator import default_generator
from flambeau.runtime.native import library, samplers
from flambeau.tensor.arguments import need_tensor
from flambeau.tensor.creation import tensor
from flambeau.tensor.function import Function, once_differentiable
from flambeau.tensor.functions_shape import broadcast_tensors


@cache
def _samplers() -> Mapping[str, int]:
    return library.load_module(samplers)


def _run(name: str, single: bool, state: int, first: Any, second: Any = None, out: Any = None) -> Any:
    """Call a sampler on arrays of float64; returns ``out`` (by default new), which it has written."""
    second = first if second is None else second
    out = np.empty_like(first) if out is None else out
    call = ctypes.PYFUNCTYPE(None, *[ctypes.c_int64] * 6)(_samplers()[name])
    call(state, first.size, single, first.ctypes.data, second.ctypes.data, out.ctypes.data)
    return out


def _doubles(value: Any) -> Any:
    return np.ascontiguousarray(value.detach().array(), dtype=np.float64)


def _draw(name: str, generator: Any, *parameters: Any) -> Any:
    """Samples in float64 of tensors of parameters that broadcast."""
    for parameter in parameters:
        need_tensor(name, "input", parameter)
        if not parameter.meta.dtype.is_floating_point:
            raise NotImplementedError(f"{name}: not implemented for {parameter.meta.dtype}; convert with .float()")
    kind = parameters[0].meta.dtype
    arrays = [_doubles(p) for p in broadcast_tensors(*parameters)]
    state = (default_generator if generator is None else generator).address
    return _run(f"sample_{name}", kind is not dtypes.float64, state, *arrays)


def _as_tensor(array: Any, like: Any) -> Any:
    return tensor(array).to(device=like.meta.device, dtype=like.meta.dtype)


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Fill with numbers whose logarithms are normal with that mean and standard deviation."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not self.meta.dtype.is_floating_point:
        raise NotImplementedError(f"log_normal_: not implemented for {self.meta.dtype}; draw into a floating point tensor")
    state = (default_generator if generator is None else generator).address
    drawn = _run("sample_normal", False, state, np.empty(self.meta.shape))
    return self.copy_(tensor(np.exp(drawn * std + mean)))


class _Constant(Function):
    """Samples that do not move with their parameters: the gradients are zero."""

    @staticmethod
    def forward(ctx: Any, draw: Any, *parameters: Any) -> Any:
        ctx.shapes = [p.shape for p in parameters]
        return _as_tensor(draw(), parameters[0])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *[grads[0].new_zeros(shape) for shape in ctx.shapes]


def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson numbers of the rates ``input`` in its shape and dtype; RuntimeError for a negative rate.

    >>> import flambeau as torch
    >>> torch.poisson(torch.tensor([0.0, 4.0])).shape
    torch.Size([2])
    """
    if (input < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _Constant.apply(lambda: _draw("poisson", generator, input), input)


def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of ``count`` trials hit with probability ``prob``; the two broadcast and have one floating dtype.

    >>> import flambeau as torch
    >>> torch.binomial(torch.tensor([5.0, 7.0]), torch.tensor([0.0, 1.0]))
    tensor([0., 7.])
    """
    for name, value in (("count", count), ("prob", prob)):
        if not value.meta.dtype.is_floating_point:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got {value.meta.dtype}")
    if count.meta.dtype is not prob.meta.dtype:
        raise RuntimeError(f"binomial: expected count and prob of one dtype, got {count.meta.dtype} and {prob.meta.dtype}")
    return _Constant.apply(lambda: _draw("binomial", generator, count, prob), count, prob)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, alpha: Any, generator: Any) -> Any:
        smallest = np.finfo(np.float64 if alpha.meta.dtype is dtypes.float64 else np.float32).tiny
        out = _as_tensor(np.maximum(_draw("gamma", generator, alpha), smallest), alpha)
        ctx.save_for_backward(alpha, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * _standard_gamma_grad(*ctx.saved_tensors), None


def _standard_gamma(self: Any, generator: Any = None) -> Any:
    """Gamma numbers of shape ``self`` and rate 1, by which they can be differentiated.

    Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26 (2000).
    """
    return _StandardGamma.apply(self, generator)


def _standard_gamma_grad(self: Any, output: Any) -> Any:
    """How the gamma numbers ``output`` move with their shape ``self``: -(dF/da) / (dF/dx) of the distribution function F(x; a).

    Figurnov, Mohamed and Mnih, Implicit reparameterization gradients (2018).
    """
    return _as_tensor(_run("move_gamma", False, 0, *[_doubles(t) for t in broadcast_tensors(self, output)]), output)


def _sample_dirichlet(self: Any, generator: Any = None) -> Any:
    """Points of the simplex of the last dimension, Dirichlet distributed: gamma numbers over their sum."""
    need_tensor("_sample_dirichlet", "self", self)
    alpha = self.detach()
    wide = np.maximum(_draw("gamma", generator, alpha.to(dtypes.float64)), np.finfo(np.float64).tiny)
    limits = np.finfo(alpha.dtype.numpy if alpha.dtype is dtypes.float64 else np.float32)
    out = (wide / wide.sum(-1, keepdims=True)).astype(limits.dtype)
    return _as_tensor(np.clip(out, limits.tiny, np.nextafter(limits.dtype.type(1), limits.dtype.type(0))), self)


def _dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """As `_standard_gamma_grad`, over 1 - x, for beta numbers ``x`` with parameters ``alpha`` and ``total - alpha``."""
    given, first, both = (_doubles(t) for t in broadcast_tensors(x, alpha, total))
    return _as_tensor(_run("move_beta", False, 0, first, np.ascontiguousarray(both - first), given.copy()), x)
