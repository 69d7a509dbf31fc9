"""torch.FloatTensor, torch.LongTensor and the like: the old names of element types, called to make tensors, asked by isinstance."""

from __future__ import annotations

from typing import Any

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import set_default_float
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import legacy_tensor


class TensorType(type):
    """The type of these classes, which have no instances of their own: all tensors of one dtype count as theirs."""

    kind: dtype

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], *, kind: dtype) -> TensorType:
        made = super().__new__(mcs, name, bases, body)
        made.kind = kind
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], *, kind: dtype) -> None:
        super().__init__(name, bases, body)

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return legacy_tensor(args, cls.kind)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase) and instance.meta.dtype is cls.kind


class CudaTensorType(TensorType):
    """The type of the classes in ``torch.cuda``: their tensors are on a GPU."""

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return legacy_tensor(args, cls.kind).cuda(device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return TensorType.__instancecheck__(cls, instance) and instance.meta.device.type == "cuda"


class FloatTensor(metaclass=TensorType, kind=dtypes.float32):
    """float32: ``FloatTensor(2, 3)`` has undefined elements, ``FloatTensor([1, 2])`` the data."""


class DoubleTensor(metaclass=TensorType, kind=dtypes.float64):
    """float64, as ``FloatTensor``."""


class HalfTensor(metaclass=TensorType, kind=dtypes.float16):
    """float16, as ``FloatTensor``."""


class BFloat16Tensor(metaclass=TensorType, kind=dtypes.bfloat16):
    """bfloat16, as ``FloatTensor``."""


class LongTensor(metaclass=TensorType, kind=dtypes.int64):
    """int64, as ``FloatTensor``."""


class IntTensor(metaclass=TensorType, kind=dtypes.int32):
    """int32, as ``FloatTensor``."""


class ShortTensor(metaclass=TensorType, kind=dtypes.int16):
    """int16, as ``FloatTensor``."""


class CharTensor(metaclass=TensorType, kind=dtypes.int8):
    """int8, as ``FloatTensor``."""


class ByteTensor(metaclass=TensorType, kind=dtypes.uint8):
    """uint8, as ``FloatTensor``."""


class BoolTensor(metaclass=TensorType, kind=dtypes.bool_):
    """bool, as ``FloatTensor``."""


def set_default_tensor_type(t: TensorType | str) -> None:
    """Make the element type of ``t``, one of these classes or its name such as "torch.DoubleTensor", the default one."""
    if isinstance(t, str):
        found = next((c for c in (FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor) if t == f"torch.{c.__name__}"), None)
        if found is None:
            raise TypeError(f"set_default_tensor_type: invalid type name {t!r}; needs a floating point type such as 'torch.FloatTensor'")
        t = found
    set_default_float(t.kind)


class CudaFloatTensor(metaclass=CudaTensorType, kind=dtypes.float32):
    """float32 on a GPU, as ``FloatTensor``."""


class CudaDoubleTensor(metaclass=CudaTensorType, kind=dtypes.float64):
    """float64 on a GPU, as ``FloatTensor``."""


class CudaHalfTensor(metaclass=CudaTensorType, kind=dtypes.float16):
    """float16 on a GPU, as ``FloatTensor``."""


class CudaBFloat16Tensor(metaclass=CudaTensorType, kind=dtypes.bfloat16):
    """bfloat16 on a GPU, as ``FloatTensor``."""


class CudaLongTensor(metaclass=CudaTensorType, kind=dtypes.int64):
    """int64 on a GPU, as ``FloatTensor``."""


class CudaIntTensor(metaclass=CudaTensorType, kind=dtypes.int32):
    """int32 on a GPU, as ``FloatTensor``."""


class CudaShortTensor(metaclass=CudaTensorType, kind=dtypes.int16):
    """int16 on a GPU, as ``FloatTensor``."""


class CudaCharTensor(metaclass=CudaTensorType, kind=dtypes.int8):
    """int8 on a GPU, as ``FloatTensor``."""


class CudaByteTensor(metaclass=CudaTensorType, kind=dtypes.uint8):
    """uint8 on a GPU, as ``FloatTensor``."""


class CudaBoolTensor(metaclass=CudaTensorType, kind=dtypes.bool_):
    """bool on a GPU, as ``FloatTensor``."""
