"""Methods that work element by element. Each is the function of that name with the tensor first; ``name_`` works in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.core.dtypes import complex128, float64
from flambeau.tensor.arguments import need_single, need_tensor
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.functions_pointwise import Number, power

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class PointwiseMethods(TensorBase):
    """Methods of Tensor, element by element."""

    __slots__ = ()

    # -- of one tensor ---------------------------------------------------------------------------------
    def abs(self) -> Tensor:
        return ops.abs(self)

    def abs_(self) -> Self:
        if self.meta.dtype.is_complex:
            raise RuntimeError("In-place abs is not supported for complex tensors: its result is real; use abs()")
        return call_into(ops.abs, self, (self,), {})

    absolute = abs
    absolute_ = abs_

    def acos(self) -> Tensor:
        return ops.acos(self)

    def acos_(self) -> Self:
        return call_into(ops.acos, self, (self,), {})

    arccos = acos
    arccos_ = acos_

    def acosh(self) -> Tensor:
        return ops.acosh(self)

    def acosh_(self) -> Self:
        return call_into(ops.acosh, self, (self,), {})

    arccosh = acosh
    arccosh_ = acosh_

    def asin(self) -> Tensor:
        return ops.asin(self)

    def asin_(self) -> Self:
        return call_into(ops.asin, self, (self,), {})

    arcsin = asin
    arcsin_ = asin_

    def asinh(self) -> Tensor:
        return ops.asinh(self)

    def asinh_(self) -> Self:
        return call_into(ops.asinh, self, (self,), {})

    arcsinh = asinh
    arcsinh_ = asinh_

    def atan(self) -> Tensor:
        return ops.atan(self)

    def atan_(self) -> Self:
        return call_into(ops.atan, self, (self,), {})

    arctan = atan
    arctan_ = atan_

    def atanh(self) -> Tensor:
        return ops.atanh(self)

    def atanh_(self) -> Self:
        return call_into(ops.atanh, self, (self,), {})

    arctanh = atanh
    arctanh_ = atanh_

    def bitwise_not(self) -> Tensor:
        return ops.bitwise_not(self)

    def bitwise_not_(self) -> Self:
        return call_into(ops.bitwise_not, self, (self,), {})

    def ceil(self) -> Tensor:
        return ops.ceil(self)

    def ceil_(self) -> Self:
        return call_into(ops.ceil, self, (self,), {})

    def cos(self) -> Tensor:
        return ops.cos(self)

    def cos_(self) -> Self:
        return call_into(ops.cos, self, (self,), {})

    def cosh(self) -> Tensor:
        return ops.cosh(self)

    def cosh_(self) -> Self:
        return call_into(ops.cosh, self, (self,), {})

    def deg2rad(self) -> Tensor:
        return ops.deg2rad(self)

    def deg2rad_(self) -> Self:
        return call_into(ops.deg2rad, self, (self,), {})

    def digamma(self) -> Tensor:
        return ops.digamma(self)

    def digamma_(self) -> Self:
        return call_into(ops.digamma, self, (self,), {})

    def erf(self) -> Tensor:
        return ops.erf(self)

    def erf_(self) -> Self:
        return call_into(ops.erf, self, (self,), {})

    def erfc(self) -> Tensor:
        return ops.erfc(self)

    def erfc_(self) -> Self:
        return call_into(ops.erfc, self, (self,), {})

    def erfinv(self) -> Tensor:
        return ops.erfinv(self)

    def erfinv_(self) -> Self:
        return call_into(ops.erfinv, self, (self,), {})

    def exp(self) -> Tensor:
        return ops.exp(self)

    def exp_(self) -> Self:
        return call_into(ops.exp, self, (self,), {})

    def exp2(self) -> Tensor:
        return ops.exp2(self)

    def exp2_(self) -> Self:
        return call_into(ops.exp2, self, (self,), {})

    def expm1(self) -> Tensor:
        return ops.expm1(self)

    def expm1_(self) -> Self:
        return call_into(ops.expm1, self, (self,), {})

    def floor(self) -> Tensor:
        return ops.floor(self)

    def floor_(self) -> Self:
        return call_into(ops.floor, self, (self,), {})

    def frac(self) -> Tensor:
        return ops.frac(self)

    def frac_(self) -> Self:
        return call_into(ops.frac, self, (self,), {})

    def lgamma(self) -> Tensor:
        return ops.lgamma(self)

    def lgamma_(self) -> Self:
        return call_into(ops.lgamma, self, (self,), {})

    def log(self) -> Tensor:
        return ops.log(self)

    def log_(self) -> Self:
        return call_into(ops.log, self, (self,), {})

    def log10(self) -> Tensor:
        return ops.log10(self)

    def log10_(self) -> Self:
        return call_into(ops.log10, self, (self,), {})

    def log1p(self) -> Tensor:
        return ops.log1p(self)

    def log1p_(self) -> Self:
        return call_into(ops.log1p, self, (self,), {})

    def log2(self) -> Tensor:
        return ops.log2(self)

    def log2_(self) -> Self:
        return call_into(ops.log2, self, (self,), {})

    def logical_not(self) -> Tensor:
        return ops.logical_not(self)

    def logical_not_(self) -> Self:
        return call_into(ops.logical_not, self, (self,), {})

    def neg(self) -> Tensor:
        return ops.neg(self)

    def neg_(self) -> Self:
        return call_into(ops.neg, self, (self,), {})

    negative = neg
    negative_ = neg_

    def rad2deg(self) -> Tensor:
        return ops.rad2deg(self)

    def rad2deg_(self) -> Self:
        return call_into(ops.rad2deg, self, (self,), {})

    def reciprocal(self) -> Tensor:
        return ops.reciprocal(self)

    def reciprocal_(self) -> Self:
        return call_into(ops.reciprocal, self, (self,), {})

    def rsqrt(self) -> Tensor:
        return ops.rsqrt(self)

    def rsqrt_(self) -> Self:
        return call_into(ops.rsqrt, self, (self,), {})

    def sigmoid(self) -> Tensor:
        return ops.sigmoid(self)

    def sigmoid_(self) -> Self:
        return call_into(ops.sigmoid, self, (self,), {})

    def sign(self) -> Tensor:
        return ops.sign(self)

    def sign_(self) -> Self:
        return call_into(ops.sign, self, (self,), {})

    def sgn(self) -> Tensor:
        return ops.sgn(self)

    def sgn_(self) -> Self:
        return call_into(ops.sgn, self, (self,), {})

    def sin(self) -> Tensor:
        return ops.sin(self)

    def sin_(self) -> Self:
        return call_into(ops.sin, self, (self,), {})

    def sinc(self) -> Tensor:
        return ops.sinc(self)

    def sinc_(self) -> Self:
        return call_into(ops.sinc, self, (self,), {})

    def sinh(self) -> Tensor:
        return ops.sinh(self)

    def sinh_(self) -> Self:
        return call_into(ops.sinh, self, (self,), {})

    def sqrt(self) -> Tensor:
        return ops.sqrt(self)

    def sqrt_(self) -> Self:
        return call_into(ops.sqrt, self, (self,), {})

    def square(self) -> Tensor:
        return ops.square(self)

    def square_(self) -> Self:
        return call_into(ops.square, self, (self,), {})

    def tan(self) -> Tensor:
        return ops.tan(self)

    def tan_(self) -> Self:
        return call_into(ops.tan, self, (self,), {})

    def tanh(self) -> Tensor:
        return ops.tanh(self)

    def tanh_(self) -> Self:
        return call_into(ops.tanh, self, (self,), {})

    def trunc(self) -> Tensor:
        return ops.trunc(self)

    def trunc_(self) -> Self:
        return call_into(ops.trunc, self, (self,), {})

    fix = trunc
    fix_ = trunc_

    def isnan(self) -> Tensor:
        return ops.isnan(self)

    def isinf(self) -> Tensor:
        return ops.isinf(self)

    def isfinite(self) -> Tensor:
        return ops.isfinite(self)

    def isposinf(self) -> Tensor:
        return ops.isposinf(self)

    def isneginf(self) -> Tensor:
        return ops.isneginf(self)

    def signbit(self) -> Tensor:
        return ops.signbit(self)

    def positive(self) -> Tensor:
        return ops.positive(self)

    def relu(self) -> Tensor:
        return ops.relu(self)

    def relu_(self) -> Self:
        return call_into(ops.relu, self, (self,), {})

    def round(self, *, decimals: int = 0) -> Tensor:
        return ops.round(self, decimals)

    def round_(self, *, decimals: int = 0) -> Self:
        return call_into(ops.round, self, (self, decimals), {})

    def logit(self, eps: float | None = None) -> Tensor:
        return ops.logit(self, eps)

    def logit_(self, eps: float | None = None) -> Self:
        return call_into(ops.logit, self, (self, eps), {})

    def nan_to_num(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        return ops.nan_to_num(self, nan, posinf, neginf)

    def nan_to_num_(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Self:
        return call_into(ops.nan_to_num, self, (self, nan, posinf, neginf), {})

    # -- arithmetic of two -----------------------------------------------------------------------------
    def add(self, other: Any, *, alpha: Number = 1) -> Tensor:
        return ops.add(self, other) if type(alpha) is int and alpha == 1 else ops.add(self, other, alpha=alpha)

    def add_(self, other: Any, *, alpha: Number = 1) -> Self:
        return call_into(ops.add, self, (self, other, alpha), {})

    def sub(self, other: Any, *, alpha: Number = 1) -> Tensor:
        return ops.sub(self, other) if type(alpha) is int and alpha == 1 else ops.sub(self, other, alpha=alpha)

    def sub_(self, other: Any, *, alpha: Number = 1) -> Self:
        return call_into(ops.sub, self, (self, other, alpha), {})

    subtract = sub
    subtract_ = sub_

    def mul(self, other: Any) -> Tensor:
        return ops.mul(self, other)

    def mul_(self, other: Any) -> Self:
        return call_into(ops.mul, self, (self, other), {})

    multiply = mul
    multiply_ = mul_

    def true_divide(self, other: Any) -> Tensor:
        return ops.true_divide(self, other)

    def true_divide_(self, other: Any) -> Self:
        return call_into(ops.true_divide, self, (self, other), {})

    def floor_divide(self, other: Any) -> Tensor:
        return ops.floor_divide(self, other)

    def floor_divide_(self, other: Any) -> Self:
        return call_into(ops.floor_divide, self, (self, other), {})

    def remainder(self, other: Any) -> Tensor:
        return ops.remainder(self, other)

    def remainder_(self, other: Any) -> Self:
        return call_into(ops.remainder, self, (self, other), {})

    def fmod(self, other: Any) -> Tensor:
        return ops.fmod(self, other)

    def fmod_(self, other: Any) -> Self:
        return call_into(ops.fmod, self, (self, other), {})

    def maximum(self, other: Any) -> Tensor:
        need_tensor("maximum", "other", other)
        return ops.maximum(self, other)

    def minimum(self, other: Any) -> Tensor:
        need_tensor("minimum", "other", other)
        return ops.minimum(self, other)

    def fmax(self, other: Any) -> Tensor:
        need_tensor("fmax", "other", other)
        return ops.fmax(self, other)

    def fmin(self, other: Any) -> Tensor:
        need_tensor("fmin", "other", other)
        return ops.fmin(self, other)

    def copysign(self, other: Any) -> Tensor:
        return ops.copysign(self, other)

    def copysign_(self, other: Any) -> Self:
        return call_into(ops.copysign, self, (self, other), {})

    def hypot(self, other: Any) -> Tensor:
        need_tensor("hypot", "other", other)
        return ops.hypot(self, other)

    def hypot_(self, other: Any) -> Self:
        need_tensor("hypot_", "other", other)
        return call_into(ops.hypot, self, (self, other), {})

    def logaddexp(self, other: Any) -> Tensor:
        need_tensor("logaddexp", "other", other)
        return ops.logaddexp(self, other)

    def logaddexp2(self, other: Any) -> Tensor:
        need_tensor("logaddexp2", "other", other)
        return ops.logaddexp2(self, other)

    def gcd(self, other: Any) -> Tensor:
        need_tensor("gcd", "other", other)
        return ops.gcd(self, other)

    def gcd_(self, other: Any) -> Self:
        need_tensor("gcd_", "other", other)
        return call_into(ops.gcd, self, (self, other), {})

    def lcm(self, other: Any) -> Tensor:
        need_tensor("lcm", "other", other)
        return ops.lcm(self, other)

    def lcm_(self, other: Any) -> Self:
        need_tensor("lcm_", "other", other)
        return call_into(ops.lcm, self, (self, other), {})

    def frexp(self) -> Any:
        return ops.frexp(self)

    def i0(self) -> Tensor:
        return ops.i0(self)

    def i0_(self) -> Self:
        return call_into(ops.i0, self, (self,), {})

    def mvlgamma(self, p: int) -> Tensor:
        return ops.mvlgamma(self, p)

    def mvlgamma_(self, p: int) -> Self:
        return call_into(ops.mvlgamma, self, (self, p), {})

    def polygamma(self, n: int) -> Tensor:
        return ops.polygamma(n, self)

    def polygamma_(self, n: int) -> Self:
        return call_into(ops.polygamma, self, (n, self), {})

    def xlogy(self, other: Any) -> Tensor:
        return ops.xlogy(self, other)

    def xlogy_(self, other: Any) -> Self:
        return call_into(ops.xlogy, self, (self, other), {})

    def ldexp(self, other: Any) -> Tensor:
        need_tensor("ldexp", "other", other)
        return ops.ldexp(self, other)

    def ldexp_(self, other: Any) -> Self:
        need_tensor("ldexp_", "other", other)
        return call_into(ops.ldexp, self, (self, other), {})

    def nextafter(self, other: Any) -> Tensor:
        need_tensor("nextafter", "other", other)
        return ops.nextafter(self, other)

    def nextafter_(self, other: Any) -> Self:
        need_tensor("nextafter_", "other", other)
        return call_into(ops.nextafter, self, (self, other), {})

    def atan2(self, other: Any) -> Tensor:
        need_tensor("atan2", "other", other)
        return ops.atan2(self, other)

    def atan2_(self, other: Any) -> Self:
        need_tensor("atan2_", "other", other)
        return call_into(ops.atan2, self, (self, other), {})

    arctan2 = atan2
    arctan2_ = atan2_

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        return ops.true_divide(self, other) if rounding_mode is None else ops.div(self, other, rounding_mode)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        if rounding_mode is None:
            return call_into(ops.true_divide, self, (self, other), {})
        return call_into(ops.div, self, (self, other, rounding_mode), {})

    divide = div
    divide_ = div_

    def pow(self, exponent: Any) -> Tensor:
        operator, operands = power(self, exponent)
        return operator(*operands)

    def pow_(self, exponent: Any) -> Self:
        operator, operands = power(self, exponent)
        return call_into(operator, self, operands, {})

    def float_power(self, exponent: Any) -> Tensor:
        return ops.float_power(self, exponent)

    def float_power_(self, exponent: Any) -> Self:
        if self.meta.dtype not in (float64, complex128):
            raise RuntimeError(f"the base given to float_power_ has dtype {self.meta.dtype} but the operation's result requires float64")
        return call_into(ops.float_power, self, (self, exponent), {})

    def heaviside(self, values: Any) -> Tensor:
        need_tensor("heaviside", "values", values)
        return ops.heaviside(self, values)

    def heaviside_(self, values: Any) -> Self:
        need_tensor("heaviside_", "values", values)
        return call_into(ops.heaviside, self, (self, values), {})

    # -- comparison ------------------------------------------------------------------------------------
    def eq(self, other: Any) -> Tensor:
        return ops.eq(self, other)

    def eq_(self, other: Any) -> Self:
        return call_into(ops.eq, self, (self, other), {})

    def ne(self, other: Any) -> Tensor:
        return ops.ne(self, other)

    def ne_(self, other: Any) -> Self:
        return call_into(ops.ne, self, (self, other), {})

    not_equal = ne
    not_equal_ = ne_

    def lt(self, other: Any) -> Tensor:
        return ops.lt(self, other)

    def lt_(self, other: Any) -> Self:
        return call_into(ops.lt, self, (self, other), {})

    less = lt
    less_ = lt_

    def le(self, other: Any) -> Tensor:
        return ops.le(self, other)

    def le_(self, other: Any) -> Self:
        return call_into(ops.le, self, (self, other), {})

    less_equal = le
    less_equal_ = le_

    def gt(self, other: Any) -> Tensor:
        return ops.gt(self, other)

    def gt_(self, other: Any) -> Self:
        return call_into(ops.gt, self, (self, other), {})

    greater = gt
    greater_ = gt_

    def ge(self, other: Any) -> Tensor:
        return ops.ge(self, other)

    def ge_(self, other: Any) -> Self:
        return call_into(ops.ge, self, (self, other), {})

    greater_equal = ge
    greater_equal_ = ge_

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        return ops.isclose(self, other, rtol, atol, equal_nan)

    # -- logic and bits --------------------------------------------------------------------------------
    def logical_and(self, other: Any) -> Tensor:
        return ops.logical_and(self, other)

    def logical_and_(self, other: Any) -> Self:
        return call_into(ops.logical_and, self, (self, other), {})

    def logical_or(self, other: Any) -> Tensor:
        return ops.logical_or(self, other)

    def logical_or_(self, other: Any) -> Self:
        return call_into(ops.logical_or, self, (self, other), {})

    def logical_xor(self, other: Any) -> Tensor:
        return ops.logical_xor(self, other)

    def logical_xor_(self, other: Any) -> Self:
        return call_into(ops.logical_xor, self, (self, other), {})

    def bitwise_and(self, other: Any) -> Tensor:
        return ops.bitwise_and(self, other)

    def bitwise_and_(self, other: Any) -> Self:
        return call_into(ops.bitwise_and, self, (self, other), {})

    def bitwise_or(self, other: Any) -> Tensor:
        return ops.bitwise_or(self, other)

    def bitwise_or_(self, other: Any) -> Self:
        return call_into(ops.bitwise_or, self, (self, other), {})

    def bitwise_xor(self, other: Any) -> Tensor:
        return ops.bitwise_xor(self, other)

    def bitwise_xor_(self, other: Any) -> Self:
        return call_into(ops.bitwise_xor, self, (self, other), {})

    def bitwise_left_shift(self, other: Any) -> Tensor:
        return ops.bitwise_left_shift(self, other)

    def bitwise_left_shift_(self, other: Any) -> Self:
        return call_into(ops.bitwise_left_shift, self, (self, other), {})

    def bitwise_right_shift(self, other: Any) -> Tensor:
        return ops.bitwise_right_shift(self, other)

    def bitwise_right_shift_(self, other: Any) -> Self:
        return call_into(ops.bitwise_right_shift, self, (self, other), {})

    # -- of three, and choices -------------------------------------------------------------------------
    def lerp(self, end: Any, weight: Any) -> Tensor:
        return ops.lerp(self, end, weight)

    def lerp_(self, end: Any, weight: Any) -> Self:
        return call_into(ops.lerp, self, (self, end, weight), {})

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Number = 1) -> Tensor:
        return ops.addcmul(self, tensor1, tensor2, value)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Number = 1) -> Self:
        return call_into(ops.addcmul, self, (self, tensor1, tensor2, value), {})

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Number = 1) -> Tensor:
        return ops.addcdiv(self, tensor1, tensor2, value)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Number = 1) -> Self:
        return call_into(ops.addcdiv, self, (self, tensor1, tensor2, value), {})

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        return ops.clamp(self, min, max)

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        return call_into(ops.clamp, self, (self, min, max), {})

    clip = clamp
    clip_ = clamp_

    def clamp_min(self, min: Any) -> Tensor:
        return ops.clamp(self, min, None)

    def clamp_min_(self, min: Any) -> Self:
        return call_into(ops.clamp, self, (self, min, None), {})

    def clamp_max(self, max: Any) -> Tensor:
        return ops.clamp(self, None, max)

    def clamp_max_(self, max: Any) -> Self:
        return call_into(ops.clamp, self, (self, None, max), {})

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        need_single("masked_fill", "value", value)
        return ops.masked_fill(self, mask, value)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        need_single("masked_fill_", "value", value)
        return call_into(ops.masked_fill, self, (self, mask, value), {})

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        return ops.hardshrink(self, lambd)

    def prelu(self, weight: Any) -> Tensor:
        return ops.prelu(self, weight)
