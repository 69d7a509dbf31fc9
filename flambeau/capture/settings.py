"""What programs set about all compiled functions: the settings behind `torch._dynamo.config`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings", "settings"]


@dataclass
class Settings:
    """The settings that have an effect here."""

    recompile_limit: int = 8  # outcomes of one check, before the function goes on in the interpreter
    disable: bool = False  # calls run eagerly
    error_on_recompile: bool = False
    automatic_dynamic_shapes: bool = True  # a size that differs at a later call becomes a variable
    assume_static_by_default: bool = True  # else all sizes are variables at once

    @property
    def dynamic(self) -> bool | None:
        """What ``compile(dynamic=None)`` means."""
        return None if self.automatic_dynamic_shapes and self.assume_static_by_default else not self.assume_static_by_default


settings = Settings()
