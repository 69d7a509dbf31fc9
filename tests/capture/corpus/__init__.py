"""Small programs that must do the same plainly and compiled, each for one construct of Python or one public report on compilers."""

from tests.capture.corpus import (
    arguments,
    batches,
    chosen,
    classes,
    complex_numbers,
    containers,
    contexts,
    control_flow,
    errors,
    functions,
    generators,
    idioms,
    inference,
    learning,
    libraries,
    modules,
    natives,
    numbers,
    objects,
    overriding,
    posts,
    practices,
    recipes,
    regions,
    reports,
    science,
    steps,
    tensors,
    trainers,
    training,
    whole,
)
from tests.capture.corpus.harness import PROGRAMS, Program, compare
from tests.capture.corpus.stress import stressed

__all__ = [
    "PROGRAMS", "Program", "arguments", "batches", "chosen", "classes", "compare", "complex_numbers", "containers", "contexts",
    "control_flow", "errors", "functions", "generators", "idioms", "inference", "learning", "libraries", "modules", "natives", "numbers",
    "objects", "overriding", "posts", "practices", "recipes", "regions", "reports", "science", "steps", "stressed", "tensors", "trainers",
    "training", "whole",
]  # fmt: skip
