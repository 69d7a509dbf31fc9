"""``torch.onnx``: there so that programs that may export models can be run; exporting is not there yet."""

from __future__ import annotations

from typing import Any

__all__ = ["export", "is_in_onnx_export"]


def export(*_args: Any, **_options: Any) -> Any:
    """Not there yet: save the state with ``torch.save`` and export it with PyTorch."""
    raise NotImplementedError("onnx.export is not there yet; torch.save the model's state_dict and export it with PyTorch")


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False
