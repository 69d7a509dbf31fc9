"""Captures functions by interpreting them: a tree of steps and checks, replayed as a program, segments of which are compiled graphs."""

from flambeau.capture.stress import stress

__all__ = ["stress"]
