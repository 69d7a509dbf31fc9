"""The Python array API standard, version 2024.12, on flambeau's tensors: names and arguments as the standard has them.

>>> import flambeau.array_api as xp
>>> xp.sum(xp.ones((2, 3)), axis=1)
tensor([3., 3.])
"""

from flambeau.array_api import fft as fft
from flambeau.array_api import linalg as linalg
from flambeau.array_api.array import floor_divide as floor_divide
from flambeau.array_api.array import remainder as remainder
from flambeau.array_api.creation import arange as arange
from flambeau.array_api.creation import asarray as asarray
from flambeau.array_api.creation import empty as empty
from flambeau.array_api.creation import empty_like as empty_like
from flambeau.array_api.creation import eye as eye
from flambeau.array_api.creation import from_dlpack as from_dlpack
from flambeau.array_api.creation import full as full
from flambeau.array_api.creation import full_like as full_like
from flambeau.array_api.creation import linspace as linspace
from flambeau.array_api.creation import meshgrid as meshgrid
from flambeau.array_api.creation import ones as ones
from flambeau.array_api.creation import ones_like as ones_like
from flambeau.array_api.creation import tril as tril
from flambeau.array_api.creation import triu as triu
from flambeau.array_api.creation import zeros as zeros
from flambeau.array_api.creation import zeros_like as zeros_like
from flambeau.array_api.elementwise import add as add
from flambeau.array_api.elementwise import atan2 as atan2
from flambeau.array_api.elementwise import bitwise_and as bitwise_and
from flambeau.array_api.elementwise import bitwise_left_shift as bitwise_left_shift
from flambeau.array_api.elementwise import bitwise_or as bitwise_or
from flambeau.array_api.elementwise import bitwise_right_shift as bitwise_right_shift
from flambeau.array_api.elementwise import bitwise_xor as bitwise_xor
from flambeau.array_api.elementwise import clip as clip
from flambeau.array_api.elementwise import copysign as copysign
from flambeau.array_api.elementwise import divide as divide
from flambeau.array_api.elementwise import equal as equal
from flambeau.array_api.elementwise import greater as greater
from flambeau.array_api.elementwise import greater_equal as greater_equal
from flambeau.array_api.elementwise import hypot as hypot
from flambeau.array_api.elementwise import less as less
from flambeau.array_api.elementwise import less_equal as less_equal
from flambeau.array_api.elementwise import logaddexp as logaddexp
from flambeau.array_api.elementwise import logical_and as logical_and
from flambeau.array_api.elementwise import logical_or as logical_or
from flambeau.array_api.elementwise import logical_xor as logical_xor
from flambeau.array_api.elementwise import maximum as maximum
from flambeau.array_api.elementwise import minimum as minimum
from flambeau.array_api.elementwise import multiply as multiply
from flambeau.array_api.elementwise import nextafter as nextafter
from flambeau.array_api.elementwise import not_equal as not_equal
from flambeau.array_api.elementwise import pow as pow
from flambeau.array_api.elementwise import round as round
from flambeau.array_api.elementwise import sign as sign
from flambeau.array_api.elementwise import subtract as subtract
from flambeau.array_api.elementwise import where as where
from flambeau.array_api.info import __array_namespace_info__ as __array_namespace_info__
from flambeau.array_api.info import astype as astype
from flambeau.array_api.info import can_cast as can_cast
from flambeau.array_api.info import finfo as finfo
from flambeau.array_api.info import iinfo as iinfo
from flambeau.array_api.info import isdtype as isdtype
from flambeau.array_api.info import result_type as result_type
from flambeau.array_api.linalg import matmul as matmul
from flambeau.array_api.linalg import matrix_transpose as matrix_transpose
from flambeau.array_api.linalg import tensordot as tensordot
from flambeau.array_api.linalg import vecdot as vecdot
from flambeau.array_api.shapes import broadcast_arrays as broadcast_arrays
from flambeau.array_api.shapes import broadcast_to as broadcast_to
from flambeau.array_api.shapes import concat as concat
from flambeau.array_api.shapes import diff as diff
from flambeau.array_api.shapes import expand_dims as expand_dims
from flambeau.array_api.shapes import flip as flip
from flambeau.array_api.shapes import moveaxis as moveaxis
from flambeau.array_api.shapes import permute_dims as permute_dims
from flambeau.array_api.shapes import repeat as repeat
from flambeau.array_api.shapes import reshape as reshape
from flambeau.array_api.shapes import roll as roll
from flambeau.array_api.shapes import squeeze as squeeze
from flambeau.array_api.shapes import stack as stack
from flambeau.array_api.shapes import take as take
from flambeau.array_api.shapes import take_along_axis as take_along_axis
from flambeau.array_api.shapes import tile as tile
from flambeau.array_api.shapes import unstack as unstack
from flambeau.array_api.statistics import all as all
from flambeau.array_api.statistics import any as any
from flambeau.array_api.statistics import argmax as argmax
from flambeau.array_api.statistics import argmin as argmin
from flambeau.array_api.statistics import argsort as argsort
from flambeau.array_api.statistics import count_nonzero as count_nonzero
from flambeau.array_api.statistics import cumulative_prod as cumulative_prod
from flambeau.array_api.statistics import cumulative_sum as cumulative_sum
from flambeau.array_api.statistics import max as max
from flambeau.array_api.statistics import mean as mean
from flambeau.array_api.statistics import min as min
from flambeau.array_api.statistics import nonzero as nonzero
from flambeau.array_api.statistics import prod as prod
from flambeau.array_api.statistics import searchsorted as searchsorted
from flambeau.array_api.statistics import sort as sort
from flambeau.array_api.statistics import std as std
from flambeau.array_api.statistics import sum as sum
from flambeau.array_api.statistics import unique_all as unique_all
from flambeau.array_api.statistics import unique_counts as unique_counts
from flambeau.array_api.statistics import unique_inverse as unique_inverse
from flambeau.array_api.statistics import unique_values as unique_values
from flambeau.array_api.statistics import var as var
from flambeau.core.dtypes import bool_ as bool  # noqa: F401 - the standard's name
from flambeau.core.dtypes import complex64 as complex64
from flambeau.core.dtypes import complex128 as complex128
from flambeau.core.dtypes import float32 as float32
from flambeau.core.dtypes import float64 as float64
from flambeau.core.dtypes import int8 as int8
from flambeau.core.dtypes import int16 as int16
from flambeau.core.dtypes import int32 as int32
from flambeau.core.dtypes import int64 as int64
from flambeau.core.dtypes import uint8 as uint8
from flambeau.tensor.functions_complex import conj as conj
from flambeau.tensor.functions_complex import imag as imag
from flambeau.tensor.functions_complex import real as real
from flambeau.tensor.functions_pointwise import abs as abs
from flambeau.tensor.functions_pointwise import acos as acos
from flambeau.tensor.functions_pointwise import acosh as acosh
from flambeau.tensor.functions_pointwise import asin as asin
from flambeau.tensor.functions_pointwise import asinh as asinh
from flambeau.tensor.functions_pointwise import atan as atan
from flambeau.tensor.functions_pointwise import atanh as atanh
from flambeau.tensor.functions_pointwise import bitwise_not as bitwise_invert  # noqa: F401 - the standard's name
from flambeau.tensor.functions_pointwise import ceil as ceil
from flambeau.tensor.functions_pointwise import cos as cos
from flambeau.tensor.functions_pointwise import cosh as cosh
from flambeau.tensor.functions_pointwise import exp as exp
from flambeau.tensor.functions_pointwise import expm1 as expm1
from flambeau.tensor.functions_pointwise import floor as floor
from flambeau.tensor.functions_pointwise import isfinite as isfinite
from flambeau.tensor.functions_pointwise import isinf as isinf
from flambeau.tensor.functions_pointwise import isnan as isnan
from flambeau.tensor.functions_pointwise import log as log
from flambeau.tensor.functions_pointwise import log1p as log1p
from flambeau.tensor.functions_pointwise import log2 as log2
from flambeau.tensor.functions_pointwise import log10 as log10
from flambeau.tensor.functions_pointwise import logical_not as logical_not
from flambeau.tensor.functions_pointwise import negative as negative
from flambeau.tensor.functions_pointwise import positive as positive
from flambeau.tensor.functions_pointwise import reciprocal as reciprocal
from flambeau.tensor.functions_pointwise import signbit as signbit
from flambeau.tensor.functions_pointwise import sin as sin
from flambeau.tensor.functions_pointwise import sinh as sinh
from flambeau.tensor.functions_pointwise import sqrt as sqrt
from flambeau.tensor.functions_pointwise import square as square
from flambeau.tensor.functions_pointwise import tan as tan
from flambeau.tensor.functions_pointwise import tanh as tanh
from flambeau.tensor.functions_pointwise import trunc as trunc

__array_api_version__ = "2024.12"

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793
