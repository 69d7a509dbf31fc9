"""torch._tensor_str: the options of printing and the text of elements, by the names that libraries import."""

from __future__ import annotations

from typing import Any

from flambeau.tensor import printing

__all__: list[str] = []


class _Options:
    """The options in force as attributes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(printing._options, name)

    def __setattr__(self, name: str, value: Any) -> None:
        printing.set_printoptions(**{name: value})


PRINT_OPTS = _Options()


def _tensor_str(self: Any, indent: int) -> str:
    """The elements alone, without ``tensor(...)``."""
    return printing._elements_text(self.array(), self.dtype, indent)
