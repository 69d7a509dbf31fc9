"""Forward derivatives of what is on the tape, by transposing twice.

The gradients of the outputs weighted by ``w`` are linear in ``w``, so that the gradients of these by ``w`` are exactly the products of
the Jacobian with their cotangents, the tangents. No primitive needs a second rule, and all that can be differentiated twice can be
differentiated forward; complex numbers count as pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.tensor import dispatch
from flambeau.tensor.batching import BatchedTensor, is_batched
from flambeau.tensor.creation import zeros
from flambeau.tensor.grad_mode import enable_grad
from flambeau.tensor.gradients import grad

__all__ = ["Pushforward", "fresh", "zeros_of"]


def fresh(x: Any, level: int, attached: bool) -> Any:
    """An alias of a tensor to differentiate by, in the ``vmap`` of a level; ``attached`` to the history of the tensor."""
    if level and not (is_batched(x) and x.level == level):
        x = BatchedTensor(x, level, False)
    if attached and dispatch.wants_gradient(x):
        # The segments of a capture know tensors by their memory, and would lead past a view.
        return x.view_as(x) if context.capture is None else x.clone()
    return dispatch.another(x).requires_grad_()


def zeros_of(x: Any) -> Any:
    """Zeros in the shape of a tensor, outside of any ``vmap``."""
    return zeros(x.meta.shape, dtype=x.meta.dtype, device=x.meta.device)


class Pushforward:
    """The derivative of recorded outputs by inputs: ``live`` are the places of the outputs that depend on anything recorded."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], level: int = 0) -> None:
        self.outputs = list(outputs)
        self.live = [k for k, o in enumerate(outputs) if dispatch.wants_gradient(o)]
        self.places: list[int] = []
        self._pulled: list[Any] = []
        with enable_grad():
            self._weights = [fresh(zeros_of(outputs[k]), level, False) for k in self.live]
            found = grad([outputs[k] for k in self.live], inputs, self._weights, True, True, allow_unused=True) if self.live else ()
        for i, g in enumerate(found):
            if g is not None and dispatch.wants_gradient(g):
                self.places.append(i)
                self._pulled.append(g)

    def push(self, tangents: Sequence[Any], create_graph: bool) -> list[Any]:
        """The tangents of the outputs, None for those that do not depend on the inputs."""
        given = [tangents[i] for i in self.places]
        found = grad(self._pulled, self._weights, given, True, create_graph, allow_unused=True) if given else [None] * len(self.live)
        by_place = dict(zip(self.live, found, strict=True))
        return [by_place.get(k) for k in range(len(self.outputs))]
