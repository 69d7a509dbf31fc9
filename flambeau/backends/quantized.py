"""torch.backends.quantized: back ends for quantized operators; there is none."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
