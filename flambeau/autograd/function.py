"""torch.autograd.function: what functions with derivatives of their own are made with."""

from flambeau.tensor.function import Function as Function
from flambeau.tensor.function import FunctionContext as FunctionCtx
from flambeau.tensor.function import once_differentiable as once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
