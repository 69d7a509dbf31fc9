"""torch.utils._foreach_utils: lists of tensors by the device and type that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The kinds of devices whose lists of tensors one call updates."""
    return ["cpu", "cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The kinds of devices with fused optimizers."""
    return ["cpu", "cuda"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Parallel lists, split by the device and type of the first list's tensors; with the places that the tensors had, if asked."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for place, row in enumerate(zip(*tensorlistlist, strict=True)):
        lists, places = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in row], []))
        for members, member in zip(lists, row, strict=True):
            members.append(member)
        if with_indices:
            places.append(place)
    return groups
