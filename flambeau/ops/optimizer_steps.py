"""Optimizer steps over whole lists of parameters, and clipping of gradients; the arithmetic is torch's, in torch's order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.declare import Value, Values, op
from flambeau.ops.pointwise import converted, matched, require_float
from flambeau.ops.reduce import reduced

Nodes = list[Node]


def _exact(value: Node | float) -> Node:
    """A hyperparameter as a float64 scalar: what is derived from several is rounded once."""
    if not isinstance(value, Node):
        return p.constant(value, (), dtypes.float64)
    return converted(p.reshape(value, shape=()) if value.shape else value, dtypes.float64)


def _one_minus(value: Node | float) -> Node:
    value = _exact(value)
    return p.sub(p.number(1, value), value)


def _given(value: Node | float) -> bool:
    return isinstance(value, Node) or value != 0


def _wide(x: Node) -> Node:
    return converted(x, x.dtype.compute)


def _narrow(x: Node, like: Node) -> Node:
    return converted(x, like.dtype)


def _gradient(grad: Node, param: Node, weight_decay: Node | float, maximize: bool) -> Node:
    """The gradient to descend, with the penalty weight_decay * param / 2 * param included."""
    grad = matched(grad, param)
    grad = p.neg(grad) if maximize else grad
    if not _given(weight_decay):
        return grad
    return p.add(grad, p.mul(matched(_exact(weight_decay), param), param))


def _check_lists(operator: str, params: Sequence[Node], *others: Sequence[Node] | None) -> None:
    for other in others:
        if other is not None and len(other) != len(params):
            raise RuntimeError(f"{operator}: got {len(params)} parameters and a list of {len(other)}; every list needs one entry for each")


# -- gradient descent -----------------------------------------------------------------------------------
@op("general", mutates=("params", "momentum_buffers"), samples=s.sgd_step)
def sgd_step(
    params: Values, grads: Values, momentum_buffers: Values | None, lr: Value, weight_decay: Value | float = 0.0,
    momentum: Value | float = 0.0, dampening: Value | float = 0.0, nesterov: bool = False, maximize: bool = False, first: bool = False,
) -> tuple[Nodes, Nodes | None]:  # fmt: skip
    """Stochastic gradient descent: param -= lr * velocity, velocity = momentum * velocity + (1 - dampening) * grad.

    Without buffers the velocity is the gradient; in the ``first`` step too, and the buffers start with it.
    """
    _check_lists("sgd_step", params, grads, momentum_buffers)
    new_params: Nodes = []
    new_buffers: Nodes = []
    rate = _exact(lr)
    for i, stored in enumerate(params):
        param = _wide(stored)
        step = _gradient(grads[i], param, weight_decay, maximize)
        if momentum_buffers is not None:
            velocity, buffer = step, momentum_buffers[i]
            if not first:
                fresh = p.mul(step, matched(_one_minus(dampening), step)) if _given(dampening) else step
                velocity = p.add(p.mul(matched(buffer, step), matched(_exact(momentum), step)), fresh)
            new_buffers.append(_narrow(velocity, buffer))
            step = p.add(step, p.mul(matched(_exact(momentum), step), velocity)) if nesterov else velocity
        new_params.append(_narrow(p.sub(param, p.mul(matched(rate, param), step)), stored))
    return new_params, None if momentum_buffers is None else new_buffers


# -- adaptive steps -------------------------------------------------------------------------------------
def _averaged(average: Node, grad: Node, share: Node) -> Node:
    """average + share * (grad - average), from the nearer end as lerp does; ``share`` is a float64 scalar."""
    near_start = p.lt(share, p.number(0.5, share))
    factor = matched(p.where(near_start, share, p.sub(share, p.number(1, share))), grad)
    start = p.where(matched_condition(near_start, grad), average, grad)
    return p.add(start, p.mul(factor, p.sub(grad, average)))


def matched_condition(condition: Node, like: Node) -> Node:
    """A 0-d condition repeated to the shape of ``like``."""
    return p.expand(p.reshape(condition, shape=(1,) * like.rank), shape=like.shape) if like.rank else condition


def _averaged_square(average: Node, grad: Node, decay: Node | float) -> Node:
    """decay * average + (1 - decay) * grad * grad."""
    faded = p.mul(average, matched(_exact(decay), average))
    return p.add(faded, p.mul(p.mul(matched(_one_minus(decay), grad), grad), grad))


@op("general", mutates=("step", "params", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"), samples=s.adam_step)
def adam_step(
    params: Values, grads: Values, exp_avgs: Values, exp_avg_sqs: Values, max_exp_avg_sqs: Values | None, step: Value,
    lr: Value, beta1: Value, beta2: Value, eps: Value, weight_decay: Value | float = 0.0, decoupled: bool = False,
    amsgrad: bool = False, maximize: bool = False,
) -> tuple[Node, Nodes, Nodes, Nodes, Nodes | None]:  # fmt: skip
    """Adam (Kingma and Ba 2015), AdamW (``decoupled``: Loshchilov and Hutter 2019) and AMSGrad (Reddi et al. 2018).

    ``step`` is the float32 scalar count of steps taken before, shared by the list. Bias corrections are computed in float64.
    """
    _check_lists("adam_step", params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
    step = p.add(step, p.number(1, step))
    count, rate = _exact(step), _exact(lr)
    rate_now = p.neg(p.div(rate, _one_minus(p.pow_(_exact(beta1), count))))
    # Its reciprocal: one division less for each element.
    correction = p.rsqrt(_one_minus(p.pow_(_exact(beta2), count)))
    shrink = _one_minus(p.mul(rate, _exact(weight_decay))) if decoupled and _given(weight_decay) else None
    lists: tuple[Nodes, Nodes, Nodes, Nodes] = ([], [], [], [])
    for i, stored in enumerate(params):
        param = _wide(stored)
        grad = _gradient(grads[i], param, 0.0 if decoupled else weight_decay, maximize)
        param = param if shrink is None else p.mul(param, matched(shrink, param))
        average = _averaged(matched(exp_avgs[i], param), grad, _one_minus(beta1))
        square = _averaged_square(matched(exp_avg_sqs[i], param), grad, beta2)
        spread = square
        if amsgrad and max_exp_avg_sqs is not None:
            spread = p.maximum(matched(max_exp_avg_sqs[i], param), square)
            lists[3].append(_narrow(spread, max_exp_avg_sqs[i]))
        scale = p.add(p.mul(p.sqrt(spread), matched(correction, param)), matched(_exact(eps), param))
        param = p.add(param, p.div(p.mul(matched(rate_now, param), average), scale))
        lists[0].append(_narrow(param, stored))
        lists[1].append(_narrow(average, exp_avgs[i]))
        lists[2].append(_narrow(square, exp_avg_sqs[i]))
    return step, lists[0], lists[1], lists[2], lists[3] if amsgrad and max_exp_avg_sqs is not None else None


@op("general", mutates=("params", "square_avgs", "grad_avgs", "momentum_buffers"), samples=s.rmsprop_step)
def rmsprop_step(
    params: Values, grads: Values, square_avgs: Values, grad_avgs: Values | None, momentum_buffers: Values | None,
    lr: Value, alpha: Value, eps: Value, weight_decay: Value | float = 0.0, momentum: Value | float = 0.0, maximize: bool = False,
) -> tuple[Nodes, Nodes, Nodes | None, Nodes | None]:  # fmt: skip
    """RMSprop (Hinton 2012): steps over the root of the averaged squared gradient; centered if ``grad_avgs`` is given."""
    _check_lists("rmsprop_step", params, grads, square_avgs, grad_avgs, momentum_buffers)
    rate, share = p.neg(_exact(lr)), _one_minus(alpha)
    lists: tuple[Nodes, Nodes, Nodes, Nodes] = ([], [], [], [])
    for i, stored in enumerate(params):
        param = _wide(stored)
        grad = _gradient(grads[i], param, weight_decay, maximize)
        square = _averaged_square(matched(square_avgs[i], param), grad, alpha)
        spread = square
        if grad_avgs is not None:
            center = _averaged(matched(grad_avgs[i], param), grad, share)
            lists[2].append(_narrow(center, grad_avgs[i]))
            spread = p.sub(square, p.mul(center, center))
        scale = p.add(p.sqrt(spread), matched(_exact(eps), param))
        if momentum_buffers is None:
            change = p.div(p.mul(matched(rate, param), grad), scale)
        else:
            faded = p.mul(matched(momentum_buffers[i], param), matched(_exact(momentum), param))
            velocity = p.add(faded, p.div(grad, scale))
            lists[3].append(_narrow(velocity, momentum_buffers[i]))
            change = p.mul(matched(rate, param), velocity)
        lists[0].append(_narrow(p.add(param, change), stored))
        lists[1].append(_narrow(square, square_avgs[i]))
    return lists[0], lists[1], None if grad_avgs is None else lists[2], None if momentum_buffers is None else lists[3]


@op("general", mutates=("step", "params", "state_sums"), samples=s.adagrad_step)
def adagrad_step(
    params: Values, grads: Values, state_sums: Values, step: Value, lr: Value, lr_decay: Value | float = 0.0,
    weight_decay: Value | float = 0.0, eps: Value | float = 1e-10, maximize: bool = False,
) -> tuple[Node, Nodes, Nodes]:  # fmt: skip
    """Adagrad (Duchi et al. 2011): steps over the root of the summed squared gradients.

    ``step`` is the float32 scalar count of steps taken before, shared by the list.
    """
    _check_lists("adagrad_step", params, grads, state_sums)
    before = _exact(step)
    slowed = p.add(p.number(1, before), p.mul(before, _exact(lr_decay)))
    rate = p.neg(p.div(_exact(lr), slowed))
    new_params: Nodes = []
    new_sums: Nodes = []
    for i, stored in enumerate(params):
        param = _wide(stored)
        grad = _gradient(grads[i], param, weight_decay, maximize)
        total = p.add(matched(state_sums[i], param), p.mul(grad, grad))
        scale = p.add(p.sqrt(total), matched(_exact(eps), param))
        new_params.append(_narrow(p.add(param, p.div(p.mul(matched(rate, param), grad), scale)), stored))
        new_sums.append(_narrow(total, state_sums[i]))
    return p.add(step, p.number(1, step)), new_params, new_sums


# -- clipping -------------------------------------------------------------------------------------------
def _total_norm(grads: Sequence[Node], order: float) -> Node:
    """The norm of all elements of the list together, in the widest type."""
    widest = max((g.dtype.compute for g in grads), key=lambda kind: kind.itemsize)
    parts: Nodes = []
    for grad in grads:
        require_float("clip_grad_norm_", grad)
        size = p.abs_(converted(grad, widest))
        everywhere = tuple(range(grad.rank))
        if math.isinf(order):
            parts.append(reduced(size, "max" if order > 0 else "min", everywhere))
        else:
            power = p.mul(size, size) if order == 2 else size if order == 1 else p.pow_(size, p.number(order, size))
            parts.append(reduced(power, "sum", everywhere))
    total = parts[0]
    for part in parts[1:]:
        total = (p.maximum if order > 0 else p.minimum)(total, part) if math.isinf(order) else p.add(total, part)
    if math.isinf(order) or order == 1:
        return total
    return p.sqrt(total) if order == 2 else p.pow_(total, p.number(1 / order, total))


@op("general", mutates=("grads",), samples=s.clip_grad_norm_)
def clip_grad_norm_(grads: Values, max_norm: Value, norm_type: float = 2.0) -> tuple[Nodes, Node]:
    """The gradients scaled by min(1, max_norm / (total norm + 1e-6)), and the total norm before."""
    if not grads:
        raise ValueError("clip_grad_norm_: needs at least one gradient")
    total = _total_norm(grads, norm_type)
    factor = p.div(matched(max_norm, total), p.add(total, p.number(1e-6, total)))
    one = p.number(1, factor)
    factor = p.where(p.lt(one, factor), one, factor)
    return [_narrow(p.mul(_wide(g), matched(factor, _wide(g))), g) for g in grads], total
