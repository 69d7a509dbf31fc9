"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any, Self

from flambeau.core.stamps import bump_module_stamp
from flambeau.tensor import Tensor, native, overriding
from flambeau.tensor.creation import empty
from flambeau.tensor.overriding import plain_function

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]


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

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        if self._requires_grad is not bool(requires_grad):
            bump_module_stamp()
        return super().requires_grad_(requires_grad)

    @property
    def data(self) -> Any:
        return super().data

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Tensor) or value.meta is not self.meta:
            bump_module_stamp()
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]

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


# -- parameters whose shape is not known yet --------------------------------------------------------------
_KEPT_WHILE_UNKNOWN = (
    "__hash__", "is_complex", "is_floating_point", "half", "float", "double", "bfloat16", "char", "short", "int", "long", "cuda", "cpu",
    "to", "get_device", "requires_grad_", "detach", "dtype", "device", "requires_grad", "data", "grad", "is_leaf", "grad_fn", "materialize",
)  # fmt: skip


class UninitializedTensorMixin:
    """A tensor that has a type and a device, and gets its shape later: `materialize` makes it a parameter or buffer.

    Functions of it raise ValueError, its shape RuntimeError.
    """

    cls_to_become: type[Tensor]

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it undefined elements of that shape."""
        self.data = empty(shape, device=device or self.data.device, dtype=dtype or self.data.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying "
            "to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before accessing "
            "their attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


def _overridden(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    attribute: Any = getattr(func, "__self__", None)  # of an accessor
    name = attribute.fget.__name__ if isinstance(attribute, property) and attribute.fget else func.__name__
    if name in _KEPT_WHILE_UNKNOWN:
        found = plain_function(func, types, args, kwargs)
        # A buffer is replaced by what a conversion of it gives, whereas a parameter takes that for its data.
        return Tensor._make_subclass(cls, found) if issubclass(cls, UninitializedBuffer) and type(found) is Tensor else found
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` or explicitly "
        f"manipulating `torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` with a dummy batch to initialize "
        "the parameters before calling torch functions"
    )


def _unknown(cls: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    if "__torch_function__" not in cls.__dict__:  # looking for overriding costs time, which only programs with such tensors are to pay
        cls.__torch_function__ = classmethod(_overridden)
        overriding.arm()
    return Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return _unknown(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet; once it is, it is a Buffer."""

    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        out = _unknown(cls, requires_grad, device, dtype)
        out.persistent = persistent
        return out


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


native.accept(Parameter)
native.accept(Buffer)
