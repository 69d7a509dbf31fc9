"""Autocast: which operators compute in a lower precision, which in float32, and which in the widest of their operands' types.

The tables are PyTorch's autocast operator reference, in the names of the operators here. Operators that are in none keep to the usual
promotion. Only floating operands on the device of the mode take part, and float64 never does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flambeau.core import dtypes
from flambeau.core.context import context
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import ALL, Operator
from flambeau.tensor.base import TensorBase

Function = TypeVar("Function", bound=Callable[..., Any])

_PRODUCTS = """
addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d einsum linear
matmul mm prelu rnn_relu_step rnn_tanh_step scaled_dot_product_attention
"""
_LOSSES = """
binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss huber_loss kl_div l1_loss
margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
triplet_margin_loss
"""
_LOWER = {"cpu": _PRODUCTS + "lstm_step tensordot vecdot", "cuda": _PRODUCTS + "addmv addr gru_step lstm_cell lstm_step mv"}
_FLOAT32 = {
    "cpu": _LOSSES + """
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cdist cholesky cholesky_ex cholesky_inverse cholesky_solve
        cond eig eigh eigvals eigvalsh fft_complex fft_hermitian fft_real fractional_max_pool geqrf grid_sample gru_step
        householder_product inverse inverse_ex lstm_cell lstsq lu lu_factor lu_factor_ex lu_solve matrix_rank max_pool3d max_unpool
        nanquantile ormqr pad pinv polar prod qr quantile solve solve_ex stft svd svdvals trace triangular_solve view_as_complex
    """,
    "cuda": _LOSSES + """
        acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm layer_norm log log10 log1p log2 log_softmax
        matrix_norm norm normalize pdist pow pow_static prod reciprocal renorm rsqrt sinh softmax softmin softplus sum tan
    """,
}  # fmt: skip
_WIDEST = {
    "cpu": "cat index_copy stack",
    "cuda": "addcdiv addcmul atan2 bilinear cat cross dot grid_sample index_copy index_put scatter_add stack tensordot",
}
_BANNED = {"cpu": "", "cuda": "binary_cross_entropy"}
_LISTS = (("lower", _LOWER), ("float32", _FLOAT32), ("widest", _WIDEST), ("banned", _BANNED))
POLICIES = {device: {name: policy for policy, lists in _LISTS for name in lists[device].split()} for device in ("cpu", "cuda")}


def cast_operands(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of an operator call as the modes of the thread want them."""
    for device, lower in context.autocast:
        policy = _policy(operator.name, device, args, kwargs)
        if policy is not None:
            args, kwargs = _cast_all(policy, device, lower, (args, kwargs))
    return args, kwargs


def _policy(name: str, device: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    policy = POLICIES[device].get(name)
    if policy == "banned" and any(_eligible(a, device) for a in args):
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Many models use a sigmoid layer right "
            "before the binary cross entropy layer: combine the two with binary_cross_entropy_with_logits or BCEWithLogitsLoss."
        )
    plain_pad = name == "pad" and "constant" in (*args[2:3], kwargs.get("mode", ""))
    return None if plain_pad or policy == "banned" else policy


def apply(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of several operators as one that stands in the tables under ``name``: its parts are not cast on their own."""
    before = context.autocast
    for device, lower in before:
        policy = POLICIES[device].get(name)
        if policy is not None:
            args, kwargs = _cast_all(policy, device, lower, (args, kwargs))
    context.autocast = ()
    try:
        return function(*args, **kwargs)
    finally:
        context.autocast = before


def as_one(function: Function) -> Function:
    """Decorate a function of several operators that stands in the tables by its own name."""

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        return apply(function.__name__, function, *args, **kwargs) if context.autocast else function(*args, **kwargs)

    return whole  # type: ignore[return-value]


def _eligible(value: Any, device: str) -> bool:
    """Whether autocast may change the type of an argument."""
    if not isinstance(value, TensorBase):
        return False
    kind = value.meta.dtype
    return kind.is_floating_point and kind is not dtypes.float64 and value.meta.device.type == device


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(part)]
    return [leaf for part in value.values() for leaf in _flat(part)] if isinstance(value, dict) else [value]


def _cast_all(policy: str, device: str, lower: dtype, value: Any) -> Any:
    target = dtypes.float32 if policy == "float32" else lower
    if policy == "widest" and any(_eligible(v, device) and v.meta.dtype is not lower for v in _flat(value)):
        target = dtypes.float32

    def cast(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: cast(v) for k, v in part.items()}
        if type(part) in (tuple, list):
            return type(part)(cast(v) for v in part)
        return _cast(part, target, lower) if _eligible(part, device) and part.meta.dtype is not target else part

    return cast(value)


def _cast(tensor: Any, target: dtype, lower: dtype) -> Any:
    """The tensor in another type; parameters in the lower one are kept until the mode ends, so that each is cast once."""
    cache = context.autocast_cache
    kept = context.capture is None and target is lower and tensor.is_leaf and tensor._requires_grad
    if cache is None or not kept or tensor.meta.dtype is not dtypes.float32 or tensor.view_of is not None:
        return ALL["to_dtype"](tensor, target)
    found = cache.get(id(tensor))
    if found is None or found[1] != (tensor.memory.version, context.grad_enabled):
        found = cache[id(tensor)] = (tensor, (tensor.memory.version, context.grad_enabled), ALL["to_dtype"](tensor, target))
    return found[2]
