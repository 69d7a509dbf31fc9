"""The text of a tensor as ``print`` shows it, and the options that shape it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_text"]

# A decimal format is given up for a scientific one outside these bounds.
_LARGEST, _SMALLEST, _RATIO = 1e8, 1e-4, 1000.0


@dataclass(frozen=True)
class PrintOptions:
    """See `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(), "short": PrintOptions(precision=2, edgeitems=2), "full": PrintOptions(threshold=math.inf),
}  # fmt: skip
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed; what is not given stays, except ``sci_mode``, which None makes automatic.

    ``precision``: digits after the point; ``threshold``: tensors of more elements show ``edgeitems`` at either end of each axis;
    ``linewidth``: characters a line; ``profile``: ``default``, ``short`` or ``full``, to start from; ``sci_mode``: whether to use
    scientific notation. Raises ValueError for an unknown profile.

    >>> import flambeau as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile="default")
    """
    global _options
    start = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile {profile!r} is not one of {', '.join(_PROFILES)}")
        start = _PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options = replace(start, sci_mode=sci_mode, **{name: value for name, value in given.items() if value is not None})


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments of `set_printoptions`.

    >>> import flambeau as torch
    >>> torch.get_printoptions()["linewidth"]
    80
    """
    return asdict(_options)


@contextmanager
def printoptions(**changes: Any) -> Generator[None]:
    """Change options inside a ``with`` block; takes what `set_printoptions` takes.

    >>> import flambeau as torch
    >>> with torch.printoptions(precision=1):
    ...     print(torch.tensor([0.25]))
    tensor([0.2])
    """
    before = get_printoptions()
    set_printoptions(**changes)
    try:
        yield
    finally:
        set_printoptions(**before)


def tensor_text(
    array: np.ndarray,
    element: dtype,
    *,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str | None = None,
    class_name: str = "tensor",
    default_dtype: dtype = dtypes.float32,
) -> str:
    """The text of a tensor with the elements ``array`` and the dtype ``element``.

    A bfloat16 tensor's array may be of any wider float type. ``device`` is shown when it is given, ``grad_fn_name`` in place of
    ``requires_grad``, and the dtype unless its elements tell it.

    >>> import numpy as np
    >>> from flambeau.core import dtypes
    >>> tensor_text(np.array([1.5, 2.0]), dtypes.float64, requires_grad=True)
    'tensor([1.5000, 2.0000], dtype=torch.float64, requires_grad=True)'
    """
    notes: list[str] = []
    if device is not None:
        notes.append(f"device='{device}'")
    if array.size == 0 and array.ndim != 1 or array.size and not _options.edgeitems:
        notes.append(f"size={array.shape}")
    told = {default_dtype, default_dtype.to_complex(), dtypes.int64, dtypes.bool_} if array.size else {default_dtype}
    if element not in told:
        notes.append(f"dtype={element!r}")
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    indent = len(class_name) + 1
    return _with_notes(f"{class_name}({_elements_text(array, element, indent)}", notes, indent)


def parts_text(parts: Sequence[tuple[str, np.ndarray, dtype]], notes: Sequence[str], apart: bool, class_name: str = "tensor") -> str:
    """The text of a tensor that consists of others, each on a line with its name; notes begin on a line of their own if ``apart``."""
    indent = len(class_name) + 1
    lines: list[str] = []
    for name, array, element in parts:
        inner = _elements_text(array, element, indent + len(name) + 8)
        size = f", size={array.shape}" if array.size == 0 else ""
        lines.append(f"{name}=tensor({inner}{size})")
    return _with_notes(f"{class_name}(" + (",\n" + " " * indent).join(lines), notes, indent, apart)


def _with_notes(text: str, notes: Sequence[str], indent: int, apart: bool = False) -> str:
    """Append the notes, each on the last line if it fits; two characters are set aside for what follows."""
    used = len(text) - text.rfind("\n") + 1
    for k, note in enumerate(notes):
        if used + len(note) + 2 > _options.linewidth or (apart and k == 0):
            text += ",\n" + " " * indent + note
            used = indent + len(note)
        else:
            text += ", " + note
            used += len(note) + 2
    return text + ")"


def _elements_text(array: np.ndarray, element: dtype, indent: int) -> str:
    if array.size == 0:
        return "[]"
    edge = _options.edgeitems
    cut = tuple(array.size > _options.threshold and size > 2 * edge for size in array.shape)
    kept = array
    for axis, is_cut in enumerate(cut):
        if is_cut:
            size = kept.shape[axis]
            kept = kept.take([*range(edge), *range(size - edge, size)], axis)
    texts, width = _complex_texts(kept) if element.is_complex else _real_texts(kept, element)
    nested = np.empty(len(texts), object)
    nested[:] = texts
    return _brackets(nested.reshape(kept.shape), cut, width, indent)


def _brackets(texts: np.ndarray, cut: tuple[bool, ...], width: int, indent: int) -> str:
    """Join the texts of the elements, each ``width`` wide; an ellipsis stands where an axis is cut."""
    if texts.ndim == 0:
        return texts.item()
    edge = _options.edgeitems
    if texts.ndim > 1:
        rows = [_brackets(row, cut[1:], width, indent + 1) for row in texts]
        if cut[0]:
            rows.insert(edge, "...")
        return "[" + ("," + "\n" * (texts.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
    items: list[str] = texts.tolist()
    if cut[0]:
        items.insert(edge, " ..." if edge else "...")
    in_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(items[i:i + in_line]) for i in range(0, len(items), in_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _real_texts(array: np.ndarray, element: dtype) -> tuple[list[str], int]:
    """The elements' texts, padded on the left to the width that is given as well."""
    if not element.is_floating_point:
        texts = [str(value) for value in array.ravel().tolist()]
        width = max(map(len, texts), default=1)
    else:
        values = array.astype(np.float64).ravel()
        write, width = _float_format(values)
        texts = [write(value) for value in values.tolist()]
    return [text.rjust(width) for text in texts], width


def _complex_texts(array: np.ndarray) -> tuple[list[str], int]:
    """Both parts have formats of their own; only the real one is padded."""
    real, real_width = _real_texts(np.real(array), dtypes.float64)
    imaginary, imaginary_width = _real_texts(np.imag(array), dtypes.float64)
    texts = [a + ("" if b.lstrip().startswith("-") else "+") + b.lstrip() + "j" for a, b in zip(real, imaginary, strict=True)]
    return texts, real_width + imaginary_width + 1


def _float_format(values: np.ndarray) -> tuple[Callable[[float], str], int]:
    """How to write each of the float64 values, and the width of the widest that is finite and not zero."""
    telling = values[np.isfinite(values) & (values != 0)]
    whole, scientific = bool((telling == np.ceil(telling)).all()), False
    if telling.size:
        sizes = np.abs(telling)
        with np.errstate(over="ignore"):
            far_apart = sizes.max() / sizes.min() > _RATIO
        automatic = bool(far_apart or sizes.max() > _LARGEST or sizes.min() < _SMALLEST)
        scientific = automatic if _options.sci_mode is None else _options.sci_mode
    precision = _options.precision

    def write(value: float) -> str:
        if scientific:
            return f"{value:.{precision}e}"
        if whole:
            return f"{value:.0f}." if math.isfinite(value) else str(value)
        return f"{value:.{precision}f}"

    return write, max((len(write(value)) for value in telling.tolist()), default=1)
