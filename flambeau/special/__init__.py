"""torch.special: special functions. Each takes tensors of any real type; integers become the default float type."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.special.polynomials import chebyshev_polynomial_t as chebyshev_polynomial_t
from flambeau.special.polynomials import chebyshev_polynomial_u as chebyshev_polynomial_u
from flambeau.special.polynomials import chebyshev_polynomial_v as chebyshev_polynomial_v
from flambeau.special.polynomials import chebyshev_polynomial_w as chebyshev_polynomial_w
from flambeau.special.polynomials import hermite_polynomial_h as hermite_polynomial_h
from flambeau.special.polynomials import hermite_polynomial_he as hermite_polynomial_he
from flambeau.special.polynomials import laguerre_polynomial_l as laguerre_polynomial_l
from flambeau.special.polynomials import legendre_polynomial_p as legendre_polynomial_p
from flambeau.special.polynomials import shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t
from flambeau.special.polynomials import shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u
from flambeau.special.polynomials import shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v
from flambeau.special.polynomials import shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w
from flambeau.tensor import overriding
from flambeau.tensor.arguments import need_some_tensor, write_out
from flambeau.tensor.functions_gamma import igamma as gammainc  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_gamma import igammac as gammaincc  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_pointwise import digamma as digamma
from flambeau.tensor.functions_pointwise import digamma as psi  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_pointwise import erf as erf
from flambeau.tensor.functions_pointwise import erfc as erfc
from flambeau.tensor.functions_pointwise import erfinv as erfinv
from flambeau.tensor.functions_pointwise import exp2 as exp2
from flambeau.tensor.functions_pointwise import expm1 as expm1
from flambeau.tensor.functions_pointwise import i0 as i0
from flambeau.tensor.functions_pointwise import lgamma as gammaln  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_pointwise import log1p as log1p
from flambeau.tensor.functions_pointwise import logit as logit
from flambeau.tensor.functions_pointwise import mvlgamma as multigammaln  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_pointwise import polygamma as polygamma
from flambeau.tensor.functions_pointwise import round as round
from flambeau.tensor.functions_pointwise import sigmoid as expit  # noqa: F401 - torch's name for it here
from flambeau.tensor.functions_pointwise import sinc as sinc
from flambeau.tensor.functions_pointwise import xlogy as xlogy
from flambeau.tensor.functions_reduce import log_softmax as log_softmax
from flambeau.tensor.functions_reduce import logsumexp as logsumexp
from flambeau.tensor.functions_reduce import softmax as softmax


def xlog1py(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * log1p(other); 0 where input is 0 and ``other`` is not NaN."""
    need_some_tensor("special_xlog1py", input, other)
    return ops.xlog1py(input, other) if out is None else write_out(out, ops.xlog1py(input, other))


def zeta(input: Any, other: Any, *, out: Any = None) -> Any:
    """Hurwitz' zeta function: the sum over k >= 0 of (other + k) ** -input. It has no derivative here."""
    need_some_tensor("special_zeta", input, other)
    return ops.zeta(input, other) if out is None else write_out(out, ops.zeta(input, other))


def entr(input: Any, *, out: Any = None) -> Any:
    """-input * log(input); 0 at 0, -inf below."""
    return ops.entr(input) if out is None else write_out(out, ops.entr(input))


def erfcx(input: Any, *, out: Any = None) -> Any:
    """exp(input ** 2) * erfc(input)."""
    return ops.erfcx(input) if out is None else write_out(out, ops.erfcx(input))


def i0e(input: Any, *, out: Any = None) -> Any:
    """exp(-|input|) times the modified Bessel function of the first kind, order 0."""
    return ops.i0e(input) if out is None else write_out(out, ops.i0e(input))


def i1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind, order 1."""
    return ops.i1(input) if out is None else write_out(out, ops.i1(input))


def i1e(input: Any, *, out: Any = None) -> Any:
    """exp(-|input|) times the modified Bessel function of the first kind, order 1."""
    return ops.i1e(input) if out is None else write_out(out, ops.i1e(input))


def log_ndtr(input: Any, *, out: Any = None) -> Any:
    """The logarithm of ndtr(input)."""
    return ops.log_ndtr(input) if out is None else write_out(out, ops.log_ndtr(input))


def ndtr(input: Any, *, out: Any = None) -> Any:
    """The area under the normal density up to input."""
    return ops.ndtr(input) if out is None else write_out(out, ops.ndtr(input))


def ndtri(input: Any, *, out: Any = None) -> Any:
    """The inverse of ndtr."""
    return ops.ndtri(input) if out is None else write_out(out, ops.ndtri(input))


def bessel_j0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind, order 0."""
    return ops.bessel_j0(input) if out is None else write_out(out, ops.bessel_j0(input))


def bessel_j1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind, order 1."""
    return ops.bessel_j1(input) if out is None else write_out(out, ops.bessel_j1(input))


def bessel_y0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind, order 0."""
    return ops.bessel_y0(input) if out is None else write_out(out, ops.bessel_y0(input))


def bessel_y1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind, order 1."""
    return ops.bessel_y1(input) if out is None else write_out(out, ops.bessel_y1(input))


def modified_bessel_k0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind, order 0."""
    return ops.modified_bessel_k0(input) if out is None else write_out(out, ops.modified_bessel_k0(input))


def modified_bessel_k1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind, order 1."""
    return ops.modified_bessel_k1(input) if out is None else write_out(out, ops.modified_bessel_k1(input))


def scaled_modified_bessel_k0(input: Any, *, out: Any = None) -> Any:
    """exp(input) times the modified Bessel function of the second kind, order 0."""
    return ops.scaled_modified_bessel_k0(input) if out is None else write_out(out, ops.scaled_modified_bessel_k0(input))


def scaled_modified_bessel_k1(input: Any, *, out: Any = None) -> Any:
    """exp(input) times the modified Bessel function of the second kind, order 1."""
    return ops.scaled_modified_bessel_k1(input) if out is None else write_out(out, ops.scaled_modified_bessel_k1(input))


def spherical_bessel_j0(input: Any, *, out: Any = None) -> Any:
    """sin(input) / input, 1 at 0."""
    return ops.spherical_bessel_j0(input) if out is None else write_out(out, ops.spherical_bessel_j0(input))


def modified_bessel_i0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    return ops.i0(input) if out is None else write_out(out, ops.i0(input))


def modified_bessel_i1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind, order 1."""
    return ops.i1(input) if out is None else write_out(out, ops.i1(input))


def airy_ai(input: Any, *, out: Any = None) -> Any:
    """Airy's function of the first kind. It has no derivative here."""
    return ops.airy_ai(input) if out is None else write_out(out, ops.airy_ai(input))

overriding.publish("torch.special", globals())
