"""The report on a program: from its source lines over operators and graphs to kernels and their times."""

from __future__ import annotations

from flambeau.explain.recording import Recording as Recording
from flambeau.explain.recording import recording as recording

__all__ = ["Recording", "recording"]
