"""From a list of samples to one batch."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from flambeau import ops
from flambeau.core.dtypes import float64
from flambeau.tensor import Tensor
from flambeau.tensor.creation import as_tensor

__all__ = ["default_collate", "default_convert"]

default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _rebuilt_mapping(like: Any, entries: dict[Any, Any]) -> Any:
    """Entries in a mapping of the same type, or in a plain one where that cannot be made."""
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)
            clone.update(entries)
            return clone
        return type(like)(entries)  # type: ignore[call-arg]
    except TypeError:
        return entries


def _rebuilt_sequence(like: Any, items: list[Any]) -> Any:
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            clone[:] = items
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Numpy arrays inside nested containers as tensors; everything else as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if np_str_obj_array_pattern.search(data.dtype.str) else as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _rebuilt_sequence(data, [default_convert(item) for item in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined along a new first dimension: tensors, arrays and numbers as tensors, containers part by part.

    Strings stay a list. Raises TypeError for other types and RuntimeError for sequences of different lengths.

    >>> from flambeau.utils.data import default_collate
    >>> default_collate([{"a": 1}, {"a": 2}])
    {'a': tensor([1, 2])}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return ops.stack(list(batch), 0)
    if isinstance(first, np.ndarray | np.generic):
        return _collate_arrays(batch)
    if isinstance(first, float):
        return as_tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return as_tensor(list(batch))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _rebuilt_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(parts) for parts in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        # Tuples become lists, as ever.
        return parts if isinstance(first, tuple) else _rebuilt_sequence(first, parts)
    raise TypeError(default_collate_err_msg_format.format(type(first)))


def _collate_arrays(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str):
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    if first.shape == ():
        return as_tensor(np.asarray(batch))
    return default_collate([as_tensor(array) for array in batch])
