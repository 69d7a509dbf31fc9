"""A machine that runs CPython's bytecode on real objects, written in Python; what each operation means is its caller's choice."""

from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.generators import Generator
from flambeau.capture.machine.introspection import FrameView, needs_frame
from flambeau.capture.machine.machine import Machine
from flambeau.capture.machine.markers import NULL, Interruption, StepLimitReached, Unsupported
from flambeau.capture.machine.semantics import Semantics, lookup, special_method
from flambeau.capture.machine.tracebacks import clean, hide

__all__ = [
    "NULL",
    "FrameView",
    "Frame",
    "Generator",
    "Interruption",
    "Machine",
    "Semantics",
    "StepLimitReached",
    "Unsupported",
    "clean",
    "hide",
    "lookup",
    "needs_frame",
    "special_method",
]
