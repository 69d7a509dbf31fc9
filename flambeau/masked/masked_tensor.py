"""MaskedTensor: a tensor with a mask of the elements that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau import ops
from flambeau.masked import reductions
from flambeau.tensor.overriding import without_overriding
from flambeau.tensor.tensor_class import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_REDUCTIONS = frozenset(("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "softmax", "log_softmax", "var", "std", "norm"))


class MaskedTensor(Tensor):
    """A tensor with a mask (True: the element counts), for elementwise functions, views of all elements and reductions.

    Elementwise functions of two need equal masks; reductions keep what the mask keeps, and their results count where any element did.
    """

    @staticmethod
    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        if mask.dtype.name != "bool" or mask.shape != data.shape:
            raise ValueError(f"a mask must be of bools in the shape of the data {list(data.shape)}, got {mask.dtype} {list(mask.shape)}")
        made = data.as_subclass(cls)
        made.__dict__["_mask"] = mask
        return made.requires_grad_() if requires_grad else made

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        pass

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, options = getattr(func, "__name__", ""), dict(kwargs or {})
        if name in ("__get__", "__set__", "backward", "requires_grad_") or not args:
            return super().__torch_function__(func, types, args, options)
        first = next(a for a in (*args, *options.values()) if isinstance(a, MaskedTensor))
        masks = [a.get_mask() for a in args if isinstance(a, MaskedTensor)]
        plain = [a.get_data() if isinstance(a, MaskedTensor) else a for a in args]
        with without_overriding():
            if any(m is not masks[0] and not m.equal(masks[0]) for m in masks[1:]):
                raise ValueError("Input masks must match; combine get_data() of both yourself.")
            if name in _REDUCTIONS:
                result = getattr(reductions, name)(*plain, **options, mask=masks[0])
            else:
                result = func(*plain, **options)
            if not isinstance(result, Tensor):
                return result
            if name in _REDUCTIONS and result.shape != first.shape:
                dims = options.get("dim", args[1] if len(args) > 1 else None)
                mask = ops.any(masks[0], () if dims is None else dims, bool(options.get("keepdim", False)))
            elif result.shape == first.shape:
                mask = masks[0]
            else:
                mask = func(masks[0], *plain[1:], **options)  # a view, which the mask takes part in
            return MaskedTensor(result, mask)

    def get_data(self) -> Tensor:
        """All elements, as a plain tensor."""
        with without_overriding():
            return self.as_subclass(Tensor)

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self.__dict__["_mask"]

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor, with ``value`` where elements do not count."""
        with without_overriding():
            return ops.where(self.get_mask(), self.get_data(), ops.full((), value, self.meta.dtype))

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"MaskedTensor(data={self.get_data()!r}, mask={self.get_mask()!r})"


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A new leaf with copies of the elements and of the mask.

    >>> import flambeau as torch
    >>> x = torch.masked.masked_tensor(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    >>> (x * 2).sum().get_data()
    tensor(8.)
    """
    return MaskedTensor(data.detach().clone(), mask.clone(), requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """The tensor itself with a mask; gradients go through."""
    return MaskedTensor(data, mask)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether something is a `MaskedTensor`."""
    return isinstance(obj, MaskedTensor)
