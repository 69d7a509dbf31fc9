"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

from flambeau.tensor import Tensor, native
from flambeau.tensor.creation import empty
from flambeau.tensor.overriding import plain_function

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that becomes a parameter of the Module it is assigned to, and that an optimizer can be given.

    It shares memory with `data` (default: an empty float tensor).

    >>> import flambeau as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __torch_function__ = staticmethod(plain_function)  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return Tensor._make_subclass(cls, empty(0) if data is None else data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.data, self.requires_grad, dict(self.__dict__))


def _rebuild(cls: type, data: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    out = cls(data, requires_grad)
    out.__dict__.update(attributes)
    return out


class Buffer(Tensor):
    """A tensor that becomes a buffer of the Module it is assigned to.

    It shares memory with `data`. Only a `persistent` buffer is part of the Module's state.
    """

    persistent: bool
    __torch_function__ = staticmethod(plain_function)  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        source = empty(0) if data is None else data
        out = Tensor._make_subclass(cls, source, source.requires_grad)
        out.persistent = persistent
        return out


native.accept(Parameter)
native.accept(Buffer)
