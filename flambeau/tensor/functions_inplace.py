"""Functions that work in place: each is the method of that name on its first argument."""

from __future__ import annotations

from typing import Any


def abs_(input: Any) -> Any:
    """``abs`` in place."""
    return input.abs_()


def acos_(input: Any) -> Any:
    """``acos`` in place."""
    return input.acos_()


def acosh_(input: Any) -> Any:
    """``acosh`` in place."""
    return input.acosh_()


def arccos_(input: Any) -> Any:
    """``arccos`` in place."""
    return input.arccos_()


def arccosh_(input: Any) -> Any:
    """``arccosh`` in place."""
    return input.arccosh_()


def arcsin_(input: Any) -> Any:
    """``arcsin`` in place."""
    return input.arcsin_()


def arcsinh_(input: Any) -> Any:
    """``arcsinh`` in place."""
    return input.arcsinh_()


def arctan_(input: Any) -> Any:
    """``arctan`` in place."""
    return input.arctan_()


def arctanh_(input: Any) -> Any:
    """``arctanh`` in place."""
    return input.arctanh_()


def asin_(input: Any) -> Any:
    """``asin`` in place."""
    return input.asin_()


def asinh_(input: Any) -> Any:
    """``asinh`` in place."""
    return input.asinh_()


def atan_(input: Any) -> Any:
    """``atan`` in place."""
    return input.atan_()


def atanh_(input: Any) -> Any:
    """``atanh`` in place."""
    return input.atanh_()


def ceil_(input: Any) -> Any:
    """``ceil`` in place."""
    return input.ceil_()


def conj_physical_(input: Any) -> Any:
    """``conj_physical`` in place."""
    return input.conj_physical_()


def cos_(input: Any) -> Any:
    """``cos`` in place."""
    return input.cos_()


def cosh_(input: Any) -> Any:
    """``cosh`` in place."""
    return input.cosh_()


def deg2rad_(input: Any) -> Any:
    """``deg2rad`` in place."""
    return input.deg2rad_()


def erf_(input: Any) -> Any:
    """``erf`` in place."""
    return input.erf_()


def erfc_(input: Any) -> Any:
    """``erfc`` in place."""
    return input.erfc_()


def exp_(input: Any) -> Any:
    """``exp`` in place."""
    return input.exp_()


def exp2_(input: Any) -> Any:
    """``exp2`` in place."""
    return input.exp2_()


def expm1_(input: Any) -> Any:
    """``expm1`` in place."""
    return input.expm1_()


def fix_(input: Any) -> Any:
    """``fix`` in place."""
    return input.fix_()


def floor_(input: Any) -> Any:
    """``floor`` in place."""
    return input.floor_()


def frac_(input: Any) -> Any:
    """``frac`` in place."""
    return input.frac_()


def log_(input: Any) -> Any:
    """``log`` in place."""
    return input.log_()


def log10_(input: Any) -> Any:
    """``log10`` in place."""
    return input.log10_()


def log1p_(input: Any) -> Any:
    """``log1p`` in place."""
    return input.log1p_()


def log2_(input: Any) -> Any:
    """``log2`` in place."""
    return input.log2_()


def neg_(input: Any) -> Any:
    """``neg`` in place."""
    return input.neg_()


def negative_(input: Any) -> Any:
    """``negative`` in place."""
    return input.negative_()


def rad2deg_(input: Any) -> Any:
    """``rad2deg`` in place."""
    return input.rad2deg_()


def reciprocal_(input: Any) -> Any:
    """``reciprocal`` in place."""
    return input.reciprocal_()


def relu_(input: Any) -> Any:
    """``relu`` in place."""
    return input.relu_()


def round_(input: Any, *, decimals: int = 0) -> Any:
    """``round`` in place."""
    return input.round_(decimals=decimals)


def rsqrt_(input: Any) -> Any:
    """``rsqrt`` in place."""
    return input.rsqrt_()


def sigmoid_(input: Any) -> Any:
    """``sigmoid`` in place."""
    return input.sigmoid_()


def sin_(input: Any) -> Any:
    """``sin`` in place."""
    return input.sin_()


def sinc_(input: Any) -> Any:
    """``sinc`` in place."""
    return input.sinc_()


def sinh_(input: Any) -> Any:
    """``sinh`` in place."""
    return input.sinh_()


def sqrt_(input: Any) -> Any:
    """``sqrt`` in place."""
    return input.sqrt_()


def square_(input: Any) -> Any:
    """``square`` in place."""
    return input.square_()


def tan_(input: Any) -> Any:
    """``tan`` in place."""
    return input.tan_()


def tanh_(input: Any) -> Any:
    """``tanh`` in place."""
    return input.tanh_()


def trunc_(input: Any) -> Any:
    """``trunc`` in place."""
    return input.trunc_()


def detach_(input: Any) -> Any:
    """``detach`` in place."""
    return input.detach_()


def addmv_(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``addmv`` in place."""
    return input.addmv_(mat, vec, beta=beta, alpha=alpha)


def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """``clamp`` in place."""
    return input.clamp_(min, max)


def clip_(input: Any, min: Any = None, max: Any = None) -> Any:
    """``clip`` in place."""
    return input.clip_(min, max)


def clamp_max_(input: Any, max: Any) -> Any:
    """``clamp_max`` in place."""
    return input.clamp_max_(max)


def clamp_min_(input: Any, min: Any) -> Any:
    """``clamp_min`` in place."""
    return input.clamp_min_(min)


def ldexp_(input: Any, other: Any) -> Any:
    """``ldexp`` in place."""
    return input.ldexp_(other)


def logit_(input: Any, eps: float | None = None) -> Any:
    """``logit`` in place."""
    return input.logit_(eps)


def nan_to_num_(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """``nan_to_num`` in place."""
    return input.nan_to_num_(nan, posinf, neginf)


def xlogy_(input: Any, other: Any) -> Any:
    """``xlogy`` in place."""
    return input.xlogy_(other)


def as_strided_(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """``as_strided`` in place."""
    return input.as_strided_(size, stride, storage_offset)


def gcd_(input: Any, other: Any) -> Any:
    """``gcd`` in place."""
    return input.gcd_(other)


def lcm_(input: Any, other: Any) -> Any:
    """``lcm`` in place."""
    return input.lcm_(other)


def i0_(input: Any) -> Any:
    """``i0`` in place."""
    return input.i0_()
