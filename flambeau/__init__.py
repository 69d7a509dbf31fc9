"""flambeau: PyTorch's programming model on generated kernels. Use it as ``import flambeau as torch``."""

# Before anything else: the base types of storages and tensors are native code, and this module knows how that is loaded.
from flambeau.compilation import kernel_cache as _kernel_cache  # noqa: F401

# isort: split
import importlib
import math
from typing import TYPE_CHECKING, Any

from flambeau import autograd as autograd
from flambeau import functional as functional
from flambeau import ops as ops
from flambeau.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from flambeau.core import compile_hook as _compile_hook
from flambeau.core.device import Device as device
from flambeau.core.dtypes import bfloat16 as bfloat16
from flambeau.core.dtypes import bool_ as bool
from flambeau.core.dtypes import complex64 as cfloat
from flambeau.core.dtypes import complex64 as complex64
from flambeau.core.dtypes import complex128 as cdouble
from flambeau.core.dtypes import complex128 as complex128
from flambeau.core.dtypes import dtype as dtype
from flambeau.core.dtypes import float16 as float16
from flambeau.core.dtypes import float16 as half
from flambeau.core.dtypes import float32 as float
from flambeau.core.dtypes import float32 as float32
from flambeau.core.dtypes import float64 as double
from flambeau.core.dtypes import float64 as float64
from flambeau.core.dtypes import int8 as int8
from flambeau.core.dtypes import int16 as int16
from flambeau.core.dtypes import int16 as short
from flambeau.core.dtypes import int32 as int
from flambeau.core.dtypes import int32 as int32
from flambeau.core.dtypes import int64 as int64
from flambeau.core.dtypes import int64 as long
from flambeau.core.dtypes import uint8 as uint8
from flambeau.core.layout import Layout as layout
from flambeau.core.layout import MemoryFormat as memory_format
from flambeau.core.layout import channels_last as channels_last
from flambeau.core.layout import channels_last_3d as channels_last_3d
from flambeau.core.layout import contiguous_format as contiguous_format
from flambeau.core.layout import jagged as jagged
from flambeau.core.layout import preserve_format as preserve_format
from flambeau.core.layout import sparse_coo as sparse_coo
from flambeau.core.layout import sparse_csr as sparse_csr
from flambeau.core.layout import strided as strided
from flambeau.core.shape import Size as Size
from flambeau.runtime.generator import default_generator as default_generator
from flambeau.runtime.thread_pool import get_num_threads as get_num_threads
from flambeau.runtime.thread_pool import set_num_threads as set_num_threads
from flambeau.tensor import methods_queries as _queries
from flambeau.tensor import overriding as _overriding
from flambeau.tensor.creation import arange as arange
from flambeau.tensor.creation import as_tensor as as_tensor
from flambeau.tensor.creation import asarray as asarray
from flambeau.tensor.creation import empty as empty
from flambeau.tensor.creation import empty_like as empty_like
from flambeau.tensor.creation import empty_permuted as empty_permuted
from flambeau.tensor.creation import empty_strided as empty_strided
from flambeau.tensor.creation import eye as eye
from flambeau.tensor.creation import from_dlpack as from_dlpack
from flambeau.tensor.creation import from_numpy as from_numpy
from flambeau.tensor.creation import frombuffer as frombuffer
from flambeau.tensor.creation import full as full
from flambeau.tensor.creation import full_like as full_like
from flambeau.tensor.creation import linspace as linspace
from flambeau.tensor.creation import logspace as logspace
from flambeau.tensor.creation import ones as ones
from flambeau.tensor.creation import ones_like as ones_like
from flambeau.tensor.creation import range_ as range
from flambeau.tensor.creation import scalar_tensor as scalar_tensor
from flambeau.tensor.creation import tensor as tensor
from flambeau.tensor.creation import tril_indices as tril_indices
from flambeau.tensor.creation import triu_indices as triu_indices
from flambeau.tensor.creation import zeros as zeros
from flambeau.tensor.creation import zeros_like as zeros_like
from flambeau.tensor.functions_complex import adjoint as adjoint
from flambeau.tensor.functions_complex import angle as angle
from flambeau.tensor.functions_complex import complex as complex
from flambeau.tensor.functions_complex import conj as conj
from flambeau.tensor.functions_complex import conj_physical as conj_physical
from flambeau.tensor.functions_complex import imag as imag
from flambeau.tensor.functions_complex import is_conj as is_conj
from flambeau.tensor.functions_complex import is_neg as is_neg
from flambeau.tensor.functions_complex import isreal as isreal
from flambeau.tensor.functions_complex import polar as polar
from flambeau.tensor.functions_complex import real as real
from flambeau.tensor.functions_complex import resolve_conj as resolve_conj
from flambeau.tensor.functions_complex import resolve_neg as resolve_neg
from flambeau.tensor.functions_complex import sgn as sgn
from flambeau.tensor.functions_complex import view_as_complex as view_as_complex
from flambeau.tensor.functions_complex import view_as_real as view_as_real
from flambeau.tensor.functions_copy import alias_copy as alias_copy
from flambeau.tensor.functions_copy import as_strided_copy as as_strided_copy
from flambeau.tensor.functions_copy import as_strided_scatter as as_strided_scatter
from flambeau.tensor.functions_copy import detach_copy as detach_copy
from flambeau.tensor.functions_copy import diagonal_copy as diagonal_copy
from flambeau.tensor.functions_copy import expand_copy as expand_copy
from flambeau.tensor.functions_copy import narrow_copy as narrow_copy
from flambeau.tensor.functions_copy import permute_copy as permute_copy
from flambeau.tensor.functions_copy import select_copy as select_copy
from flambeau.tensor.functions_copy import slice_copy as slice_copy
from flambeau.tensor.functions_copy import split_copy as split_copy
from flambeau.tensor.functions_copy import split_with_sizes_copy as split_with_sizes_copy
from flambeau.tensor.functions_copy import squeeze_copy as squeeze_copy
from flambeau.tensor.functions_copy import t_copy as t_copy
from flambeau.tensor.functions_copy import transpose_copy as transpose_copy
from flambeau.tensor.functions_copy import unbind_copy as unbind_copy
from flambeau.tensor.functions_copy import unfold_copy as unfold_copy
from flambeau.tensor.functions_copy import unsqueeze_copy as unsqueeze_copy
from flambeau.tensor.functions_copy import view_as_complex_copy as view_as_complex_copy
from flambeau.tensor.functions_copy import view_as_real_copy as view_as_real_copy
from flambeau.tensor.functions_copy import view_copy as view_copy
from flambeau.tensor.functions_factor import cholesky as cholesky
from flambeau.tensor.functions_factor import cholesky_inverse as cholesky_inverse
from flambeau.tensor.functions_factor import cholesky_solve as cholesky_solve
from flambeau.tensor.functions_factor import det as det
from flambeau.tensor.functions_factor import geqrf as geqrf
from flambeau.tensor.functions_factor import inverse as inverse
from flambeau.tensor.functions_factor import logdet as logdet
from flambeau.tensor.functions_factor import lu as lu
from flambeau.tensor.functions_factor import lu_solve as lu_solve
from flambeau.tensor.functions_factor import lu_unpack as lu_unpack
from flambeau.tensor.functions_factor import matrix_exp as matrix_exp
from flambeau.tensor.functions_factor import orgqr as orgqr
from flambeau.tensor.functions_factor import ormqr as ormqr
from flambeau.tensor.functions_factor import pca_lowrank as pca_lowrank
from flambeau.tensor.functions_factor import pinverse as pinverse
from flambeau.tensor.functions_factor import qr as qr
from flambeau.tensor.functions_factor import slogdet as slogdet
from flambeau.tensor.functions_factor import svd as svd
from flambeau.tensor.functions_factor import svd_lowrank as svd_lowrank
from flambeau.tensor.functions_factor import triangular_solve as triangular_solve
from flambeau.tensor.functions_foreach import _foreach_abs as _foreach_abs
from flambeau.tensor.functions_foreach import _foreach_abs_ as _foreach_abs_
from flambeau.tensor.functions_foreach import _foreach_add as _foreach_add
from flambeau.tensor.functions_foreach import _foreach_add_ as _foreach_add_
from flambeau.tensor.functions_foreach import _foreach_addcdiv as _foreach_addcdiv
from flambeau.tensor.functions_foreach import _foreach_addcdiv_ as _foreach_addcdiv_
from flambeau.tensor.functions_foreach import _foreach_addcmul as _foreach_addcmul
from flambeau.tensor.functions_foreach import _foreach_addcmul_ as _foreach_addcmul_
from flambeau.tensor.functions_foreach import _foreach_clamp_max as _foreach_clamp_max
from flambeau.tensor.functions_foreach import _foreach_clamp_max_ as _foreach_clamp_max_
from flambeau.tensor.functions_foreach import _foreach_clamp_min as _foreach_clamp_min
from flambeau.tensor.functions_foreach import _foreach_clamp_min_ as _foreach_clamp_min_
from flambeau.tensor.functions_foreach import _foreach_copy_ as _foreach_copy_
from flambeau.tensor.functions_foreach import _foreach_div as _foreach_div
from flambeau.tensor.functions_foreach import _foreach_div_ as _foreach_div_
from flambeau.tensor.functions_foreach import _foreach_exp as _foreach_exp
from flambeau.tensor.functions_foreach import _foreach_exp_ as _foreach_exp_
from flambeau.tensor.functions_foreach import _foreach_lerp as _foreach_lerp
from flambeau.tensor.functions_foreach import _foreach_lerp_ as _foreach_lerp_
from flambeau.tensor.functions_foreach import _foreach_maximum as _foreach_maximum
from flambeau.tensor.functions_foreach import _foreach_maximum_ as _foreach_maximum_
from flambeau.tensor.functions_foreach import _foreach_minimum as _foreach_minimum
from flambeau.tensor.functions_foreach import _foreach_minimum_ as _foreach_minimum_
from flambeau.tensor.functions_foreach import _foreach_mul as _foreach_mul
from flambeau.tensor.functions_foreach import _foreach_mul_ as _foreach_mul_
from flambeau.tensor.functions_foreach import _foreach_neg as _foreach_neg
from flambeau.tensor.functions_foreach import _foreach_neg_ as _foreach_neg_
from flambeau.tensor.functions_foreach import _foreach_norm as _foreach_norm
from flambeau.tensor.functions_foreach import _foreach_pow as _foreach_pow
from flambeau.tensor.functions_foreach import _foreach_pow_ as _foreach_pow_
from flambeau.tensor.functions_foreach import _foreach_reciprocal as _foreach_reciprocal
from flambeau.tensor.functions_foreach import _foreach_reciprocal_ as _foreach_reciprocal_
from flambeau.tensor.functions_foreach import _foreach_rsqrt as _foreach_rsqrt
from flambeau.tensor.functions_foreach import _foreach_rsqrt_ as _foreach_rsqrt_
from flambeau.tensor.functions_foreach import _foreach_sign as _foreach_sign
from flambeau.tensor.functions_foreach import _foreach_sign_ as _foreach_sign_
from flambeau.tensor.functions_foreach import _foreach_sqrt as _foreach_sqrt
from flambeau.tensor.functions_foreach import _foreach_sqrt_ as _foreach_sqrt_
from flambeau.tensor.functions_foreach import _foreach_sub as _foreach_sub
from flambeau.tensor.functions_foreach import _foreach_sub_ as _foreach_sub_
from flambeau.tensor.functions_foreach import _foreach_zero_ as _foreach_zero_
from flambeau.tensor.functions_fourier import istft as istft
from flambeau.tensor.functions_fourier import stft as stft
from flambeau.tensor.functions_gamma import igamma as igamma
from flambeau.tensor.functions_gamma import igammac as igammac
from flambeau.tensor.functions_index import argwhere as argwhere
from flambeau.tensor.functions_index import bincount as bincount
from flambeau.tensor.functions_index import bucketize as bucketize
from flambeau.tensor.functions_index import diagonal_scatter as diagonal_scatter
from flambeau.tensor.functions_index import gather as gather
from flambeau.tensor.functions_index import histc as histc
from flambeau.tensor.functions_index import index_add as index_add
from flambeau.tensor.functions_index import index_copy as index_copy
from flambeau.tensor.functions_index import index_fill as index_fill
from flambeau.tensor.functions_index import index_put as index_put
from flambeau.tensor.functions_index import index_put_ as index_put_
from flambeau.tensor.functions_index import index_reduce as index_reduce
from flambeau.tensor.functions_index import index_select as index_select
from flambeau.tensor.functions_index import isin as isin
from flambeau.tensor.functions_index import masked_scatter as masked_scatter
from flambeau.tensor.functions_index import masked_select as masked_select
from flambeau.tensor.functions_index import nonzero as nonzero
from flambeau.tensor.functions_index import nonzero_static as nonzero_static
from flambeau.tensor.functions_index import put as put
from flambeau.tensor.functions_index import scatter as scatter
from flambeau.tensor.functions_index import scatter_add as scatter_add
from flambeau.tensor.functions_index import scatter_reduce as scatter_reduce
from flambeau.tensor.functions_index import searchsorted as searchsorted
from flambeau.tensor.functions_index import select_scatter as select_scatter
from flambeau.tensor.functions_index import slice_scatter as slice_scatter
from flambeau.tensor.functions_index import take as take
from flambeau.tensor.functions_index import take_along_dim as take_along_dim
from flambeau.tensor.functions_index import unique as unique
from flambeau.tensor.functions_index import unique_consecutive as unique_consecutive
from flambeau.tensor.functions_index import unravel_index as unravel_index
from flambeau.tensor.functions_index import where as where
from flambeau.tensor.functions_inplace import abs_ as abs_
from flambeau.tensor.functions_inplace import acos_ as acos_
from flambeau.tensor.functions_inplace import acosh_ as acosh_
from flambeau.tensor.functions_inplace import addmv_ as addmv_
from flambeau.tensor.functions_inplace import arccos_ as arccos_
from flambeau.tensor.functions_inplace import arccosh_ as arccosh_
from flambeau.tensor.functions_inplace import arcsin_ as arcsin_
from flambeau.tensor.functions_inplace import arcsinh_ as arcsinh_
from flambeau.tensor.functions_inplace import arctan_ as arctan_
from flambeau.tensor.functions_inplace import arctanh_ as arctanh_
from flambeau.tensor.functions_inplace import as_strided_ as as_strided_
from flambeau.tensor.functions_inplace import asin_ as asin_
from flambeau.tensor.functions_inplace import asinh_ as asinh_
from flambeau.tensor.functions_inplace import atan_ as atan_
from flambeau.tensor.functions_inplace import atanh_ as atanh_
from flambeau.tensor.functions_inplace import ceil_ as ceil_
from flambeau.tensor.functions_inplace import clamp_ as clamp_
from flambeau.tensor.functions_inplace import clamp_max_ as clamp_max_
from flambeau.tensor.functions_inplace import clamp_min_ as clamp_min_
from flambeau.tensor.functions_inplace import clip_ as clip_
from flambeau.tensor.functions_inplace import conj_physical_ as conj_physical_
from flambeau.tensor.functions_inplace import cos_ as cos_
from flambeau.tensor.functions_inplace import cosh_ as cosh_
from flambeau.tensor.functions_inplace import deg2rad_ as deg2rad_
from flambeau.tensor.functions_inplace import detach_ as detach_
from flambeau.tensor.functions_inplace import erf_ as erf_
from flambeau.tensor.functions_inplace import erfc_ as erfc_
from flambeau.tensor.functions_inplace import exp2_ as exp2_
from flambeau.tensor.functions_inplace import exp_ as exp_
from flambeau.tensor.functions_inplace import expm1_ as expm1_
from flambeau.tensor.functions_inplace import fix_ as fix_
from flambeau.tensor.functions_inplace import floor_ as floor_
from flambeau.tensor.functions_inplace import frac_ as frac_
from flambeau.tensor.functions_inplace import gcd_ as gcd_
from flambeau.tensor.functions_inplace import i0_ as i0_
from flambeau.tensor.functions_inplace import lcm_ as lcm_
from flambeau.tensor.functions_inplace import ldexp_ as ldexp_
from flambeau.tensor.functions_inplace import log1p_ as log1p_
from flambeau.tensor.functions_inplace import log2_ as log2_
from flambeau.tensor.functions_inplace import log10_ as log10_
from flambeau.tensor.functions_inplace import log_ as log_
from flambeau.tensor.functions_inplace import logit_ as logit_
from flambeau.tensor.functions_inplace import nan_to_num_ as nan_to_num_
from flambeau.tensor.functions_inplace import neg_ as neg_
from flambeau.tensor.functions_inplace import negative_ as negative_
from flambeau.tensor.functions_inplace import rad2deg_ as rad2deg_
from flambeau.tensor.functions_inplace import reciprocal_ as reciprocal_
from flambeau.tensor.functions_inplace import relu_ as relu_
from flambeau.tensor.functions_inplace import round_ as round_
from flambeau.tensor.functions_inplace import rsqrt_ as rsqrt_
from flambeau.tensor.functions_inplace import sigmoid_ as sigmoid_
from flambeau.tensor.functions_inplace import sin_ as sin_
from flambeau.tensor.functions_inplace import sinc_ as sinc_
from flambeau.tensor.functions_inplace import sinh_ as sinh_
from flambeau.tensor.functions_inplace import sqrt_ as sqrt_
from flambeau.tensor.functions_inplace import square_ as square_
from flambeau.tensor.functions_inplace import tan_ as tan_
from flambeau.tensor.functions_inplace import tanh_ as tanh_
from flambeau.tensor.functions_inplace import trunc_ as trunc_
from flambeau.tensor.functions_inplace import xlogy_ as xlogy_
from flambeau.tensor.functions_linear import addbmm as addbmm
from flambeau.tensor.functions_linear import addmm as addmm
from flambeau.tensor.functions_linear import addmv as addmv
from flambeau.tensor.functions_linear import addr as addr
from flambeau.tensor.functions_linear import baddbmm as baddbmm
from flambeau.tensor.functions_linear import bilinear as bilinear
from flambeau.tensor.functions_linear import bmm as bmm
from flambeau.tensor.functions_linear import chain_matmul as chain_matmul
from flambeau.tensor.functions_linear import cross as cross
from flambeau.tensor.functions_linear import dot as dot
from flambeau.tensor.functions_linear import einsum as einsum
from flambeau.tensor.functions_linear import ger as ger
from flambeau.tensor.functions_linear import inner as inner
from flambeau.tensor.functions_linear import kron as kron
from flambeau.tensor.functions_linear import matmul as matmul
from flambeau.tensor.functions_linear import matrix_power as matrix_power
from flambeau.tensor.functions_linear import mm as mm
from flambeau.tensor.functions_linear import mv as mv
from flambeau.tensor.functions_linear import outer as outer
from flambeau.tensor.functions_linear import spmm as spmm
from flambeau.tensor.functions_linear import tensordot as tensordot
from flambeau.tensor.functions_linear import vdot as vdot
from flambeau.tensor.functions_math import cdist as cdist
from flambeau.tensor.functions_math import constant_pad_nd as constant_pad_nd
from flambeau.tensor.functions_math import corrcoef as corrcoef
from flambeau.tensor.functions_math import cov as cov
from flambeau.tensor.functions_math import cumulative_trapezoid as cumulative_trapezoid
from flambeau.tensor.functions_math import dist as dist
from flambeau.tensor.functions_math import fill as fill
from flambeau.tensor.functions_math import fill_ as fill_
from flambeau.tensor.functions_math import gradient as gradient
from flambeau.tensor.functions_math import histogram as histogram
from flambeau.tensor.functions_math import histogramdd as histogramdd
from flambeau.tensor.functions_math import nanmedian as nanmedian
from flambeau.tensor.functions_math import nanquantile as nanquantile
from flambeau.tensor.functions_math import quantile as quantile
from flambeau.tensor.functions_math import renorm as renorm
from flambeau.tensor.functions_math import resize_as_ as resize_as_
from flambeau.tensor.functions_math import trapezoid as trapezoid
from flambeau.tensor.functions_math import trapz as trapz
from flambeau.tensor.functions_math import vander as vander
from flambeau.tensor.functions_math import zero_ as zero_
from flambeau.tensor.functions_nn import alpha_dropout as alpha_dropout
from flambeau.tensor.functions_nn import celu as celu
from flambeau.tensor.functions_nn import channel_shuffle as channel_shuffle
from flambeau.tensor.functions_nn import cosine_similarity as cosine_similarity
from flambeau.tensor.functions_nn import dropout as dropout
from flambeau.tensor.functions_nn import dropout_ as dropout_
from flambeau.tensor.functions_nn import embedding as embedding
from flambeau.tensor.functions_nn import feature_dropout as feature_dropout
from flambeau.tensor.functions_nn import grid_sampler as grid_sampler
from flambeau.tensor.functions_nn import grid_sampler_2d as grid_sampler_2d
from flambeau.tensor.functions_nn import grid_sampler_3d as grid_sampler_3d
from flambeau.tensor.functions_nn import group_norm as group_norm
from flambeau.tensor.functions_nn import hardshrink as hardshrink
from flambeau.tensor.functions_nn import layer_norm as layer_norm
from flambeau.tensor.functions_nn import native_batch_norm as native_batch_norm
from flambeau.tensor.functions_nn import native_group_norm as native_group_norm
from flambeau.tensor.functions_nn import native_layer_norm as native_layer_norm
from flambeau.tensor.functions_nn import pairwise_distance as pairwise_distance
from flambeau.tensor.functions_nn import pixel_shuffle as pixel_shuffle
from flambeau.tensor.functions_nn import pixel_unshuffle as pixel_unshuffle
from flambeau.tensor.functions_nn import prelu as prelu
from flambeau.tensor.functions_nn import rms_norm as rms_norm
from flambeau.tensor.functions_nn import selu as selu
from flambeau.tensor.functions_nn import threshold as threshold
from flambeau.tensor.functions_nn import threshold_ as threshold_
from flambeau.tensor.functions_pointwise import abs as abs
from flambeau.tensor.functions_pointwise import absolute as absolute
from flambeau.tensor.functions_pointwise import acos as acos
from flambeau.tensor.functions_pointwise import acosh as acosh
from flambeau.tensor.functions_pointwise import add as add
from flambeau.tensor.functions_pointwise import addcdiv as addcdiv
from flambeau.tensor.functions_pointwise import addcmul as addcmul
from flambeau.tensor.functions_pointwise import arccos as arccos
from flambeau.tensor.functions_pointwise import arccosh as arccosh
from flambeau.tensor.functions_pointwise import arcsin as arcsin
from flambeau.tensor.functions_pointwise import arcsinh as arcsinh
from flambeau.tensor.functions_pointwise import arctan as arctan
from flambeau.tensor.functions_pointwise import arctan2 as arctan2
from flambeau.tensor.functions_pointwise import arctanh as arctanh
from flambeau.tensor.functions_pointwise import asin as asin
from flambeau.tensor.functions_pointwise import asinh as asinh
from flambeau.tensor.functions_pointwise import atan as atan
from flambeau.tensor.functions_pointwise import atan2 as atan2
from flambeau.tensor.functions_pointwise import atanh as atanh
from flambeau.tensor.functions_pointwise import bitwise_and as bitwise_and
from flambeau.tensor.functions_pointwise import bitwise_left_shift as bitwise_left_shift
from flambeau.tensor.functions_pointwise import bitwise_not as bitwise_not
from flambeau.tensor.functions_pointwise import bitwise_or as bitwise_or
from flambeau.tensor.functions_pointwise import bitwise_right_shift as bitwise_right_shift
from flambeau.tensor.functions_pointwise import bitwise_xor as bitwise_xor
from flambeau.tensor.functions_pointwise import ceil as ceil
from flambeau.tensor.functions_pointwise import clamp as clamp
from flambeau.tensor.functions_pointwise import clamp_max as clamp_max
from flambeau.tensor.functions_pointwise import clamp_min as clamp_min
from flambeau.tensor.functions_pointwise import clip as clip
from flambeau.tensor.functions_pointwise import copysign as copysign
from flambeau.tensor.functions_pointwise import cos as cos
from flambeau.tensor.functions_pointwise import cosh as cosh
from flambeau.tensor.functions_pointwise import deg2rad as deg2rad
from flambeau.tensor.functions_pointwise import digamma as digamma
from flambeau.tensor.functions_pointwise import div as div
from flambeau.tensor.functions_pointwise import divide as divide
from flambeau.tensor.functions_pointwise import eq as eq
from flambeau.tensor.functions_pointwise import erf as erf
from flambeau.tensor.functions_pointwise import erfc as erfc
from flambeau.tensor.functions_pointwise import erfinv as erfinv
from flambeau.tensor.functions_pointwise import exp as exp
from flambeau.tensor.functions_pointwise import exp2 as exp2
from flambeau.tensor.functions_pointwise import expm1 as expm1
from flambeau.tensor.functions_pointwise import fix as fix
from flambeau.tensor.functions_pointwise import float_power as float_power
from flambeau.tensor.functions_pointwise import floor as floor
from flambeau.tensor.functions_pointwise import floor_divide as floor_divide
from flambeau.tensor.functions_pointwise import fmax as fmax
from flambeau.tensor.functions_pointwise import fmin as fmin
from flambeau.tensor.functions_pointwise import fmod as fmod
from flambeau.tensor.functions_pointwise import frac as frac
from flambeau.tensor.functions_pointwise import frexp as frexp
from flambeau.tensor.functions_pointwise import gcd as gcd
from flambeau.tensor.functions_pointwise import ge as ge
from flambeau.tensor.functions_pointwise import greater as greater
from flambeau.tensor.functions_pointwise import greater_equal as greater_equal
from flambeau.tensor.functions_pointwise import gt as gt
from flambeau.tensor.functions_pointwise import heaviside as heaviside
from flambeau.tensor.functions_pointwise import hypot as hypot
from flambeau.tensor.functions_pointwise import i0 as i0
from flambeau.tensor.functions_pointwise import isclose as isclose
from flambeau.tensor.functions_pointwise import isfinite as isfinite
from flambeau.tensor.functions_pointwise import isinf as isinf
from flambeau.tensor.functions_pointwise import isnan as isnan
from flambeau.tensor.functions_pointwise import isneginf as isneginf
from flambeau.tensor.functions_pointwise import isposinf as isposinf
from flambeau.tensor.functions_pointwise import lcm as lcm
from flambeau.tensor.functions_pointwise import ldexp as ldexp
from flambeau.tensor.functions_pointwise import le as le
from flambeau.tensor.functions_pointwise import lerp as lerp
from flambeau.tensor.functions_pointwise import less as less
from flambeau.tensor.functions_pointwise import less_equal as less_equal
from flambeau.tensor.functions_pointwise import lgamma as lgamma
from flambeau.tensor.functions_pointwise import log as log
from flambeau.tensor.functions_pointwise import log1p as log1p
from flambeau.tensor.functions_pointwise import log2 as log2
from flambeau.tensor.functions_pointwise import log10 as log10
from flambeau.tensor.functions_pointwise import logaddexp as logaddexp
from flambeau.tensor.functions_pointwise import logaddexp2 as logaddexp2
from flambeau.tensor.functions_pointwise import logical_and as logical_and
from flambeau.tensor.functions_pointwise import logical_not as logical_not
from flambeau.tensor.functions_pointwise import logical_or as logical_or
from flambeau.tensor.functions_pointwise import logical_xor as logical_xor
from flambeau.tensor.functions_pointwise import logit as logit
from flambeau.tensor.functions_pointwise import lt as lt
from flambeau.tensor.functions_pointwise import masked_fill as masked_fill
from flambeau.tensor.functions_pointwise import maximum as maximum
from flambeau.tensor.functions_pointwise import minimum as minimum
from flambeau.tensor.functions_pointwise import mul as mul
from flambeau.tensor.functions_pointwise import multiply as multiply
from flambeau.tensor.functions_pointwise import mvlgamma as mvlgamma
from flambeau.tensor.functions_pointwise import nan_to_num as nan_to_num
from flambeau.tensor.functions_pointwise import ne as ne
from flambeau.tensor.functions_pointwise import neg as neg
from flambeau.tensor.functions_pointwise import negative as negative
from flambeau.tensor.functions_pointwise import nextafter as nextafter
from flambeau.tensor.functions_pointwise import not_equal as not_equal
from flambeau.tensor.functions_pointwise import polygamma as polygamma
from flambeau.tensor.functions_pointwise import positive as positive
from flambeau.tensor.functions_pointwise import pow as pow
from flambeau.tensor.functions_pointwise import rad2deg as rad2deg
from flambeau.tensor.functions_pointwise import reciprocal as reciprocal
from flambeau.tensor.functions_pointwise import relu as relu
from flambeau.tensor.functions_pointwise import remainder as remainder
from flambeau.tensor.functions_pointwise import round as round
from flambeau.tensor.functions_pointwise import rsqrt as rsqrt
from flambeau.tensor.functions_pointwise import rsub as rsub
from flambeau.tensor.functions_pointwise import sigmoid as sigmoid
from flambeau.tensor.functions_pointwise import sign as sign
from flambeau.tensor.functions_pointwise import signbit as signbit
from flambeau.tensor.functions_pointwise import sin as sin
from flambeau.tensor.functions_pointwise import sinc as sinc
from flambeau.tensor.functions_pointwise import sinh as sinh
from flambeau.tensor.functions_pointwise import sqrt as sqrt
from flambeau.tensor.functions_pointwise import square as square
from flambeau.tensor.functions_pointwise import sub as sub
from flambeau.tensor.functions_pointwise import subtract as subtract
from flambeau.tensor.functions_pointwise import tan as tan
from flambeau.tensor.functions_pointwise import tanh as tanh
from flambeau.tensor.functions_pointwise import true_divide as true_divide
from flambeau.tensor.functions_pointwise import trunc as trunc
from flambeau.tensor.functions_pointwise import xlogy as xlogy
from flambeau.tensor.functions_random import Generator as Generator
from flambeau.tensor.functions_random import bernoulli as bernoulli
from flambeau.tensor.functions_random import get_rng_state as get_rng_state
from flambeau.tensor.functions_random import initial_seed as initial_seed
from flambeau.tensor.functions_random import manual_seed as manual_seed
from flambeau.tensor.functions_random import multinomial as multinomial
from flambeau.tensor.functions_random import normal as normal
from flambeau.tensor.functions_random import rand as rand
from flambeau.tensor.functions_random import rand_like as rand_like
from flambeau.tensor.functions_random import randint as randint
from flambeau.tensor.functions_random import randint_like as randint_like
from flambeau.tensor.functions_random import randn as randn
from flambeau.tensor.functions_random import randn_like as randn_like
from flambeau.tensor.functions_random import randperm as randperm
from flambeau.tensor.functions_random import seed as seed
from flambeau.tensor.functions_random import set_rng_state as set_rng_state
from flambeau.tensor.functions_reduce import all as all
from flambeau.tensor.functions_reduce import allclose as allclose
from flambeau.tensor.functions_reduce import amax as amax
from flambeau.tensor.functions_reduce import amin as amin
from flambeau.tensor.functions_reduce import aminmax as aminmax
from flambeau.tensor.functions_reduce import any as any
from flambeau.tensor.functions_reduce import argmax as argmax
from flambeau.tensor.functions_reduce import argmin as argmin
from flambeau.tensor.functions_reduce import argsort as argsort
from flambeau.tensor.functions_reduce import count_nonzero as count_nonzero
from flambeau.tensor.functions_reduce import cummax as cummax
from flambeau.tensor.functions_reduce import cummin as cummin
from flambeau.tensor.functions_reduce import cumprod as cumprod
from flambeau.tensor.functions_reduce import cumsum as cumsum
from flambeau.tensor.functions_reduce import diff as diff
from flambeau.tensor.functions_reduce import equal as equal
from flambeau.tensor.functions_reduce import frobenius_norm as frobenius_norm
from flambeau.tensor.functions_reduce import kthvalue as kthvalue
from flambeau.tensor.functions_reduce import log_softmax as log_softmax
from flambeau.tensor.functions_reduce import logcumsumexp as logcumsumexp
from flambeau.tensor.functions_reduce import logsumexp as logsumexp
from flambeau.tensor.functions_reduce import max as max
from flambeau.tensor.functions_reduce import mean as mean
from flambeau.tensor.functions_reduce import median as median
from flambeau.tensor.functions_reduce import min as min
from flambeau.tensor.functions_reduce import mode as mode
from flambeau.tensor.functions_reduce import msort as msort
from flambeau.tensor.functions_reduce import nanmean as nanmean
from flambeau.tensor.functions_reduce import nansum as nansum
from flambeau.tensor.functions_reduce import norm as norm
from flambeau.tensor.functions_reduce import nuclear_norm as nuclear_norm
from flambeau.tensor.functions_reduce import prod as prod
from flambeau.tensor.functions_reduce import softmax as softmax
from flambeau.tensor.functions_reduce import sort as sort
from flambeau.tensor.functions_reduce import std as std
from flambeau.tensor.functions_reduce import std_mean as std_mean
from flambeau.tensor.functions_reduce import sum as sum
from flambeau.tensor.functions_reduce import topk as topk
from flambeau.tensor.functions_reduce import var as var
from flambeau.tensor.functions_reduce import var_mean as var_mean
from flambeau.tensor.functions_sampling import _dirichlet_grad as _dirichlet_grad
from flambeau.tensor.functions_sampling import _sample_dirichlet as _sample_dirichlet
from flambeau.tensor.functions_sampling import _standard_gamma as _standard_gamma
from flambeau.tensor.functions_sampling import _standard_gamma_grad as _standard_gamma_grad
from flambeau.tensor.functions_sampling import binomial as binomial
from flambeau.tensor.functions_sampling import poisson as poisson
from flambeau.tensor.functions_shape import as_strided as as_strided
from flambeau.tensor.functions_shape import atleast_1d as atleast_1d
from flambeau.tensor.functions_shape import atleast_2d as atleast_2d
from flambeau.tensor.functions_shape import atleast_3d as atleast_3d
from flambeau.tensor.functions_shape import block_diag as block_diag
from flambeau.tensor.functions_shape import broadcast_shapes as broadcast_shapes
from flambeau.tensor.functions_shape import broadcast_tensors as broadcast_tensors
from flambeau.tensor.functions_shape import broadcast_to as broadcast_to
from flambeau.tensor.functions_shape import cartesian_prod as cartesian_prod
from flambeau.tensor.functions_shape import cat as cat
from flambeau.tensor.functions_shape import chunk as chunk
from flambeau.tensor.functions_shape import clone as clone
from flambeau.tensor.functions_shape import column_stack as column_stack
from flambeau.tensor.functions_shape import combinations as combinations
from flambeau.tensor.functions_shape import concat as concat
from flambeau.tensor.functions_shape import concatenate as concatenate
from flambeau.tensor.functions_shape import detach as detach
from flambeau.tensor.functions_shape import diag as diag
from flambeau.tensor.functions_shape import diag_embed as diag_embed
from flambeau.tensor.functions_shape import diagflat as diagflat
from flambeau.tensor.functions_shape import diagonal as diagonal
from flambeau.tensor.functions_shape import dsplit as dsplit
from flambeau.tensor.functions_shape import dstack as dstack
from flambeau.tensor.functions_shape import flatten as flatten
from flambeau.tensor.functions_shape import flip as flip
from flambeau.tensor.functions_shape import fliplr as fliplr
from flambeau.tensor.functions_shape import flipud as flipud
from flambeau.tensor.functions_shape import hsplit as hsplit
from flambeau.tensor.functions_shape import hstack as hstack
from flambeau.tensor.functions_shape import meshgrid as meshgrid
from flambeau.tensor.functions_shape import moveaxis as moveaxis
from flambeau.tensor.functions_shape import movedim as movedim
from flambeau.tensor.functions_shape import narrow as narrow
from flambeau.tensor.functions_shape import permute as permute
from flambeau.tensor.functions_shape import ravel as ravel
from flambeau.tensor.functions_shape import repeat_interleave as repeat_interleave
from flambeau.tensor.functions_shape import reshape as reshape
from flambeau.tensor.functions_shape import roll as roll
from flambeau.tensor.functions_shape import rot90 as rot90
from flambeau.tensor.functions_shape import row_stack as row_stack
from flambeau.tensor.functions_shape import select as select
from flambeau.tensor.functions_shape import split as split
from flambeau.tensor.functions_shape import split_with_sizes as split_with_sizes
from flambeau.tensor.functions_shape import squeeze as squeeze
from flambeau.tensor.functions_shape import stack as stack
from flambeau.tensor.functions_shape import swapaxes as swapaxes
from flambeau.tensor.functions_shape import swapdims as swapdims
from flambeau.tensor.functions_shape import t as t
from flambeau.tensor.functions_shape import tensor_split as tensor_split
from flambeau.tensor.functions_shape import tile as tile
from flambeau.tensor.functions_shape import trace as trace
from flambeau.tensor.functions_shape import transpose as transpose
from flambeau.tensor.functions_shape import tril as tril
from flambeau.tensor.functions_shape import triu as triu
from flambeau.tensor.functions_shape import unbind as unbind
from flambeau.tensor.functions_shape import unflatten as unflatten
from flambeau.tensor.functions_shape import unsafe_chunk as unsafe_chunk
from flambeau.tensor.functions_shape import unsafe_split as unsafe_split
from flambeau.tensor.functions_shape import unsafe_split_with_sizes as unsafe_split_with_sizes
from flambeau.tensor.functions_shape import unsqueeze as unsqueeze
from flambeau.tensor.functions_shape import vsplit as vsplit
from flambeau.tensor.functions_shape import vstack as vstack
from flambeau.tensor.functions_windows import bartlett_window as bartlett_window
from flambeau.tensor.functions_windows import blackman_window as blackman_window
from flambeau.tensor.functions_windows import hamming_window as hamming_window
from flambeau.tensor.functions_windows import hann_window as hann_window
from flambeau.tensor.functions_windows import kaiser_window as kaiser_window
from flambeau.tensor.grad_mode import enable_grad as enable_grad
from flambeau.tensor.grad_mode import inference_mode as inference_mode
from flambeau.tensor.grad_mode import is_grad_enabled as is_grad_enabled
from flambeau.tensor.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from flambeau.tensor.grad_mode import no_grad as no_grad
from flambeau.tensor.grad_mode import set_grad_enabled as set_grad_enabled
from flambeau.tensor.printing import get_printoptions as get_printoptions
from flambeau.tensor.printing import printoptions as printoptions
from flambeau.tensor.printing import set_printoptions as set_printoptions
from flambeau.tensor.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from flambeau.tensor.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from flambeau.tensor.settings import get_float32_matmul_precision as get_float32_matmul_precision
from flambeau.tensor.settings import get_num_interop_threads as get_num_interop_threads
from flambeau.tensor.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from flambeau.tensor.settings import is_warn_always_enabled as is_warn_always_enabled
from flambeau.tensor.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from flambeau.tensor.settings import set_float32_matmul_precision as set_float32_matmul_precision
from flambeau.tensor.settings import set_flush_denormal as set_flush_denormal
from flambeau.tensor.settings import set_num_interop_threads as set_num_interop_threads
from flambeau.tensor.settings import set_warn_always as set_warn_always
from flambeau.tensor.settings import use_deterministic_algorithms as use_deterministic_algorithms
from flambeau.tensor.storage_view import UntypedStorage as UntypedStorage
from flambeau.tensor.symbolic_numbers import SymBool as SymBool
from flambeau.tensor.symbolic_numbers import SymFloat as SymFloat
from flambeau.tensor.symbolic_numbers import SymInt as SymInt
from flambeau.tensor.symbolic_numbers import sym_float as sym_float
from flambeau.tensor.symbolic_numbers import sym_int as sym_int
from flambeau.tensor.symbolic_numbers import sym_ite as sym_ite
from flambeau.tensor.symbolic_numbers import sym_max as sym_max
from flambeau.tensor.symbolic_numbers import sym_min as sym_min
from flambeau.tensor.symbolic_numbers import sym_not as sym_not
from flambeau.tensor.symbolic_numbers import sym_sqrt as sym_sqrt
from flambeau.tensor.symbolic_numbers import sym_sum as sym_sum
from flambeau.tensor.tensor_class import Tensor as Tensor
from flambeau.tensor.type_info import can_cast as can_cast
from flambeau.tensor.type_info import finfo as finfo
from flambeau.tensor.type_info import get_default_device as get_default_device
from flambeau.tensor.type_info import get_default_dtype as get_default_dtype
from flambeau.tensor.type_info import get_device as get_device
from flambeau.tensor.type_info import iinfo as iinfo
from flambeau.tensor.type_info import is_complex as is_complex
from flambeau.tensor.type_info import is_distributed as is_distributed
from flambeau.tensor.type_info import is_floating_point as is_floating_point
from flambeau.tensor.type_info import is_inference as is_inference
from flambeau.tensor.type_info import is_nonzero as is_nonzero
from flambeau.tensor.type_info import is_same_size as is_same_size
from flambeau.tensor.type_info import is_signed as is_signed
from flambeau.tensor.type_info import is_storage as is_storage
from flambeau.tensor.type_info import is_tensor as is_tensor
from flambeau.tensor.type_info import is_vulkan_available as is_vulkan_available
from flambeau.tensor.type_info import numel as numel
from flambeau.tensor.type_info import promote_types as promote_types
from flambeau.tensor.type_info import result_type as result_type
from flambeau.tensor.type_info import set_default_device as set_default_device
from flambeau.tensor.type_info import set_default_dtype as set_default_dtype
from flambeau.tensor.type_info import typename as typename
from flambeau.tensor.typed_tensors import BFloat16Tensor as BFloat16Tensor
from flambeau.tensor.typed_tensors import BoolTensor as BoolTensor
from flambeau.tensor.typed_tensors import ByteTensor as ByteTensor
from flambeau.tensor.typed_tensors import CharTensor as CharTensor
from flambeau.tensor.typed_tensors import DoubleTensor as DoubleTensor
from flambeau.tensor.typed_tensors import FloatTensor as FloatTensor
from flambeau.tensor.typed_tensors import HalfTensor as HalfTensor
from flambeau.tensor.typed_tensors import IntTensor as IntTensor
from flambeau.tensor.typed_tensors import LongTensor as LongTensor
from flambeau.tensor.typed_tensors import ShortTensor as ShortTensor
from flambeau.tensor.typed_tensors import set_default_tensor_type as set_default_tensor_type
from flambeau.version import __version__ as __version__

