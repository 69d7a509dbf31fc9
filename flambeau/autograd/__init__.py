"""torch.autograd: derivatives of what tensors have recorded, and functions with derivatives of their own."""

from collections.abc import Sequence
from typing import Any

from flambeau.autograd import anomaly_mode as anomaly_mode
from flambeau.autograd import forward_ad as forward_ad
from flambeau.autograd import function as function
from flambeau.autograd import functional as functional
from flambeau.autograd import graph as graph
from flambeau.autograd import profiler as profiler
from flambeau.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from flambeau.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from flambeau.autograd.gradcheck import GradcheckError as GradcheckError
from flambeau.autograd.gradcheck import gradcheck as gradcheck
from flambeau.autograd.gradcheck import gradgradcheck as gradgradcheck
from flambeau.tensor import Tensor
from flambeau.tensor import grad_mode as grad_mode
from flambeau.tensor.autograd import backward as _backward
from flambeau.tensor.base import TensorBase
from flambeau.tensor.function import Function as Function
from flambeau.tensor.grad_mode import enable_grad as enable_grad
from flambeau.tensor.grad_mode import inference_mode as inference_mode
from flambeau.tensor.grad_mode import no_grad as no_grad
from flambeau.tensor.grad_mode import set_grad_enabled as set_grad_enabled
from flambeau.tensor.gradients import grad as grad


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False, grad_variables: Any = None,
    inputs: Any = None,
) -> None:  # fmt: skip
    """Accumulate the gradients of ``tensors`` into the leaves they were computed from (into ``inputs`` alone if given).

    ``grad_tensors`` weigh the tensors; one-element tensors need none.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward(x * x, torch.ones(2))
    >>> x.grad
    tensor([2., 4.])
    """
    many = _listed(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    weights: Sequence[Any] = [None] * len(many) if given is None else _listed(given)
    if len(weights) != len(many):
        raise RuntimeError(f"backward: got {len(many)} tensors and {len(weights)} gradients")
    _backward(many, weights, retain_graph, create_graph, None if inputs is None else _listed(inputs))


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, TensorBase) else list(value)


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:  # noqa: N802 - torch's own name
    """A tensor itself; once tensors that record had a class of their own."""
    return data.requires_grad_() if requires_grad else data


variable = Variable


class set_multithreading_enabled:  # noqa: N801 - torch's name
    """Accepted, as a function and a context manager: the tape is walked in one thread, its operators run on all."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