if TYPE_CHECKING:
    from flambeau import compiler as compiler
    from flambeau import nn as nn
    from flambeau import optim as optim
    from flambeau import utils as utils

inf = math.inf
nan = math.nan
pi = math.pi
e = math.e
newaxis = None
# What factors matrices, transforms signals and runs in parallel is our own, or OpenBLAS.
has_lapack = has_spectral = True
has_mkl = has_openmp = False

# Parts that many programs do without, loaded at first use: name, the module, and what in it (None: the module itself).
_LAZY = {
    "nn": ("flambeau.nn", None),
    "optim": ("flambeau.optim", None),
    "utils": ("flambeau.utils", None),
    "compiler": ("flambeau.compiler", None),
    "compile": ("flambeau.compiler", "compile"),
    "cuda": ("flambeau.cuda", None),
    "func": ("flambeau.func", None),
    "vmap": ("flambeau.func", "vmap"),
    "sparse": ("flambeau.sparse", None),
    "nested": ("flambeau.nested", None),
    "sparse_coo_tensor": ("flambeau.sparse", "sparse_coo_tensor"),
    "sparse_csr_tensor": ("flambeau.sparse", "sparse_csr_tensor"),
    "spmm": ("flambeau.sparse", "mm"),
    "smm": ("flambeau.sparse", "mm"),
    "linalg": ("flambeau.linalg", None),
    "fft": ("flambeau.fft", None),
    "special": ("flambeau.special", None),
    "signal": ("flambeau.signal", None),
    "testing": ("flambeau.testing", None),
    "amp": ("flambeau.amp", None),
    "cpu": ("flambeau.cpu", None),
    "autocast": ("flambeau.amp", "autocast"),
    "is_autocast_enabled": ("flambeau.amp.autocast_mode", "is_autocast_enabled"),
    "set_autocast_enabled": ("flambeau.amp.autocast_mode", "set_autocast_enabled"),
    "get_autocast_dtype": ("flambeau.amp.autocast_mode", "get_autocast_dtype"),
    "set_autocast_dtype": ("flambeau.amp.autocast_mode", "set_autocast_dtype"),
    "is_autocast_cpu_enabled": ("flambeau.amp.autocast_mode", "is_autocast_cpu_enabled"),
    "set_autocast_cpu_enabled": ("flambeau.amp.autocast_mode", "set_autocast_cpu_enabled"),
    "get_autocast_cpu_dtype": ("flambeau.amp.autocast_mode", "get_autocast_cpu_dtype"),
    "set_autocast_cpu_dtype": ("flambeau.amp.autocast_mode", "set_autocast_cpu_dtype"),
    "get_autocast_gpu_dtype": ("flambeau.amp.autocast_mode", "get_autocast_gpu_dtype"),
    "set_autocast_gpu_dtype": ("flambeau.amp.autocast_mode", "set_autocast_gpu_dtype"),
    "is_autocast_cache_enabled": ("flambeau.amp.autocast_mode", "is_autocast_cache_enabled"),
    "set_autocast_cache_enabled": ("flambeau.amp.autocast_mode", "set_autocast_cache_enabled"),
    "clear_autocast_cache": ("flambeau.amp.autocast_mode", "clear_autocast_cache"),
    "distributions": ("flambeau.distributions", None),
    "profiler": ("flambeau.profiler", None),
    "multiprocessing": ("flambeau.multiprocessing", None),
    "accelerator": ("flambeau.accelerator", None),
    "futures": ("flambeau.futures", None),
    "backends": ("flambeau.backends", None),
    "random": ("flambeau.random", None),
    "onnx": ("flambeau.onnx", None),
    "overrides": ("flambeau.overrides", None),
    "_C": ("flambeau._C", None),
    "_higher_order_ops": ("flambeau._higher_order_ops", None),
    "cond": ("flambeau._higher_order_ops", "cond"),
    "while_loop": ("flambeau._higher_order_ops", "while_loop"),
    "_dynamo": ("flambeau._dynamo", None),
    "distributed": ("flambeau.distributed", None),
    "_inductor": ("flambeau._inductor", None),
    "array_api": ("flambeau.array_api", None),
    "jit": ("flambeau.jit", None),
    "to_dlpack": ("flambeau.utils.dlpack", "to_dlpack"),
    "Future": ("flambeau.jit", "Future"),
    "fork": ("flambeau.jit", "fork"),
    "wait": ("flambeau.jit", "wait"),
    "OutOfMemoryError": ("flambeau.cuda", "OutOfMemoryError"),
    "hub": ("flambeau.hub", None),
    "library": ("flambeau.library", None),
    "version": ("flambeau.version", None),
    "serialization": ("flambeau.serialization", None),
    "save": ("flambeau.serialization", "save"),
    "load": ("flambeau.serialization", "load"),
    "conv1d": ("flambeau.nn.functional", "conv1d"),
    "conv2d": ("flambeau.nn.functional", "conv2d"),
    "conv3d": ("flambeau.nn.functional", "conv3d"),
    "conv_transpose1d": ("flambeau.nn.functional", "conv_transpose1d"),
    "conv_transpose2d": ("flambeau.nn.functional", "conv_transpose2d"),
    "conv_transpose3d": ("flambeau.nn.functional", "conv_transpose3d"),
    "adaptive_avg_pool1d": ("flambeau.nn.functional", "adaptive_avg_pool1d"),
    "adaptive_max_pool1d": ("flambeau.nn.functional.torch_forms", "adaptive_max_pool1d"),
    "affine_grid_generator": ("flambeau.nn.functional.torch_forms", "affine_grid_generator"),
    "alpha_dropout_": ("flambeau.nn.functional.torch_forms", "alpha_dropout_"),
    "avg_pool1d": ("flambeau.nn.functional.torch_forms", "avg_pool1d"),
    "batch_norm": ("flambeau.nn.functional.torch_forms", "batch_norm"),
    "binary_cross_entropy_with_logits": ("flambeau.nn.functional.torch_forms", "binary_cross_entropy_with_logits"),
    "celu_": ("flambeau.nn.functional.torch_forms", "celu_"),
    "conv_tbc": ("flambeau.nn.functional.torch_forms", "conv_tbc"),
    "convolution": ("flambeau.nn.functional.torch_forms", "convolution"),
    "cosine_embedding_loss": ("flambeau.nn.functional.torch_forms", "cosine_embedding_loss"),
    "ctc_loss": ("flambeau.nn.functional.torch_forms", "ctc_loss"),
    "embedding_bag": ("flambeau.nn.functional.torch_forms", "embedding_bag"),
    "embedding_renorm_": ("flambeau.nn.functional.torch_forms", "embedding_renorm_"),
    "feature_alpha_dropout": ("flambeau.nn.functional.torch_forms", "feature_alpha_dropout"),
    "feature_alpha_dropout_": ("flambeau.nn.functional.torch_forms", "feature_alpha_dropout_"),
    "feature_dropout_": ("flambeau.nn.functional.torch_forms", "feature_dropout_"),
    "hinge_embedding_loss": ("flambeau.nn.functional.torch_forms", "hinge_embedding_loss"),
    "instance_norm": ("flambeau.nn.functional.torch_forms", "instance_norm"),
    "kl_div": ("flambeau.nn.functional.torch_forms", "kl_div"),
    "margin_ranking_loss": ("flambeau.nn.functional.torch_forms", "margin_ranking_loss"),
    "max_pool1d": ("flambeau.nn.functional.torch_forms", "max_pool1d"),
    "max_pool2d": ("flambeau.nn.functional.torch_forms", "max_pool2d"),
    "max_pool3d": ("flambeau.nn.functional.torch_forms", "max_pool3d"),
    "native_dropout": ("flambeau.nn.functional.torch_forms", "native_dropout"),
    "norm_except_dim": ("flambeau.nn.functional.torch_forms", "norm_except_dim"),
    "poisson_nll_loss": ("flambeau.nn.functional.torch_forms", "poisson_nll_loss"),
    "rrelu": ("flambeau.nn.functional.torch_forms", "rrelu"),
    "rrelu_": ("flambeau.nn.functional.torch_forms", "rrelu_"),
    "selu_": ("flambeau.nn.functional.torch_forms", "selu_"),
    "triplet_margin_loss": ("flambeau.nn.functional.torch_forms", "triplet_margin_loss"),
    "gru": ("flambeau.nn.modules.rnn_functions", "gru"),
    "gru_cell": ("flambeau.nn.modules.rnn_functions", "gru_cell"),
    "lstm": ("flambeau.nn.modules.rnn_functions", "lstm"),
    "lstm_cell": ("flambeau.nn.modules.rnn_functions", "lstm_cell"),
    "rnn_relu": ("flambeau.nn.modules.rnn_functions", "rnn_relu"),
    "rnn_relu_cell": ("flambeau.nn.modules.rnn_functions", "rnn_relu_cell"),
    "rnn_tanh": ("flambeau.nn.modules.rnn_functions", "rnn_tanh"),
    "rnn_tanh_cell": ("flambeau.nn.modules.rnn_functions", "rnn_tanh_cell"),
    "pdist": ("flambeau.nn.functional", "pdist"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'flambeau' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module 'flambeau' has no attribute {name!r}: {module} is not there yet") from None
    value = found if attribute is None else getattr(found, attribute)
    globals()[name] = value
    return value


def _compile_when_called(*args: Any, **kwargs: Any) -> Any:
    return __getattr__("compile")(*args, **kwargs)


# Module.compile reaches the compiler through this until the compiler is loaded.
_compile_hook.set_compile_function(_compile_when_called)

_queries.set_sparse(lambda name: getattr(importlib.import_module("flambeau.sparse.tensor"), name))
_overriding.publish("torch", globals())
